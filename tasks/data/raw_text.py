"""Raw text for a trained model: its words and their places in it, its fields, and what is predicted about them.

Words are those of the biLM's tokeniser (`elmo.tokenise`: Penn Treebank style, plain quotes), by default split further
at hyphens, dashes and slashes, where answers begin and end ("1990-2000", "Anglo-Saxon"). Their places are found in the
raw text itself, so they are exact even if the word for the model is spelled differently.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeGuard

from elmo.common.errors import excerpt
from elmo.common.files import utf8_lines
from elmo.tables import table_rows
from elmo.tokeniser import INVISIBLE, MAX_WORD_BYTES, TYPOGRAPHIC, Tokeniser
from tasks.batch import Sentence

TABLES = ("csv", "tsv")
_PAIRS = ("''", "``")  # LaTeX's double quotes
# Where answers may begin or end within a word. This also splits web addresses, which is harmless.
_INNER_CUT = re.compile(r"([-‐-―−/~°])")  # noqa: RUF001
_LONG = re.compile(rf"\S{{{MAX_WORD_BYTES // 4},}}")

Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tokens:
    """The words of a text and where each begins and ends in it; no places if the text was given in words."""

    words: Sentence
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.words)

    @property
    def offsets(self) -> Offsets:
        """The first character of each word and the one after its last."""
        return tuple(zip(self.begins, self.ends, strict=True))

    def aligned(self, begin: int, end: int) -> bool:
        """Whether tokens begin and end exactly at these characters."""
        first, past = self.covering(begin, end)
        return self.place(first, past) == (begin, end)

    def covering(self, begin: int, end: int) -> tuple[int, int]:
        """The smallest span of tokens, (first, one past the last), around these characters; the nearest if none."""
        first = min(bisect_right(self.ends, begin), len(self) - 1)
        return first, max(bisect_left(self.begins, end), first + 1)

    def place(self, first: int, past: int) -> tuple[int, int]:
        """The characters from the first to the last of these tokens."""
        return self.begins[first], self.ends[past - 1]


@cache
def _tokeniser() -> Tokeniser:
    """The biLM's tokeniser, which caches the chunks of earlier texts."""
    return Tokeniser("ptb")


def tokens_of(text: str, inner_cuts: bool = True) -> Tokens:
    """The tokens of a text. Each character is in exactly one, except white space and invisible characters.

    Args:
        text: raw text.
        inner_cuts: whether words are split at hyphens, dashes and slashes.
    """
    words: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    visible = [place for place, sign in enumerate(text) if sign not in INVISIBLE]
    plain = "".join(TYPOGRAPHIC.get(text[place], text[place]) for place in visible)
    position = 0
    # Split long chunks first: the tokeniser would truncate them.
    for sentence in _tokeniser().paragraph(_LONG.sub(_shorter, text)):
        for part in (part for word in sentence for part in (_parts(word) if inner_cuts else (word,))):
            begin = _skip(plain, position)
            end = _walk(plain, begin, part)
            if end is None:  # the tokeniser adds a full stop after "U.S." at the end of a sentence
                continue
            words.append(part)
            begins.append(visible[begin])
            ends.append(visible[end - 1] + 1)
            position = end
    if _skip(plain, position) < len(plain):
        raise RuntimeError(f"tokens and text differ at {plain[position : position + 60]!r}")
    return Tokens(tuple(words), tuple(begins), tuple(ends))


@lru_cache(maxsize=200_000)
def _parts(word: str) -> tuple[str, ...]:
    """A word split at hyphens and the like; a word of nothing else ("--") stays whole."""
    if not any(map(str.isalnum, word)):
        return (word,)
    return tuple(filter(None, _INNER_CUT.split(word)))


def _shorter(chunk: re.Match[str]) -> str:
    """A chunk that fits into one word, or its pieces that do, joined by spaces."""
    if len(chunk[0].encode()) <= MAX_WORD_BYTES:
        return chunk[0]
    return " ".join(re.findall(rf".{{1,{MAX_WORD_BYTES // 4}}}", chunk[0]))


def _skip(plain: str, position: int) -> int:
    """The position after white space."""
    while plain[position : position + 1].isspace():
        position += 1
    return position


def _walk(plain: str, position: int, word: str) -> int | None:
    """The end of the word if it begins at this position, else None."""
    for sign in word:
        if plain[position : position + 1] != sign:
            if sign != '"' or plain[position : position + 2] not in _PAIRS:
                return None
            position += 1
        position += 1
    return position


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
    return tokens_of(raw_text(fields, "text"), inner_cuts=False)


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
