"""The scalar mix, gamma * sum_j softmax(s)_j h_j, and the Elmo module: one mix for each place in a model."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.sentences import Sentence, check_sentences, padded
from elmo.common.device import upload
from elmo.common.errors import InputError
from elmo.sources.source import FrozenSource, dim_of

LayerChoice = Literal["mix", "last"] | int


class ScalarMix(nn.Module):
    """Joins the layers of each token into one vector, by learned weights or by taking a single layer.

    Args:
        n_layers: number of input layers.
        layers: "mix" learns softmax weights, starting from a plain average; "last" is the top layer, a number
            that layer. gamma is learned in all three cases.
        layer_norm: whether each layer is first normalised over all tokens and dimensions of the batch, as bilm-tf
            does. A token's vector then depends on its batch.
        l2: strength of the penalty on the raw weights; a large one keeps the mix near the average.
    """

    def __init__(self, n_layers: int, layers: LayerChoice = "mix", layer_norm: bool = False, l2: float = 0.0) -> None:
        super().__init__()
        if layers not in ("mix", "last", *range(n_layers)):
            raise InputError(f"layers must be 'mix', 'last' or 0..{n_layers - 1}, found {layers!r}")
        self.chosen = n_layers - 1 if layers == "last" else layers
        self.n_layers = n_layers
        self.layer_norm = layer_norm
        self.l2 = l2
        self.gamma = nn.Parameter(torch.ones(()))
        # A single layer needs no scalars. As parameters they would never get a gradient.
        self.scalars = nn.Parameter(torch.zeros(n_layers)) if self.chosen == "mix" else None

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """The mixed layers: (n_layers, batch, tokens, dim), (batch, tokens) -> (batch, tokens, dim)."""
        if layers.shape[0] != self.n_layers:
            raise ValueError(f"this mix was made for {self.n_layers} layers, found {layers.shape[0]}")
        if self.scalars is None:
            layer = layers[self.chosen]  # type: ignore[index]
            return self.gamma * (_normalised(layer, mask) if self.layer_norm else layer)
        if self.layer_norm:
            layers = torch.stack([_normalised(layer, mask) for layer in layers])
        shares = self.gamma * torch.softmax(self.scalars, dim=0)
        return (shares @ layers.flatten(1)).view(layers.shape[1:])

    def weights(self) -> list[float]:
        """The share of each layer, summing to one."""
        if self.scalars is None:
            return [float(j == self.chosen) for j in range(self.n_layers)]
        return torch.softmax(self.scalars.detach(), dim=0).tolist()

    def penalty(self) -> Tensor:
        """l2 * sum(s^2) over the raw weights alone: gamma is never penalised."""
        if self.scalars is None:
            return self.gamma.new_zeros(())
        return self.l2 * self.scalars.square().sum()


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


def _normalised(layer: Tensor, mask: Tensor) -> Tensor:
    """One layer with mean 0 and variance 1 over the unmasked tokens x dims of the batch; padding stays zero."""
    inside = mask.unsqueeze(-1).to(layer.dtype)  # (batch, tokens, 1)
    n = (inside.sum() * layer.shape[-1]).clamp(min=1)
    mean = (layer * inside).sum() / n
    variance = ((layer - mean) * inside).square().sum() / n
    return (layer - mean) * inside / torch.sqrt(variance + 1e-12)
