"""Input of `python -m elmo.embed`: the lines of a text or the rows of a table, in words, and their batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from elmo.common.errors import InputError
from elmo.common.files import utf8_lines
from elmo.store.cached_layers import TOKENS_AT_ONCE
from elmo.tables import table_rows
from elmo.tokeniser import Tokenise, Tokeniser

# Sentences are sorted by length within windows of this many batches: with similar lengths, LSTM steps are full.
BATCHES_IN_A_WINDOW = 64


@dataclass(frozen=True)
class InputLine:
    """An input line: its number, counted from 0, and its sentences in words, which the biLM reads one by one."""

    number: int
    sentences: list[list[str]]

    @cached_property
    def words(self) -> list[str]:
        """The words of all sentences."""
        return list(chain.from_iterable(self.sentences))


def read_lines(path: Path, tokenise: Tokenise = "whitespace", column: str | None = None) -> Iterator[InputLine]:
    """The lines of a UTF-8 text file, or a column of a table, in words; empty lines are kept.

    Args:
        path: the file.
        tokenise: ptb also splits lines into sentences.
        column: of a table.
    """
    split = _whole_line if tokenise == "whitespace" else Tokeniser(tokenise).paragraph
    texts = utf8_lines(path) if column is None else (text for _, (text,) in table_rows(path, [column]))
    try:
        for number, text in enumerate(texts):
            yield InputLine(number, [sentence for line in text.split("\n") for sentence in split(line)])
    except OSError as error:
        raise InputError(f"{path}: cannot read the sentences: {error.strerror}") from error


def _whole_line(text: str) -> list[list[str]]:
    """The words of a line as one sentence, perhaps empty: with a carried state, an empty line has a row, too."""
    return [text.split()]


def batches_in_order(lines: Iterable[InputLine], size: int) -> Iterator[list[InputLine]]:
    """The lines in file order, `size` at a time."""
    remaining = iter(lines)
    return iter(lambda: list(islice(remaining, size)), [])


def batches_by_length(
    lines: Iterable[InputLine], size: int, most_tokens: int = TOKENS_AT_ONCE, window: int | None = None
) -> Iterator[list[InputLine]]:
    """Batches of similar lengths, of at most `size` lines and `most_tokens` padded tokens (or one long line).

    Lines are sorted within windows of BATCHES_IN_A_WINDOW batches, and of at most `window` lines.
    """
    most = size * BATCHES_IN_A_WINDOW
    for near in batches_in_order(lines, most if window is None else min(most, window)):
        batch: list[InputLine] = []
        for line in sorted(near, key=lambda line: len(line.words)):
            tokens = (len(batch) + 1) * len(line.words)  # the newest line is the longest
            if batch and (len(batch) == size or tokens > most_tokens):
                yield batch
                batch = []
            batch.append(line)
        yield batch
