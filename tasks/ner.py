"""Named entity recognition: a BiLSTM-CRF over BIOES tags, scored by span F1."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from elmo.common.checks import Dropout, Layers, Width
from elmo.common.errors import InputError
from results.records.metric import Grouping
from tasks.data import text
from tasks.kinds import TaggedText, Tagging
from tasks.metrics import SPAN_METRICS, Scores, add_units, seqeval_scores
from tasks.modules.crf import ConstrainedCrf
from tasks.modules.layers import BiRnn
from tasks.task import PLACES, Answer, Batch, FeatureBatch, Head, Split


@dataclass
class ColumnReader(text.Columns):
    """The differences between files of entities.

    Attributes:
        ignore_labels: labels whose spans do not count as entities.
    """

    ignore_labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NerExample(TaggedText):
    """A sentence and its entities; `tags` are those of the file.

    `document`: what sentences of one document share; empty where none is marked.
    """

    tags: tuple[str, ...] = ()
    document: str = ""


def read_columns(path: Path, reader: ColumnReader) -> list[NerExample]:
    """The sentences of a column file with any number of columns, split by tabs where there are any.

    Tags may be IOB1, IOB2 or BIOES; -DOCSTART- lines begin a document; CRLF and a byte order mark are accepted.
    """
    return [
        _example(f"{path.name}:{number}", words, tags, reader, f"{path}:{document}" if document else "")
        for number, (words, tags, document) in enumerate(text.column_sentences(path, reader, text.parse_tag))
    ]


def _example(name: str, words: Sequence[str], tags: Sequence[str], reader: ColumnReader, document: str) -> NerExample:
    spans = tuple(span for span in text.spans_of(tags) if span.label not in reader.ignore_labels)
    return NerExample(name, tuple(words), spans, tags=tuple(tags), document=document)


@dataclass
class NerSettings:
    """The sizes of the head: LSTM width per direction, layers, dropout between and after them and of their input."""

    hidden: Width = 200
    layers: Layers = 2
    dropout: Dropout = 0.5
    input_dropout: Dropout = 0.0


class BiLstmCrf(Head):
    """Reads [x_k; ELMo_k] with a BiLSTM and tags [h_k; ELMo_k] with a CRF; predictions are lists of tags.

    Args:
        settings: the sizes.
        tags: what to predict.
        input_dim: width of the features at the input.
        output_dim: their width next to the BiLSTM's states.
        hidden_dim: their width between the BiLSTM's layers.
    """

    def __init__(
        self, settings: NerSettings, tags: Sequence[str], input_dim: int, output_dim: int, hidden_dim: int = 0
    ) -> None:
        super().__init__()
        self.tags = list(tags)
        self.dropout = nn.Dropout(settings.dropout)
        self.input_dropout = nn.Dropout(settings.input_dropout)
        self.encoder = BiRnn(input_dim, settings.hidden, settings.layers, settings.dropout, hidden_dim=hidden_dim)
        self.projection = nn.Linear(self.encoder.output_dim + output_dim, len(tags))
        self.crf = ConstrainedCrf(tags, text.may_follow)

    def _emissions(self, features: FeatureBatch) -> Tensor:
        """The scores of the tags for the CRF, (batch, tokens, tags)."""
        x = self.input_dropout(features.input)
        encoded = self.encoder(x, features.lengths, features.hidden)  # (batch, tokens, 2 * hidden)
        return self.projection(torch.cat([self.dropout(encoded), features.output], dim=-1))

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The negative log-likelihood of the gold tags, summed over the batch as AllenNLP does."""
        (tokens,) = features
        emissions = self._emissions(tokens).float()
        return -self.crf.log_likelihood(emissions, batch.targets["tags"], tokens.mask).sum().float()

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[list[str]]:
        """The best valid BIOES tags of each sentence."""
        (tokens,) = features
        return self._named(self.crf.decode(self._emissions(tokens), tokens.mask))

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The tags, each with its probability by the CRF; that of B and I is given the next tag.

        The product over the tokens of an entity is thus the probability of the entity.
        """
        (tokens,) = features
        emissions = self._emissions(tokens)
        paths = self.crf.decode(emissions, tokens.mask)
        marginals, given_next = (values.tolist() for values in self.crf.probabilities(emissions, paths, tokens.mask))
        return [
            (tags, [given[i] if tag[0] in "BI" else alone[i] for i, tag in enumerate(tags)])
            for tags, alone, given in zip(self._named(paths), marginals, given_next, strict=True)
        ]

    def _named(self, paths: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[self.tags[number] for number in path] for path in paths]


class Ner(Tagging[NerExample, NerSettings]):
    """Named entity recognition by span F1, as conlleval counts it. The test score comes from seqeval."""

    name = "ner"
    metrics: ClassVar = {name: replace(metric, unit="document") for name, metric in SPAN_METRICS.items()}
    recipe = 2  # 2: dropout of the joined vectors by trials, until patience ends
    settings_type = NerSettings
    reader_type = ColumnReader
    columns = ("words", "tags")
    places = PLACES
    span_kind = "entities"
    example_type = NerExample

    def read(self, path: Path, split: Split) -> list[NerExample]:
        """The sentences of a CoNLL column file."""
        return read_columns(path, self.reader)

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[NerExample]:
        """The sentences in rows with `words` and `tags`."""
        document = ""  # the name of the row that began it

        def sentence(name: str, row: Mapping[str, Any]) -> NerExample | None:
            nonlocal document
            words, tags = row["words"], row["tags"]
            if words and words[0] == text.DOCUMENT_START:
                document = name
                return None
            if not words:
                return None
            if len(words) != len(tags):
                raise ValueError(f"expected a tag for each word, found {len(words)} words and {len(tags)} tags")
            return _example(name, words, tags, self.reader, document)

        return list(filter(None, text.parsed_rows(rows, split, sentence)))

    def notes(self, examples: Sequence[NerExample]) -> dict[str, object]:
        """The tag scheme of the file."""
        return {"scheme": text.scheme_of(example.tags for example in examples)}

    def groups(self, examples: Sequence[NerExample], train: Sequence[NerExample]) -> dict[str, Grouping]:
        """By length, casing, and whether the words of all entities are an entity in training, with any label."""
        seen = {example.words[start:end] for example in train for _, start, end in example.spans}
        unseen = [[example.words[start:end] not in seen for _, start, end in example.spans] for example in examples]
        entities = Grouping(
            ("every entity in training", "an entity not in training"),
            [int(any(of_spans)) if of_spans else None for of_spans in unseen],
            from_train=True,
        )
        return {**super().groups(examples, train), "entities": entities}

    def check_places(self, places: Mapping[str, Iterable[str]]) -> None:
        """Checks as for every task, and that there are two layers with `hidden` between them."""
        super().check_places(places)
        for key, asked in places.items():
            if "hidden" in asked and self.settings.layers < 2:
                raise InputError(
                    f"{key}.places: hidden is between the layers of the head's encoder, found "
                    f"task.layers={self.settings.layers}. Set task.layers=2"
                )

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A BiLSTM-CRF."""
        return BiLstmCrf(self.settings, self.tags, widths["input"], widths["output"], widths["hidden"])

    def score(self, examples: Sequence[NerExample], predictions: Sequence[Sequence[str]]) -> Scores:
        """Span F1, precision and recall, also by label; true and false positives and misses of each sentence.

        Each sentence has the number of its document, one of its own where none is marked.
        """
        documents = [example.document or place for place, example in enumerate(examples)]
        return add_units(super().score(examples, predictions), "document", documents)

    def score_test(self, examples: Sequence[NerExample], predictions: Sequence[Sequence[str]]) -> Scores:
        """The scores of `score`, with F1, precision and recall by seqeval."""
        return replace(self.score(examples, predictions), values=seqeval_scores(self.gold(examples), predictions))
