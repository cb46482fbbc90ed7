"""Controls: sources as wide as a trained biLM, with one property removed. `CONTROLS` lists them by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from elmo.bilm.model import Bilm, random_bilm
from elmo.bilm.options import SIZES
from elmo.bilm.sentences import Sentence
from elmo.bilm.weight_files import load_bilm
from elmo.names import SHIPPED, shipped_names
from elmo.sources.source import FrozenSource

CENTRING_TEXT = SHIPPED / "neighbours.txt"


def only_a_size(weights: str) -> bool:
    """Whether this names a size alone. Shipped weights of that name come first, with their shape and clipping."""
    return weights in SIZES and weights not in shipped_names()


def untrained(weights: str, draw: int) -> Bilm:
    """An untrained biLM of the same shape; its tokens are nearly all alike."""
    bilm = random_bilm(weights if only_a_size(weights) else load_bilm(weights).options, draw)
    bilm.remember_words()
    return bilm


def shuffled(weights: str, draw: int) -> Bilm:
    """The trained biLM with the values of each tensor permuted: it keeps their scale and nothing that it learned."""
    bilm = load_bilm(weights)
    generator = torch.Generator().manual_seed(draw)
    for _, tensor in sorted(bilm.state_dict().items()):
        order = torch.randperm(tensor.numel(), generator=generator)
        tensor.copy_(tensor.flatten()[order].view_as(tensor))
    bilm.remember_words()
    return bilm


def centred(weights: str, draw: int) -> Centred:
    """The untrained biLM minus its mean over a fixed text: without the part that all its tokens share."""
    return Centred(untrained(weights, draw), CENTRING_TEXT)


class Centred(nn.Module):
    """A source minus its mean over the tokens of a text, for each layer and dimension.

    Args:
        source: the layers.
        text: a file with one sentence per line, words split at whitespace; never the batch, so that a sentence keeps
            its vectors.
    """

    def __init__(self, source: Bilm, text: Path) -> None:
        super().__init__()
        self.source = source
        self._text = text.read_bytes()
        self._mean: Tensor | None = None  # computed on first use: a fingerprint does not need it

    @property
    def widths(self) -> tuple[int, ...]:
        """Those of the source: a layer with two equal halves has a mean with two equal halves, too."""
        return self.source.widths

    def fingerprint(self) -> str:
        """The sha256 of the source's fingerprint and of the text."""
        return hashlib.sha256(b"centred\0" + self.source.fingerprint().encode() + b"\0" + self._text).hexdigest()

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens minus the mean, (layers, tokens, dim)."""
        layers = self.source.token_layers(sentences)
        if self._mean is None:
            text = [line.split() for line in self._text.decode().splitlines()]
            self._mean = self.source.token_layers(text).double().mean(dim=1, keepdim=True)  # (layers, 1, dim)
        return layers - self._mean.to(layers)


CONTROLS: dict[str, Callable[[str, int], FrozenSource]] = {"shuffled": shuffled, "centred": centred}
