"""The NER task: from sentences to entity spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from elmo.common.errors import InputError
from results.records.metric import Grouping, Metric
from tasks.batch import PLACES, Sentence, Split
from tasks.data.raw_text import span_fields, tag_columns
from tasks.data.tag_schemes import Span, bioes, iob2, scheme_of, spans_of
from tasks.metrics import SPAN_METRICS, Scores, check_same_values, seqeval_scores, span_scores
from tasks.ner.data import ColumnReader, NerExample, raw_sentence, read_columns, read_rows
from tasks.ner.head import BiLstmCrf, NerSettings
from tasks.task import Answer, Head, LabelTable, Task


class Ner(Task[NerExample, NerSettings]):
    """Named entity recognition by span F1, as conlleval counts it. The test score comes from seqeval."""

    name = "ner"
    metric = "f1"
    metrics: ClassVar[Mapping[str, Metric]] = {
        name: replace(metric, unit="document") for name, metric in SPAN_METRICS.items()
    }
    recipe = 2  # 2: dropout of the joined vectors by trials, until patience ends
    settings_type = NerSettings
    reader_type = ColumnReader
    columns = ("words", "tags")
    raw_fields = ("text",)
    places = PLACES

    tags: list[str]

    def read(self, path: Path, split: Split) -> list[NerExample]:
        """The sentences of a CoNLL column file."""
        return read_columns(path, self.reader)

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[NerExample]:
        """The sentences in rows with `words` and `tags`."""
        return read_rows(rows, split, self.reader)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> NerExample:
        """A sentence: `text` or `tokens`."""
        return raw_sentence(name, fields)

    def prediction_fields(self, example: NerExample, prediction: Sequence[str]) -> dict[str, Any]:
        """The words with their IOB2 tags, and the entities."""
        words, spans = example.words, spans_of(prediction)
        entities = [{"label": label, **span_fields(words, example.offsets, *place)} for label, *place in spans]
        return {"tokens": list(words), "tags": iob2(spans, len(words)), "entities": entities}

    def prediction_text(self, example: NerExample, prediction: Sequence[str]) -> str:
        """Columns of words and IOB2 tags."""
        return tag_columns(example.words, iob2(spans_of(prediction), len(example.words)))

    def counts(self, examples: Sequence[NerExample]) -> dict[str, int]:
        """Sentences, tokens and entities, also by label."""
        labels = self.label_counts(examples)
        return {
            "sentences": len(examples),
            "tokens": sum(len(example.words) for example in examples),
            "entities": sum(labels.values()),
            **labels,
        }

    def label_counts(self, examples: Sequence[NerExample]) -> dict[str, int]:
        """Entities by label."""
        return dict(sorted(Counter(span.label for example in examples for span in example.spans).items()))

    def notes(self, examples: Sequence[NerExample]) -> dict[str, object]:
        """The tag scheme of the file."""
        return {"scheme": scheme_of(example.tags for example in examples)}

    def groups(self, examples: Sequence[NerExample], train: Sequence[NerExample]) -> dict[str, Grouping]:
        """By length, casing, and whether the words of all entities are an entity in training, with any label."""
        seen = {example.words[start:end] for example in train for _, start, end in example.spans}
        unseen = [[example.words[start:end] not in seen for _, start, end in example.spans] for example in examples]
        entities = Grouping(
            ("every entity in training", "an entity not in training"),
            [int(any(own)) if own else None for own in unseen],
            from_train=True,
        )
        return {**super().groups(examples, train), "entities": entities}

    def learn_labels(self, train: Sequence[NerExample]) -> None:
        """Sets the BIOES tags: O, and four for each label that occurs in training."""
        self.use_labels(sorted({span.label for example in train for span in example.spans}))

    def learned_labels(self) -> list[str]:
        """The labels of entities."""
        return list(self._first_tag)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Sets the BIOES tags to those of these labels."""
        self.tags = ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BIES")]
        self._first_tag = {label: 1 + 4 * number for number, label in enumerate(labels)}

    def texts(self, example: NerExample) -> tuple[Sentence, ...]:
        """The sentence."""
        return (example.words,)

    def targets(self, examples: Sequence[NerExample]) -> dict[str, Tensor]:
        """`tags` (batch, tokens), padded with O; a label that is not in training counts as O."""
        tags = np.zeros((len(examples), max(len(example.words) for example in examples)), dtype=np.int64)
        for row, example in zip(tags, examples, strict=True):
            for label, start, end in example.spans:
                begin = self._first_tag.get(label)
                if begin is not None:  # followed by I, E and S
                    row[start:end] = begin + 1
                    row[start] = begin
                    row[end - 1] = begin + (2 if end - start > 1 else 3)
        return {"tags": torch.from_numpy(tags)}

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

    def gold(self, examples: Sequence[NerExample]) -> list[list[str]]:
        """The gold tags in BIOES."""
        return [bioes(example.spans, len(example.words)) for example in examples]

    def judged(self, examples: Sequence[NerExample], answers: Sequence[Answer]) -> list[list[tuple[float, bool]]]:
        """The probability of each predicted entity, and whether it is right."""
        return [
            [(prod(shares[span.start : span.end]), span in example.spans) for span in spans_of(tags)]
            for example, (tags, shares) in zip(examples, answers, strict=True)
        ]

    def relabelled(
        self, examples: Sequence[NerExample], predictions: Sequence[Any], gold: LabelTable, predicted: LabelTable
    ) -> tuple[Sequence[NerExample], Sequence[Any]]:
        """Sentences and predicted tags with common labels; entities whose label has none are no entities."""
        return (
            [replace(example, spans=_renamed(example.spans, gold)) for example in examples],
            [bioes(_renamed(spans_of(tags), predicted), len(tags)) for tags in predictions],
        )

    def score(self, examples: Sequence[NerExample], predictions: Sequence[Sequence[str]]) -> Scores:
        """Span F1, precision and recall, also by label; true and false positives and misses of each sentence.

        Each sentence has the number of its document, one of its own where none is marked.
        """
        scores = span_scores([example.spans for example in examples], [spans_of(tags) for tags in predictions])
        numbers: dict[str | int, int] = {}
        for place, (example, own) in enumerate(zip(examples, scores.examples, strict=True)):
            own["document"] = numbers.setdefault(example.document or place, len(numbers))
        return scores

    def score_test(self, examples: Sequence[NerExample], predictions: Sequence[Sequence[str]]) -> Scores:
        """The scores of `score`, with F1, precision and recall by seqeval."""
        fast = self.score(examples, predictions)
        values = seqeval_scores(self.gold(examples), predictions)
        check_same_values(values, fast.values)
        return replace(fast, values=values)


def _renamed(spans: Iterable[Span], table: LabelTable) -> tuple[Span, ...]:
    renamed = ((table.get(span.label), span) for span in spans)
    return tuple(span._replace(label=label) for label, span in renamed if label is not None)
