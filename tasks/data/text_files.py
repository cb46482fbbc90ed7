"""Lines of text files and rows of the hub, with errors that name them; treebank escapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from elmo.common.errors import InputError, excerpt, not_utf8
from elmo.common.files import parse_json

Parsed = TypeVar("Parsed")

# Treebanks escape brackets and quotes. Word vectors and biLMs are trained on plain text, which has no escapes.
TREEBANK_ESCAPES = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    **{"``": '"', "''": '"'},
}


def utf8_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their line ends; a byte order mark and CRLF are accepted.

    Only a line feed ends a line: tweets and web pages contain all the other separators of Unicode. A carriage return
    within a line is an error. Such a file probably uses it as its line end, and would be read as one line.
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
        raise not_utf8(f"{path}, line {number}", error) from error


def parsed_lines(
    lines: Iterable[str], path: Path, remedy: str, parse: Callable[[str, str], Parsed]
) -> Iterator[Parsed]:
    """What `parse` makes of each line of a file, given the line's name, FILE:NUMBER, and text.

    Raises:
        InputError: `parse` raised a ValueError; file, line and remedy are added to its message.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield parse(f"{path.name}:{number}", line)
        except ValueError as error:
            found = f": {excerpt(line)}" if line else ""
            raise InputError(f"{path}, line {number}: {error}{found}. {remedy}") from error


def json_object(line: str) -> dict[str, Any]:
    """The JSON object in a line.

    Raises:
        ValueError: there is none.
    """
    try:
        found = parse_json(line)
    except ValueError as error:
        raise ValueError(f"expected a JSON object, found no JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found a {type(found).__name__}")
    return found


def parsed_rows(
    rows: Iterable[Mapping[str, Any]], split: str, parse: Callable[[str, Mapping[str, Any]], Parsed]
) -> Iterator[Parsed]:
    """What `parse` makes of each row of the hub, given the row's name, SPLIT:NUMBER, and its columns.

    Raises:
        InputError: `parse` raised a ValueError; the row and a remedy are added to its message.
    """
    for number, row in enumerate(rows):
        try:
            yield parse(f"{split}:{number}", row)
        except ValueError as error:
            raise InputError(f"{split}, row {number}: {error}. Check data.hub.columns") from error
