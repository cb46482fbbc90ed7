"""Trainable masked LM: the weights of a `MaskedLm` with gradients, and the output layer that it shares with a biLM."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmo.masked.model import MaskedLm, random_masked
from elmo.masked.options import MaskedOptions
from elmo.pretrain.model.softmax import OutputLayer


class MaskedLanguageModel(nn.Module):
    """A masked LM and its output layer, with gradients."""

    def __init__(self, core: MaskedLm, output: OutputLayer) -> None:
        super().__init__()
        self.core = core.requires_grad_()
        self.output = output

    @classmethod
    def random(cls, options: MaskedOptions, n_words: int, seed: int) -> MaskedLanguageModel:
        """An untrained model; equal for equal seeds."""
        return cls(random_masked(options, seed), OutputLayer.random(n_words, options.output_dim, seed))

    def hidden(self, vectors: Tensor, inputs: Tensor, places: Tensor, dropout: float) -> Tensor:
        """What the output layer reads for each target, (targets, output_dim).

        Args:
            vectors: of the distinct words, (types, dim); their precision is that of all products.
            inputs: indices into `vectors`, len(vectors) for a masked word, one more for padding, (sentences, steps).
            places: of the targets in the flat inputs, (targets,).
            dropout: see `MaskedLm.layers`.
        """
        # Single precision: the gradient of a frequent word is a sum over thousands of positions.
        mask, nothing = self.core.mask[None], torch.zeros_like(self.core.mask)[None]
        table = torch.cat([vectors.float(), mask, nothing])
        x = table.index_select(0, inputs.flatten())
        n_sentences, steps = inputs.shape
        there = inputs <= len(vectors)
        *_, top = self.core.layers(x, [(n_sentences, steps)], there, vectors.dtype, dropout)
        return self.core.hidden(top.index_select(0, places), vectors.dtype)
