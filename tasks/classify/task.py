"""The task of text classification: from a text to one of the labels in training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.common.errors import InputError
from tasks.batch import Sentence, Split
from tasks.classify.data import TableReader, TextExample, raw_example, read_rows, read_table
from tasks.metrics import CLASS_METRICS, Scores, class_scores
from tasks.modules.biattentive import BcnSettings, BiattentiveClassifier
from tasks.task import Head, Task

UNKNOWN = 0  # the number of a label that is not in training: its examples are scored, and never trained on


class Classify(Task[TextExample, BcnSettings]):
    """Text classification by accuracy; the training examples decide the labels."""

    name = "classify"
    metric = "accuracy"
    metrics = CLASS_METRICS
    recipe = 3
    settings_type = BcnSettings
    reader_type = TableReader
    columns = ("text", "label")
    raw_fields = ("text",)

    labels: list[str]

    def read(self, path: Path, split: Split) -> list[TextExample]:
        """The texts of a CSV or TSV table."""
        return read_table(path, self.reader)

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[TextExample]:
        """The texts in rows with `text` and `label`."""
        return read_rows(rows, split, self.reader)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> TextExample:
        """A text: `text` or `tokens`."""
        return raw_example(name, fields, self.reader)

    def raw_columns(self) -> Mapping[str, str]:
        """The column of the text in the run's own tables."""
        return {"text": self.reader.text}

    def probability_labels(self) -> Sequence[str]:
        """The labels in training."""
        return self.labels

    def prediction_fields(self, example: TextExample, prediction: int) -> dict[str, Any]:
        """The label."""
        return {"label": self.labels[prediction]}

    def gold_fields(self, example: TextExample) -> dict[str, Any]:
        """The label, which training need not have."""
        return {"label": example.label}

    def prediction_text(self, example: TextExample, prediction: int) -> str:
        """The label."""
        return self.labels[prediction]

    def counts(self, examples: Sequence[TextExample]) -> dict[str, int]:
        """Texts, tokens, and texts by label."""
        return {
            "texts": len(examples),
            "tokens": sum(len(example.words) for example in examples),
            **self.label_counts(examples),
        }

    def label_counts(self, examples: Sequence[TextExample]) -> dict[str, int]:
        """Texts by label."""
        return dict(sorted(Counter(example.label for example in examples).items()))

    def learn_labels(self, train: Sequence[TextExample]) -> None:
        """Sets the labels to those of the training examples."""
        self.use_labels(sorted({example.label for example in train}))
        if len(self.labels) < 2:
            raise InputError(
                f"task=classify: expected at least two labels in training, found {', '.join(self.labels)}. Is "
                f"data.reader.label={self.reader.label} the column of the labels?"
            )

    def learned_labels(self) -> list[str]:
        """The labels."""
        return self.labels

    def use_labels(self, labels: Sequence[str]) -> None:
        """Sets the labels."""
        self.labels = list(labels)

    def texts(self, example: TextExample) -> tuple[Sentence, ...]:
        """The text."""
        return (example.words,)

    def targets(self, examples: Sequence[TextExample]) -> dict[str, Tensor]:
        """`label` (batch,)."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return {"label": torch.tensor([numbers.get(example.label, UNKNOWN) for example in examples])}

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A biattentive classification network."""
        return BiattentiveClassifier(self.settings, len(self.labels), widths["input"], widths["output"])

    def gold(self, examples: Sequence[TextExample]) -> list[int]:
        """The numbers of the gold labels; labels that are not in training have further numbers."""
        numbers = {label: number for number, label in enumerate(self._all_labels(examples))}
        return [numbers[example.label] for example in examples]

    def score(self, examples: Sequence[TextExample], predictions: Sequence[int]) -> Scores:
        """Accuracy; precision and recall by label; whether each text is right."""
        return class_scores(self.gold(examples), predictions, self._all_labels(examples))

    def _all_labels(self, examples: Sequence[TextExample]) -> list[str]:
        return [*self.labels, *sorted({example.label for example in examples} - set(self.labels))]
