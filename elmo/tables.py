"""Tables of text: columns of CSV and TSV files by the names in their header."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from elmo.common.errors import InputError
from elmo.common.files import decoded_lines

LONGEST_TEXT = 1 << 24  # characters; Python's default, 131,072, is too few for a document
# Tabs separate plain text; commas need quotes around texts that contain them.
STYLES: dict[str, tuple[str, Literal[0, 3]]] = {".csv": (",", csv.QUOTE_MINIMAL), ".tsv": ("\t", csv.QUOTE_NONE)}


def table_rows(
    path: Path, columns: Sequence[str], optional: str | None = None, ending: str | None = None
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The last line of each row, counted from 1, and the row's texts in these columns.

    Args:
        path: a UTF-8 file that ends in .csv or .tsv; its first line names the columns.
        columns: the names of the wanted ones.
        optional: one more, the last of the texts if the table has it.
        ending: of a table whose name has none, such as standard input.

    Raises:
        InputError: the file is not such a table; the message names the line.
    """
    style = STYLES.get(ending or path.suffix.lower())
    if style is None:
        raise InputError(f"{path}: expected a table whose name ends in {' or '.join(STYLES)}. Rename the file")
    csv.field_size_limit(LONGEST_TEXT)
    rows = csv.reader(decoded_lines(path), delimiter=style[0], quoting=style[1], strict=True)
    try:
        header = next(rows, [])
        wanted = [*columns, *([optional] if optional in header else [])]
        places = [_place(path, header, name) for name in wanted]
        for row in filter(None, rows):
            if len(row) != len(header):
                raise InputError(
                    f"{path}, line {rows.line_num}: expected {len(header)} columns as in the header, found {len(row)}. "
                    "Put quotes around texts with commas or line ends"
                )
            yield rows.line_num, tuple(row[place] for place in places)
    except csv.Error as error:
        raise InputError(
            f"{path}, line {rows.line_num}: expected a table, found: {error}. Check the quotes up to this line"
        ) from error


def _place(path: Path, header: Sequence[str], name: str) -> int:
    if header.count(name) != 1:
        shown = " ".join(", ".join(header).split())[:200] or "no header"
        raise InputError(
            f"{path}, line 1: expected one column {name!r} in the header, found {shown}. Name the column that you "
            "mean, or save the table as a .csv with commas or a .tsv with tabs"
        )
    return header.index(name)
