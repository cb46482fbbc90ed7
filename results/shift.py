"""Does the gain survive a shift? Scores away from the test set as a whole: `python -m results.shift`.

Shows, for each task and data set, what both arms lose on further test sets, which runs made with `also=[...]` recorded,
and on kinds of the own test set: genres, kinds of questions, text that the biLM has read, pairs that a head without
premises gets wrong, entities that training lacks, or else lengths. The drop: the score on the test set minus that one.

Examples:
  python -m results.shift                                your own runs, in results/runs
  python -m results.shift --runs DIR --write results/published
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from elmo.common.errors import InputError, command_parser, exit_status
from results.breakdown import FURTHER, Kind, break_down, scored
from results.figures.drawing import arms_of
from results.names import metric_of
from results.records.example_scores import Example
from results.records.metric import Metric, Ratio
from results.studies import LaneDot, Study, add_study_options, lanes, show_study
from results.tables.fill import fill_all
from results.tables.rows import Row, Table, arm_titles, unit_numbers
from results.tables.run_options import add_choices, choose
from results.tables.sheet import Column, gain_columns, marks_in, sheet_of, shown_gain, shown_score

SHIFTS = (FURTHER, "genre", "question", "pretraining text", "hypothesis alone", "entities")
OTHERWISE = "length"
OWN, FAR, ONE = "own ", "far ", "n"  # before the names of columns


def drop_metric(metric: Metric) -> Metric:
    """A score on some examples minus that on others, which are told apart by the names of their columns."""

    def ratio(of: Ratio, side: str, factor: float) -> Ratio:
        over = {f"{side}{name}": weight for name, weight in (of.over or {ONE: 1}).items()}
        return Ratio({f"{side}{name}": factor * weight for name, weight in of.sum.items()}, over)

    return Metric(
        [[ratio(of, side, factor) for of in term] for side, factor in ((OWN, 2), (FAR, -2)) for term in metric.terms],
        metric.unit,
    )


def drop_row(row: Row, kind: Kind) -> tuple[Row, list[Row]]:
    """The row with each arm's drop as its score; and for each arm, a row of its drop against none."""
    assert row.pair is not None
    assert row.pair[0].examples[0]  # as rows with kinds have them
    metric = metric_of(row.pair[0].records[0], row.pair[0].examples[0][0])
    assert metric is not None
    drop, groups, alone = drop_metric(metric), [], []
    for own, far in zip(row.pair, kind.row.groups, strict=True):
        runs = [_joined(*sides, kind.chosen, metric) for sides in zip(own.examples, far.examples, strict=True)]
        groups.append(scored(own, runs, drop, "drop"))
        none = [[dict.fromkeys(example, 0.0) | _unit(example, metric) for example in run] for run in runs]
        base = replace(scored(own, none, drop, "drop"), features="none")
        alone.append(_of(row, [base, groups[-1]]))
    return _of(row, groups), alone


def _of(row: Row, groups: Sequence) -> Row:  # type: ignore[type-arg]
    compared = groups[0].features, groups[1].features
    return replace(row, groups=groups, compared=compared, others=(), paper=None, lenders=())


def _unit(example: Example, metric: Metric) -> dict[str, float]:
    return {metric.unit: example[metric.unit]} if metric.unit in example else {}


def _joined(
    own: Sequence[Example] | None, far: Sequence[Example] | None, chosen: Sequence[int], metric: Metric
) -> list[Example]:
    """The examples of both sides; one that is of both, as a kind's are, is there once."""
    own, far = own or (), far or ()
    names, numbers = metric.columns, unit_numbers(own, metric.unit)
    nothing = dict.fromkeys([f"{side}{name}" for side in (OWN, FAR) for name in (*names, ONE)], 0.0)

    def side(name: str, example: Example) -> dict[str, float]:
        return {f"{name}{column}": example[column] for column in names} | {f"{name}{ONE}": 1.0}

    joined = [nothing | side(OWN, example) for example in own]
    if numbers:
        joined = [row | {metric.unit: number} for row, number in zip(joined, numbers, strict=True)]
    if not chosen:
        return [*joined, *(nothing | side(FAR, example) for example in far)]
    for at, example in zip(chosen, far, strict=True):
        joined[at] |= side(FAR, example)
    return joined


def shifts_of(kinds: Sequence[Kind]) -> list[Kind]:
    """The kinds that are a shift; lengths where there is no other."""
    return [kind for kind in kinds if kind.by in SHIFTS] or [kind for kind in kinds if kind.by == OTHERWISE]


def study_of(table: Table, records: Sequence) -> Study:  # type: ignore[type-arg]
    """The table of all shifts, and the figure of further test sets and of what loses most.

    Raises:
        InputError: No row has a shift.
    """
    of_rows, missing = break_down(table.rows, records)
    found = [(row, kind, *drop_row(row, kind)) for row, kinds in of_rows for kind in shifts_of(kinds)]
    if not found:
        raise InputError("; ".join(missing) or "expected runs of both arms with further test sets or kinds, found none")
    kinds, drops = [kind for _, kind, _, _ in found], [drop for _, _, drop, _ in found]
    titles = list(arm_titles(table.compared, [group for row, _ in of_rows for group in row.pair or ()]).values())
    columns: list[Column] = [
        ("trained on", "l", [row.title for row, _, _, _ in found]),
        ("tested on", "l", [f"{kind.by}: {kind.label}" for kind in kinds]),
        ("n", "r", [f"{kind.examples:,}" for kind in kinds]),
    ]
    for number, title in enumerate(titles):
        columns.append((title, "l", [shown_score(kind.row.groups[number]) for kind in kinds]))
    columns.append(gain_columns([kind.row for kind in kinds])[0])
    for number, title in enumerate(titles):
        columns.append((f"drop, {title}", "l", [shown_gain(alone[number]) for _, _, _, alone in found]))
    columns.append(("second drop minus first", "l", list(map(shown_gain, drops))))
    arms = arms_of(dict(zip(table.compared, titles, strict=True)))
    most: dict[tuple[str, ...], tuple[float, str, list[LaneDot]]] = {}  # of each distinction, the kind that loses most
    for row, kind, _, alone in found:
        lane = [
            LaneDot(arm, of.gain or 0.0, of.interval.ends if of.interval else ())
            for arm, of in zip(arms.values(), alone, strict=True)
        ]
        key = (row.title, kind.by, kind.label if kind.by == FURTHER else "")
        found_before = most.get(key, (-101.0, "", lane))
        most[key] = max(found_before, (lane[0].value, f"{row.title}: {kind.label}", lane), key=itemgetter(0))
    rows = {title: lane for _, title, lane in most.values()}
    caption = "Score on the test set minus that on further ones, or on the kind that loses most; 95 % intervals."
    figure = lanes("shift", "What a shift costs", caption, "drop, points", rows, list(arms.values()))
    note = "Drop: the score on the whole test set minus this one. 95 % intervals over examples and seeds. "
    note += "Of twenty intervals without any true difference, one is expected to exclude zero."
    sheet = sheet_of("What a shift costs", columns)
    marks = marks_in(replace(table, rows=[row for row, _ in of_rows], others=()), [sheet])
    return Study(sheet, ". ".join([note.removesuffix("."), *marks]) + ".", figure)


def _show(options: Namespace) -> int:
    chosen = choose(options)
    table = fill_all(chosen.collection, chosen.selection)
    return show_study(study_of(table, chosen.collection.files), options)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; returns the exit status."""
    parser = command_parser("results.shift", __doc__ or "")
    add_choices(parser)
    add_study_options(parser)
    options = parser.parse_args(argv)
    return exit_status("results.shift", lambda: _show(options))


if __name__ == "__main__":
    sys.exit(main())
