"""The coreference head of Lee et al. 2017: scores spans, keeps the best, and links each to an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmo.common import checks
from elmo.common.errors import InputError
from tasks.batch import Batch, FeatureBatch
from tasks.coref.antecedents import Antecedents, chains_of, marginal_loss
from tasks.coref.spans import Chains, EncodedDocument, Span, Spans, prune
from tasks.modules.layers import BiRnn
from tasks.task import Head


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

    hidden: int = 200
    layers: int = 1
    feedforward: int = 150
    feature: int = 20
    dropout: float = 0.2
    span_width: int = 10
    spans_per_word: float = 0.4
    antecedents: int = 250
    max_sentences: int | None = 50
    mention_weight: float = 1.0

    def __post_init__(self) -> None:
        for name in ("hidden", "feedforward", "feature", "span_width", "antecedents"):
            checks.width(f"task.{name}", getattr(self, name))
        checks.count(checks.MOST_LAYERS, "task.layers", self.layers)
        checks.dropout("task.dropout", self.dropout)
        checks.at_least(1, "task.max_sentences", self.max_sentences)
        checks.at_least(0, "task.mention_weight", self.mention_weight)
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
        (text,) = features
        return [self._chains(document) for document in self._documents(text, batch)]

    def _chains(self, document: EncodedDocument) -> Chains:
        kept = self._kept(document)
        mention_scores, scores = self._scores(document, kept, len(kept))
        alone = (mention_scores > 0) & self.singletons
        return chains_of(kept, scores.argmax(dim=1).tolist(), alone.tolist())

    def _kept(self, document: EncodedDocument) -> list[Span]:
        """The best spans that do not cross."""
        most = max(1, int(self.settings.spans_per_word * len(document.states)))
        return prune(self.spans.candidate_scores(document).cpu().numpy(), most)

    def _scores(self, document: EncodedDocument, spans: Sequence[Span], kept: int) -> tuple[Tensor, Tensor]:
        """The mention scores of spans, (spans,), and the antecedent scores of the first `kept`: see `Antecedents`."""
        vectors = self.spans(document, spans)  # (spans, span_dim)
        mention_scores = self.spans.scorer(vectors).float()
        firsts = torch.tensor([start for start, _ in spans[:kept]]).to(vectors.device)
        speakers = document.speakers[firsts]
        return mention_scores, self.antecedents(vectors[:kept], mention_scores[:kept], speakers, document.genre)

    def _documents(self, text: FeatureBatch, batch: Batch) -> Iterator[EncodedDocument]:
        """The documents of a batch; in training, long ones are cut."""
        lengths, mentions = text.lengths.tolist(), batch.targets["mentions"].tolist()
        counts = torch.bincount(batch.owners[0].cpu(), minlength=len(batch.ids)).tolist()
        row = token = 0  # the first ones of a document
        for number, count in enumerate(counts):
            rows = range(row, row + count)
            read = rows[self._cut(count)]
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

    def _cut(self, sentences: int) -> slice:
        """The sentences of a document to read."""
        most = self.settings.max_sentences
        if not self.training or most is None or sentences <= most:
            return slice(0, sentences)
        start = int(torch.randint(sentences - most + 1, ()))
        return slice(start, start + most)

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
