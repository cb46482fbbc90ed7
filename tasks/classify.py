"""Text classification of any table: a biattentive classification network, scored by accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from elmo.common import checks
from elmo.common.errors import InputError, excerpt
from elmo.common.files import table_rows
from elmo.tokeniser import Tokenise, Tokeniser
from tasks.data.text import parsed_rows, word_list
from tasks.kinds import Classification, LabelledText
from tasks.modules.biattentive import BcnSettings, BiattentiveClassifier
from tasks.task import Head, Sentence, Split


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
    tokenise: Annotated[str, partial(checks.one_of, get_args(Tokenise))] = "ptb"


class Texts:
    """Makes examples; texts of several sentences become one sequence of words."""

    def __init__(self, reader: TableReader) -> None:
        self._tokeniser = Tokeniser(cast(Tokenise, reader.tokenise))

    def words(self, text: object) -> Sentence:
        """The words of a text.

        Raises:
            ValueError: it has none.
        """
        lines = text.split("\n") if isinstance(text, str) else []
        words = [word for line in lines for part in self._tokeniser.paragraph(line) for word in part]
        if not words:
            raise ValueError(f"expected words as text, found {excerpt(text)}")
        return tuple(words)

    def example(self, name: str, text: object, label: object) -> LabelledText:
        """A labelled text; numbers are labels, too.

        Raises:
            ValueError: there is no text or no label.
        """
        if label is None or not str(label).strip():
            raise ValueError(f"expected a label, found {excerpt(label)}")
        return LabelledText(name, self.words(text), str(label).strip())


def read_table(path: Path, reader: TableReader) -> list[LabelledText]:
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


def read_rows(rows: Sequence[Mapping[str, Any]], split: Split, reader: TableReader) -> list[LabelledText]:
    """The examples in rows of the hub with `text` and `label`."""
    texts = Texts(reader)
    return list(parsed_rows(rows, split, lambda name, row: texts.example(name, row["text"], row["label"])))


class Classify(Classification[LabelledText, BcnSettings]):
    """Text classification by accuracy; the training examples decide the labels."""

    name = "classify"
    recipe = 3
    settings_type = BcnSettings
    reader_type = TableReader
    columns = ("text", "label")

    def read(self, path: Path, split: Split) -> list[LabelledText]:
        """The texts of a CSV or TSV table."""
        return read_table(path, self.reader)

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[LabelledText]:
        """The texts in rows with `text` and `label`."""
        return read_rows(rows, split, self.reader)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> LabelledText:
        """A text without a label: `text`, or one in `tokens`."""
        in_words = "tokens" in fields
        words = word_list(fields["tokens"], "tokens") if in_words else Texts(self.reader).words(fields.get("text"))
        return LabelledText(name, words)

    def raw_columns(self) -> Mapping[str, str]:
        """The column of the text in the run's own tables."""
        return {"text": self.reader.text}

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A biattentive classification network."""
        return BiattentiveClassifier(self.settings, self.labels, widths["input"], widths["output"])
