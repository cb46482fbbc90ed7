"""Masked loss: how well a masked LM predicts the words of a text, each once.

It is minus the mean natural log probability of every word among all words of the vocabulary, given the words around it.
A sentence is read seven times; each time every seventh of its words is masked (14 %, about as many as in training), and
nothing else is changed. It is not a biLM's perplexity: a word is predicted from both sides, but next to other masked
words, and ends of sentences are not predicted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from elmo.common.errors import InputError
from elmo.common.progress import Meter
from elmo.pretrain.model.language_model import word_vectors
from elmo.pretrain.model.masked_model import MaskedLanguageModel
from elmo.pretrain.training.batches import BatchPlan, Text
from elmo.pretrain.training.masked_batches import MARKS, MaskedBatcher

STRIDE = 7
TERMS = f"full softmax, every word predicted once, one in {STRIDE} masked at a time, cased, <UNK> predicted"
TOKENS_AT_ONCE = 16_384


@dataclass(frozen=True)
class MaskedLoss:
    """The masked loss of a text.

    Attributes:
        masked_loss: nats a word.
        tokens: predictions.
        unknown_rate: share of words that were <UNK>.
        vocabulary: number of words in the softmax.
    """

    kind: ClassVar[str] = "masked loss"
    columns: ClassVar[tuple[str, ...]] = ("masked_loss",)

    masked_loss: float
    tokens: int
    unknown_rate: float
    vocabulary: int

    @property
    def mean(self) -> float:
        """The value."""
        return self.masked_loss

    @property
    def short(self) -> str:
        """The value in a few words."""
        return f"masked loss {self.masked_loss:.3f}"

    def __str__(self) -> str:
        return (
            f"masked loss {self.masked_loss:.3f} nats a word, exp {math.exp(min(self.masked_loss, 700)):.2f} "
            f"({self.tokens:,} predictions; {TERMS} at {100 * self.unknown_rate:.2f} % of words, "
            f"vocabulary of {self.vocabulary:,})"
        )


@torch.no_grad()
def masked_loss(
    model: MaskedLanguageModel, text: Text, dtype: torch.dtype = torch.float32, meter: Meter | None = None
) -> MaskedLoss:
    """The masked loss of a text under a model, on the model's device.

    Args:
        model: the masked LM and its output layer.
        text: to predict.
        dtype: of the transformer's products; the output layer is always in single precision.
        meter: for progress, by words and ends of sentences (`text.predictions` in all).
    """
    if not len(text.sentences.tokens):
        raise InputError("a masked loss needs at least one word, found none; give more text")
    device = model.core.device
    plan = BatchPlan(text.sentences, TOKENS_AT_ONCE, seed=None, marks=MARKS)
    batcher = MaskedBatcher(plan, text.spelling, text.n_targets)
    total, tokens = torch.zeros((), dtype=torch.float64, device=device), 0
    for step in range(len(plan)):
        for first in range(STRIDE):
            batch = batcher.every(step, STRIDE, first)
            if not batch.predictions:  # all sentences are shorter
                continue
            spelled = torch.from_numpy(text.spelling.ids[batch.types]).to(device)
            parts = (batch.types, batch.inputs, batch.places, batch.targets)
            types, inputs, places, targets = (torch.from_numpy(part).to(device) for part in parts)
            vectors = word_vectors(model.core, types, spelled, batch.profile, dtype)
            hidden = model.hidden(vectors, inputs, places, dropout=0.0)
            total -= model.output.log_likelihood(hidden, targets).sum(dtype=torch.float64)
            tokens += batch.predictions
        if meter is not None:
            meter.advance(batch.tokens, batch.tokens)
    return MaskedLoss(float(total) / tokens, tokens, text.unknown_rate, text.n_targets)
