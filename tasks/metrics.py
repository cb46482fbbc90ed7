"""Scores in percent from gold and predicted lists, and kinds of examples to score apart: pure functions."""

import importlib.util
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np

from elmo.common import checks
from elmo.common.errors import reworded
from elmo.common.files import plain_json
from results.records.metric import Grouping, Metric, Ratio, mean_of

CASINGS = ("prose", "ALL CAPS", "table or dateline", "no lower-case word")

# How the scores of this module follow from `Scores.examples`.
SPAN_METRICS = {
    "f1": Metric([[Ratio({"tp": 200}, {"tp": 2, "fp": 1, "fn": 1})]], title="F1"),
    "precision": Metric([[Ratio({"tp": 100}, {"tp": 1, "fp": 1})]]),
    "recall": Metric([[Ratio({"tp": 100}, {"tp": 1, "fn": 1})]]),
}
CLASS_METRICS = {"accuracy": mean_of("correct", 100)}


@dataclass(frozen=True)
class Scores:
    """The scores of predictions, in percent. Numbers of numpy and torch become plain ones, as records have them.

    Attributes:
        values: the task's metrics by name, including the main one.
        details: further scores of any shape, such as per class.
        examples: one object of counts or scores per example, from which the main metric can be recomputed.

    Raises:
        InputError: a record cannot have these scores. It says so after the first epoch, not after the last.
    """

    values: dict[str, float] = field(default_factory=dict)
    details: dict[str, object] = field(default_factory=dict)
    examples: list[dict[str, float]] = field(default_factory=list)

    @classmethod
    def of_examples(
        cls, metrics: Mapping[str, Metric], examples: list[dict[str, float]], details: dict[str, object]
    ) -> "Scores":
        """The values that follow from the scores of examples, of the metrics that have all they need."""
        values = {name: metric.of_examples(examples) for name, metric in metrics.items()}
        return cls({name: value for name, value in values.items() if value is not None}, details, examples)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _plain(self.values))
        object.__setattr__(self, "examples", list(map(_plain, self.examples)))
        checks.finite(self.values, "score of the task: ")
        with reworded(TypeError, lambda error: f"score of the task: {error}"):
            object.__setattr__(self, "details", plain_json(self.details, "details"))


def _plain(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value if type(value) in (int, float) else float(value) for name, value in numbers.items()}


class Labelled(Hashable, Protocol):
    """Something that is right or wrong as a whole, such as a labelled span."""

    @property
    def label(self) -> str:
        """Its label; scores are also computed for each."""


def span_scores(gold: Sequence[Sequence[Labelled]], predicted: Sequence[Sequence[Labelled]]) -> Scores:
    """Micro-averaged span F1, counted as conlleval and seqeval do.

    This selects epochs: seqeval takes a second for the dev set of CoNLL-2003, as long as half an epoch of training.
    The test score comes from seqeval, see `seqeval_scores`.

    Args:
        gold: for each sentence its spans.
        predicted: for each sentence the predicted spans.
    """
    right, guessed, golden = Counter[str](), Counter[str](), Counter[str]()
    examples: list[dict[str, float]] = []
    for spans, guess in zip(map(set, gold), map(set, predicted), strict=True):
        both = spans & guess
        for counter, counted in ((right, both), (guessed, guess), (golden, spans)):
            counter.update(span.label for span in counted)
        examples.append({"tp": len(both), "fp": len(guess) - len(both), "fn": len(spans) - len(both)})
    return Scores(
        values=_f1(right.total(), guessed.total(), golden.total()),
        details={
            "labels": {
                label: {**_f1(right[label], guessed[label], golden[label]), "gold": golden[label]}
                for label in sorted(guessed | golden)
            }
        },
        examples=examples,
    )


def seqeval_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Micro-averaged span F1, precision and recall by seqeval, whose default mode follows conlleval.

    Args:
        gold: the tags of each sentence, in any scheme.
        predicted: the predicted tags of each sentence.
    """
    with _bare_sklearn():
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
    precision, recall, f1, _ = precision_recall_fscore_support(
        list(map(list, gold)), list(map(list, predicted)), average="micro", zero_division=0
    )
    return {"f1": 100 * float(f1), "precision": 100 * float(precision), "recall": 100 * float(recall)}


@contextmanager
def _bare_sklearn() -> Iterator[None]:
    """Lets seqeval import one class of scikit-learn without the rest of it, unless that has happened before.

    That class is a kind of warnings; scikit-learn's `__init__` would import all of scipy: 1.5 CPU seconds.
    """
    spec = importlib.util.find_spec("sklearn")
    if "sklearn" in sys.modules or spec is None:
        yield
        return
    sys.modules["sklearn"] = importlib.util.module_from_spec(spec)  # never executed
    try:
        yield
    finally:  # others get the whole package
        for module in [name for name in sys.modules if name == "sklearn" or name.startswith("sklearn.")]:
            del sys.modules[module]


def _f1(right: int, guessed: int, gold: int) -> dict[str, float]:
    """F1, precision and recall in percent; 0 if there are no predicted or no gold spans."""
    precision, recall = right / guessed if guessed else 0.0, right / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall}


def class_scores(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Scores:
    """Accuracy; precision, recall and F1 of each label; the confusion matrix, with a row for each gold label.

    Args:
        gold: the gold label of each example.
        predicted: the predicted label.
        labels: those that can be predicted; gold labels that are not among them follow.
    """
    labels = [*labels, *sorted(set(gold) - set(labels))]
    numbers = {label: number for number, label in enumerate(labels)}
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for right_one, guess in zip(gold, predicted, strict=True):
        confusion[numbers[right_one], numbers[guess]] += 1
    right, golden, guessed = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    return Scores(
        values={"accuracy": _percent(right.sum(), golden.sum())},
        details={
            "labels": {
                label: {
                    # F1 is one division, so its last digit may differ from that of spans.
                    "f1": _percent(2 * right[i], golden[i] + guessed[i]),
                    "precision": _percent(right[i], guessed[i]),
                    "recall": _percent(right[i], golden[i]),
                    "gold": int(golden[i]),
                }
                for i, label in enumerate(labels)
            },
            "confusion": {"labels": list(labels), "gold_by_predicted": confusion.tolist()},
        },
        examples=[{"correct": int(right == guess)} for right, guess in zip(gold, predicted, strict=True)],
    )


def add_units(scores: Scores, unit: str, names: Sequence[Hashable]) -> Scores:
    """The scores with the number of the unit that each example belongs to, such as its document, for intervals.

    Args:
        scores: of examples.
        unit: what is resampled.
        names: of each example's unit.
    """
    numbers: dict[Hashable, int] = {}
    for name, counts in zip(names, scores.examples, strict=True):
        counts[unit] = numbers.setdefault(name, len(numbers))
    return scores


def _percent(part: int, whole: int) -> float:
    """A share in percent; 0 if the whole is 0."""
    return 100 * float(part) / float(whole) if whole else 0.0


def by_number(numbers: Sequence[float], edges: Sequence[int], unit: str) -> Grouping:
    """Examples by a number, without what follows its decimal point.

    Args:
        numbers: of each example.
        edges: the least number of every kind but the first, ascending.
        unit: what is counted, for labels.
    """
    between = [f"{low} to {high - 1} {unit}" for low, high in pairwise(edges)]
    labels = [f"under {edges[0]} {unit}", *between, f"{edges[-1]} {unit} or more"]
    return Grouping(labels, [sum(number >= edge for edge in edges) for number in numbers])


def by_casing(sentences: Sequence[Sequence[str]]) -> Grouping:
    """Sentences by their `casing`."""
    return Grouping(CASINGS, [CASINGS.index(casing(words)) for words in sentences])


def casing(words: Sequence[str]) -> str:
    """One of CASINGS.

    Prose has a lower-case word of two letters or more. Of the other lines, ALL CAPS have no lower-case letter and more
    than two words for each number; the rest with a number are rows of tables, and datelines of news.
    """
    if any(len(word) > 1 and word.isalpha() and word.islower() for word in words):
        return CASINGS[0]
    numbers = sum(any(character.isdigit() for character in word) for word in words)
    if " ".join(words).isupper() and sum(word.isalpha() for word in words) > 2 * numbers:
        return CASINGS[1]
    return CASINGS[2] if numbers else CASINGS[3]
