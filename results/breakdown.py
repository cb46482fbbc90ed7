"""The gain on each kind of test examples, one table for each task and data set: `python -m results.breakdown`.

Shows where a gain comes from: the scores of the two compared arms on each kind of test examples, such as short and long
ones, with the gain and its 95 % interval. Both arms are scored on the examples of each kind alone, as if the test set
had no others. Each task defines its kinds; runs write their labels to RUNS_DIR/test_sets. For runs without labels, see
`python -m tasks.groups --help`. Further test sets that all runs were scored on are shown, too.

Examples:
  python -m results.breakdown                          your own runs, in results/runs
  python -m results.breakdown --published --data paper
  python -m results.breakdown --published --compare ARM ARM --format md
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from elmo.common.errors import command_parser
from results.names import metric_of
from results.records.collect import RecordFile
from results.records.example_scores import Example, ExamplesUnreadable, groups_above, read_examples, reads_otherwise
from results.records.identity import also_name
from results.records.metric import Grouping, Metric
from results.records.printing import printable
from results.tables.rows import Group, Row, Table, arm_titles, train_fraction, unit_numbers
from results.tables.run_options import add_choices, choose
from results.tables.sheet import Column, Sheet, gain_columns, interval_legend, sheet_of, shown_score
from results.tables.writers import LAYOUTS, write_sheets

FEWEST = 4  # kinds with fewer test examples are left out
FURTHER = "further test set"
MANY = (
    "of twenty intervals without any true gain, one is expected to exclude zero: a single row is a hint, no finding",
    f"kinds with fewer than {FEWEST} test examples are left out",
)
_NO_SCORES = "the runs have no score for each test example (examples.json.gz), so kinds of examples cannot be compared"


@dataclass(frozen=True)
class Kind:
    """A kind of test examples: the distinction, its label, how many there are, and both arms scored on them.

    `chosen` has their numbers in the test set; empty for a further test set.
    """

    by: str
    label: str
    examples: int
    row: Row
    chosen: Sequence[int] = ()


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables; returns the exit status: 1 if there is nothing to show."""
    parser = command_parser("results.breakdown", __doc__ or "")
    add_choices(parser)
    parser.add_argument("--format", choices=LAYOUTS, default="text", help="default: text")
    return parser.run(argv, _show)


def _show(options: argparse.Namespace) -> int:
    chosen = choose(options)
    sheets, notes = breakdown_page(chosen.table(), chosen.collection.files)
    write_sheets(sheets, [("Notes", notes)], options.format)
    return 0 if sheets else 1


def breakdown_page(table: Table, records: Sequence[RecordFile]) -> tuple[list[Sheet], list[str]]:
    """A sheet for each task and data set, and the notes below them."""
    of_rows, missing = break_down(table.rows, records)
    sheets, intervals = [], []
    for row, kinds in of_rows:
        titles, rows = arm_titles(table.compared, row.pair or ()), [kind.row for kind in kinds]
        columns: list[Column] = [("test examples", "l", [f"{kind.by}: {kind.label}" for kind in kinds])]
        columns.append(("n", "r", [f"{kind.examples:,}" for kind in kinds]))
        for number, arm in enumerate(table.compared):
            columns.append((titles[arm], "l", [shown_score(of_kind.groups[number]) for of_kind in rows]))
        sheets.append(sheet_of(f"{row.title}, {row.metric_title()}", [*columns, *gain_columns(rows)]))
        intervals += [(row.title, of_kind.interval) for of_kind in rows]
    if not sheets:
        first, second = (printable(table.titles[arm]) for arm in table.compared)
        no_pair = f"no task has runs of both {first} and {second}; --compare A B names other features"
        return [], missing or [no_pair]
    return sheets, [*interval_legend(intervals), *MANY, *missing]


def break_down(rows: Sequence[Row], records: Sequence[RecordFile]) -> tuple[list[tuple[Row, list[Kind]]], list[str]]:
    """The rows that compare two arms with their kinds of test examples, and for those without any a line that says why.

    Args:
        rows: Tasks with data and settings.
        records: Those that they were made from.
    """
    paths = {item.record.fingerprint: item.path for item in records}
    of_rows, missing = [], list[str]()
    for row in rows:
        if not row.pair:
            continue
        try:
            kinds, reason = kinds_of(row, paths)
        except ExamplesUnreadable as error:
            missing.append(str(error))
            continue
        of_rows += [(row, kinds)] if kinds else []
        missing += [f"{row.title}: {reason}"] if reason else []
    return of_rows, missing


def kinds_of(row: Row, paths: Mapping[str, Path]) -> tuple[list[Kind], str]:
    """The kinds of test examples of a row, of distinctions with several of them; without any, the reason.

    Args:
        row: Both arms.
        paths: Where each record is, by fingerprint.

    Raises:
        ExamplesUnreadable: The file of groups is damaged.
    """
    pair = row.pair
    runs = [run for group in pair or () for run in group.examples if run]
    metric = metric_of(pair[0].records[0], runs[0][0]) if pair and runs else None
    if pair is None or metric is None or not all(_gives(metric, group, len(runs[0])) for group in pair):
        return [], _NO_SCORES
    groupings, (further, lacking) = _groupings(pair[0], len(runs[0]), paths), _further(row, pair, metric, paths)
    if not (groupings or further or lacking):
        what = f"task={row.task} data={row.data} data_dir=DIR runs_dir=RUNS_DIR"
        return [], f"kinds of examples are not known; to get them: python -m tasks.groups {what}"
    kinds = []
    for name, grouping in groupings.items():
        for number, label in enumerate(grouping.labels):
            chosen = [i for i, of_example in enumerate(grouping.of) if of_example == number]
            if len(chosen) >= FEWEST:
                of_kind = _row_of(row, pair, chosen, metric)
                kinds.append(Kind(name.replace("_", " "), label, len(chosen), of_kind, chosen))
    counts = Counter(kind.by for kind in kinds)
    if several := [*further, *(kind for kind in kinds if counts[kind.by] > 1)]:
        return several, lacking
    only = "; ".join(f"{kind.by}: {kind.label}" for kind in kinds)
    kinds_of_row = f"only one kind of test examples ({only})" if only else "no kind of test examples"
    return [], lacking or f"nothing to compare: {kinds_of_row} has {FEWEST} of them or more"


def with_parts(rows: Sequence[Row], records: Sequence[RecordFile]) -> list[Row]:
    """The rows, each before those of the parts of its test set that its experiment names."""
    known = {row.key: kinds for row, kinds in break_down([row for row in rows if row.spec.parts], records)[0]}
    shown = list[Row]()
    for row in rows:
        shown.append(row)
        for title, part in row.spec.parts.items():
            by, _, labels = part.partition(": ")
            kinds = [kind for kind in known.get(row.key, []) if kind.by == by and kind.label in labels.split(", ")]
            if kinds and row.pair and (examples := row.pair[0].examples[0]):
                chosen = sorted(number for kind in kinds for number in kind.chosen)
                metric = metric_of(row.pair[0].records[0], examples[0])
                shown += [replace(_row_of(row, row.pair, chosen, metric), part=title)] if metric else []
    return shown


def _row_of(row: Row, pair: tuple[Group, Group], chosen: Sequence[int], metric: Metric) -> Row:
    """The row, with this pair, as if the test set had only these examples."""
    size, single = len(pair[0].examples[0] or ()), min(len(group.records) for group in pair) == 1
    lenders = [lender for lender in row.lenders if single and _gives(metric, lender.group, size)]
    lent = [replace(lender, group=_only(lender.group, chosen, metric)) for lender in lenders]
    return replace(row, groups=[_only(group, chosen, metric) for group in pair], others=(), paper=None, lenders=lent)


def _further(row: Row, pair: Sequence[Group], metric: Metric, paths: Mapping[str, Path]) -> tuple[list[Kind], str]:
    """Both arms on the further test sets that all their runs know, none of joined folds; and which runs lack some."""
    kinds, lack, runs = list[Kind](), list[str](), [run for arm in pair for run in arm.records]
    also, prints = {name for run in runs for name in run.also}, {run.fingerprint for run in runs}
    for name in sorted(also) if paths.keys() >= prints else ():
        without = [run for run in runs if name not in run.also]
        for run in without:
            lack.append(f"{run.identity.title}: no scores on {name}, {'a' if run.model else 'no'} kept model")
        read = {of: read_examples(paths[of].with_name(also_name(name)), of) or [] for of in prints}
        groups = [_scored(arm, [read[run.fingerprint] for run in arm.records], metric) for arm in pair]
        count = 0 if without else len(groups[0].examples[0] or ())
        if count and all(_gives(metric, group, count) for group in groups):
            kinds.append(Kind(FURTHER, name, count, replace(row, groups=groups, others=(), paper=None, lenders=())))
    return kinds, "; ".join(lack)


def _gives(metric: Metric, group: Group, count: int) -> bool:
    """Whether all runs of the group have so many examples, and their counts give the metric."""
    return all(run and len(run) == count and metric.of_examples(run) is not None for run in group.examples)


def _groupings(group: Group, count: int, paths: Mapping[str, Path]) -> dict[str, Grouping]:
    """The ways to group the examples of these runs' test set, by name; several folds are joined.

    Args:
        group: The runs.
        count: The number of test examples.
        paths: Where each record is.
    """
    of_folds = []
    for record in (run for run in group.runs if run.identity.seed == group.seeds[0]):
        path = None if reads_otherwise(record.identity) else paths.get(record.fingerprint)
        known = groups_above(path, record.identity.task, record.data_hashes) if path else None
        groups = dict(known.groups) if known else {}
        if record.limit is not None or train_fraction(record) != 1:  # kinds of the whole training set are not theirs
            groups = {name: grouping for name, grouping in groups.items() if not grouping.from_train}
        of_folds.append(groups)
    return {name: grouping for name, grouping in reduce(_joined, of_folds).items() if len(grouping.of) == count}


def _joined(first: Mapping[str, Grouping], second: Mapping[str, Grouping]) -> dict[str, Grouping]:
    """The groupings that both folds have, over the examples of both."""
    return {
        name: replace(grouping, of=[*grouping.of, *second[name].of])
        for name, grouping in first.items()
        if name in second and list(second[name].labels) == list(grouping.labels)
    }


def _only(group: Group, chosen: Sequence[int], metric: Metric) -> Group:
    """The group as if its test set had only these examples; each has the number of its unit, where that is known."""
    runs = []
    for run in group.examples:
        assert run is not None  # see `_gives`
        numbers = unit_numbers(run, metric.unit)
        runs.append([{**run[i], metric.unit: numbers[i]} if numbers else run[i] for i in chosen])
    return _scored(group, runs, metric)


def _scored(group: Group, runs: Sequence[Sequence[Example]], metric: Metric) -> Group:
    """The group as if its runs had these test examples."""
    scores = [{"test": {group.metric: metric.of_examples(run) or 0.0}} for run in runs]
    records = [replace(record, scores=of) for record, of in zip(group.records, scores, strict=True)]
    return Group(group.features, group.settings, records, runs)


if __name__ == "__main__":
    sys.exit(main())
