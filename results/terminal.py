"""The table on a terminal: rich, if it is installed, with the gain and the verdict in colour."""

from importlib.util import find_spec
from typing import TextIO

from results.aggregate import Summary
from results.sheets import EMPTY, GAIN_COLUMNS, Sheet, sections, sheets


def fits_terminal(stream: TextIO) -> bool:
    """Whether rich can draw here: it is installed and the stream is a terminal that knows the signs."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    return stream.isatty() and encoding == "utf8" and find_spec("rich") is not None


def print_rich(summary: Summary) -> None:
    """Draws the sheets as tables, and below them all that is to be said."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for sheet in sheets(summary):
        _print_sheet(sheet)
        console.print()
    for title, lines in sections(summary):
        console.print(Text(title, style="bold"))
        for line in lines:  # not wrapped: a command must stay one line to be copied
            console.print(Text(f"  {line}"), soft_wrap=True)
        console.print()


def _print_sheet(sheet: Sheet) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=sheet.title, title_justify="left", title_style="bold", pad_edge=False)
    for header, align in sheet.columns:
        table.add_column(Text(header), justify="right" if align == "r" else "left")
    for line in sheet.lines:
        styled = [(cell, _style(column, cell)) for column, cell in zip(sheet.columns, line, strict=True)]
        table.add_row(*(Text(cell, style=style) for cell, style in styled))
    Console().print(table)


def _style(column: tuple[str, str], cell: str) -> str:
    """The colour of a cell: a gain by its sign, a verdict by what it says; the rest is plain."""
    if cell in (EMPTY, "n/a", "below"):
        return "dim"
    if column == GAIN_COLUMNS["gain"]:
        return "bold green" if cell.startswith("+") else "bold red"
    if column in (GAIN_COLUMNS["baseline"], GAIN_COLUMNS["elmo"]):
        return "yellow" if cell.endswith("short") else "green"
    return ""
