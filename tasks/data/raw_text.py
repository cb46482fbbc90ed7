"""Raw text for a trained model: lines, JSON objects and tables, their words, and what is predicted about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from elmo.common.errors import excerpt
from elmo.common.files import utf8_lines
from elmo.tables import table_rows
from tasks.batch import Sentence
from tasks.data.offset_tokens import Offsets, OffsetTokeniser, Tokens

TABLES = ("csv", "tsv")


def raw_items(path: Path, kind: str, columns: Sequence[str]) -> Iterator[tuple[int, str | dict[str, str]]]:
    """The line number and the text of each line; of a table the last line of each row, and its cells by column.

    Args:
        path: the file.
        kind: one of TABLES, or anything else for lines.
        columns: those of a table to read; a column `id` is read, too.
    """
    if kind not in TABLES:
        yield from enumerate(utf8_lines(path), start=1)
        return
    for line, cells in table_rows(path, columns, optional="id", ending=f".{kind}"):
        yield line, dict(zip([*columns, "id"], cells, strict=False))


def fields_of_line(line: str, names: Sequence[str]) -> dict[str, str]:
    """The fields of a line: all of it, or as many texts between tabs as there are names; none without a name.

    Raises:
        ValueError: there are more or fewer.
    """
    cells = line.split("\t") if len(names) > 1 else [line][: len(names)]
    if len(cells) != len(names):
        raise ValueError(f"expected {' TAB '.join(names)}, found {len(cells)} texts between tabs")
    return dict(zip(names, cells, strict=True))


def raw_text(fields: Mapping[str, Any], name: str) -> str:
    """The text of a field.

    Raises:
        ValueError: there is none, or it has no words.
    """
    text = fields.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"expected words as {name}, found {'none' if text is None else excerpt(text)}")
    return text


def raw_words(fields: Mapping[str, Any]) -> Tokens:
    """The words of `text`, with their places in it; or `tokens`, if the text is in words already.

    Raises:
        ValueError: there is neither.
    """
    if "tokens" in fields:
        return Tokens(word_list(fields["tokens"], "tokens"))
    return OffsetTokeniser(inner_cuts=False)(raw_text(fields, "text"))


def word_list(words: object, name: str) -> Sentence:
    """A list of words, checked."""
    if not is_texts(words):
        raise ValueError(f"expected a list of words as {name}, found {excerpt(words)}")
    return tuple(words)


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Whether this is a list of at least one string, none of them empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) and item for item in value)


def span_fields(words: Sequence[str], offsets: Offsets, start: int, end: int) -> dict[str, Any]:
    """A span of tokens as the fields of a JSON object: its text, its tokens, and its characters in raw text."""
    fields: dict[str, Any] = {"text": " ".join(words[start:end]), "start": start, "end": end}
    return fields | ({"characters": [offsets[start][0], offsets[end - 1][1]]} if offsets else {})


def tag_columns(words: Sequence[str], tags: Sequence[str]) -> str:
    """Words and tags in two columns, one word per line."""
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
