"""Objectives of pretraining: what a model predicts, from which batches, and how that is measured on held-out text.

A forward LM predicts the next word, a biLM the next word in both directions, a masked LM hidden words, each with either
network. The rest of a run is the same.

Perplexity of the first two: for each direction it is exp of minus the mean natural log probability of every word and of
the end of every sentence (forward: of w1 .. wn and </S>, each given the words to its left; backward: of wn .. w1 and
one end mark, each given the words to its right), among all words of the vocabulary. Each sentence is read from a zero
state. Words are cased. A word outside the vocabulary counts as a prediction of <UNK>. The rate of such words is
printed too, because a small vocabulary makes the task easier.

Masked loss: minus the mean natural log probability of every word among all words of the vocabulary, given the words
around it. A sentence is read seven times; each time every seventh of its words is masked (14 %, about as many as in
training), and nothing else is changed. It is not a biLM's perplexity: a word is predicted from both sides, but next to
other masked words, and ends of sentences are not predicted.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from elmo.common.errors import InputError
from elmo.common.progress import Meter
from elmo.pretrain.batches import IGNORED, MASKED_STRIDE, Batches, ForwardBatches, JoinedBatches, MaskedBatches, Text
from elmo.pretrain.language_model import LanguageModel

TOKENS_AT_ONCE = 16_384  # when text is measured

# Measured values of a text: the objective's columns, then tokens (predictions of each column), unknown_rate (share of
# words that were <UNK>) and vocabulary (words in the softmax).
Measured = dict[str, float]


class Objective(ABC):
    """An objective of pretraining.

    Attributes:
        title: of the model, for cards and messages.
        kind: what is measured; with _ for blanks its name in finished.json.
        columns: names of the measured values, one for each direction of reading.
        terms: how it is measured.
        batches: the class of its batches.
    """

    title: ClassVar[str]
    kind: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    terms: ClassVar[str]
    batches: ClassVar[type[Batches]]

    @abstractmethod
    def values(self, losses: Tensor) -> Tensor:
        """The measured value of each column, from the mean losses in nats."""

    @abstractmethod
    def figures(self, measured: Measured) -> dict[str, str]:
        """The displayed values of a measured text, by headings."""

    @torch.no_grad()
    def measure(
        self, model: LanguageModel, text: Text, dtype: torch.dtype = torch.float32, meter: Meter | None = None
    ) -> Measured:
        """Measures a model on a text, on the model's device.

        Args:
            model: of this objective.
            text: to predict.
            dtype: of the network's products; the output layer is always in single precision.
            meter: for progress, by words and ends of sentences (`text.predictions` in all).
        """
        if not len(text.sentences.tokens):
            raise InputError(f"{self.kind}: expected a text of at least one word, found none; give more text")
        device, columns = model.core.device, len(self.columns)
        batches = self.batches(text, TOKENS_AT_ONCE, seed=None)
        spelled = torch.from_numpy(text.spelling.ids).to(device)
        losses, predictions = torch.zeros(columns, dtype=torch.float64, device=device), 0
        for batch in (batch for step in range(len(batches)) for batch in batches.measured(step)):
            hidden, targets = model.hidden(batch, spelled, dtype)
            for column, (read, wanted) in enumerate(zip(hidden.chunk(columns), targets.chunk(columns), strict=True)):
                there = wanted != IGNORED
                losses[column] -= model.output.log_likelihood(read[there], wanted[there]).sum(dtype=torch.float64)
            predictions += batch.predictions
            if meter is not None:
                meter.advance(batch.tokens, batch.tokens)
        tokens = predictions // columns
        values = dict(zip(self.columns, self.values(losses / tokens).tolist(), strict=True))
        return values | {"tokens": tokens, "unknown_rate": text.unknown_rate, "vocabulary": text.n_targets}

    def describe(self, measured: Measured) -> str:
        """All that was measured, in a line."""
        return (
            f"{self.brief(measured)} ({measured['tokens']:,} predictions; {self.terms} at "
            f"{measured['unknown_rate']:.2%} of words, vocabulary of {measured['vocabulary']:,})"
        )

    def brief(self, measured: Measured) -> str:
        """The measured values."""
        return f"{self.kind} {', '.join(f'{name} {figure}' for name, figure in self.figures(measured).items())}"


class NextWords(Objective):
    """A biLM: the next word in both directions."""

    title, kind = "biLM", "perplexity"
    columns: ClassVar[tuple[str, ...]] = ("forward", "backward")
    terms = "full softmax, each sentence from a zero state, cased, </S> predicted, <UNK> predicted"
    batches = JoinedBatches

    def values(self, losses: Tensor) -> Tensor:
        """Perplexities."""
        return losses.exp()

    def figures(self, measured: Measured) -> dict[str, str]:
        """The perplexity of each direction, and of two their arithmetic mean."""
        shown = {name: measured[name] for name in self.columns}
        if len(shown) > 1:
            shown["mean"] = sum(shown.values()) / len(shown)
        return {name: f"{value:.2f}" for name, value in shown.items()}


class NextWord(NextWords):
    """A forward LM: the next word in the direction of reading."""

    title, columns, batches = "forward LM", ("forward",), ForwardBatches


class MaskedWords(Objective):
    """A masked LM: words that are hidden."""

    title, kind, columns = "masked LM", "masked loss", ("masked_loss",)
    terms = f"full softmax, every word predicted once, one in {MASKED_STRIDE} masked at a time, cased, <UNK> predicted"
    batches = MaskedBatches

    def values(self, losses: Tensor) -> Tensor:
        """Nats a word."""
        return losses

    def figures(self, measured: Measured) -> dict[str, str]:
        """The loss, and exp of it."""
        loss = measured["masked_loss"]
        return {"nats a word": f"{loss:.3f}", "exp of it": f"{math.exp(min(loss, 700)):.2f}"}


OBJECTIVES: dict[str, Objective] = {"forward": NextWord(), "joined": NextWords(), "masked": MaskedWords()}


def objective_of(model: LanguageModel) -> Objective:
    """The objective of a trained model."""
    return OBJECTIVES[model.core.options.objective]
