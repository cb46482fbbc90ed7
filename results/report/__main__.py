"""`python -m results.report`: one HTML page with all runs."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from elmo.common.errors import InputError, command_parser, exit_status
from results.analysis.aggregate import summarise
from results.analysis.rows import Summary
from results.experiments.experiment_file import load_experiment
from results.experiments.runs_of_cells import only_cells
from results.figures.arm_gains import arm_gains
from results.figures.curves import gains_by_perplexity
from results.figures.marks import Figure
from results.figures.svg import captioned, standalone_svg
from results.records.collect import PUBLISHED
from results.records.printing import write
from results.report.blocks import TaskBlock, blocks_of, convergence_of, layers_of_all, main_figures
from results.report.example_browser import example_parts
from results.report.experiments import is_shown, layer_groups, paper_tables, table_efficiencies, table_parts
from results.report.explorer import FILE, explorer, read_senses
from results.report.page import PageInfo, PagePart, page
from results.tables.run_options import Chosen, add_choices, choose

DEFAULT_OUT = Path("results", "report.html")

_DESCRIPTION = """\
Writes one self-contained HTML page: what the second arm adds, a table to sort and filter, for each task its seeds,
learning curves, classes, confusions, layer weights, training set sizes and kinds of examples where records have them,
test examples that were fixed and broken (only of data that come with the suite), the paper's tables, failures, and a
card for each run. Open the file in a browser; it needs no network and no server."""

_EPILOG = """\
examples:
  python -m results.report                                     your own runs -> results/report.html
  python -m results.report --published --out published.html    the runs behind the README's tables
  python -m results.report --data mini --figures figures       the page, and its figures as SVG
  python -m results.report --published --experiment figure1 --figures figures   the runs of one experiment"""


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the page; returns the exit status: 1 if there is nothing to show, 2 if it cannot be written."""
    options = _parser().parse_args(argv)
    return exit_status("results.report", lambda: _write_report(options))


def _write_report(options: argparse.Namespace) -> int:
    chosen = choose(options)
    try:
        if options.experiment:
            cells = load_experiment(options.experiment).cells
            collection = only_cells(chosen.collection, cells)
            chosen = replace(chosen, collection=collection, experiment=options.experiment)
    except InputError as error:
        write(f"results.report: {error}\n", sys.stderr)
        return 2
    if chosen.mistake:
        write(chosen.mistake, sys.stderr)
        return 2
    summary = summarise(chosen.collection, chosen.selection)
    if not summary.rows:
        write(chosen.nothing, sys.stderr)
        if not summary.findings:
            return 1
    tables = paper_tables(chosen.collection, options.data, options.experiment)
    known_sizes = [own for table in tables for own in table_efficiencies(table)]
    of_paper = layer_groups(chosen.collection, options.data, summary.compared[1])
    figures, layers = main_figures(summary), layers_of_all(summary, of_paper)
    speed = convergence_of(summary)
    blocks = blocks_of(summary, known_sizes, chosen.collection.found)
    try:
        examples = example_parts(summary, chosen.collection.found)
        others = [table for table in tables if not is_shown(table, summary)]
        parts = [*examples, *table_parts(others, layers, chosen.collection.found), *_senses(options)]
        parts += [PagePart("convergence", speed.title, captioned(speed))] if speed else []
        about = _about(chosen, options.out)
        _write_page(options.out, page(summary, figures, blocks, parts, about), summary)
        if options.figures is not None:
            by_arm = map(arm_gains, others)
            by_perplexity = [figure for table in others for figure in gains_by_perplexity(table)]
            _write_figures(
                options.figures, list(filter(None, [*figures, layers, speed, *by_arm, *by_perplexity])), blocks
            )
    except ValueError as error:  # in the file of senses
        write(f"results.report: {error}\n", sys.stderr)
        return 2
    except OSError as error:
        write(f"{error.filename}: expected a place that can be written, found: {error.strerror}\n", sys.stderr)
        return 2
    return 0 if summary.rows else 1


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("results.report", _DESCRIPTION, _EPILOG)
    add_choices(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", default=DEFAULT_OUT, help=f"default: {DEFAULT_OUT}")
    parser.add_argument(
        "--senses",
        metavar="FILE",
        type=Path,
        help="uses of words to show, from python -m tasks.probes.table4 --write DIR (default: ours, with --published)",
    )
    parser.add_argument("--experiment", metavar="NAME", help="only the runs of this experiment, or of your PATH.toml")
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="DIR",
        help="also the figures, as SVG without their titles",
    )
    return parser


def _senses(options: argparse.Namespace) -> list[PagePart]:
    """The explorer of senses: of the file that was named, or the shipped one next to the published records."""
    path = options.senses or (PUBLISHED / FILE if options.published and (PUBLISHED / FILE).exists() else None)
    return [PagePart("senses", "Table 4: senses of a word", explorer(read_senses(path)))] if path else []


def _about(chosen: Chosen, out: Path) -> PageInfo:
    selection = chosen.selection
    shown = [
        item
        for item in chosen.collection.found
        if not selection.data or item.record.identity.data in selection.data
        if item.record.limit is None or selection.include_limited or item.record.status == "failed"
    ]
    return PageInfo(datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), chosen.folders, shown, out)


def _write_page(path: Path, text: str, summary: Summary) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode(errors="backslashreplace")  # folder names may not be UTF-8
    path.write_bytes(content)
    wrong = sum(finding.wrong for finding in summary.findings)
    warning = f"; {wrong} warning{'s' * (wrong > 1)}, at its end under Findings" if wrong else ""
    write(f"{path}: {len(content) / 1000:,.0f} kB{warning}\n", sys.stdout)


def _write_figures(folder: Path, main_ones: Sequence[Figure], blocks: Sequence[TaskBlock]) -> None:
    """Each figure without its title, which is for a paper's caption; a number tells figures of one name apart."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = [*main_ones, *(chart.figure for block in blocks for chart in (*block.charts, *block.more))]
    figures += [figure.narrow for figure in figures if figure.narrow]
    names = Counter[str]()
    for figure in figures:
        names[figure.name.casefold()] += 1
        number = names[figure.name.casefold()]
        name = f"{figure.name}-{number}" if number > 1 else figure.name
        (folder / f"{name}.svg").write_text(standalone_svg(figure), encoding="utf-8")
    write(
        f"{folder}: {len(figures)} figures as SVG; one as PDF: rsvg-convert -f pdf FIGURE.svg -o FIGURE.pdf\n",
        sys.stdout,
    )


if __name__ == "__main__":
    sys.exit(main())
