"""`python -m results.publish`: finished runs into results/published, and what is made from them written anew."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from results.analysis.aggregate import MINI, Selection, Summary, summarise
from results.publishing.rules import publish_runs
from results.records.collect import Collection, Found, collect
from results.records.environment import full_commit
from results.records.printing import write
from results.report.page import About, page
from results.report.sections import sections_of
from results.report.svg import standalone_svg
from results.tables.formats import to_text
from results.tables.paper_tables import readme_table, table1

ROOT = Path(__file__).parents[1]
PUBLISHED = Path("results", "published")
TABLE = Path("results", "table1.md")
REPORT = PUBLISHED / "report.html"
GAINS = PUBLISHED / "gains.svg"
README = Path("README.md")

_DESCRIPTION = """\
Copies record.json and examples.json of finished runs into results/published, under the path that follows from what the
run is, and writes anew what is made from the records there: results/table1.md, the report and its first figure, and the
tables of README. Logs, checkpoints and weights stay where they are. Refused are failed runs, runs on cut data, files
with text or machine paths in them, and a run made under other settings than the published one of its name; the others
are published all the same, and the status is 1."""

_EPILOG = """\
examples:
  python -m results.publish results/runs            all finished runs
  python -m results.publish sweep/paper/ner         some of them
  python -m results.publish                         only writes anew what is made from the published ones
  python -m results.publish --check                 status 1 if something of it is out of date; writes nothing
  python -m results.publish runs --commit 6d569d5   fills in the commit of records that have none

A record knows its commit where the code ran from a checkout or from `git archive`. --commit is for code that was copied
in another way: whoever says it vouches that the copy was of that commit. The fingerprint does not cover it, no score
changes, and `dirty` stays null, because nobody can tell."""


class OutOfPlace(ValueError):  # noqa: N818 - reads as what it is
    """A file that a table is to be written into has no place for it."""


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Publishes, or checks; gives back the exit status: 1 if a run was refused or a file is out of date."""
    options = _parser().parse_args(argv)
    if options.check and (options.runs or options.commit):
        write("--check publishes nothing: give it neither runs nor --commit\n", sys.stderr)
        return 2
    commit = full_commit(options.commit) if options.commit else None
    if options.commit and commit is None:
        write(f"--commit: expected a commit of this repository, found {options.commit!r}\n", sys.stderr)
        return 2
    outcomes = publish_runs(options.runs, root / PUBLISHED, commit) if options.runs else []
    for outcome in outcomes:
        if outcome.kind != "left":
            write(f"{outcome.kind:9} {outcome.title}: {outcome.text}\n", sys.stdout)
    if left := sum(outcome.kind == "left" for outcome in outcomes):
        write(f"left      {left} that are there already\n", sys.stdout)
    try:
        files = generated(root)
    except OutOfPlace as error:
        write(f"{error}\n", sys.stderr)
        return 2
    stale = [path for path, text in files.items() if _read(root / path) != text]
    if options.check:
        for path in stale:
            write(f"{path}: out of date; python -m results.publish writes it anew\n", sys.stdout)
        return 1 if stale else 0
    for path in stale:
        (root / path).write_text(files[path], encoding="utf-8")
        write(f"written   {path}\n", sys.stdout)
    return 1 if any(outcome.kind == "refused" for outcome in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m results.publish",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUNS", help="folders with runs, such as results/runs")
    parser.add_argument("--commit", metavar="HASH", help="what records without a commit were made with")
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    return parser


def generated(root: Path) -> dict[Path, str]:
    """All files that are made from the published records, by their path below the root.

    Raises:
        OutOfPlace: README has no place for a table.
    """
    collection = collect([root / PUBLISHED])
    summary = summarise(collection, Selection())
    demo = summarise(collection, Selection(data=[MINI]))
    blocks = {"table1": readme_table(summary), "demo": f"```\n{to_text(demo)}```\n"}
    shown, found = _full_size(summary, collection)
    sections = sections_of(shown)
    gains = [figure for section in sections if section.key == "gain" for figure in section.figures]
    files = {TABLE: table1(summary), REPORT: page(shown, sections, _about(found, root))}
    if gains:  # something can be compared
        files[GAINS] = standalone_svg(gains[0])
    files = {path: text.replace(f"{root}/", "") for path, text in files.items()}
    return {**files, README: with_blocks(_read(root / README) or "", blocks)}


def with_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """The text with each block between its two marks, `<!-- NAME -->` and `<!-- /NAME -->`.

    Raises:
        OutOfPlace: A mark is missing, or there more than once.
    """
    for name, block in blocks.items():
        before, after = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        if text.count(before) != 1 or text.count(after) != 1 or text.index(before) > text.index(after):
            raise OutOfPlace(f"{README}: expected one line {before.strip()} and below it one line {after.strip()}")
        head, rest = text.split(before)
        text = f"{head}{before}\n{block}\n{after}{rest.split(after)[1]}"  # lines apart, or Markdown joins them
    return text


def _full_size(summary: Summary, collection: Collection) -> tuple[Summary, Sequence[Found]]:
    """What the report shows: runs at full size, for beside the mini data's gains theirs look small; else all."""
    rows = [row for row in summary.rows if row.data != MINI]
    if not rows:
        return summary, collection.found
    findings = [finding for finding in summary.findings if not finding.row or finding.row[0] != MINI]
    found = [item for item in collection.found if item.record.identity.data != MINI]
    return replace(summary, rows=rows, findings=findings), found


def _about(found: Sequence[Found], root: Path) -> About:
    """What the page says of itself: nothing that changes while the records do not."""
    ends = [item.record.finished_at for item in found if item.record.finished_at]
    own = [replace(item, path=item.path.relative_to(root)) for item in found]
    return About(f"of runs up to {max(ends, default='?')[:10]}", [PUBLISHED], own)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
