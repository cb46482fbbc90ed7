"""How sure a gain is: a paired bootstrap over test examples and seeds together, from what lies beside the records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 2000
AT_ONCE = 100  # resamples whose weights are held in memory together


@dataclass(frozen=True)
class Interval:
    """What a difference of mean scores may be: 95 % of the resamples lie between `low` and `high`.

    Attributes:
        low: In points of the metric.
        high: Likewise.
        p: Twice the share of resamples on the wrong side of zero, at least one over their number, at most one.
    """

    low: float
    high: float
    p: float


def read_examples(path: Path, fingerprint: str) -> list[Mapping[str, float]] | None:
    """The scores of a run's test examples, or None if there is no such file or it is of another run."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("fingerprint") != fingerprint:
        return None
    scores = content.get("scores")
    return scores if isinstance(scores, list) and scores else None


def paired_interval(
    baseline: Sequence[Sequence[Mapping[str, float]]], other: Sequence[Sequence[Mapping[str, float]]], metric: str
) -> Interval | None:
    """The interval of the other arm's mean score less the baseline's; None where the examples cannot be paired.

    A resample draws test examples with replacement, the same for both arms and all seeds, because what makes an example
    hard makes it hard for both; and seeds, one draw for both arms where they have equally many runs (those of a seed
    start equal), else one for each.

    Args:
        baseline: For each seed the scores of its test examples.
        other: Likewise, of the same examples in the same order.
        metric: The record's main metric.
    """
    runs = [*baseline, *other]
    if not baseline or not other or len({len(run) for run in runs}) != 1:
        return None
    import numpy as np  # where it is used: the table itself needs no package

    parts = [_parts(run, metric) for run in runs]
    if any(part is None for part in parts):
        return None
    table = np.stack([part for part in parts if part is not None], axis=1)  # (examples, runs, parts)
    generator = np.random.default_rng(0)  # the same records give the same interval
    examples, split = len(runs[0]), len(baseline)
    differences: list[np.ndarray] = []
    for _ in range(RESAMPLES // AT_ONCE):
        drawn = generator.multinomial(examples, np.full(examples, 1 / examples), size=AT_ONCE)  # (resamples, examples)
        scores = _score(np.tensordot(drawn.astype(float), table, axes=1))  # (resamples, runs)
        seeds = generator.integers(split, size=(AT_ONCE, split))
        paired = len(other) == split
        others = seeds if paired else generator.integers(len(other), size=(AT_ONCE, len(other)))
        own = np.take_along_axis(scores[:, :split], seeds, axis=1).mean(axis=1)
        differences.append(np.take_along_axis(scores[:, split:], others, axis=1).mean(axis=1) - own)
    found = np.concatenate(differences)
    low, high = np.percentile(found, [2.5, 97.5])
    wrong_side = min((found <= 0).mean(), (found >= 0).mean())
    return Interval(float(low), float(high), float(min(max(2 * wrong_side, 1 / RESAMPLES), 1)))


def _parts(run: Sequence[Mapping[str, float]], metric: str) -> np.ndarray | None:
    """What a score is made of, by example: true positives and errors, or (score, 1); None where it cannot be told."""
    import numpy as np

    if all({"tp", "fp", "fn"} <= example.keys() for example in run) and metric == "f1":
        return np.array([[200 * e["tp"], 2 * e["tp"] + e["fp"] + e["fn"]] for e in run], dtype=float)
    if all(metric in example for example in run):
        return np.array([[example[metric], 1] for example in run], dtype=float)
    if metric == "accuracy" and all("correct" in example for example in run):
        return np.array([[100 * example["correct"], 1] for example in run], dtype=float)
    return None


def _score(sums: np.ndarray) -> np.ndarray:
    """Percent, from summed parts: (..., 2) -> (...)."""
    import numpy as np

    score: np.ndarray = sums[..., 0] / np.maximum(sums[..., 1], 1)
    return score
