"""The SQuAD head: BiDAF with self-attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmo.common import checks
from tasks.batch import Batch, FeatureBatch
from tasks.modules.layers import BiRnn, VariationalDropout
from tasks.squad.attention import BiAttention, SelfAttention
from tasks.task import Answer, Head

IMPOSSIBLE = -1e30  # the score of padding; finite, so that products with zero are not NaN


@dataclass
class SquadSettings:
    """The head's sizes: GRU width per direction, variational dropout, and the longest answer in tokens at test."""

    hidden: int = 90
    dropout: float = 0.2
    longest: int = 17

    def __post_init__(self) -> None:
        checks.width("task.hidden", self.hidden)
        checks.at_least(1, "task.longest", self.longest)
        checks.dropout("task.dropout", self.dropout)


class BidafSelfAttention(Head):
    """Encodes question and passage with one BiGRU and joins them by attention. Predicts spans of passage tokens.

    A span is (first token, one past the last). ELMo's output vectors join the shared BiGRU's, before any attention, so
    that the model can attend to them.
    """

    def __init__(self, settings: SquadSettings, input_dim: int, output_dim: int) -> None:
        super().__init__()
        hidden, dim = settings.hidden, 2 * settings.hidden
        self.longest = settings.longest
        self.dropout = VariationalDropout(settings.dropout)
        self.encoder = BiRnn(input_dim, hidden, cell=nn.GRU)
        self.attention = BiAttention(dim + output_dim)
        self.joined = nn.Linear(self.attention.output_dim, dim)
        self.matcher = BiRnn(dim, hidden, cell=nn.GRU)
        self.self_attention = SelfAttention(dim)
        self.matched = nn.Linear(self.self_attention.output_dim, dim)
        self.start_reader = BiRnn(dim, hidden, cell=nn.GRU)
        self.start = nn.Linear(dim, 1, bias=False)  # a bias would cancel in the softmax over tokens
        self.end_reader = BiRnn(2 * dim, hidden, cell=nn.GRU)
        self.end = nn.Linear(dim, 1, bias=False)

    def _encode(self, text: FeatureBatch) -> Tensor:
        """[h; ELMo] of a text, (batch, tokens, 2 * hidden + output_dim)."""
        states = self.encoder(self.dropout(text.input), text.lengths)
        return torch.cat([self.dropout(states), text.output], dim=-1)

    def _scores(self, features: Sequence[FeatureBatch]) -> tuple[Tensor, Tensor]:
        """Scores of each token as the first and as the last of the answer, each (batch, tokens)."""
        passage, question = features
        lengths, mask = passage.lengths, passage.mask
        joined = self.attention(self._encode(passage), self._encode(question), mask, question.mask)
        x = torch.relu(self.joined(joined))  # (batch, tokens, 2 * hidden)
        states = self.dropout(self.matcher(self.dropout(x), lengths))
        x = self.dropout(x + torch.relu(self.matched(self.self_attention(states, mask))))
        starting = self.start_reader(x, lengths)
        ending = self.end_reader(torch.cat([x, starting], dim=-1), lengths)
        start, end = self.start(starting).squeeze(-1).float(), self.end(ending).squeeze(-1).float()
        return start.masked_fill(~mask, IMPOSSIBLE), end.masked_fill(~mask, IMPOSSIBLE)

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """-log of the probability of the gold starts, and of the gold ends, summed over all occurrences.

        If an answer occurs more than once, the probability may be on any of the occurrences.
        """
        start, end = self._scores(features)
        meant = batch.targets["meant"]  # (batch, places)
        losses = [
            nn.functional.log_softmax(scores, dim=1)
            .gather(1, batch.targets[name])
            .masked_fill(~meant, float("-inf"))
            .logsumexp(dim=1)
            for name, scores in (("starts", start), ("ends", end))
        ]
        return -torch.stack(losses).sum(dim=0).mean()

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[tuple[int, int]]:
        """The most probable span of at most `longest` tokens of each passage."""
        return [span for span, _ in self.decode_with_probabilities(features, batch)]

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The spans, each with the probability of its first token times that of its last."""
        scores = self._scores(features)
        ends = best_spans(*scores, self.longest)
        shares = [own.softmax(dim=1).gather(1, at.unsqueeze(1)) for own, at in zip(scores, ends, strict=True)]
        spans = zip(ends[0].tolist(), (ends[1] + 1).tolist(), strict=True)
        return list(zip(spans, (shares[0] * shares[1]).tolist(), strict=True))

    def pairs(self, lengths: Sequence[int]) -> int:
        """Those of the passage with itself and with the question."""
        return lengths[0] * sum(lengths)


def best_spans(start: Tensor, end: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """First and last tokens whose scores have the greatest sum, of spans of 1 to `longest` tokens: each (batch,)."""
    padded = nn.functional.pad(end, (0, longest - 1), value=float("-inf"))
    sums = start[..., None] + padded.unfold(1, longest, 1)  # (batch, tokens, longest)
    best = sums.flatten(1).argmax(dim=1)
    first = best // longest
    return first, first + best % longest
