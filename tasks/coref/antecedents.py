"""Antecedents: scores of pairs of spans, the marginal likelihood of the gold ones, and chains from the best ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tasks.coref.spans import Chains, Scorer, Span

# The distance of two spans, counted in spans: 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more.
BUCKET_STARTS = (1, 2, 3, 4, 5, 8, 16, 32, 64)
VALUES_AT_ONCE = 1 << 23  # numbers in the largest tensor; 32 MB


class Antecedents(nn.Module):
    """Scores each span with each of the spans before it: s(i, j) = s_m(i) + s_m(j) + s_a(i, j).

    s_a reads [g_i; g_j; g_i * g_j; distance; same speaker; genre]. For a document of 5,000 words these are 375,000
    vectors of a few thousand numbers. They are never joined: the scorer's first layer is applied to each part, and to
    the product as (W g_i) g_j, for a few spans i at a time, which are computed again in the backward pass.

    Args:
        span_dim: width of a span's representation.
        genres: number of genres.
        most: antecedents to consider of each span.
        feature_dim: width of the embeddings of distance, speaker and genre.
        hidden: width of the scorer's layers.
        dropout: of those embeddings, and in the scorer.
    """

    def __init__(self, span_dim: int, genres: int, most: int, feature_dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.most = most
        self.distance = nn.Embedding(len(BUCKET_STARTS), feature_dim)
        self.speaker = nn.Embedding(2, feature_dim)
        self.genre = nn.Embedding(genres, feature_dim)
        self.dropout = nn.Dropout(dropout)
        self.scorer = Scorer([span_dim] * 3 + [feature_dim] * 3, hidden, dropout)

    def forward(
        self, spans: Tensor, mention_scores: Tensor, speakers: Tensor, genre: Tensor, at_once: int | None = None
    ) -> Tensor:
        """The scores of the antecedents of each span.

        Args:
            spans: representations, in the order of the document, (spans, span_dim).
            mention_scores: s_m, (spans,).
            speakers: the number of each span's speaker, (spans,).
            genre: of the document, ().
            at_once: spans to compute at a time; by default so many that memory is bounded.

        Returns:
            Scores by distance, (spans, 1 + antecedents): column d of row i belongs to the span i - d, -inf if there is
            none. Column 0, the span itself, means no antecedent, and its score is 0.
        """
        count = len(spans)
        of_span, of_other, of_product, of_distance, of_speaker, of_genre = self.scorer.part_weights()
        own = spans @ of_span + self.scorer.first.bias + self.dropout(self.genre(genre)) @ of_genre  # (spans, hidden)
        other, by_product = spans @ of_other, of_product.t()  # (spans, hidden), (hidden, span_dim)
        distance = self.dropout(self.distance.weight) @ of_distance  # (buckets, hidden)
        speaker = self.dropout(self.speaker.weight) @ of_speaker  # (2, hidden), for other and same speaker
        most = min(self.most, max(count - 1, 1))

        def block(start: int, end: int) -> Tensor:
            """The scores of the antecedents of the spans from start to end, (end - start, antecedents)."""
            first = max(0, start - most)  # the first antecedent of any of them
            targets, others = slice(start, end), slice(first, end)
            numbers = torch.arange(first, end, device=spans.device)  # (others,)
            back = numbers[start - first :] - numbers.unsqueeze(1)  # (others, targets), the distances
            weighted = (spans[targets].unsqueeze(1) * by_product).flatten(0, 1)  # (targets * hidden, span_dim)
            joint = (spans[others] @ weighted.t()).view(*back.shape, -1)  # (others, targets, hidden)
            same = speakers[others].unsqueeze(1) == speakers[targets]  # (others, targets)
            of_pair = nn.functional.embedding(buckets(back), distance), nn.functional.embedding(same.long(), speaker)
            hidden = joint + own[targets] + other[others].unsqueeze(1) + of_pair[0] + of_pair[1]
            scores = self.scorer.after_first(hidden)  # (others, targets)
            scores = scores + mention_scores[targets] + mention_scores[others].unsqueeze(1)
            wanted = numbers[start - first :].unsqueeze(1) - torch.arange(1, most + 1, device=numbers.device)
            by_distance = scores.t().gather(1, (wanted - first).clamp(min=0))  # (targets, antecedents)
            return by_distance.masked_fill(wanted < 0, float("-inf"))

        edges = [*range(0, count, at_once or max(1, VALUES_AT_ONCE // of_product.numel())), count]
        again = torch.is_grad_enabled() and len(edges) > 2
        blocks = [checkpoint(block, *edge, use_reentrant=False) if again else block(*edge) for edge in pairwise(edges)]
        scores = torch.cat(blocks)  # (spans, antecedents)
        return torch.cat([scores.new_zeros(count, 1), scores], dim=1)


def buckets(distances: Tensor) -> Tensor:
    """The bucket of each distance; the first one for distances below 1."""
    starts = torch.tensor(BUCKET_STARTS, device=distances.device)
    return (torch.bucketize(distances, starts, right=True) - 1).clamp(min=0)


def marginal_loss(scores: Tensor, chains: Tensor) -> Tensor:
    """The negative log-likelihood that each span has one of its gold antecedents, or none if it has no gold one.

    Args:
        scores: of `Antecedents`, (spans, 1 + antecedents).
        chains: the number of each span's gold chain, 0 for none, (spans,).
    """
    back = torch.arange(scores.shape[1], device=scores.device)
    others = (torch.arange(len(scores), device=scores.device).unsqueeze(1) - back).clamp(min=0)
    right = (chains[others] == chains.unsqueeze(1)) & (chains > 0).unsqueeze(1) & (scores > float("-inf"))
    right[:, 0] = ~right[:, 1:].any(dim=1)
    likelihoods = scores.masked_fill(~right, float("-inf")).logsumexp(dim=1) - scores.logsumexp(dim=1)
    return -likelihoods.sum()


def chains_of(spans: Sequence[Span], best: Sequence[int], alone: Sequence[bool]) -> Chains:
    """The chains that follow from the best antecedents, in the order of their first spans.

    Args:
        spans: in the order of the document.
        best: how many spans back the best antecedent of each is, 0 for none.
        alone: whether a span that is in no chain is one on its own.
    """
    chains: list[list[int]] = []
    chain_of: list[list[int]] = []
    for number, back in enumerate(best):
        if back:
            chain = chain_of[number - back]
        else:
            chain = []
            chains.append(chain)
        chain.append(number)
        chain_of.append(chain)
    return tuple(tuple(spans[n] for n in chain) for chain in chains if len(chain) > 1 or alone[chain[0]])
