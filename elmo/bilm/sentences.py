"""Sentences as lists of words, and padding of their layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from elmo.common.device import upload
from elmo.common.errors import InputError

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


def refuse_plain_text(sentences: Sequence[Sentence]) -> None:
    """Refuses a string where a list of words belongs: its characters would be taken for words."""
    for sentence in sentences:
        if isinstance(sentence, str):
            found = sentences if isinstance(sentences, str) else sentence
            raise InputError(
                f"expected sentences as lists of words, such as [['The', 'play']], found the text {found[:60]!r}. "
                "Split it into words first, for example with .split()"
            )
