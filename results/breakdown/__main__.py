"""`python -m results.breakdown`: the gain on each kind of test examples, one table for each task and data set."""

import argparse
import sys
from collections.abc import Sequence

from elmo.common.errors import command_parser, exit_status
from results.analysis.rows import Table, arm_titles
from results.breakdown.gains import FEWEST, break_down
from results.records.collect import FoundRecord
from results.records.printing import printable, write
from results.tables.fill import fill_all
from results.tables.run_options import add_choices, choose
from results.tables.sheet import Column, Sheet, gain_columns, interval_legend, sheet_of, shown_score
from results.tables.writers import LAYOUTS, lay_out

MANY = (
    "of twenty intervals without any true gain, one is expected to exclude zero: a single row is a hint, no finding",
    f"kinds with fewer than {FEWEST} test examples are left out",
)
_DESCRIPTION = """\
Shows where a gain comes from: the scores of the two compared arms on each kind of test examples, such as short and long
ones, with the gain and its 95 % interval. Each task defines its kinds; runs write their labels to
RUNS_DIR/test_sets. For runs without labels, see `python -m tasks.groups --help`."""

_EPILOG = """\
examples:
  python -m results.breakdown                          your own runs, in results/runs
  python -m results.breakdown --published --data paper
  python -m results.breakdown --published --compare ARM ARM --format md"""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables; returns the exit status: 1 if there is nothing to show."""
    parser = command_parser("results.breakdown", _DESCRIPTION, _EPILOG)
    add_choices(parser)
    parser.add_argument("--format", choices=LAYOUTS, default="text", help="default: text")
    options = parser.parse_args(argv)
    return exit_status("results.breakdown", lambda: _show(options))


def _show(options: argparse.Namespace) -> int:
    chosen = choose(options)
    if chosen.mistake:
        write(chosen.mistake, sys.stderr)
        return 2
    summary = fill_all(chosen.collection, chosen.selection)
    if not summary.rows:
        write(chosen.nothing, sys.stderr)
        for finding in summary.findings:
            write(f"{finding.kind}: {finding.text}\n", sys.stderr)
        return 1
    tables, notes = breakdown_page(summary, chosen.collection.found)
    lay_out(tables, [("Notes", notes)], options.format)
    return 0 if tables else 1


def breakdown_page(summary: Table, found: Sequence[FoundRecord]) -> tuple[list[Sheet], list[str]]:
    """A table for each task and data set, and the notes below them."""
    breakdown = break_down(summary.rows, found)
    tables, intervals = [], []
    for panel, kinds in breakdown.panels:
        titles = arm_titles(summary.compared, panel.pair or ())
        own = [(name, kind) for name, kinds_of_name in kinds.items() for kind in kinds_of_name]
        columns: list[Column] = [
            ("by", "l", [name.replace("_", " ") for name, _ in own]),
            ("test examples", "l", [kind.label for _, kind in own]),
            ("n", "r", [f"{kind.examples:,}" for _, kind in own]),
            *(
                (titles[arm], "l", [shown_score(kind.row.groups[number]) for _, kind in own])
                for number, arm in enumerate(summary.compared)
            ),
            *gain_columns([kind.row for _, kind in own]),
        ]
        tables.append(sheet_of(f"{panel.title}, {panel.metric_title()}", columns))
        intervals += [(panel.title, kind.row.interval) for own in kinds.values() for kind in own]
    if not tables:
        first, second = (printable(summary.titles[features]) for features in summary.compared)
        no_pair = f"no task has runs of both {first} and {second}; --compare A B names other features"
        return [], list(breakdown.notes) or [no_pair]
    return tables, [*interval_legend(intervals), *MANY, *breakdown.notes]


if __name__ == "__main__":
    sys.exit(main())
