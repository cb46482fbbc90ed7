"""Sentences as lists of words, their padding, and the character ids of words.

Ids are as in bilm-tf: UTF-8 bytes between two boundary marks, then padding. They are row numbers of the embedding in
weight files. AllenNLP adds one to each id and uses row 0 for padded positions of a sentence; here only distinct words
are encoded, so that row is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from elmo.common.device import upload
from elmo.common.errors import InputError, excerpt

Sentence = Sequence[str]
Numbers = npt.NDArray[np.int64]
Item = TypeVar("Item", bound=Sized)

# Ids 0..255 are bytes.
SENTENCE_START, SENTENCE_END, WORD_START, WORD_END, PADDING = range(256, 261)

# The marks around each sentence are words of one character, also where they occur in running text, as in bilm-tf.
START_OF_SENTENCE = "<S>"
END_OF_SENTENCE = "</S>"
_MARKS = {START_OF_SENTENCE: SENTENCE_START, END_OF_SENTENCE: SENTENCE_END}


def padded(tokens: Tensor, sentences: Sequence[Sentence]) -> Tensor:
    """The layers of a padded batch: (layers, tokens, dim) -> (layers, sentences, longest, dim), zero at padding."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    longest = max(lengths, default=0)
    rows = np.flatnonzero(np.arange(longest) < lengths[:, None])
    n_layers, _, dim = tokens.shape
    layers = tokens.new_zeros(n_layers, len(lengths) * longest, dim)
    layers.index_copy_(1, upload(rows, tokens.device), tokens)
    return layers.view(n_layers, len(lengths), longest, dim)


def padded_numbers(numbers: Numbers, lengths: Numbers) -> Numbers:
    """The numbers of the tokens of some texts, text after text, padded with 0: (tokens,) -> (texts, longest)."""
    inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
    rows = np.zeros(inside.shape, dtype=np.int64)
    rows[inside] = numbers
    return rows


def numbered_words(sentences: Sequence[Sentence]) -> dict[str, int]:
    """A number for each distinct word of some sentences; the marks around sentences have the first two."""
    words = dict.fromkeys((START_OF_SENTENCE, END_OF_SENTENCE, *chain.from_iterable(sentences)))
    return dict(zip(words, range(len(words)), strict=True))


def in_batches(most: int, sentences: Iterable[Item], size: int | None = None) -> Iterator[list[Item]]:
    """Batches of at most this many tokens, or one longer sentence, and of at most `size` sentences."""
    batch: list[Item] = []
    tokens = 0
    for sentence in sentences:
        if batch and (tokens + len(sentence) > most or len(batch) == size):
            yield batch
            batch, tokens = [], 0
        batch.append(sentence)
        tokens += len(sentence)
    if batch:
        yield batch


def check_sentences(sentences: Sequence[Sentence]) -> None:
    """Rejects a string in place of a list of words, and words that are not text."""
    for sentence in sentences:
        if isinstance(sentence, str):  # each character would count as a word
            wrong = sentences if isinstance(sentences, str) else sentence
            raise InputError(
                f"expected sentences as lists of words, such as [['The', 'play']], found the text {wrong[:60]!r}. "
                "Split it into words first, for example with .split()"
            )
        for word in sentence:
            if not isinstance(word, str):
                raise InputError(
                    f"expected words as text, found {excerpt(word)} in the sentence {excerpt(list(sentence))}. Convert "
                    "it to text, or leave it out"
                )


def spell(word: str, max_characters: int = 50) -> list[int]:
    """The ids of a word without padding: [start, bytes..., end], at most `max_characters` long."""
    if word in _MARKS:
        return [WORD_START, _MARKS[word], WORD_END]
    # "ignore" drops lone surrogates, which have no bytes, as bilm-tf does.
    return [WORD_START, *word.encode("utf-8", "ignore")[: max_characters - 2], WORD_END]


def character_ids(words: Sequence[str], max_characters: int = 50, room: int | None = None) -> npt.NDArray[np.int64]:
    """The padded ids of some words, (words, characters).

    Args:
        words: the words, one for each row of the result.
        max_characters: the width that the biLM was trained with.
        room: padding to keep after the longest word (up to `max_characters`); None pads to `max_characters`.
    """
    spelled = [spell(word, max_characters) for word in words]
    longest = max((len(ids) for ids in spelled), default=0)
    width = max_characters if room is None else min(max_characters, longest + room)
    table = np.full((len(words), width), PADDING, dtype=np.int64)
    for row, ids in zip(table, spelled, strict=True):
        row[: len(ids)] = ids
    return table
