"""Two kinds of tasks: Classification chooses a label for each example, Tagging finds labelled spans of words."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from elmo.common.errors import InputError
from results.records.metric import Metric
from tasks.data.text import Offsets, Span, bioes, iob2, raw_words, span_fields, spans_of, tag_columns
from tasks.metrics import CLASS_METRICS, SPAN_METRICS, Scores, class_scores, span_scores
from tasks.task import Answer, Batch, FeatureBatch, HasId, Head, LabelTable, Sentence, Settings, Task


@dataclass(frozen=True)
class LabelledText:
    """A text and its label; "" if it has none."""

    id: str
    words: Sentence
    label: str = ""


@dataclass(frozen=True)
class TaggedText:
    """A sentence and its labelled spans; `offsets` are the places of the words in raw text."""

    id: str
    words: Sentence
    spans: tuple[Span, ...] = ()
    offsets: Offsets = ()


class HasLabel(HasId, Protocol):
    """An example with a label, such as `LabelledText`."""

    @property
    def label(self) -> str:
        """The label; "" if there is none."""


LabelledExample = TypeVar("LabelledExample", bound=HasLabel)
TaggedExample = TypeVar("TaggedExample", bound=TaggedText)


class Classifier(Head):
    """A head that gives each example one of some labels, by a score for each.

    Args:
        labels: in the order of the scores.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = list(labels)

    @abstractmethod
    def logits(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The scores of the labels, (batch, labels)."""

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The cross-entropy of the gold labels, a mean over the batch."""
        return nn.functional.cross_entropy(self.logits(features, batch).float(), batch.targets["label"])

    def choose(self, logits: Tensor) -> list[Any]:
        """One prediction per example, from its scores: by default the best label."""
        return [self.labels[number] for number in logits.argmax(dim=-1).tolist()]

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Any]:
        """One prediction per example."""
        return self.choose(self.logits(features, batch))

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The predictions, each with the softmax of its scores."""
        logits = self.logits(features, batch)
        return list(zip(self.choose(logits), logits.float().softmax(dim=-1).tolist(), strict=True))


class Classification(Task[LabelledExample, Settings]):
    """One of some labels for each example, by a `Classifier`. A prediction is a label, or has one as its text.

    Attributes:
        labels: those of the class if it names some, else those of the training examples.
        example_type: what raw text is made to, from a name and words.
    """

    metric = "accuracy"
    metrics: ClassVar[Mapping[str, Metric]] = CLASS_METRICS
    raw_fields: ClassVar[tuple[str, ...]] = ("text",)
    example_type: ClassVar[Any] = LabelledText

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> LabelledExample:
        """A text without a label: `text` or `tokens`."""
        return self.example_type(name, raw_words(fields).words)

    def probability_labels(self) -> Sequence[str]:
        """The labels."""
        return self.labels

    def prediction_fields(self, example: LabelledExample, prediction: object) -> dict[str, Any]:
        """The label."""
        return {"label": str(prediction)}

    def usable(self, example: LabelledExample) -> bool:
        """Whether the example has a label."""
        return bool(example.label)

    def counts(self, examples: Sequence[LabelledExample]) -> dict[str, int]:
        """Texts, tokens, and texts by label."""
        tokens = sum(len(text) for example in examples for text in self.texts(example))
        return {"texts": len(examples), "tokens": tokens, **self.label_counts(examples)}

    def label_counts(self, examples: Sequence[LabelledExample]) -> dict[str, int]:
        """Examples by label."""
        counts = Counter(example.label for example in examples)
        return {label: counts[label] for label in dict.fromkeys([*self.labels, *sorted(counts)]) if counts[label]}

    def learn_labels(self, train: Sequence[LabelledExample]) -> None:
        """Sets the labels to those of the training examples, unless they are fixed."""
        self.labels = type(self).labels or sorted({example.label for example in train})
        if len(self.labels) < 2:
            raise InputError(
                f"task={self.name}: expected at least two labels in training, found {', '.join(self.labels)}. Does "
                "data.reader say where the labels are?"
            )

    def targets(self, examples: Sequence[LabelledExample]) -> dict[str, Tensor]:
        """`label` (batch,); 0 for an example whose label is not known, which is never trained on."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return {"label": torch.tensor([numbers.get(example.label, 0) for example in examples])}

    def gold(self, examples: Sequence[LabelledExample]) -> list[Any]:
        """The gold labels."""
        return [example.label for example in examples]

    def score(self, examples: Sequence[LabelledExample], predictions: Sequence[Any]) -> Scores:
        """Accuracy; precision and recall by label; whether each example is right."""
        return class_scores([example.label for example in examples], list(map(str, predictions)), self.labels)


def tag_numbers(sentences: Sequence[Sequence[str]], tags: Sequence[str], other: int) -> Tensor:
    """The number of each word's tag, (batch, tokens); `other` for padding and for what is not one of the tags."""
    numbers = {tag: number for number, tag in enumerate(tags)}
    rows = np.full((len(sentences), max(map(len, sentences))), other, dtype=np.int64)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence)] = [numbers.get(tag, other) for tag in sentence]
    return torch.from_numpy(rows)


class Tagging(Task[TaggedExample, Settings]):
    """Labelled spans of the words of a sentence; a head predicts them as one of `tags` for each word.

    Attributes:
        labels: of the spans in training.
        prefixes: of the tags of each label: "BIES" for BIOES, "BI" for IOB2.
        span_kind: what the spans are called in counts and in predictions as JSON.
        example_type: what raw text is made to, from a name, words and offsets.
    """

    metric = "f1"
    metrics: ClassVar[Mapping[str, Metric]] = SPAN_METRICS
    raw_fields: ClassVar[tuple[str, ...]] = ("text",)
    prefixes: ClassVar[str] = "BIES"
    span_kind: ClassVar[str] = "spans"
    example_type: ClassVar[Any] = TaggedText

    @property
    def tags(self) -> list[str]:
        """The tags to predict; the first one is that of words in no span."""
        return ["O", *(f"{prefix}-{label}" for label in self.labels for prefix in self.prefixes)]

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> TaggedExample:
        """A sentence: `text` or `tokens`."""
        tokens = raw_words(fields)
        return self.example_type(name, tokens.words, offsets=tokens.offsets)

    def prediction_fields(self, example: TaggedExample, prediction: Sequence[str]) -> dict[str, Any]:
        """The words with their IOB2 tags, and the spans."""
        words, spans = example.words, spans_of(prediction)
        listed = [{"label": label, **span_fields(words, example.offsets, *place)} for label, *place in spans]
        return {**self.example_fields(example), "tags": iob2(spans, len(words)), self.span_kind: listed}

    def prediction_text(self, example: TaggedExample, prediction: Sequence[str]) -> str:
        """Columns of words and IOB2 tags."""
        return tag_columns(example.words, iob2(spans_of(prediction), len(example.words)))

    def counts(self, examples: Sequence[TaggedExample]) -> dict[str, int]:
        """Sentences, tokens and spans, also by label."""
        labels = self.label_counts(examples)
        tokens = sum(len(example.words) for example in examples)
        return {"sentences": len(examples), "tokens": tokens, self.span_kind: sum(labels.values()), **labels}

    def label_counts(self, examples: Sequence[TaggedExample]) -> dict[str, int]:
        """Spans by label."""
        return dict(sorted(Counter(span.label for example in examples for span in example.spans).items()))

    def learn_labels(self, train: Sequence[TaggedExample]) -> None:
        """Sets the labels to those of the spans in training."""
        self.labels = sorted({span.label for example in train for span in example.spans})

    def targets(self, examples: Sequence[TaggedExample]) -> dict[str, Tensor]:
        """`tags` (batch, tokens), padded with O; a label that is not in training counts as O."""
        return {"tags": tag_numbers(self.gold(examples), self.tags, other=0)}

    def gold(self, examples: Sequence[TaggedExample]) -> list[list[str]]:
        """The gold tags."""
        as_tags = bioes if "E" in self.prefixes else iob2
        return [as_tags(example.spans, len(example.words)) for example in examples]

    def score(self, examples: Sequence[TaggedExample], predictions: Sequence[Sequence[str]]) -> Scores:
        """Span F1, precision and recall, also by label; true and false positives and misses of each sentence."""
        for example, tags in zip(examples, predictions, strict=True):
            if len(tags) != len(example.words):
                raise ValueError(
                    f"decode() of the head of {self.name}: expected a tag for each of {len(example.words)} words of "
                    f"{example.id}, found {len(tags)}. Leave out the padding: features[0].lengths"
                )
        return span_scores([example.spans for example in examples], [spans_of(tags) for tags in predictions])

    def judged(self, examples: Sequence[TaggedExample], answers: Sequence[Answer]) -> list[list[tuple[float, bool]]]:
        """The product of the probabilities of each predicted span's tags, and whether the span is right."""
        return [
            [(prod(shares[span.start : span.end]), span in example.spans) for span in spans_of(tags)]
            for example, (tags, shares) in zip(examples, answers, strict=True)
        ]

    def relabelled(
        self, examples: Sequence[Any], predictions: Sequence[Any], gold: LabelTable, predicted: LabelTable
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Sentences and predicted tags with common labels; a span whose label has none is no span."""
        return (
            [replace(example, spans=_renamed(example.spans, gold)) for example in examples],
            [bioes(_renamed(spans_of(tags), predicted), len(tags)) for tags in predictions],
        )


def _renamed(spans: Iterable[Span], table: LabelTable) -> tuple[Span, ...]:
    renamed = ((table.get(span.label, span.label), span) for span in spans)
    return tuple(span._replace(label=label) for label, span in renamed if label is not None)
