"""The interfaces of sources: `FrozenSource` for frozen layers, `TunableSource` for tuned ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from elmo.bilm.sentences import Sentence


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


@runtime_checkable
class TunableSource(FrozenSource, Protocol):
    """A source that a task can tune: while its parameters require gradients, its layers have them."""

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """All parameters, layer by layer, bottom first: lower layers are tuned later and with lower rates."""


def dim_of(source: FrozenSource) -> int:
    """The width of each layer: that of the widest."""
    return max(source.widths)
