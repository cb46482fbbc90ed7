"""Parsers of text lines and of rows from the hub, with errors that name them; treebank escapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from elmo.common.errors import InputError, excerpt
from elmo.common.files import parse_json

Parsed = TypeVar("Parsed")

# Treebanks escape brackets and quotes. Word vectors and biLMs are trained on plain text, which has no escapes.
TREEBANK_ESCAPES = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    **{"``": '"', "''": '"'},
}


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
    if "\\u" in line:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:  # UTF-8 cannot encode it, so it could not be printed
            raise ValueError("expected text, found half of a surrogate pair") from error
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
