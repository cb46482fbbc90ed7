"""The results table on a terminal, drawn with rich; colours show verdicts, and gains whose interval excludes zero."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TextIO

from results.records.printing import write
from results.tables.cells import EMPTY, GAIN_COLUMNS, VERDICT, Page, Sheet
from results.tables.formats import LAYOUTS

NAMES = ("task", "row", "metric", "settings", "features", "by", "test examples")  # the columns that name a line


def lay_out(page: Page, form: str) -> None:
    """Prints tables for people; draws them on a terminal that can, as wide as it is."""
    if form == "text" and can_draw(sys.stdout):
        print_rich(*page)
    else:
        write(LAYOUTS[form](*page), sys.stdout)


def can_draw(stream: TextIO) -> bool:
    """Whether rich is installed and the stream is a UTF-8 terminal."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    return stream.isatty() and encoding == "utf8" and find_spec("rich") is not None


def print_rich(sheets: Sequence[Sheet], sections: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Draws the sheets as tables, with notes below."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for sheet in sheets:
        _print_sheet(sheet)
        console.print()
    for title, lines in sections:
        console.print(Text(title, style="bold"))
        for line in lines:  # not wrapped: a command must stay one line to be copied
            console.print(Text(f"  {line}"), soft_wrap=True)
        console.print()


def _print_sheet(sheet: Sheet) -> None:
    """Draws a table if it fits, else one block per line, so that no number is cut off."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(f"{sheet.title}\n", style="bold"))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for header, align in sheet.columns:
        table.add_column(Text(header), justify="right" if align == "r" else "left", no_wrap=True)
    rows = [
        [(column[0], Text(cell, _style(column, cell, sign))) for column, cell in zip(sheet.columns, line, strict=True)]
        for line, sign in zip(sheet.lines, sheet.signs or [0] * len(sheet.lines), strict=True)
    ]
    for row in rows:
        table.add_row(*(text for _, text in row))
    if Measurement.get(console, console.options.update(max_width=10_000), table).maximum <= console.width:
        console.print(table)
        return
    for row in rows:
        console.print()
        console.print(Text("  ".join(text.plain for header, text in row if header in NAMES), style="bold underline"))
        block = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
        for header, text in row:
            if header not in NAMES and text.plain != EMPTY:
                block.add_row(Text(header.replace("\n", " "), style="dim"), text)
        console.print(block)


def _style(column: tuple[str, str], cell: str, sign: int) -> str:
    """The colour of a cell: gains that their interval resolves by sign, verdicts by kind, others plain."""
    if cell in (EMPTY, "n/a"):
        return "dim"
    if column == GAIN_COLUMNS["gain"]:
        return {1: "bold green", -1: "bold red"}.get(sign, "")
    if column[0].endswith(VERDICT):
        return {"short": "yellow", "equivalent": "green", "above": "green"}.get(cell.rsplit(" ", 1)[-1], "")
    return ""
