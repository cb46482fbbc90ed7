"""Metrics: pure functions from gold and predicted lists to scores in percent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.base import Scores
from tasks.spans import Span, iob2


def span_scores(gold: Sequence[tuple[Sequence[Span], int]], predicted: Sequence[Sequence[Span]]) -> Scores:
    """Micro-averaged span F1 by seqeval in its default mode, which is conlleval's.

    Args:
        gold: for each sentence its spans and its length.
        predicted: for each sentence the predicted spans.
    """
    from seqeval.metrics import classification_report  # brings scikit-learn along: seconds that a skipped run can spare

    gold_tags = [iob2(spans, length) for spans, length in gold]
    predicted_tags = [iob2(spans, length) for spans, (_, length) in zip(predicted, gold, strict=True)]
    report = {"micro avg": {"f1-score": 0.0, "precision": 0.0, "recall": 0.0}}
    if any(predicted) or any(spans for spans, _ in gold):  # seqeval would take the mean over no labels
        report = classification_report(gold_tags, predicted_tags, output_dict=True, zero_division=0)
    labels = {name: scores for name, scores in report.items() if not name.endswith(" avg")}
    overall = report["micro avg"]
    return Scores(
        values={
            "f1": 100 * float(overall["f1-score"]),
            "precision": 100 * float(overall["precision"]),
            "recall": 100 * float(overall["recall"]),
        },
        details={
            "labels": {
                label: {
                    "f1": 100 * float(scores["f1-score"]),
                    "precision": 100 * float(scores["precision"]),
                    "recall": 100 * float(scores["recall"]),
                    "gold": int(scores["support"]),
                }
                for label, scores in labels.items()
            }
        },
        examples=[_counts(set(spans), set(guess)) for (spans, _), guess in zip(gold, predicted, strict=True)],
    )


def _counts(gold: set[Span], predicted: set[Span]) -> dict[str, float]:
    right = len(gold & predicted)
    return {"tp": right, "fp": len(predicted) - right, "fn": len(gold) - right}


def class_scores(gold: Sequence[int], predicted: Sequence[int], labels: Sequence[str]) -> Scores:
    """Accuracy, precision, recall and F1 of each label, and the confusion matrix: a row for each gold label.

    Args:
        gold: the number of the right label of each example.
        predicted: the number of the predicted one.
        labels: the labels' names, in the order of their numbers.
    """
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (np.asarray(gold, dtype=np.int64), np.asarray(predicted, dtype=np.int64)), 1)
    right, golden, guessed = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    return Scores(
        values={"accuracy": _percent(right.sum(), golden.sum())},
        details={
            "labels": {
                label: {
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


def _percent(part: int, whole: int) -> float:
    """A share in percent, 0 of nothing."""
    return 100 * float(part) / float(whole) if whole else 0.0
