"""The Elmo module: mixed layers of a frozen representation, one mix for each place in a model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.sentences import Sentence, check_sentences, padded
from elmo.common.device import upload
from elmo.common.errors import InputError
from elmo.mix import LayerChoice, ScalarMix
from elmo.sources.source import FrozenSource, dim_of


@dataclass(frozen=True)
class ElmoOutput:
    """The vectors of a batch.

    Attributes:
        places: one tensor for each place, (batch, tokens, dim), zero at padding.
        mask: where there are tokens, (batch, tokens).
    """

    places: dict[str, Tensor]
    mask: Tensor


class Elmo(nn.Module):
    """ELMo_k for one or more places in a model: the representation runs once, and each place learns its own mix.

    Args:
        source: the frozen layers, such as a `Bilm`.
        places: names of the places, such as "input" and "output".
        layers: see `ScalarMix`.
        layer_norm: see `ScalarMix`.
        l2: lambda of the paper, see `ScalarMix`.
        dropout: share of values dropped after mixing; 0 if the next layer of the model already has dropout.

    Raises:
        InputError: `places` is a string, whose letters would become places.
    """

    def __init__(
        self,
        source: FrozenSource,
        places: Sequence[str] = ("input",),
        layers: LayerChoice = "mix",
        layer_norm: bool = False,
        l2: float = 0.001,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if isinstance(places, str):
            raise InputError(f"places: expected a list of names, such as [{places!r}], found the text {places!r}")
        self.source = source
        self.mixes = nn.ModuleDict({place: ScalarMix(len(source.widths), layers, layer_norm, l2) for place in places})
        self.dropout = nn.Dropout(dropout)

    @property
    def dim(self) -> int:
        """Width of each place's vectors."""
        return dim_of(self.source)

    def forward(self, sentences: Sequence[Sentence]) -> ElmoOutput:
        """The mixed vectors of each place for a batch of sentences, each a list of words."""
        check_sentences(sentences)
        layers = padded(self.source.token_layers(sentences), sentences)  # (n_layers, batch, tokens, dim)
        lengths = upload(np.array([len(sentence) for sentence in sentences], dtype=np.int64), layers.device)
        mask = torch.arange(layers.shape[2], device=layers.device) < lengths[:, None]  # (batch, tokens)
        return ElmoOutput(self.mixed(layers, mask), mask)

    def mixed(self, layers: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """The vectors of each place from given layers, (n_layers, batch, tokens, dim), and mask, (batch, tokens)."""
        return {place: self.dropout(mix(layers, mask)) for place, mix in self.mixes.items()}

    def penalty(self) -> Tensor:
        """The sum of the mixes' penalties, to be added to the loss."""
        penalties: list[Tensor] = [mix.penalty() for mix in self.mixes.values()]  # type: ignore[operator]
        return functools.reduce(torch.add, penalties)

    def weights(self) -> dict[str, dict[str, list[float] | float]]:
        """For each place the share of every layer and gamma: the cells of the paper's Figure 2."""
        return {
            place: {"layers": mix.weights(), "gamma": mix.gamma.item()}  # type: ignore[operator]
            for place, mix in self.mixes.items()
        }
