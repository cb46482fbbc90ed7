"""The SQuAD head: BiDAF with self-attention (Seo et al. 2017; Clark and Gardner 2018).

All similarities are tri-linear: w1.x + w2.y + w3.(x * y). The last term is computed as (w3 * x) y^T, so that nothing
larger than one number for each pair of tokens is kept: memory is bounded by batch * tokens * tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tasks.modules.layers import BiRnn, VariationalDropout, masked_softmax, product
from tasks.settings import AtLeastOne, Dropout, Width
from tasks.task import Answer, Batch, FeatureBatch, Head

IMPOSSIBLE = -1e30  # the score of padding; finite, so that products with zero are not NaN


@dataclass
class SquadSettings:
    """The head's sizes: GRU width per direction, variational dropout, and the longest answer in tokens at test."""

    hidden: Width = 90
    dropout: Dropout = 0.2
    longest: AtLeastOne = 17


class Trilinear(nn.Module):
    """The similarity of each token of one text to each of another.

    There is no bias: it cancels in a softmax over tokens, and together with a null score it would be redundant.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.empty(3, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights again, as a linear layer over [x; y; x * y] would."""
        bound = (3 * self.weights.shape[1]) ** -0.5
        nn.init.uniform_(self.weights, -bound, bound)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(batch, m, dim), (batch, n, dim) -> (batch, m, n)."""
        of_x, of_y, of_both = self.weights
        # The terms of one text are extra columns of the product: baddbmm would need one more (batch, m, n).
        left = torch.cat([x * of_both, (x @ of_x)[..., None], torch.ones_like(x[..., :1])], dim=-1)
        right = torch.cat([y, torch.ones_like(y[..., :1]), (y @ of_y)[..., None]], dim=-1)
        return product(left, right.transpose(1, 2))


class BiAttention(nn.Module):
    """Attention from each token of the passage to the question, and from the question to the passage."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = Trilinear(dim)
        self.output_dim = 4 * dim

    def forward(self, passage: Tensor, question: Tensor, passage_mask: Tensor, question_mask: Tensor) -> Tensor:
        """[x; a; x * a; x * c] with c one vector per passage, (batch, tokens, 4 * dim)."""
        similarity = self.similarity(passage, question)  # (batch, tokens, words)
        attended = product(masked_softmax(similarity, question_mask[:, None]), question)  # (batch, tokens, dim)
        closest = similarity.masked_fill(~question_mask[:, None], torch.finfo(similarity.dtype).min).amax(dim=2)
        wanted = product(masked_softmax(closest, passage_mask)[:, None], passage)  # (batch, 1, dim)
        return torch.cat([passage, attended, passage * attended, passage * wanted], dim=-1)


class SelfAttention(nn.Module):
    """Attention from each token to the other tokens of its passage, or to nothing.

    `null` is the score of nothing: its share of the attention goes to no token.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = Trilinear(dim)
        self.null = nn.Parameter(torch.empty(1))
        self.output_dim = 3 * dim
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the null score to its initial value."""
        nn.init.constant_(self.null, -1.0)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[a; x; a * x], (batch, tokens, 3 * dim)."""
        scores = self.similarity(x, x)  # (batch, tokens, tokens)
        hidden = ~mask[:, None] | torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(hidden, float("-inf"))
        null = self.null.to(scores.dtype).expand(*scores.shape[:2], 1)
        shares = torch.softmax(torch.cat([scores, null], dim=2), dim=2)[..., :-1]
        attended = product(shares, x)  # (batch, tokens, dim)
        return torch.cat([attended, x, attended * x], dim=-1)


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
