"""The SST-5 task: from phrases to one of five degrees of sentiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from results.records.metric import Metric, Ratio
from tasks.batch import Sentence, Split
from tasks.metrics import CLASS_METRICS, Scores, class_scores
from tasks.modules.biattentive import BcnSettings
from tasks.sst5.data import LABELS, SentimentExample, TreeReader, raw_phrase, read_rows, read_trees
from tasks.sst5.head import NEUTRAL, Sentiment, SentimentClassifier
from tasks.task import Head, Task


class Sst5(Task[SentimentExample, BcnSettings]):
    """Fine-grained sentiment by accuracy, along with the binary accuracy of SST-2."""

    name = "sst5"
    metric = "accuracy"
    metrics: ClassVar = {**CLASS_METRICS, "binary_accuracy": Metric([[Ratio({"polar_correct": 100}, {"polar": 1})]])}
    recipe = 3  # 3: dropout of the joined vectors by trials
    settings_type = BcnSettings
    reader_type = TreeReader
    columns = ("tree",)
    raw_fields = ("text",)

    def read(self, path: Path, split: Split) -> list[SentimentExample]:
        """The sentences of a file of trees, in training their phrases too."""
        return read_trees(path, split, self.reader)

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[SentimentExample]:
        """The same from rows with a `tree` each."""
        return read_rows(rows, split, self.reader)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> SentimentExample:
        """A phrase or sentence: `text` or `tokens`."""
        return raw_phrase(name, fields)

    def probability_labels(self) -> Sequence[str]:
        """The five labels."""
        return LABELS

    def prediction_fields(self, example: SentimentExample, prediction: Sentiment) -> dict[str, Any]:
        """The label."""
        return {"label": LABELS[prediction.label]}

    def prediction_text(self, example: SentimentExample, prediction: Sentiment) -> str:
        """The label."""
        return LABELS[prediction.label]

    def counts(self, examples: Sequence[SentimentExample]) -> dict[str, int]:
        """Sentences and their tokens; examples, with phrases where they are read; examples by label."""
        sentences = [example for example in examples if example.whole]
        return {
            "sentences": len(sentences),
            "tokens": sum(len(example.words) for example in sentences),
            "examples": len(examples),
            **self.label_counts(examples),
        }

    def label_counts(self, examples: Sequence[SentimentExample]) -> dict[str, int]:
        """Examples by label."""
        labels = Counter(LABELS[example.label] for example in examples)
        return {label: labels[label] for label in LABELS if labels[label]}

    def texts(self, example: SentimentExample) -> tuple[Sentence, ...]:
        """The phrase."""
        return (example.words,)

    def targets(self, examples: Sequence[SentimentExample]) -> dict[str, Tensor]:
        """`label` (batch,)."""
        return {"label": torch.tensor([example.label for example in examples])}

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A biattentive classification network."""
        return SentimentClassifier(self.settings, len(LABELS), widths["input"], widths["output"])

    def gold(self, examples: Sequence[SentimentExample]) -> list[Sentiment]:
        """The gold labels and their sides; the side of a neutral text is not used."""
        return [Sentiment(example.label, example.label > NEUTRAL) for example in examples]

    def score(self, examples: Sequence[SentimentExample], predictions: Sequence[Sentiment]) -> Scores:
        """Accuracy; the binary accuracy of the texts that are not neutral; scores by label and a confusion matrix.

        As in SST-2, whose texts are never neutral, the binary accuracy uses the predicted side, not the label.
        """
        scores = class_scores(
            [example.label for example in examples], [prediction.label for prediction in predictions], LABELS
        )
        polar = [example.label != NEUTRAL for example in examples]
        right = [
            asked and prediction.positive == (example.label > NEUTRAL)
            for asked, example, prediction in zip(polar, examples, predictions, strict=True)
        ]
        return Scores(
            values={**scores.values, "binary_accuracy": 100 * sum(right) / max(sum(polar), 1)},
            details={**scores.details, "binary_examples": sum(polar)},
            examples=[
                {**correct, "polar": int(asked), "polar_correct": int(hit)}
                for correct, asked, hit in zip(scores.examples, polar, right, strict=True)
            ],
        )
