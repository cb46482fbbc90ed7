"""CoNLL column files: one token a line, a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo.common.errors import InputError, excerpt
from tasks.data.tag_schemes import Span, parse_tag, spans_of
from tasks.data.text_files import parsed_rows, utf8_lines
from tasks.interface import Sentence, Split

DOCUMENT_START = "-DOCSTART-"


@dataclass
class ColumnReader:
    """The differences between column files.

    Attributes:
        word_column: column of the word.
        tag_column: column of the entity tag; -1 is the last one.
        comments: whether lines that begin with "# " are comments.
        ragged: whether lines may have more or fewer columns than the first, as long as these two are there.
        ignore_labels: labels whose spans do not count as entities.
    """

    word_column: int = 0
    tag_column: int = -1
    comments: bool = False
    ragged: bool = False
    ignore_labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NerExample:
    """A sentence and its entities; `tags` are those of the file."""

    id: str
    words: Sentence
    spans: tuple[Span, ...]
    tags: tuple[str, ...]


def read_columns(path: Path, reader: ColumnReader) -> list[NerExample]:
    """The sentences of a column file with any number of columns, split by tabs where there are any.

    Tags may be IOB1, IOB2 or BIOES; -DOCSTART- lines are dropped; CRLF and a byte order mark are accepted.
    """
    return [
        _example(f"{path.name}:{number}", words, tags, reader)
        for number, (words, tags) in enumerate(_sentences(path, reader))
    ]


def read_rows(rows: Sequence[Mapping[str, Any]], split: Split, reader: ColumnReader) -> list[NerExample]:
    """The sentences in rows of the hub with `words` and `tags`."""

    def sentence(name: str, row: Mapping[str, Any]) -> NerExample | None:
        words, tags = row["words"], row["tags"]
        if not words or words[0] == DOCUMENT_START:
            return None
        if len(words) != len(tags):
            raise ValueError(f"expected a tag for each word, found {len(words)} words and {len(tags)} tags")
        return _example(name, words, tags, reader)

    return list(filter(None, parsed_rows(rows, split, sentence)))


def _example(name: str, words: Sequence[str], tags: Sequence[str], reader: ColumnReader) -> NerExample:
    spans = tuple(span for span in spans_of(tags) if span.label not in reader.ignore_labels)
    return NerExample(name, tuple(words), spans, tuple(tags))


def _sentences(path: Path, reader: ColumnReader) -> Iterator[tuple[list[str], list[str]]]:
    words: list[str] = []
    tags: list[str] = []
    columns = 0
    needed = max(column + 1 if column >= 0 else -column for column in (reader.word_column, reader.tag_column))
    for number, line in enumerate(utf8_lines(path), start=1):
        if not line.strip() or line.startswith(DOCUMENT_START):
            if words:
                yield words, tags
                words, tags = [], []
            continue
        if reader.comments and line.startswith("# "):
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        columns = columns or len(cells)
        try:
            if columns < 2 or (len(cells) != columns and not reader.ragged):
                expected = f"{columns} columns as in the lines before" if columns > 1 else "a word and a tag"
                raise ValueError(f"expected {expected}, found {len(cells)}")
            if len(cells) < needed:
                settings = f"word_column={reader.word_column} and tag_column={reader.tag_column}"
                raise ValueError(f"expected at least {needed} columns for {settings}, found {len(cells)}")
            word, tag = cells[reader.word_column], cells[reader.tag_column].strip()
            parse_tag(tag)
        except ValueError as error:
            raise InputError(
                f"{path}, line {number}: {error}: {excerpt(line)}. Correct the line, or data.reader"
            ) from error
        words.append(word)
        tags.append(tag)
    if words:
        yield words, tags
