"""Sentences as lists of words: numbers for their words, and padding of their layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from torch import Tensor

from elmo.bilm.characters import END_OF_SENTENCE, START_OF_SENTENCE
from elmo.common.device import upload
from elmo.common.errors import InputError, excerpt

Sentence = Sequence[str]


def padded(tokens: Tensor, sentences: Sequence[Sentence]) -> Tensor:
    """The layers of a padded batch: (layers, tokens, dim) -> (layers, sentences, longest, dim), zero at padding."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    longest = max(lengths, default=0)
    rows = np.flatnonzero(np.arange(longest) < lengths[:, None])
    n_layers, _, dim = tokens.shape
    layers = tokens.new_zeros(n_layers, len(lengths) * longest, dim)
    layers.index_copy_(1, upload(rows, tokens.device), tokens)
    return layers.view(n_layers, len(lengths), longest, dim)


def numbered_words(sentences: Sequence[Sentence]) -> dict[str, int]:
    """A number for each distinct word of some sentences; the marks around sentences have the first two."""
    words = dict.fromkeys((START_OF_SENTENCE, END_OF_SENTENCE, *chain.from_iterable(sentences)))
    return dict(zip(words, range(len(words)), strict=True))


def check_sentences(sentences: Sequence[Sentence]) -> None:
    """Rejects a string in place of a list of words, and words that are not text."""
    for sentence in sentences:
        if isinstance(sentence, str):  # each character would count as a word
            found = sentences if isinstance(sentences, str) else sentence
            raise InputError(
                f"expected sentences as lists of words, such as [['The', 'play']], found the text {found[:60]!r}. "
                "Split it into words first, for example with .split()"
            )
        for word in sentence:
            if not isinstance(word, str):
                raise InputError(
                    f"expected words as text, found {excerpt(word)} in the sentence {excerpt(list(sentence))}. Convert "
                    "it to text, or leave it out"
                )
