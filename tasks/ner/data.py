"""Sentences with entities, from CoNLL column files and rows of the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.batch import Sentence, Split
from tasks.data.columns import DOCUMENT_START, Columns, column_sentences
from tasks.data.offset_tokens import Offsets
from tasks.data.raw_text import raw_words
from tasks.data.tag_schemes import Span, parse_tag, spans_of
from tasks.data.text_files import parsed_rows


@dataclass
class ColumnReader(Columns):
    """The differences between files of entities.

    Attributes:
        ignore_labels: labels whose spans do not count as entities.
    """

    ignore_labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NerExample:
    """A sentence and its entities; `tags` are those of the file, `offsets` the places of the words in raw text.

    `document`: what sentences of one document share; empty where none is marked.
    """

    id: str
    words: Sentence
    spans: tuple[Span, ...]
    tags: tuple[str, ...]
    offsets: Offsets = ()
    document: str = ""


def read_columns(path: Path, reader: ColumnReader) -> list[NerExample]:
    """The sentences of a column file with any number of columns, split by tabs where there are any.

    Tags may be IOB1, IOB2 or BIOES; -DOCSTART- lines begin a document; CRLF and a byte order mark are accepted.
    """
    return [
        _example(f"{path.name}:{number}", words, tags, reader, f"{path}:{document}" if document else "")
        for number, (words, tags, document) in enumerate(column_sentences(path, reader, parse_tag))
    ]


def read_rows(rows: Sequence[Mapping[str, Any]], split: Split, reader: ColumnReader) -> list[NerExample]:
    """The sentences in rows of the hub with `words` and `tags`."""
    document = ""  # the name of the row that began it

    def sentence(name: str, row: Mapping[str, Any]) -> NerExample | None:
        nonlocal document
        words, tags = row["words"], row["tags"]
        if words and words[0] == DOCUMENT_START:
            document = name
            return None
        if not words:
            return None
        if len(words) != len(tags):
            raise ValueError(f"expected a tag for each word, found {len(words)} words and {len(tags)} tags")
        return _example(name, words, tags, reader, document)

    return list(filter(None, parsed_rows(rows, split, sentence)))


def _example(name: str, words: Sequence[str], tags: Sequence[str], reader: ColumnReader, document: str) -> NerExample:
    spans = tuple(span for span in spans_of(tags) if span.label not in reader.ignore_labels)
    return NerExample(name, tuple(words), spans, tuple(tags), document=document)


def raw_sentence(name: str, fields: Mapping[str, Any]) -> NerExample:
    """A sentence of raw text, or one in `tokens`, without entities."""
    tokens = raw_words(fields)
    return NerExample(name, tokens.words, (), (), tokens.offsets)
