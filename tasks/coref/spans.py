"""Spans: their representations and mention scores, and pruning to the best ones that do not cross.

A document has up to tokens * width candidates, so nothing as wide as a representation is computed for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tasks.modules.layers import masked_softmax, product

Span = tuple[int, int]  # first token and the one after the last, in the document
Chains = tuple[tuple[Span, ...], ...]  # of a document: each sorted, and all in the order of their first spans
CANDIDATES_AT_ONCE = 1 << 13


@dataclass(frozen=True)
class EncodedDocument:
    """The tokens of one document as vectors.

    Attributes:
        vectors: the features at the input, [x_k; ELMo_k], (tokens, input width).
        states: of the BiLSTM, (tokens, state width).
        sentence_ends: the number of the last token of each token's sentence, (tokens,).
        speakers: the number of each token's speaker, (tokens,).
        genre: the document's genre, ().
        chain_of: the gold mentions and the number of their chain, from 1.
    """

    vectors: Tensor
    states: Tensor
    sentence_ends: Tensor
    speakers: Tensor
    genre: Tensor
    chain_of: dict[Span, int]


class Scorer(nn.Module):
    """One score for each vector, by two hidden layers with ReLU and dropout.

    The first layer is a sum over the parts of the vector. The caller may therefore apply it to each part on its own,
    before there are as many vectors as pairs or candidates.

    Args:
        widths: of the parts.
        hidden: width of both hidden layers.
        dropout: after each of them.
    """

    def __init__(self, widths: Sequence[int], hidden: int, dropout: float) -> None:
        super().__init__()
        self._widths = list(widths)
        self.first = nn.Linear(sum(widths), hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 1)
        self.dropout = nn.Dropout(dropout)

    def part_weights(self) -> list[Tensor]:
        """The weights of the first layer on each part, (width, hidden)."""
        return [weight.t() for weight in torch.split(self.first.weight, self._widths, dim=1)]

    def after_first(self, hidden: Tensor) -> Tensor:
        """The scores, given the output of the first layer: (..., hidden) -> (...)."""
        for layer in (self.second, self.last):
            hidden = layer(self.dropout(torch.relu(hidden)))
        return hidden.squeeze(-1)

    def forward(self, vectors: Tensor) -> Tensor:
        """The scores of whole vectors: (..., sum of widths) -> (...)."""
        return self.after_first(self.first(vectors))


class Spans(nn.Module):
    """Represents spans as [state of the first token; of the last token; soft head; width], and scores them as mentions.

    The soft head is the mean of the span's input vectors, weighted by a softmax over its tokens.

    Args:
        input_dim: width of a token's input vector.
        state_dim: width of its state.
        longest: tokens of the widest candidate.
        feature_dim: width of the embedding of a span's width.
        hidden: width of the scorer's layers.
        dropout: of that embedding, and in the scorer.
    """

    def __init__(
        self, input_dim: int, state_dim: int, longest: int, feature_dim: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.longest = longest
        self.attention = nn.Linear(state_dim, 1, bias=False)
        self.width = nn.Embedding(longest, feature_dim)
        self.dropout = nn.Dropout(dropout)
        widths = (state_dim, state_dim, input_dim, feature_dim)
        self.scorer = Scorer(widths, hidden, dropout)
        self.output_dim = sum(widths)

    def forward(self, document: EncodedDocument, spans: Sequence[Span]) -> Tensor:
        """The representations of some spans, (spans, output_dim)."""
        numbers = torch.tensor(spans, dtype=torch.long).view(-1, 2).to(document.states.device)
        starts, lasts = numbers[:, 0], numbers[:, 1] - 1
        covered = (self._window(starts) <= lasts.unsqueeze(1)).unsqueeze(1)  # (spans, 1, longest)
        logits = self.attention(document.states).squeeze(-1)  # (tokens,)
        heads = self._heads(document.vectors, logits, starts, covered).squeeze(1)  # (spans, input_dim)
        states = nn.functional.embedding(numbers - numbers.new_tensor([0, 1]), document.states)  # (spans, 2, state_dim)
        widths = self.dropout(self.width(lasts - starts))  # (spans, feature_dim)
        return torch.cat([states.flatten(1), heads, widths], dim=1)

    @torch.no_grad()
    def candidate_scores(self, document: EncodedDocument, at_once: int = CANDIDATES_AT_ONCE) -> Tensor:
        """The mention scores of all candidates, -inf where a span would leave its sentence.

        They rank the candidates. Those that are kept are scored again, with gradients.

        Args:
            document: the document.
            at_once: candidates to compute at a time; bounds the memory.

        Returns:
            The score by first token and by width less 1, (tokens, longest).
        """
        states = document.states
        of_first, of_last, of_head, of_width = self.scorer.part_weights()
        first = states @ of_first + self.scorer.first.bias  # (tokens, hidden), as the next two
        last, head = states @ of_last, document.vectors @ of_head
        width = self.dropout(self.width.weight) @ of_width  # (longest, hidden)
        logits = self.attention(states).squeeze(-1)  # (tokens,)
        covered = torch.ones(self.longest, self.longest, dtype=torch.bool, device=states.device).tril()
        tokens = torch.arange(len(states), device=states.device)
        scores = []
        for starts in torch.split(tokens, max(1, at_once // self.longest)):
            heads = self._heads(head, logits, starts, covered)  # (starts, longest, hidden)
            lasts = self._window(starts).clamp(max=len(states) - 1)  # (starts, longest)
            scores.append(self.scorer.after_first(first[starts].unsqueeze(1) + last[lasts] + heads + width))
        outside = self._window(tokens) > document.sentence_ends.unsqueeze(1)  # (tokens, longest)
        return torch.cat(scores).float().masked_fill(outside, float("-inf"))

    def _window(self, starts: Tensor) -> Tensor:
        """The numbers of `longest` tokens from each start on, which may be more than there are: (starts, longest)."""
        return starts.unsqueeze(1) + torch.arange(self.longest, device=starts.device)

    def _heads(self, vectors: Tensor, logits: Tensor, starts: Tensor, covered: Tensor) -> Tensor:
        """The soft heads of spans, one or more from each start.

        Args:
            vectors: of all tokens, (tokens, dim).
            logits: their attention scores, (tokens,).
            starts: first tokens, (starts,).
            covered: which tokens of the window from a start each span has, (starts or 1, spans, longest).

        Returns:
            Vectors, (starts, spans, dim).
        """
        window = self._window(starts).clamp(max=len(vectors) - 1)
        weights = masked_softmax(logits[window].unsqueeze(1), covered)  # (starts, spans, longest)
        return product(weights, nn.functional.embedding(window, vectors))


def prune(scores: np.ndarray, most: int) -> list[Span]:
    """The spans with the best scores that do not cross, in the order of the document.

    Spans are taken in the order of their scores (Lee et al. 2017). One that crosses a span taken before it, so that
    each has a token of its own and they share one, is left out; a span within another is not.

    Args:
        scores: by first token and by width less 1, -inf for what is no span, (tokens, longest).
        most: spans to keep at most.
    """
    tokens, longest = scores.shape
    # A NaN ranks as 0, so that it reaches the loss, where the trainer reports it.
    ranked = np.nan_to_num(scores, nan=0.0, neginf=-np.inf).ravel()
    order = np.argsort(-ranked, kind="stable")[: np.count_nonzero(ranked > -np.inf)]
    furthest_last = [-1] * tokens  # of the spans taken, by their first token
    earliest_start = [tokens] * tokens  # of the spans taken, by their last token
    taken: list[Span] = []
    for candidate in order.tolist():
        if len(taken) == most:
            break
        start, more = divmod(candidate, longest)
        last = start + more
        if max(furthest_last[start + 1 : last + 1], default=-1) > last:
            continue
        if min(earliest_start[start:last], default=tokens) < start:
            continue
        furthest_last[start] = max(furthest_last[start], last)
        earliest_start[last] = min(earliest_start[last], start)
        taken.append((start, last + 1))
    return sorted(taken)
