"""Does the gain survive a shift? Scores away from the test set as a whole: `python -m results.shift`.

Shows, for each task and data set, what both arms lose on further test sets, which runs made with `also=[...]` recorded,
and on kinds of the own test set: genres, kinds of questions, text that the biLM has read, pairs that a head without
premises gets wrong, entities that training lacks, or else lengths. The drop: the score on the test set minus that one.
The control without context is next to both arms.

A finished run that kept its model (keep_weights=true) tests it when its command is repeated with `also=[...]`.

Examples:
  python -m results.shift                                your own runs, in results/runs
  python -m results.shift --runs DIR --write results/published
"""

import sys
from collections.abc import Sequence
from itertools import zip_longest

from elmo.common.errors import InputError
from results.breakdown import FURTHER, Kind, break_down
from results.figures.drawing import LaneDot, arms_of
from results.names import load_names, metric_of
from results.records.collect import RecordFile
from results.records.metric import Metric
from results.stats import Array
from results.studies import Estimate, Study, estimate, lanes, study_command
from results.tables.rows import Group, Row, Table, arm_titles, counts_of, scores_of, unit_numbers
from results.tables.sheet import shown_gain, shown_score

SHIFTS = (FURTHER, "genre", "question", "article", "pretraining text", "hypothesis alone", "entities")
OTHERWISE = "length"  # where there is none of these

Key = tuple[str, str, str]  # the title of a row, and a distinction with a label


def both_sides(near: Group, far: Group, chosen: Sequence[int], metric: Metric) -> Array:
    """The counts of each example on the test set and, next to them, on the shifted one, (seeds, examples, counts).

    Args:
        near: an arm on the whole test set.
        far: the same arm on the shifted one.
        chosen: which of the examples these are; empty for other ones, which follow.
        metric: what is counted for it.
    """
    import numpy as np  # imported here: no command needs it for --help

    here, there = (np.array(counts_of(of, metric, len(of.examples[0] or ()))) for of in (near, far))
    sides = np.zeros((here.shape[0], here.shape[1] + there.shape[1] * (not chosen), 2 * here.shape[2]))
    sides[:, : here.shape[1], : here.shape[2]] = here
    sides[:, chosen or slice(here.shape[1], None), here.shape[2] :] = there
    return sides


def drops_of(row: Row, kind: Kind) -> list[Estimate]:
    """What the first arm and the second lose, and how much more the second loses."""
    assert row.pair is not None
    examples = row.pair[0].examples[0] or []
    metric = metric_of(row.pair[0].records[0], examples[0])
    assert metric is not None
    sides = [both_sides(*of, kind.chosen, metric) for of in zip(row.pair, kind.row.groups, strict=True)]

    def drop(sums: Array) -> Array:
        middle = sums.shape[-1] // 2
        return scores_of(metric, sums[..., :middle]) - scores_of(metric, sums[..., middle:])

    clusters = unit_numbers(examples, metric.unit) if kind.chosen else None
    return [*(estimate(drop, clusters, of) for of in sides), estimate(drop, clusters, sides[1], sides[0])]


def shifts_of(rows: Sequence[Row], records: Sequence[RecordFile]) -> tuple[dict[Key, tuple[Row, Kind]], list[str]]:
    """The shifts of rows, or else the lengths, and for rows without any why."""
    of_rows, missing = break_down(rows, records)
    shifts = dict[Key, tuple[Row, Kind]]()
    for row, kinds in of_rows:
        by = SHIFTS if any(kind.by in SHIFTS for kind in kinds) else [OTHERWISE]
        shifts |= {(row.title, kind.by, kind.label): (row, kind) for kind in kinds if kind.by in by}
    return shifts, missing


def study_of(table: Table, records: Sequence[RecordFile]) -> Study:
    """All shifts; the figure has further test sets, and of each distinction the kind on which the first arm loses most.

    Raises:
        InputError: No row has a shift.
    """
    shifts, missing = shifts_of(table.rows, records)
    for text in missing:
        print(f"results.shift: {text}", file=sys.stderr)
    also = load_names().control
    rows = [] if also in table.compared else [row.comparing(table.compared[0], also) for row in table.rows]
    of_control, _ = shifts_of(rows, records)
    groups = [group for row, _ in (*shifts.values(), *of_control.values()) for group in row.pair or ()]
    titles = arm_titles([*table.compared, *([also] if of_control else [])], groups)
    looks, lines, most = arms_of(titles), [], dict[Key, tuple[str, list[LaneDot]]]()
    for (title, by, label), (row, kind) in shifts.items():
        (*drops, more), scored = drops_of(row, kind), [*kind.row.groups]
        if control := of_control.get((title, by, label)):
            drops, scored = [*drops, drops_of(*control)[1]], [*scored, control[1].row.groups[1]]
        line = {"trained on": title, "tested on": f"{by}: {label}", "n": f"{kind.examples:,}"}
        line |= {name: shown_score(of) if of else "-" for name, of in zip_longest(titles.values(), scored)}
        line |= {"gain, 95 % interval": shown_gain(kind.row)}
        line |= {f"drop, {name}": of.shown() if of else "-" for name, of in zip_longest(titles.values(), drops)}
        lines.append(line | {"second drop minus first": more.shown()})
        arms = zip(titles, drops, strict=False)
        lane = [LaneDot(looks[arm], of.value, of.interval.ends if of.interval else ()) for arm, of in arms]
        key = title, by, label * (by == FURTHER)
        if key not in most or lane[0].value > most[key][1][0].value:
            most[key] = f"{label} ({by}), {title}", lane
    if not lines:
        raise InputError("expected runs of both arms with kinds of test examples, found none")
    return lines, lanes("shift", dict(most.values()))


def main(given: Sequence[str] | None = None) -> int:
    """Prints the table; returns the exit status."""
    return study_command("results.shift", __doc__ or "", given, study_of)


if __name__ == "__main__":
    sys.exit(main())
