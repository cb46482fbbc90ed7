"""`python -m results.audit`: compares records with the files next to them, and with each other."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from elmo.common.errors import command_parser, exit_status
from results.audit.runs import audit
from results.records.collect import PUBLISHED, collect
from results.records.environment import known_commits
from results.records.identity import PREDICTIONS_NAME
from results.records.printing import write
from results.records.sweep_manifest import DEFAULT_RUNS

ROOT = Path(__file__).parents[2]

_DESCRIPTION = """\
Computes every score of the records again: test metrics, details and counts from the scores of single examples,
examples.json.gz, and these from the predictions, dev scores from the learning curve, scores on further test sets from
examples-DATA.json.gz, shares of right predictions from the confidences. Finds seeds that are copies of one another,
seeds of one name with different settings, configs that contradict the run's name, predictions with other texts than
those of the test set, unsafe names, and commits that this repository does not have. Prints a line for each finding:
file, what was expected, what was found, what to do. The status is 1 if there is one. Nothing is written."""

_EPILOG = """\
examples:
  python -m results.audit                      your own runs, in results/runs
  python -m results.audit --runs DIR           those in other folders
  python -m results.audit --published          the published records

`python -m results.table --check` and `python -m results.publish` make the same comparisons."""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what is wrong; returns the exit status: 1 if anything is, or if there are no records."""
    parser = command_parser("results.audit", _DESCRIPTION, _EPILOG)
    about = f"folders with runs; default: {DEFAULT_RUNS}"
    parser.add_argument("--runs", metavar="DIR", nargs="+", action="extend", type=Path, default=[], help=about)
    parser.add_argument("--published", action="store_true", help="the records that come with the suite")
    options = parser.parse_args(argv)
    return exit_status("results.audit", lambda: _audit(options))


def _audit(options: argparse.Namespace) -> int:
    folders = [*options.runs, *([PUBLISHED] if options.published else [])] or [DEFAULT_RUNS]
    collection = collect(folders)
    kept = [] if options.published else sorted({path.parent for path in PUBLISHED.rglob(PREDICTIONS_NAME)})
    commits = known_commits(ROOT)
    done = audit(collection.found, commits, collect(kept).found)
    lines = [finding.text for finding in collection.findings if finding.wrong]
    lines += [finding.text for finding in done.findings]
    if not collection.found:
        lines.append(
            f"{', '.join(map(str, folders))}: expected records of runs, found none; name their folder: --runs DIR"
        )
    counts = done.compared
    compared = [
        f"{counts['records']:,} records, {counts['scores']:,} test scores from {counts['examples']:,} examples",
        f"{counts['curves']:,} curves, {counts['predictions']:,} predictions",
        *(["commits not checked: no checkout with its whole history"] if commits is None else []),
    ]
    end = f"{len(lines)} finding{'s' * (len(lines) > 1)}" if lines else "nothing is wrong"
    write("".join(f"{line}\n" for line in [*lines, f"audit: {', '.join(compared)}; {end}"]), sys.stdout)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
