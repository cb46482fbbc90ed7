"""Lines of text files, read strictly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from elmo.common.errors import InputError


def utf8_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; a byte order mark and CRLF do no harm.

    Only line feeds end a line, since tweets and web pages hold every other kind of separator. A carriage return within
    a line is refused: the file may well have no other ends of lines, and would be read as a single one.
    """
    number = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if "\r" in text:
                    raise InputError(
                        f"{path}, line {number}: expected lines that end in LF or CRLF, found a carriage return within "
                        f"one, at character {text.index(chr(13))}. Save the file with line ends LF or CRLF"
                    )
                yield text
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: expected UTF-8: {error.reason} at byte {error.start}") from error
