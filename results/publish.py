"""`python -m results.publish`: copies finished runs to results/published and updates the tables made from them."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from elmo.common.errors import InputError, command_parser, exit_status
from results.analysis.aggregate import Selection, summarise
from results.analysis.rows import MINI
from results.audit.runs import audit
from results.experiments.experiment_file import load_experiment
from results.figures.errors_removed import NAME as MAIN_FIGURE
from results.figures.marks import Figure
from results.figures.svg import picture, published_files
from results.publishing.rules import publish_runs
from results.publishing.tables_page import main_runs, tables_page
from results.records.collect import Collection, collect
from results.records.environment import full_commit, known_commits
from results.records.printing import write
from results.tables.core_table import core_page
from results.tables.formats import LAYOUTS
from results.tables.page_texts import HEADLINE
from results.tables.paper_tables import readme_table

ROOT = Path(__file__).parents[1]
PUBLISHED = Path("results", "published")
REPRESENTATIONS = "representations"  # an experiment; README shows its figure
TABLES = Path("results", "tables.md")
README = Path("README.md")

_DESCRIPTION = """\
Copies record.json and examples.json.gz of finished runs to results/published, under the path that follows from the
run's name, with the scores on further test sets and the confidences that it kept, and the kinds of their test examples
to results/published/test_sets. Test predictions contain text: they are copied only of runs whose data come with the
suite (data=mini). Then it updates what is made from the records there: results/tables.md, its SVG figures, and parts of
README.
Logs, checkpoints and weights are not copied. It refuses failed runs, runs on limited data, runs of code that was not
committed, tasks that do not come with the suite, files that contain text or machine paths, runs in which
python -m results.audit finds something, such as scores that their own files contradict, two runs that contradict each
other, and runs whose settings differ from the published run of the same name; a run of a newer recipe of the task
replaces one of an older recipe. All of this is checked before anything is copied. It publishes the other runs all the
same, and the exit status is 1. If the audit finds something in the published records, nothing is copied or updated."""

_EPILOG = """\
examples:
  python -m results.publish --runs results/runs            all finished runs
  python -m results.publish --runs sweep/paper/TASK        some of them
  python -m results.publish --runs results/runs --experiment table1   the runs of one experiment
  python -m results.publish                                only updates the tables and figures
  python -m results.publish --check                        status 1 if one of them is out of date; writes nothing
  python -m results.publish --runs DIR --commit 6d569d5    fills in the commit of records that have none

A record has a commit if the code ran from a checkout or from `git archive`; one without is refused. Use --commit if the
code was copied in another way and you know which commit it was. The fingerprint does not cover the commit, no score
changes, and `dirty` stays null because it is unknown."""


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Publishes or checks; returns the exit status: 1 if a run was refused, a file is out of date or a record wrong."""
    options = _parser().parse_args(argv)

    def work() -> int:
        try:
            return _publish(options, root)
        except InputError as error:
            write(f"{error}\n", sys.stderr)
            return 2

    return exit_status("results.publish", work)


def _publish(options: argparse.Namespace, root: Path) -> int:
    if options.check and (options.runs or options.commit):
        raise InputError("--check publishes nothing: give it neither --runs nor --commit")
    if not (root / PUBLISHED).is_dir():
        raise InputError(
            f"results.publish: expected a checkout of the suite, found no {PUBLISHED} in {root}: an installed package "
            "has no records. Run the command in a clone"
        )
    commit = full_commit(options.commit) if options.commit else None
    if options.commit and commit is None:
        raise InputError(f"--commit: expected a commit of this repository, found {options.commit!r}")
    try:
        experiment = load_experiment(options.experiment) if options.experiment else None
    except InputError as error:
        raise InputError(f"--experiment: {error}") from error
    if experiment and not options.runs:
        raise InputError("--experiment: expected its runs too, such as --runs results/runs, found none")
    collection, commits = collect([root / PUBLISHED]), known_commits(root)
    if wrong := audit(collection.found, commits).findings:  # tables of these records would be wrong
        write("".join(f"{finding.text}\n" for finding in wrong).replace(f"{root}/", ""), sys.stdout)
        return 1
    outcomes = []
    if options.runs:
        outcomes = publish_runs(options.runs, root / PUBLISHED, commit, experiment, collection.found, commits)
        collection = collect([root / PUBLISHED])
    for outcome in outcomes:
        if outcome.kind != "left":
            write(f"{outcome.kind:9} {outcome.title}: {outcome.text}\n", sys.stdout)
    if left := sum(outcome.kind == "left" for outcome in outcomes):
        write(f"left      {left} that are there already\n", sys.stdout)
    files = generated(root, collection)
    stale = [path for path, text in files.items() if _read(root / path) != text]
    if options.check:
        for path in stale:
            write(f"{path}: out of date; update it with: python -m results.publish\n", sys.stdout)
        return 1 if stale else 0
    for path in stale:
        if (text := files[path]) is None:
            (root / path).unlink()
        else:
            (root / path).write_text(text, encoding="utf-8")
        write(f"{'written' if text is not None else 'removed':9} {path}\n", sys.stdout)
    return 1 if any(outcome.kind == "refused" for outcome in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("results.publish", _DESCRIPTION, _EPILOG)
    about = "folders with runs, such as results/runs; without the option, nothing is copied"
    parser.add_argument("--runs", metavar="DIR", nargs="+", action="extend", type=Path, default=[], help=about)
    hidden = argparse.SUPPRESS  # the earlier form: folders without the option
    parser.add_argument("runs", nargs="*", action="extend", type=Path, default=hidden, help=hidden)
    parser.add_argument("--experiment", metavar="NAME", help="only the runs of this experiment, or of your PATH.toml")
    parser.add_argument("--commit", metavar="HASH", help="the commit of records that have none")
    parser.add_argument("--check", action="store_true", help="only report what is out of date")
    return parser


def generated(root: Path, collection: Collection) -> dict[Path, str | None]:
    """All files made from the published records, by path below the root; None for a figure that is no longer shown.

    Raises:
        InputError: README has no place for a table.
    """
    summary = summarise(main_runs(collection), Selection(headline=load_experiment(HEADLINE)))
    demo = summarise(collection, Selection(data=[MINI]))
    page = tables_page(collection, summary, root / PUBLISHED)
    blocks = {
        "figure": f"{_shown(page.figures, MAIN_FIGURE)}\n{summary.main_note}\n".strip() + "\n",
        REPRESENTATIONS: _shown(page.figures, REPRESENTATIONS),
        "table1": readme_table(summary),
        "demo": f"```\n{LAYOUTS['text'](*core_page(demo))}```\n",
    }
    old_figures: dict[Path, str | None] = {PUBLISHED / path.name: None for path in (root / PUBLISHED).glob("*.svg")}
    figures = {PUBLISHED / name: text for figure in page.figures for name, text in published_files(figure).items()}
    return {
        **old_figures,
        **figures,
        TABLES: page.text.replace(f"{root}/", ""),
        README: with_blocks(_read(root / README) or "", blocks),
    }


def _shown(figures: Sequence[Figure], name: str) -> str:
    """The HTML that shows the figure of this name; empty if there is none."""
    return "".join(f"{picture(own, PUBLISHED.as_posix())}\n" for own in figures if own.name == name)


def with_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """Replaces what is between the marks `<!-- NAME -->` and `<!-- /NAME -->` by the block of that name.

    Raises:
        InputError: A mark is missing, or occurs more than once.
    """
    for name, block in blocks.items():
        before, after = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        if text.count(before) != 1 or text.count(after) != 1 or text.index(before) > text.index(after):
            raise InputError(f"{README}: expected one line {before.strip()} and below it one line {after.strip()}")
        head, rest = text.split(before)
        text = f"{head}{before}\n{block}\n{after}{rest.split(after)[1]}"  # Markdown needs the blank lines
    return text


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
