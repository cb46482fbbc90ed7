"""One HTML page with all runs: `python -m results.report`.

Writes one self-contained HTML page: what the second arm adds, a table to sort and filter, for each task its learning
curves, classes, layer weights, training set sizes and kinds of examples where records have them, the paper's tables,
failures, and all runs. Open the file in a browser; it needs no network and no server. `--site DIR` writes the same as
the pages of a web site, which also compare any two arms; to read them: python -m http.server --directory DIR.

Examples:
  python -m results.report                                     your own runs -> results/report.html
  python -m results.report --published --out published.html    the runs behind the README's tables
  python -m results.report --published --site site             the same as a web site
  python -m results.report --data mini --figures figures       the page, and its figures as SVG
  python -m results.report --published --experiment figure1 --figures figures   the runs of one experiment
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from elmo.common.errors import InputError, command_parser
from results.experiments import load_experiment, main_runs, only_cells
from results.figures.drawing import Figure, standalone_svg
from results.records.printing import write
from results.tables.fill import fill_all
from results.tables.rows import Table
from results.tables.run_options import add_choices, choose

DEFAULT_OUT = Path("results", "report.html")


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the page; returns the exit status: 1 if there is nothing to show, or the page cannot be written."""
    parser = command_parser("results.report", __doc__ or "")
    add_choices(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", default=DEFAULT_OUT, help=f"default: {DEFAULT_OUT}")
    parser.add_argument("--site", type=Path, metavar="DIR", help="pages in this folder instead of one file")
    parser.add_argument("--experiment", metavar="NAME", help="only the runs of this experiment, or of your PATH.toml")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also the figures, as SVG without their titles")
    return parser.run(argv, _write_report)


def _write_report(options: argparse.Namespace) -> int:
    # Not for --help.
    from results.figures.errors_removed import arm_gains
    from results.report.page import PageInfo, one_page, parts_of
    from results.report.parts import blocks_of, is_shown, main_figures, paper_tables, table_efficiencies, task_layers
    from results.report.site import write_site

    chosen = choose(options)
    if options.experiment:
        if options.site:
            raise InputError("--site has all experiments: expected no --experiment next to it")
        collection = only_cells(chosen.collection, load_experiment(options.experiment).cells)
        chosen = replace(chosen, collection=collection, experiment=options.experiment)
    records = chosen.collection.files
    collection = chosen.collection if options.data or options.compare else main_runs(chosen.collection)
    summary = fill_all(collection, chosen.selection)
    if not summary.rows:
        write(chosen.nothing, sys.stderr)
        if not summary.findings:
            return 1
    tables = paper_tables(chosen.collection, options.data, options.experiment)
    others = [table for table in tables if not is_shown(table, summary)]
    figures = main_figures(summary, records)
    layers = task_layers(chosen.collection, options.data)
    blocks = blocks_of(summary, [sizes for table in tables for sizes in table_efficiencies(table)], records)
    selection = chosen.selection
    shown = [
        item
        for item in records
        if not selection.data or item.record.identity.data in selection.data
        if item.record.limit is None or selection.include_limited or item.record.status == "failed"
    ]
    made_at, out = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), options.site or options.out
    about = PageInfo(made_at, chosen.folders, shown, out, site=options.site is not None)
    parts = parts_of(summary, blocks, others, layers, about)
    if options.site is None:
        _write_page(out, one_page(summary, figures, parts, about), summary)
    elif summary.rows:
        folders = [f"--runs {quote(str(folder))}" for folder in options.runs] + ["--published"] * options.published
        folders += ["--include-limited"] * options.include_limited
        write_site(summary, figures, parts, about, " ".join(["python -m results.table", *folders]))
    if options.figures is not None:
        of_tables = [figure for table in others if (figure := arm_gains(table))]
        of_tasks = [figure for block in blocks for _, figure in block.charts]
        _write_figures(options.figures, [*figures, *([layers] if layers else []), *of_tables, *of_tasks])
    return 0 if summary.rows else 1


def _write_page(path: Path, text: str, summary: Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode(errors="backslashreplace")  # folder names may not be UTF-8
    path.write_bytes(content)
    wrong = sum(finding.wrong for finding in summary.findings)
    warning = f"; {wrong} warning{'s' * (wrong > 1)}, at its end under Findings" if wrong else ""
    write(f"{path}: {len(content) / 1000:,.0f} kB{warning}\n", sys.stdout)


def _write_figures(folder: Path, figures: Sequence[Figure]) -> None:
    """Each figure without its title, which is for a paper's caption; a number tells figures of one name apart."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = [*figures, *(figure.narrow for figure in figures if figure.narrow)]
    names = Counter[str]()
    for figure in figures:
        names[figure.name.casefold()] += 1
        number = names[figure.name.casefold()]
        name = f"{figure.name}-{number}" if number > 1 else figure.name
        (folder / f"{name}.svg").write_text(standalone_svg(figure), encoding="utf-8")
    one_as_pdf = "rsvg-convert -f pdf FIGURE.svg -o FIGURE.pdf"
    write(f"{folder}: {len(figures)} figures as SVG; one as PDF: {one_as_pdf}\n", sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
