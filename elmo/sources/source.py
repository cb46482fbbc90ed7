"""The interface of frozen layers, and padding of what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from elmo.common.device import upload
from elmo.common.errors import InputError

Sentence = Sequence[str]


@runtime_checkable
class FrozenSource(Protocol):
    """A frozen representation: a biLM, the hidden states of a transformer, a control.

    Every token gets a stack of layers, all `dim_of(source)` wide. A sentence's layers depend on that sentence alone,
    whatever its batch: they are stored by sentence. A source that is an nn.Module is moved to the device of the run.
    """

    @property
    def widths(self) -> tuple[int, ...]:
        """For each layer the values to store: all, or the first ones if the layer repeats these up to its width."""

    def fingerprint(self) -> str:
        """A hash of everything that the layers depend on: weights, options, code that may change."""

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (layers, tokens, dim), no gradients."""


def dim_of(source: FrozenSource) -> int:
    """The width of each layer: that of the widest."""
    return max(source.widths)


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
