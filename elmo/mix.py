"""The scalar mix, gamma * sum_j softmax(s)_j h_j: a learned weighting of a biLM's layers."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from elmo.common.errors import InputError

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
        shares: list[float] = torch.softmax(self.scalars.detach(), dim=0).tolist()
        return shares

    def penalty(self) -> Tensor:
        """l2 * sum(s^2) over the raw weights alone: gamma is never penalised."""
        if self.scalars is None:
            return self.gamma.new_zeros(())
        return self.l2 * self.scalars.square().sum()


def _normalised(layer: Tensor, mask: Tensor) -> Tensor:
    """One layer with mean 0 and variance 1 over the unmasked tokens x dims of the batch; padding stays zero."""
    inside = mask.unsqueeze(-1).to(layer.dtype)  # (batch, tokens, 1)
    n = (inside.sum() * layer.shape[-1]).clamp(min=1)
    mean = (layer * inside).sum() / n
    variance = ((layer - mean) * inside).square().sum() / n
    return (layer - mean) * inside / torch.sqrt(variance + 1e-12)
