"""Natural language inference, and any other labels of pairs: ESIM over pairs of sentences, scored by accuracy.

Files of SNLI are jsonl: one pair of sentences per line, with the label on which the annotators agreed. Those of a
user's own pairs are tables.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from elmo.common.checks import Dropout, Width
from elmo.common.errors import excerpt, reworded
from elmo.common.files import table_rows, utf8_lines
from results.records.metric import Grouping
from tasks.data.text import TOKENISER, TREEBANK_ESCAPES, json_object, parsed_lines, parsed_rows
from tasks.kinds import Classification, Classifier
from tasks.modules import layers
from tasks.task import Batch, FeatureBatch, Head, Sentence, Split

LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"  # the annotators did not agree
FIELDS = ("gold_label", "sentence1", "sentence2")
NO_PREMISE = (".",)
TEXTS = ("text1", "text2")  # of a user's own pairs


@dataclass
class PairReader:
    """The differences between files of pairs.

    Attributes:
        parses: whether to take the tokens from sentence1_binary_parse and sentence2_binary_parse if a line has them.
            Otherwise sentence1 and sentence2 are tokenised in the style of the Penn Treebank.
    """

    parses: bool = True


@dataclass(frozen=True)
class PairExample:
    """A premise, a hypothesis and their label; "" if the annotators did not agree."""

    id: str
    premise: Sentence
    hypothesis: Sentence
    label: str


def _example(name: str, row: Mapping[str, Any], words: "_Words") -> PairExample:
    absent = [field for field in FIELDS if field not in row]
    if absent:
        raise ValueError(f"expected the fields {', '.join(FIELDS)}, found no {', '.join(absent)}")
    for field in FIELDS:
        if not isinstance(row[field], str):
            raise ValueError(f"expected text in {field}, found {excerpt(row[field])}")
    label = row["gold_label"]
    if label not in (*LABELS, NO_LABEL):
        raise ValueError(f"expected the label {', '.join(LABELS)} or {NO_LABEL}, found {excerpt(label)}")
    premise, hypothesis = (words.of(row[field], row.get(f"{field}_binary_parse")) for field in FIELDS[1:])
    for field, sentence in (("sentence1", premise), ("sentence2", hypothesis)):
        if not sentence and label != NO_LABEL:
            raise ValueError(f"expected words in {field}, found none")
    return PairExample(name, premise, hypothesis, "" if label == NO_LABEL else label)


class _Words:
    """Tokenises texts. Equal sentences and words share one object: each premise occurs three times."""

    def __init__(self, reader: PairReader) -> None:
        self._parses = reader.parses
        self._known: dict[str, Sentence] = {}

    def of(self, text: str, parse: object) -> Sentence:
        """The words of the binary parse, "( ( A man ) sleeps )", if there is one, else of the text."""
        source = parse if self._parses and isinstance(parse, str) and parse.strip() else text
        if source not in self._known:
            if source is text:
                words = [word for part in TOKENISER.paragraph(" ".join(text.split())) for word in part]
            else:
                words = [TREEBANK_ESCAPES.get(word, word) for word in source.split() if word not in ("(", ")")]
            self._known[source] = tuple(map(sys.intern, words))
        return self._known[source]


@dataclass
class EsimSettings:
    """The head's sizes: the width of each LSTM direction and of both ReLU layers, and the dropout of all layers.

    Attributes:
        hypothesis_only: whether every premise is replaced by a full stop: this measures what hypotheses alone predict.
    """

    hidden: Width = 300
    dropout: Dropout = 0.5
    hypothesis_only: bool = False


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
    similarity = layers.product(premise, hypothesis.transpose(1, 2))  # (batch, tokens of premise, tokens of hypothesis)
    for_premise = layers.product(layers.masked_softmax(similarity, hypothesis_mask[:, None, :]), hypothesis)
    transposed = similarity.transpose(1, 2)
    return for_premise, layers.product(layers.masked_softmax(transposed, premise_mask[:, None, :]), premise)


def enhance(states: Tensor, attended: Tensor) -> Tensor:
    """The local inference of each token, [a; b; a - b; a * b]: (batch, tokens, dim) twice -> (..., 4 * dim)."""
    return torch.cat([states, attended, states - attended, states * attended], dim=-1)


class Esim(Classifier):
    """Encodes both sentences, aligns their tokens, composes the aligned vectors, pools, and classifies.

    The output features join the encoder's output before the alignment, so that the attention compares the contextual
    vectors themselves. The paper does so for tasks with attention over the encoder.
    """

    def __init__(self, settings: EsimSettings, labels: Sequence[str], input_dim: int, output_dim: int) -> None:
        super().__init__(labels)
        hidden = settings.hidden
        self.input_dropout = layers.VariationalDropout(settings.dropout)
        self.encoder = layers.BiRnn(input_dim, hidden, cell=layers.OrthogonalLstm)
        dim = self.encoder.output_dim + output_dim
        self.projection = nn.Sequential(layers.XavierLinear(4 * dim, hidden), nn.ReLU())
        self.composition = layers.BiRnn(hidden, hidden, cell=layers.OrthogonalLstm)
        self.classifier = nn.Sequential(
            nn.Dropout(settings.dropout),
            layers.XavierLinear(4 * self.composition.output_dim, hidden),
            nn.ReLU(),
            nn.Dropout(settings.dropout),
            layers.XavierLinear(hidden, len(labels)),
        )

    def _encode(self, texts: Sequence[FeatureBatch]) -> list[Tensor]:
        """[h_k; ELMo_k] of each token of each text, (batch, tokens, 2 * hidden + output_dim)."""
        states = self.encoder.together([(self.input_dropout(text.input), text.lengths) for text in texts])
        return [torch.cat([state, text.output], dim=-1) for state, text in zip(states, texts, strict=True)]

    def _compose(self, texts: Sequence[FeatureBatch], inferences: Sequence[Tensor]) -> list[Tensor]:
        """Mean and maximum over the tokens of each text, (batch, 4 * hidden), from its `enhance`d alignment."""
        dropped = [self.input_dropout(self.projection(states)) for states in inferences]  # (batch, tokens, hidden) each
        composed = self.composition.together([(x, text.lengths) for x, text in zip(dropped, texts, strict=True)])
        return [
            torch.cat([layers.masked_mean(states, text.mask), layers.masked_max(states, text.mask)], dim=-1)
            for states, text in zip(composed, texts, strict=True)
        ]

    def logits(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The scores of the labels, (batch, labels), from the features of premises and hypotheses."""
        premise, hypothesis = features
        a, b = self._encode(features)
        for_a, for_b = align(a, b, premise.mask, hypothesis.mask)
        pooled = self._compose(features, [enhance(a, for_a), enhance(b, for_b)])
        scores: Tensor = self.classifier(torch.cat(pooled, dim=-1))
        return scores.float()


class Snli(Classification[PairExample, EsimSettings]):
    """Natural language inference by accuracy."""

    name = "snli"
    labels: Sequence[str] = LABELS
    length_edges = (15, 20, 30)
    recipe = 1
    settings_type = EsimSettings
    reader_type: ClassVar[type] = PairReader
    columns: ClassVar[tuple[str, ...]] = FIELDS
    raw_fields: ClassVar[tuple[str, ...]] = FIELDS[1:]

    def read(self, path: Path, split: Split) -> list[PairExample]:
        """The pairs of a jsonl file, including those without a label."""
        words = _Words(self.reader)

        def pair(name: str, line: str) -> PairExample | None:
            return _example(name, json_object(line), words) if line.strip() else None

        return list(filter(None, parsed_lines(utf8_lines(path), path, "Is this a file of SNLI's format?", pair)))

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[PairExample]:
        """The pairs in rows with `gold_label`, `sentence1` and `sentence2`."""
        words = _Words(self.reader)

        def pair(name: str, row: Mapping[str, Any]) -> PairExample:
            label = row["gold_label"]
            return _example(name, {**row, "gold_label": NO_LABEL if label is None else label}, words)

        return list(parsed_rows(rows, split, pair))

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> PairExample:
        """A pair without a label: `sentence1`, the premise, and `sentence2`, the hypothesis."""
        return _example(name, {**fields, "gold_label": NO_LABEL}, _Words(PairReader()))

    def counts(self, examples: Sequence[PairExample]) -> dict[str, int]:
        """Pairs, those of each label, distinct sentences, and the tokens of all."""
        sentences = {sentence for example in examples for sentence in self.texts(example)}
        return {
            "pairs": len(examples),
            **self.label_counts(examples),
            "distinct_sentences": len(sentences),
            "tokens": sum(len(example.premise) + len(example.hypothesis) for example in examples),
        }

    def groups(self, examples: Sequence[PairExample], train: Sequence[PairExample]) -> dict[str, Grouping]:
        """By length and casing of both sentences; none without premises."""
        return {} if self.settings.hypothesis_only else super().groups(examples, train)

    def texts(self, example: PairExample) -> tuple[Sentence, ...]:
        """The premise, or NO_PREMISE if the head reads hypotheses only, and the hypothesis."""
        return (NO_PREMISE if self.settings.hypothesis_only else example.premise, example.hypothesis)

    def size(self, example: PairExample) -> int:
        """Tokens of the longer sentence, not of both: the published runs were made with these batches."""
        return max(len(example.premise), len(example.hypothesis))

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """An ESIM."""
        return Esim(self.settings, self.labels, widths["input"], widths["output"])


@dataclass
class PairTable:
    """The columns of a table of pairs: both texts and their label."""

    first: str = "text1"
    second: str = "text2"
    label: str = "label"


class Pairs(Snli):
    """Pairs of texts by accuracy; the training examples decide the labels."""

    name = "pairs"
    labels = ()
    reader_type = PairTable
    columns = (*TEXTS, "label")
    raw_fields = TEXTS

    def read(self, path: Path, split: Split) -> list[PairExample]:
        """The pairs of a CSV or TSV table."""
        rows = table_rows(path, (self.reader.first, self.reader.second, self.reader.label))
        with reworded(ValueError, str):
            return [self._pair(f"{path.name}:{line}", dict(zip(self.columns, row, strict=True))) for line, row in rows]

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[PairExample]:
        """The pairs in rows with `text1`, `text2` and `label`."""
        return list(parsed_rows(rows, split, self._pair))

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> PairExample:
        """A pair without a label: `text1` and `text2`."""
        return self._pair(name, {**fields, "label": ""})

    def raw_columns(self) -> Mapping[str, str]:
        """The columns of the texts in the run's own tables."""
        return dict(zip(self.raw_fields, (self.reader.first, self.reader.second), strict=True))

    def _pair(self, name: str, row: Mapping[str, Any]) -> PairExample:
        words = _Words(PairReader(parses=False))
        first, second = (words.of(text, None) if isinstance(text := row.get(key), str) else () for key in TEXTS)
        if not (first and second):
            raise ValueError(f"{name}: expected words in {' and '.join(TEXTS)}, found none. Correct the row")
        return PairExample(name, first, second, str(row["label"]).strip())
