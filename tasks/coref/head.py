"""The coreference head of Lee et al. 2017: scores spans, keeps the best, and links each to an earlier one.

A document has up to tokens * width candidates, so nothing as wide as a representation is computed for all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmo.common.checks import AtLeastOne, Dropout, Layers, NotNegative, Width
from elmo.common.errors import InputError
from tasks.modules.layers import BiRnn, masked_softmax, product
from tasks.task import Batch, FeatureBatch, Head

Span = tuple[int, int]  # first token and the one after the last, in the document
Chains = tuple[tuple[Span, ...], ...]  # of a document: each sorted, and all in the order of their first spans
CANDIDATES_AT_ONCE = 1 << 13
# The distance of two spans, counted in spans: 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more.
BUCKET_STARTS = (1, 2, 3, 4, 5, 8, 16, 32, 64)
VALUES_AT_ONCE = 1 << 23  # numbers in the largest tensor; 32 MB


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
        each = spans @ of_span + self.scorer.first.bias + self.dropout(self.genre(genre)) @ of_genre  # (spans, hidden)
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
            hidden = joint + each[targets] + other[others].unsqueeze(1) + of_pair[0] + of_pair[1]
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
    chain_of: list[list[int]] = []  # the chain of each span
    for number, back in enumerate(best):
        chain_of.append(chain_of[number - back] if back else [])
        chain_of[-1].append(number)
    chains = [chain for chain, back in zip(chain_of, best, strict=True) if not back]
    return tuple(tuple(spans[number] for number in chain) for chain in chains if len(chain) > 1 or alone[chain[0]])


@dataclass
class CorefSettings:
    """The head's sizes.

    Attributes:
        hidden: width of one direction of the BiLSTM.
        layers: of the BiLSTM.
        feedforward: width of the hidden layers that score spans and pairs.
        feature: width of the embeddings of span width, distance, speaker and genre.
        dropout: of the BiLSTM's states, of those embeddings, and in the scorers. The input's is features.dropout.
        span_width: tokens of the widest span.
        spans_per_word: spans to keep, as a share of the document's words.
        antecedents: spans before a span that may be its antecedent.
        max_sentences: longer documents are cut to this many sentences in training, at a place drawn for each epoch;
            null for no cut.
        mention_weight: weight of the loss of mentions, which is there only if the data have singletons.
    """

    hidden: Width = 200
    layers: Layers = 1
    feedforward: Width = 150
    feature: Width = 20
    dropout: Dropout = 0.2
    span_width: Width = 10
    spans_per_word: float = 0.4
    antecedents: Width = 250
    max_sentences: AtLeastOne | None = 50
    mention_weight: NotNegative = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.spans_per_word <= self.span_width:
            raise InputError(
                f"task.spans_per_word: expected more than 0 and at most task.span_width={self.span_width}, found "
                f"{self.spans_per_word}"
            )


class EndToEndCoref(Head):
    """Reads sentences with a BiLSTM, keeps the best spans, and links each to the best span before it, or to none.

    Predictions are chains of spans in tokens of the document.

    Args:
        settings: the sizes.
        input_dim: width of the features at the input.
        genres: number of genres.
        singletons: whether a mention may be alone in its chain. Mention scores are then trained as such, too, and a
            span that is linked to none is a mention if its score is positive.
    """

    def __init__(self, settings: CorefSettings, input_dim: int, genres: int, singletons: bool) -> None:
        super().__init__()
        self.settings = settings
        self.singletons = singletons
        self.encoder = BiRnn(input_dim, settings.hidden, settings.layers, settings.dropout)
        self.dropout = nn.Dropout(settings.dropout)
        sizes = settings.feature, settings.feedforward, settings.dropout
        self.spans = Spans(input_dim, self.encoder.output_dim, settings.span_width, *sizes)
        self.antecedents = Antecedents(self.spans.output_dim, genres, settings.antecedents, *sizes)

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The negative log-likelihood of the gold antecedents and, with singletons, of the mentions, summed."""
        (text,) = features
        return torch.stack([self._loss(document) for document in self._documents(text, batch)]).sum()

    def _loss(self, document: EncodedDocument) -> Tensor:
        gold, kept = document.chain_of, self._kept(document)
        spans = list(kept)
        if self.singletons:  # pruned mentions are scored as mentions, too
            seen = set(kept)
            spans += [span for span in gold if span not in seen and span[1] - span[0] <= self.spans.longest]
        mention_scores, scores = self._scores(document, spans, len(kept))
        chains = torch.tensor([gold.get(span, 0) for span in spans]).to(scores.device)  # (spans,)
        loss = marginal_loss(scores, chains[: len(kept)])
        if self.singletons:
            right = (chains > 0).float()
            mention_loss = nn.functional.binary_cross_entropy_with_logits(mention_scores, right, reduction="sum")
            loss = loss + self.settings.mention_weight * mention_loss
        return loss

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Chains]:
        """The chains of each document."""
        predicted = []
        for document in self._documents(features[0], batch):
            kept = self._kept(document)
            mention_scores, scores = self._scores(document, kept, len(kept))
            alone = (mention_scores > 0) & self.singletons
            predicted.append(chains_of(kept, scores.argmax(dim=1).tolist(), alone.tolist()))
        return predicted

    def _kept(self, document: EncodedDocument) -> list[Span]:
        """The best spans that do not cross."""
        most = max(1, int(self.settings.spans_per_word * len(document.states)))
        return prune(self.spans.candidate_scores(document).cpu().numpy(), most)

    def _scores(self, document: EncodedDocument, spans: Sequence[Span], kept: int) -> tuple[Tensor, Tensor]:
        """The mention scores of spans, (spans,), and the antecedent scores of the first `kept`: see `Antecedents`."""
        vectors = self.spans(document, spans)  # (spans, span_dim)
        mention_scores = self.spans.scorer(vectors).float()
        speakers = document.speakers[torch.tensor([start for start, _ in spans[:kept]]).to(vectors.device)]
        return mention_scores, self.antecedents(vectors[:kept], mention_scores[:kept], speakers, document.genre)

    def _documents(self, text: FeatureBatch, batch: Batch) -> Iterator[EncodedDocument]:
        """The documents of a batch; in training, long ones are cut."""
        lengths, mentions = text.lengths.tolist(), batch.targets["mentions"].tolist()
        counts = torch.bincount(batch.owners[0].cpu(), minlength=len(batch.ids)).tolist()
        most = self.settings.max_sentences
        row = token = 0  # the first ones of a document
        for number, count in enumerate(counts):
            read = rows = range(row, row + count)
            if self.training and most is not None and count > most:
                start = int(torch.randint(count - most + 1, ()))
                read = rows[start : start + most]
            begin = sum(lengths[rows.start : read.start])  # in the document, as the end
            end = begin + sum(lengths[read.start : read.stop])
            yield EncodedDocument(
                *self._encoded(text, read),
                speakers=batch.targets["speakers"][token + begin : token + end],
                genre=batch.targets["genres"][number],
                chain_of={
                    (first - begin, past - begin): chain
                    for owner, first, past, chain in mentions
                    if owner == number and begin <= first and past <= end
                },
            )
            row, token = rows.stop, token + sum(lengths[rows.start : rows.stop])

    def _encoded(self, text: FeatureBatch, rows: range) -> tuple[Tensor, Tensor, Tensor]:
        """The vectors, states and sentence ends of the tokens of some sentences: see `EncodedDocument`."""
        lengths = text.lengths[rows.start : rows.stop]
        longest = int(lengths.max())
        inputs = text.input[rows.start : rows.stop, :longest]  # (sentences, tokens, input_dim)
        states = self.dropout(self.encoder(inputs, lengths))  # (sentences, tokens, state_dim)
        inside = torch.arange(longest) < lengths.unsqueeze(1)  # (sentences, tokens)
        places = inside.flatten().nonzero().squeeze(1).to(inputs.device)  # the tokens' rows among those with padding
        ends = (lengths.cumsum(0) - 1).repeat_interleave(lengths).to(inputs.device)
        return inputs.flatten(0, 1)[places], states.flatten(0, 1)[places], ends
