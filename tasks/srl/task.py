"""The task of semantic role labelling: from a sentence and one of its predicates to the predicate's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.common.errors import InputError
from results.records.metric import Grouping
from tasks.batch import Sentence, Split
from tasks.data.raw_text import span_fields, tag_columns
from tasks.data.tag_schemes import iob2, spans_of
from tasks.metrics import Scores
from tasks.srl.data import SrlExample, raw_predicate, read_frames
from tasks.srl.head import DeepSrl, SrlSettings
from tasks.srl.scoring import KINDS, OTHER, SRL_METRICS, counted_arguments, kind_of, srl_scores
from tasks.task import Answer, Head, Task

NO_PREDICATE = -1


class Srl(Task[SrlExample, SrlSettings]):
    """Semantic role labelling by the F1 of arguments without V, as srl-eval counts it. Predicates are given."""

    name = "srl"
    metric = "f1"
    metrics = SRL_METRICS
    recipe = 2  # 2: dropout of the joined vectors by trials, until patience ends
    settings_type = SrlSettings
    raw_fields = ("text",)

    tags: list[str]

    def read(self, path: Path, split: Split) -> list[SrlExample]:
        """The predicates in a file with CoNLL-2012 columns."""
        return read_frames(path)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> SrlExample:
        """A sentence and its predicate: `text` with *one* word between asterisks, or `tokens` and `predicate`."""
        return raw_predicate(name, fields)

    def prediction_fields(self, example: SrlExample, prediction: Sequence[str]) -> dict[str, Any]:
        """The words with their tags, the predicate's position, and its arguments with their labels."""
        words, spans = example.words, spans_of(prediction)
        arguments = [{"label": label, **span_fields(words, example.offsets, *place)} for label, *place in spans]
        return {**self.example_fields(example), "tags": list(prediction), "arguments": arguments}

    def example_fields(self, example: SrlExample) -> dict[str, Any]:
        """The words and the predicate's position."""
        return {"tokens": list(example.words), "predicate": example.predicate}

    def prediction_text(self, example: SrlExample, prediction: Sequence[str]) -> str:
        """Columns of words and tags."""
        return tag_columns(example.words, prediction)

    def counts(self, examples: Sequence[SrlExample]) -> dict[str, int]:
        """Sentences and their tokens, predicates, and arguments as they are scored."""
        sentences = [example.words for example in examples if example.first]
        return {
            "sentences": len(sentences),
            "tokens": sum(map(len, sentences)),
            "predicates": sum(example.predicate is not None for example in examples),
            "arguments": sum(len(counted_arguments(example.arguments)) for example in examples),
        }

    def groups(self, examples: Sequence[SrlExample], train: Sequence[SrlExample]) -> dict[str, Grouping]:
        """By length, casing and the kind of the predicate; sentences without predicates are not scored: of no kind."""
        kinds = [*KINDS.values(), OTHER]
        predicates = Grouping(kinds, [kinds.index(kind_of(example.pos)) for example in examples])
        found = {**super().groups(examples, train), "predicate": predicates}
        scored = [example.predicate is not None for example in examples]
        return {
            name: replace(own, of=[number if counts else None for number, counts in zip(own.of, scored, strict=True)])
            for name, own in found.items()
        }

    def learn_labels(self, train: Sequence[SrlExample]) -> None:
        """Sets the BIO tags: O, and two for each label that occurs in training."""
        labels = sorted({span.label for example in train for span in example.arguments})
        if not labels:
            raise InputError(
                f"task=srl: expected predicates with roles in the training files, found none in {len(train):,} "
                "sentences. Name files with the columns of PropBank in data.splits"
            )
        self.use_labels(labels)

    def learned_labels(self) -> list[str]:
        """The labels of spans, V and continuations among them."""
        return list(self._first_tag)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Sets the BIO tags to those of these labels."""
        self.tags = ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")]
        self._first_tag = {label: 1 + 2 * number for number, label in enumerate(labels)}

    def texts(self, example: SrlExample) -> tuple[Sentence, ...]:
        """The sentence."""
        return (example.words,)

    def targets(self, examples: Sequence[SrlExample]) -> dict[str, Tensor]:
        """`tags` (batch, tokens), padded with O; `predicate` (batch,), its position.

        A label that is not in training counts as O.
        """
        tags = np.zeros((len(examples), max(len(example.words) for example in examples)), dtype=np.int64)
        for row, example in zip(tags, examples, strict=True):
            for label, start, end in example.arguments:
                begin = self._first_tag.get(label)
                if begin is not None:  # followed by I
                    row[start:end] = begin + 1
                    row[start] = begin
        positions = [NO_PREDICATE if example.predicate is None else example.predicate for example in examples]
        return {"tags": torch.from_numpy(tags), "predicate": torch.tensor(positions)}

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A deep highway LSTM."""
        return DeepSrl(self.settings, self.tags, widths["input"], widths["output"])

    def gold(self, examples: Sequence[SrlExample]) -> list[list[str]]:
        """The gold tags in BIO."""
        return [iob2(example.arguments, len(example.words)) for example in examples]

    def judged(self, examples: Sequence[SrlExample], answers: Sequence[Answer]) -> list[list[tuple[float, bool]]]:
        """The product of the probabilities of each predicted argument's tags, and whether the argument is right."""
        return [
            [
                (prod(share for place in own.pieces for share in shares[slice(*place)]), own in right)
                for own in counted_arguments(spans_of(tags))
                if example.predicate is not None
            ]
            for example, (tags, shares) in zip(examples, answers, strict=True)
            for right in [counted_arguments(example.arguments)]
        ]

    def score(self, examples: Sequence[SrlExample], predictions: Sequence[Sequence[str]]) -> Scores:
        """F1, precision and recall of arguments, by label and by kind of predicate; counts of each example."""
        return srl_scores(
            [example.arguments for example in examples],
            [spans_of(tags) for tags in predictions],
            [example.sentence for example in examples],
            [None if example.predicate is None else example.pos for example in examples],
        )
