"""Compares two folders of records: what differs in settings, inputs and versions, and do the scores agree?

Runs that are equal except for the seed are one line, as in python -m results.table. Scores agree if the 95 % interval
of their difference, over test examples and seeds, includes zero. The status is 1 if some do not agree.

example: python -m results.diff results/published/mini results/runs/mini
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from elmo.common.errors import InputError, command_parser
from results.records.collect import collect
from results.records.identity import Parts, differences, shown
from results.records.printing import write
from results.records.record import contents_of, settings_of
from results.tables.fill import Selection, fill_all
from results.tables.rows import Group, Row
from results.tables.sheet import shown_interval, shown_score

Key = tuple[str, str, str, str]  # data, task, features, settings


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what differs; returns the exit status."""
    parser = command_parser("results.diff", __doc__ or "")
    parser.add_argument("folders", nargs=2, type=Path, metavar="DIR", help="a folder of records")
    return parser.run(argv, lambda options: _show(options.folders))


def _show(folders: Sequence[Path]) -> int:
    first, second = map(_groups, folders)
    both = [key for key in first if key in second]
    disagree = 0
    for key in both:
        line, agree = _scores(key, first[key], second[key])
        disagree += not agree
        write("\n".join([line, *_unlike(first[key], second[key])]) + "\n", sys.stdout)
    for folder, here, there in ((folders[0], first, second), (folders[1], second, first)):
        for key in here.keys() - there.keys():
            write(f"only in {folder}: {' '.join(key).strip()}\n", sys.stdout)
    write(f"{len(both)} in both, {disagree} of them with scores that differ beyond noise\n", sys.stdout)
    return int(disagree > 0)


def _groups(folder: Path) -> dict[Key, Group]:
    """The groups of runs in a folder.

    Raises:
        InputError: There are none.
    """
    table = fill_all(collect([folder]), Selection(include_limited=True))
    groups = [(row, group) for row in (*table.rows, *table.others) for group in row.groups]
    if not groups:
        raise InputError(f"{folder}: expected records of finished runs, found none. Check the path")
    return {(row.data, row.task, group.features, group.label): group for row, group in groups}


def _scores(key: Key, first: Group, second: Group) -> tuple[str, bool]:
    """Both scores and their difference in words, and whether they agree."""
    groups = [replace(group, features=name) for name, group in (("first", first), ("second", second))]
    row = Row(key[0], key[1], groups, compared=("first", "second"))
    where = f"{' '.join(filter(None, key))}: {shown_score(first)}, {shown_score(second)}"
    if first.scores == second.scores:
        return f"{where}: equal", True
    if row.interval is None:
        return f"{where}: {second.mean - first.mean:+.2f}, without an interval nothing says whether they agree", True
    words = "differ beyond noise" if row.sign else "agree"
    return f"{where}: {second.mean - first.mean:+.2f} ({shown_interval(row.interval)}), {words}", not row.sign


def _unlike(first: Group, second: Group) -> Iterator[str]:
    """The differences beside the scores, a line for each kind."""
    left, right = map(_facts, (first, second))
    for kind in left:
        if unlike := differences(left[kind], right[kind]):
            cut = {key: [shown(value.strip('"'))[:40] for value in values] for key, values in unlike.items()}
            yield f"  {kind}: " + ", ".join(f"{key} {here} and {there}".strip() for key, (here, there) in cut.items())


def _facts(group: Group) -> dict[str, Parts]:
    """What may differ beside the scores, by kind; its runs differ in the seed alone."""
    record = group.records[0]
    return {
        "settings": settings_of(record),
        "recipes": {"recipes": record.fingerprinted.get("recipes")},
        "inputs": {**contents_of(record), **record.data_hashes},
        "versions": vars(record.environment) if record.environment else {},
        "seeds": {"": group.seeds},
    }


if __name__ == "__main__":
    sys.exit(main())
