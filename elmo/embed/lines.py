"""Input of `python -m elmo.embed`: the lines of a text or the rows of a table, in words, and their batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
    """An input line: its number, counted from 0, its words, and the sentences in it, if there may be several."""

    number: int
    words: list[str]
    sentences: list[list[str]] | None = None

    @property
    def parts(self) -> list[list[str]]:
        """What the biLM reads one by one."""
        return [self.words] if self.sentences is None else self.sentences


def read_lines(path: Path) -> Iterator[InputLine]:
    """The lines of a UTF-8 text file, split at whitespace; empty lines are kept."""
    return (InputLine(number, text.split()) for number, text in enumerate(_texts(path)))


def _texts(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text file."""
    try:
        yield from utf8_lines(path)
    except OSError as error:
        raise InputError(f"{path}: cannot read the sentences: {error.strerror}") from error


def read_text(path: Path, tokenise: Tokenise = "whitespace", column: str | None = None) -> Iterator[InputLine]:
    """The lines of a text file, or the rows of a table, in words."""
    if column is None and tokenise == "whitespace":
        yield from read_lines(path)
        return
    split = _whole_line if tokenise == "whitespace" else Tokeniser(tokenise).paragraph
    texts = _texts(path) if column is None else (text for _, (text,) in table_rows(path, [column]))
    for number, text in enumerate(texts):
        sentences = [sentence for line in text.split("\n") for sentence in split(line)]
        yield InputLine(number, list(chain.from_iterable(sentences)), sentences)


def _whole_line(text: str) -> list[list[str]]:
    """The words of a line as one sentence, as `read_lines` splits them; none of an empty line."""
    return [words] if (words := text.split()) else []


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
