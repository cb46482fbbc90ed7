"""Studies of what the paper did not ask: a table and a figure that a command prints, and keeps next to the records.

`results/tables.md` and the site show the kept files as they are: STEM.md and STEM.svg, of a chapter in
`paper/tables_page.toml` that names the first.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from results.figures import drawing
from results.tables.sheet import Sheet
from results.tables.writers import LAYOUTS, markdown_table, write_sheets


@dataclass(frozen=True)
class LaneDot:
    """A number in a lane of a figure, with its ends if it has an interval or a range; hollow for a second kind."""

    arm: drawing.Arm
    value: float
    ends: Sequence[float] = ()
    hollow: bool = False


@dataclass(frozen=True)
class Study:
    """What a command found: a table, a text below it, and a figure, whose name is that of both files."""

    sheet: Sheet
    note: str
    figure: drawing.Figure


def lanes(
    name: str,
    title: str,
    caption: str,
    axis: str,
    rows: Mapping[str, Sequence[LaneDot]],
    legend: Sequence[drawing.Arm],
) -> drawing.Figure:
    """A lane for each row, by its title, with its dots one below the other over a common axis."""
    every = [value for dots in rows.values() for dot in dots for value in (dot.value, *dot.ends)]
    scale = drawing.spread(every, drawing.LEFT + 8, drawing.RIGHT - 8)
    marks, numbers, top, gap = list[drawing.Mark](), list[str](), 0.0, 10
    for row, dots in rows.items():
        marks.append(
            drawing.Label(drawing.LEFT, top + 14, drawing.fitted(row, drawing.RIGHT - drawing.LEFT), "ink", 11)
        )
        for number, dot in enumerate(dots):
            y = top + 26 + gap * number
            text = f"{row}, {dot.arm.title}{' (hollow)' * dot.hollow}: {dot.value:.2f}"
            numbers.append(text)
            if dot.ends:
                marks.append(dot.arm.line([(scale.at(end), y) for end in dot.ends], 1.5))
            look = dot.arm.colour, dot.arm.shape
            marks.append(drawing.Dot(scale.at(dot.value), y, *look, 4, hollow=dot.hollow, title=text))
        top += 32 + gap * len(dots)
    marks = [*drawing.vertical_ticks(scale, 0, top, axis), *marks]
    text = f"{'; '.join(numbers)}."
    return drawing.Figure(name, title, caption, top + drawing.BELOW, marks, numbers=text, legend=legend)


def add_study_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `show_study` reads."""
    parser.add_argument("--format", choices=LAYOUTS, default="text", help="default: text")
    parser.add_argument("--write", metavar="DIR", type=Path, help="also keep the table and the figure there")


def show_study(study: Study, options: argparse.Namespace) -> int:
    """Prints the table; keeps it and its figure, if that is asked for."""
    write_sheets([study.sheet], [("Notes", [study.note])], options.format)
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        text = f"{markdown_table(study.sheet)}\n\n{study.note}\n"
        (options.write / f"{study.figure.name}.md").write_text(text, encoding="utf-8")
        for name, svg in drawing.published_files(study.figure).items():
            (options.write / name).write_text(svg, encoding="utf-8")
    return 0
