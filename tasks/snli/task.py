"""The SNLI task: from a premise and a hypothesis to entailment, neutral or contradiction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from results.records.metric import Grouping
from tasks.batch import Sentence, Split
from tasks.metrics import CLASS_METRICS, Scores, class_scores
from tasks.snli.data import FIELDS, LABELS, PairExample, PairReader, raw_pair, read_pairs, read_rows
from tasks.snli.head import Esim, EsimSettings
from tasks.task import Head, Task

NO_PREMISE = (".",)
NUMBER_OF = {label: number for number, label in enumerate(LABELS)}


class Snli(Task[PairExample, EsimSettings]):
    """Natural language inference by accuracy."""

    name = "snli"
    metric = "accuracy"
    metrics = CLASS_METRICS
    length_edges = (15, 20, 30)
    recipe = 1
    settings_type = EsimSettings
    reader_type = PairReader
    columns = FIELDS
    raw_fields = FIELDS[1:]

    def read(self, path: Path, split: Split) -> list[PairExample]:
        """The pairs of an SNLI jsonl file."""
        return read_pairs(path, self.reader)

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[PairExample]:
        """The pairs in rows with `gold_label`, `sentence1` and `sentence2`."""
        return read_rows(rows, split, self.reader)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> PairExample:
        """A pair: `sentence1`, the premise, and `sentence2`, the hypothesis."""
        return raw_pair(name, fields)

    def probability_labels(self) -> Sequence[str]:
        """The three labels."""
        return LABELS

    def prediction_fields(self, example: PairExample, prediction: str) -> dict[str, Any]:
        """The label."""
        return {"label": prediction}

    def usable(self, example: PairExample) -> bool:
        """Whether the annotators agreed on a label."""
        return example.label is not None

    def counts(self, examples: Sequence[PairExample]) -> dict[str, int]:
        """Pairs, those of each label, distinct sentences, and the tokens of all."""
        sentences = {sentence for example in examples for sentence in self.texts(example)}
        return {
            "pairs": len(examples),
            **self.label_counts(examples),
            "distinct_sentences": len(sentences),
            "tokens": sum(len(example.premise) + len(example.hypothesis) for example in examples),
        }

    def label_counts(self, examples: Sequence[PairExample]) -> dict[str, int]:
        """Pairs by label."""
        labels = Counter(example.label for example in examples)
        return {label: labels[label] for label in LABELS if labels[label]}

    def groups(self, examples: Sequence[PairExample], train: Sequence[PairExample]) -> dict[str, Grouping]:
        """By length and casing of both sentences; none without premises."""
        return {} if self.settings.hypothesis_only else super().groups(examples, train)

    def texts(self, example: PairExample) -> tuple[Sentence, ...]:
        """The premise, or NO_PREMISE if the head reads hypotheses only, and the hypothesis."""
        return (NO_PREMISE if self.settings.hypothesis_only else example.premise, example.hypothesis)

    def targets(self, examples: Sequence[PairExample]) -> dict[str, Tensor]:
        """`labels` (batch,); 0 for a pair without one, which is predicted but not trained on."""
        return {"labels": torch.tensor([NUMBER_OF.get(example.label or "", 0) for example in examples])}

    def size(self, example: PairExample) -> int:
        """Tokens of the longer sentence, not of both: the published runs were made with these batches."""
        return max(len(example.premise), len(example.hypothesis))

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """An ESIM."""
        return Esim(self.settings, widths["input"], widths["output"])

    def gold(self, examples: Sequence[PairExample]) -> list[str]:
        """The gold labels."""
        return [example.label for example in examples if example.label is not None]

    def score(self, examples: Sequence[PairExample], predictions: Sequence[str]) -> Scores:
        """Accuracy; precision and recall by label; whether each pair is right."""
        return class_scores(_numbers(self.gold(examples)), _numbers(predictions), LABELS)


def _numbers(labels: Sequence[str]) -> list[int]:
    return [NUMBER_OF[label] for label in labels]
