"""The SNLI head: ESIM, the enhanced sequential inference model (Chen et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmo.common import checks
from tasks.batch import Batch, FeatureBatch
from tasks.modules.layers import (
    BiRnn,
    OrthogonalLstm,
    VariationalDropout,
    XavierLinear,
    masked_max,
    masked_mean,
    masked_softmax,
    product,
)
from tasks.snli.data import LABELS
from tasks.task import Classifier


@dataclass
class EsimSettings:
    """The head's sizes: the width of each LSTM direction and of both ReLU layers, and the dropout of all layers.

    Attributes:
        hypothesis_only: whether every premise is replaced by a full stop: this measures what hypotheses alone predict.
    """

    hidden: int = 300
    dropout: float = 0.5
    hypothesis_only: bool = False

    def __post_init__(self) -> None:
        checks.width("task.hidden", self.hidden)
        checks.dropout("task.dropout", self.dropout)


def align(premise: Tensor, hypothesis: Tensor, premise_mask: Tensor, hypothesis_mask: Tensor) -> tuple[Tensor, Tensor]:
    """For each token the mean of the other sentence's tokens, weighted by dot products.

    Args:
        premise: (batch, tokens of the premise, dim).
        hypothesis: (batch, tokens of the hypothesis, dim).
        premise_mask: true for tokens of the premise.
        hypothesis_mask: true for tokens of the hypothesis.

    Returns:
        A tensor of the premise's shape and one of the hypothesis's shape.
    """
    similarity = product(premise, hypothesis.transpose(1, 2))  # (batch, tokens of premise, tokens of hypothesis)
    for_premise = product(masked_softmax(similarity, hypothesis_mask[:, None, :]), hypothesis)
    for_hypothesis = product(masked_softmax(similarity.transpose(1, 2), premise_mask[:, None, :]), premise)
    return for_premise, for_hypothesis


def enhance(own: Tensor, found: Tensor) -> Tensor:
    """The local inference of each token, [a; b; a - b; a * b]: (batch, tokens, dim) twice -> (..., 4 * dim)."""
    return torch.cat([own, found, own - found, own * found], dim=-1)


class Esim(Classifier):
    """Encodes both sentences, aligns their tokens, composes the aligned vectors, pools, and classifies.

    The output features join the encoder's output before the alignment, so that the attention compares the contextual
    vectors themselves. The paper does so for tasks with attention over the encoder.
    """

    def __init__(self, settings: EsimSettings, input_dim: int, output_dim: int) -> None:
        super().__init__()
        hidden = settings.hidden
        self.input_dropout = VariationalDropout(settings.dropout)
        self.encoder = BiRnn(input_dim, hidden, cell=OrthogonalLstm)
        self.projection = nn.Sequential(XavierLinear(4 * (self.encoder.output_dim + output_dim), hidden), nn.ReLU())
        self.composition = BiRnn(hidden, hidden, cell=OrthogonalLstm)
        self.classifier = nn.Sequential(
            nn.Dropout(settings.dropout),
            XavierLinear(4 * self.composition.output_dim, hidden),
            nn.ReLU(),
            nn.Dropout(settings.dropout),
            XavierLinear(hidden, len(LABELS)),
        )

    def _encode(self, texts: Sequence[FeatureBatch]) -> list[Tensor]:
        """[h_k; ELMo_k] of each token of each text, (batch, tokens, 2 * hidden + output_dim)."""
        states = self.encoder.together([(self.input_dropout(text.input), text.lengths) for text in texts])
        return [torch.cat([own, text.output], dim=-1) for own, text in zip(states, texts, strict=True)]

    def _compose(self, texts: Sequence[FeatureBatch], inferences: Sequence[Tensor]) -> list[Tensor]:
        """Mean and maximum over the tokens of each text, (batch, 4 * hidden), from its `enhance`d alignment."""
        dropped = [self.input_dropout(self.projection(own)) for own in inferences]  # (batch, tokens, hidden) each
        composed = self.composition.together([(x, text.lengths) for x, text in zip(dropped, texts, strict=True)])
        return [
            torch.cat([masked_mean(states, text.mask), masked_max(states, text.mask)], dim=-1)
            for states, text in zip(composed, texts, strict=True)
        ]

    def logits(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The scores of the labels, (batch, 3), from the features of premises and hypotheses."""
        premise, hypothesis = features
        a, b = self._encode(features)
        for_a, for_b = align(a, b, premise.mask, hypothesis.mask)
        pooled = self._compose(features, [enhance(a, for_a), enhance(b, for_b)])
        scores: Tensor = self.classifier(torch.cat(pooled, dim=-1))
        return scores.float()

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The cross entropy of the gold labels, a mean over the batch."""
        return nn.functional.cross_entropy(self.logits(features, batch), batch.targets["labels"])

    def choose(self, logits: Tensor) -> list[str]:
        """The best label of each pair."""
        return [LABELS[number] for number in logits.argmax(dim=-1).tolist()]

    def pairs(self, lengths: Sequence[int]) -> int:
        """Those of the premise with the hypothesis."""
        return lengths[0] * lengths[1]
