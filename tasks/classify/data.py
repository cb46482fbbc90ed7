"""Texts and labels from CSV and TSV tables and from rows of the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from elmo.common import checks
from elmo.common.errors import InputError, excerpt
from elmo.tables import table_rows
from elmo.tokeniser import Tokenise, Tokeniser
from tasks.batch import Sentence, Split
from tasks.data.raw_text import word_list
from tasks.data.text_files import parsed_rows


@dataclass
class TableReader:
    """The differences between tables.

    Attributes:
        text: the column of the text.
        label: the column of its label.
        tokenise: ptb splits text into words as `elmo.tokenise` does; whitespace is for text in words.
    """

    text: str = "text"
    label: str = "label"
    tokenise: str = "ptb"

    def __post_init__(self) -> None:
        checks.one_of(get_args(Tokenise), "data.reader.tokenise", self.tokenise)


@dataclass(frozen=True)
class TextExample:
    """A text and its label; "" if it is to be predicted."""

    id: str
    words: Sentence
    label: str


class Texts:
    """Makes examples; texts of several sentences become one sequence of words."""

    def __init__(self, reader: TableReader) -> None:
        self._tokeniser = Tokeniser(cast(Tokenise, reader.tokenise))

    def words(self, text: object) -> Sentence:
        """The words of a text.

        Raises:
            ValueError: it has none.
        """
        words = (
            [word for line in text.split("\n") for part in self._tokeniser.paragraph(line) for word in part]
            if isinstance(text, str)
            else []
        )
        if not words:
            raise ValueError(f"expected words as text, found {excerpt(text)}")
        return tuple(words)

    def example(self, name: str, text: object, label: object) -> TextExample:
        """A labelled text; numbers are labels, too.

        Raises:
            ValueError: there is no text or no label.
        """
        if label is None or not str(label).strip():
            raise ValueError(f"expected a label, found {excerpt(label)}")
        return TextExample(name, self.words(text), str(label).strip())


def read_table(path: Path, reader: TableReader) -> list[TextExample]:
    """The examples of a table.

    Raises:
        InputError: a row is malformed; the message names file, line and remedy.
    """
    texts, examples = Texts(reader), []
    for number, (text, label) in table_rows(path, (reader.text, reader.label)):
        try:
            examples.append(texts.example(f"{path.name}:{number}", text, label))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}. Correct or remove the row, or data.reader") from error
    return examples


def read_rows(rows: Sequence[Mapping[str, Any]], split: Split, reader: TableReader) -> list[TextExample]:
    """The examples in rows of the hub with `text` and `label`."""
    texts = Texts(reader)
    return list(parsed_rows(rows, split, lambda name, row: texts.example(name, row["text"], row["label"])))


def raw_example(name: str, fields: Mapping[str, Any], reader: TableReader) -> TextExample:
    """A text without a label: `text`, or one in `tokens`."""
    given = word_list(fields["tokens"], "tokens") if "tokens" in fields else Texts(reader).words(fields.get("text"))
    return TextExample(name, given, "")
