"""Readers of text: lines, column files and rows from the hub, with errors that name the place; treebank escapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json

from elmo.common.errors import InputError, excerpt
from elmo.common.files import utf8_lines

Parsed = TypeVar("Parsed")

DOCUMENT_START = "-DOCSTART-"  # in CoNLL column files

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
        content = from_json(line)  # unlike json, it rejects half of a surrogate pair, which UTF-8 cannot encode
    except ValueError as error:
        raise ValueError(f"expected a JSON object, found no JSON ({error})") from error
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, found a {type(content).__name__}")
    return content


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


@dataclass
class Columns:
    """The differences between CoNLL column files: one word per line with its tag, a blank line after each sentence.

    Attributes:
        word_column: column of the word.
        tag_column: column of the tag; -1 is the last one.
        comments: whether lines that begin with "# " are comments.
        ragged: whether lines may have more or fewer columns than the first, as long as these two are there.
    """

    word_column: int = 0
    tag_column: int = -1
    comments: bool = False
    ragged: bool = False


def column_sentences(
    path: Path,
    reader: Columns,
    check_tag: Callable[[str], object],
    is_word: Callable[[Sequence[str]], bool] = lambda cells: True,
) -> Iterator[tuple[list[str], list[str], int]]:
    """The words and the tags of each sentence, and the number of its document; columns are split by tabs, if any.

    Documents begin with a line DOCUMENT_START and count from 1; 0 is before the first one.

    Args:
        path: the file.
        reader: its columns.
        check_tag: raises a ValueError for a wrong tag; file and line are added to its message.
        is_word: whether the cells of a line are those of a word; other lines are left out.
    """
    words: list[str] = []
    tags: list[str] = []
    columns = documents = 0
    needed = max(column + 1 if column >= 0 else -column for column in (reader.word_column, reader.tag_column))
    for number, line in enumerate(chain(utf8_lines(path), [""]), start=1):  # the last line ends the last sentence
        begins_document = line.startswith(DOCUMENT_START)
        if not line.strip() or begins_document:
            if words:
                yield words, tags, documents
                words, tags = [], []
            documents += begins_document
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if (reader.comments and line.startswith("# ")) or not is_word(cells):
            continue
        columns = columns or len(cells)
        try:
            if len(cells) < max(needed, 2) or (len(cells) != columns and not reader.ragged):
                places = f"word_column={reader.word_column} and tag_column={reader.tag_column}"
                raise ValueError(f"expected {max(columns, needed, 2)} columns, with {places}, found {len(cells)}")
            tag = cells[reader.tag_column].strip()
            check_tag(tag)
        except ValueError as error:
            remedy = "Correct the line, or data.reader"
            raise InputError(f"{path}, line {number}: {error}: {excerpt(line)}. {remedy}") from error
        words.append(cells[reader.word_column])
        tags.append(tag)
