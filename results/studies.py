"""Studies of what the paper did not ask: a table and a figure that a command prints, and keeps next to the records.

`results/tables.md` and the site show the kept files as they are: STEM.md and STEM.svg, of a chapter in
`paper/tables_page.toml` that names the first. Other texts are in `paper/studies.toml`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from elmo.common.errors import command_parser
from results.figures import drawing
from results.records.collect import RecordFile
from results.records.typed_json import read_toml
from results.stats import Array, Interval, measured, paired_intervals
from results.tables.rows import Table
from results.tables.run_options import add_choices, choose
from results.tables.sheet import MARKS, sheet_of, with_interval
from results.tables.writers import LAYOUTS, markdown_table, write_sheets

Line = Mapping[str, str]  # a line of a table: cells by header, the same headers in all lines
Study = tuple[Sequence[Line], drawing.Figure]


@cache
def texts_of(study: str) -> Mapping[str, str]:
    """Title, caption, axis and note of a study."""
    return read_toml(dict[str, dict[str, str]], "studies.toml")[study]


class Estimate(NamedTuple):
    """A number with its 95 % interval, if something varies."""

    value: float
    interval: Interval | None

    def shown(self, sign: str = "+") -> str:
        """The number and the interval."""
        return with_interval(f"{self.value:{sign}.2f}", self.interval, sign)


def estimate(
    recompute: Callable[[Array], Array],
    clusters: Sequence[float] | None,
    counts: Array,
    base: Array | None = None,
) -> Estimate:
    """What sums of counts give, as the mean over seeds, minus what the base gives; arguments as `measured`."""
    first, second = (measured(one, recompute, clusters) for one in (0 * counts if base is None else base, counts))
    intervals = paired_intervals(first, second, clusters)
    return Estimate(second.mean - first.mean, intervals.gain if intervals else None)


def lanes(study: str, rows: Mapping[str, Sequence[drawing.LaneDot]]) -> drawing.Figure:
    """A lane for each row, by its title."""
    title, caption, axis = (texts_of(study)[key] for key in ("title", "caption", "axis"))
    return drawing.lanes(study, title, caption, [drawing.Lane(row, dots) for row, dots in rows.items()], axis)


def add_study_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `show_study` reads."""
    parser.add_argument("--format", choices=LAYOUTS, default="text", help="default: text")
    parser.add_argument("--write", metavar="DIR", type=Path, help="also keep the table and the figure there")


def show_study(study: Study, options: argparse.Namespace) -> None:
    """Prints the table; keeps it and its figure, if that is asked for. The note may name options."""
    lines, figure = study
    sheet = sheet_of(figure.title, [(header, "l", [line[header] for line in lines]) for header in lines[0]])
    marks = [f"{mark} {text}" for mark, text in MARKS.items() if mark in str(lines)]
    note = " ".join([texts_of(figure.name)["note"].format(**vars(options)), "; ".join(marks)]).strip()
    write_sheets([sheet], [("Notes", [note])], options.format)
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        files = {f"{figure.name}.md": f"{markdown_table(sheet)}\n\n{note}\n", **drawing.published_files(figure)}
        for name, text in files.items():
            (options.write / name).write_text(text, encoding="utf-8")


def study_command(
    module: str, about: str, given: Sequence[str] | None, find: Callable[[Table, Sequence[RecordFile]], Study]
) -> int:
    """The exit status of a command that studies runs."""
    parser = command_parser(module, about)
    add_choices(parser)
    add_study_options(parser)

    def show(options: argparse.Namespace) -> None:
        chosen = choose(options)
        show_study(find(chosen.table(), chosen.collection.files), options)

    return parser.run(given, show)
