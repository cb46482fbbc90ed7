"""95 % intervals of a gain and of the share of errors removed.

An interval is the estimate plus and minus a Student quantile of its standard error. Three things vary independently:
the seeds of either arm, and the test examples. Examples are paired: one that is hard for one arm tends to be hard for
the other. Their part is measured by leaving out one at a time, or one cluster (an article, a document) at a time where
examples of a cluster are alike. Seeds are not paired, since equal seeds of two arms were found to be unrelated.

The intervals are for one trained biLM and one untrained control: what training them again would change is not in them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from results.analysis.paper_scores import relative_error_cut
from results.analysis.student import Part, combined, quantile, two_sided_p

if TYPE_CHECKING:
    import numpy as np

FEW_SEEDS = 3  # below, a deviation is hardly known: tables mark such intervals
_ROUNDING = 1e-9  # points; what is smaller comes from rounding, and is 0

Over = Literal["examples and seeds", "examples", "seeds"]


@dataclass(frozen=True)
class Interval:
    """A 95 % interval.

    Attributes:
        low: Its lower end, in points or percent.
        high: Its upper end.
        p: The two-sided p-value of no difference.
        over: What varies; "examples" if both arms have only one seed.
        seeds: The number of seeds of the arm that has fewer.
        unit: What clusters examples, such as "article"; empty where every example stands alone.
        clusters: The number of clusters that were left out in turn; None if single examples were, because there is no
            unit, or because it is not known which examples share one.
    """

    low: float
    high: float
    p: float
    over: Over
    seeds: int
    unit: str = ""
    clusters: int | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    @property
    def sign(self) -> int:
        """1 if it is above zero, -1 if it is below; 0 if it includes zero."""
        return (self.low > 0) - (self.high < 0)

    @property
    def few_seeds(self) -> bool:
        """Whether the deviation between seeds rests on too few of them to be trusted."""
        return self.seeds < FEW_SEEDS


@dataclass(frozen=True)
class Intervals:
    """The intervals of the gain in points, and of the share of errors removed in percent."""

    gain: Interval
    cut: Interval | None


@dataclass(frozen=True)
class _Arm:
    """One arm: its scores, and what each cluster of test examples adds to them.

    Attributes:
        scores: One per seed.
        shares: What each cluster adds to the mean score, as deviations from their mean, times the number of clusters.
        noise: The part of the variance between seeds that is chance within the test set, so that leaving out examples
            shows it too; 0 for one run.
    """

    scores: Sequence[float]
    shares: np.ndarray | None = None
    noise: float = 0.0

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def variance(self) -> float:
        return statistics.variance(self.scores)


def has_numpy() -> bool:
    """Whether numpy is installed; without it a table has no intervals over examples."""
    return find_spec("numpy") is not None


def paired_intervals(
    first: np.ndarray,
    second: np.ndarray,
    recompute: Callable[[np.ndarray], np.ndarray],
    clusters: Sequence[float] | None = None,
    unit: str = "",
) -> Intervals | None:
    """The intervals of the second arm's gain over the first, over test examples and seeds; None if nothing varies.

    Args:
        first: The counts of each test example, (seeds, examples, counts).
        second: The same for the other arm, with the same examples in the same order.
        recompute: Scores in percent from sums of counts, (..., counts) -> (...).
        clusters: The number of each example's cluster; None if every example stands alone, or clusters are unknown.
        unit: The name of the clusters.
    """
    arms = [_arm(counts, recompute, clusters) for counts in (first, second)]
    found = _intervals(*arms)
    if found is None:
        return None
    size = None if clusters is None else len(set(clusters))
    cut = found.cut and replace(found.cut, unit=unit, clusters=size)
    return Intervals(replace(found.gain, unit=unit, clusters=size), cut)


def seed_intervals(first: Sequence[float], second: Sequence[float]) -> Intervals | None:
    """The intervals from scores of seeds alone, as Welch computes them; None if nothing varies."""
    return _intervals(_Arm(first), _Arm(second))


def _arm(counts: np.ndarray, recompute: Callable[[np.ndarray], np.ndarray], clusters: Sequence[float] | None) -> _Arm:
    """Scores and shares of one arm's runs, (seeds, examples, counts)."""
    import numpy as np  # imported here: the table itself needs only the standard library

    if clusters is not None:
        order = np.argsort(clusters, kind="stable")
        _, starts = np.unique(np.asarray(clusters)[order], return_index=True)
        counts = np.add.reduceat(counts[:, order], starts, axis=1)  # (seeds, clusters, counts)
    seeds, size = counts.shape[:2]
    totals = counts.sum(axis=1)  # (seeds, counts)
    scores = recompute(totals)
    if size < 2:
        return _Arm(scores.tolist())
    left_out = recompute(totals[:, None] - counts)  # (seeds, clusters)
    shares = (size - 1) * (left_out.mean(axis=1, keepdims=True) - left_out)
    mean_shares = shares.mean(axis=0)
    noise = ((shares - mean_shares) ** 2).sum() / (max(seeds - 1, 1) * (size - 1) * size)
    return _Arm(scores.tolist(), mean_shares, float(noise))


def _intervals(first: _Arm, second: _Arm) -> Intervals | None:
    """The intervals of the gain, and of the share of errors removed where the first arm has errors.

    None if nothing varies: then nothing says how far off the gain may be. That is so for one run of each arm with one
    cluster of examples, and for a gain that all seeds and all examples have alike.
    """
    if first.shares is None and len(first.scores) == len(second.scores) == 1:
        return None
    gain = _interval(first, second, second.mean - first.mean, (-1.0, 1.0))
    cut = relative_error_cut(first.mean, second.mean)
    if gain is None:
        return None
    if cut is None:
        return Intervals(gain, None)
    errors = 100 - first.mean
    # The derivatives of the cut by either mean.
    return Intervals(gain, _interval(first, second, cut, ((cut - 100) / errors, 100 / errors)))


def _varies(arm: _Arm) -> bool:
    """Whether the arm's seeds or examples have different scores."""
    parts = [arm.scores] if arm.shares is None else [arm.scores, arm.shares]
    return any(max(part) - min(part) > _ROUNDING for part in parts)


def _interval(first: _Arm, second: _Arm, estimate: float, slopes: tuple[float, float]) -> Interval | None:
    """The interval of an estimate that changes by `slopes` for each point of the two means; None if nothing varies."""
    weights = [slope**2 / len(arm.scores) for slope, arm in zip(slopes, (first, second), strict=True)]
    if len(first.scores) > 1 and len(second.scores) > 1:
        pairs = [(first, weights[0]), (second, weights[1])]
    else:  # one run has no deviation: it is taken to be the other arm's
        pairs = [(max(first, second, key=lambda arm: len(arm.scores)), sum(weights))]
    parts = [Part(weight * arm.variance, len(arm.scores) - 1) for arm, weight in pairs if len(arm.scores) > 1]
    counted_twice = sum(weight * arm.noise for arm, weight in pairs)
    over: Over = "examples and seeds" if parts else "examples"
    if first.shares is None or second.shares is None:
        over = "seeds"
    else:
        size = len(first.shares)
        shares = slopes[0] * first.shares + slopes[1] * second.shares
        whole = float((shares**2).sum()) / (size * (size - 1))
        examples = max(whole - counted_twice, 0.0)
        if examples:
            parts.append(Part(examples, max((size - 1) * (examples / whole) ** 2, 1.0)))
    seeds = min(len(first.scores), len(second.scores))
    variance, df = combined(parts)
    error = variance**0.5
    if error < _ROUNDING:
        equal = abs(estimate) < _ROUNDING and any(map(_varies, (first, second)))
        return Interval(estimate, estimate, 1.0, over, seeds) if equal else None
    half = quantile(0.975, df) * error
    p = two_sided_p(estimate / error, df)
    return Interval(estimate - half, estimate + half, p, over, seeds)
