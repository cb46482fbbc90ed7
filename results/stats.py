"""95 % intervals of a gain and of the share of errors removed.

An interval is the estimate plus and minus a Student quantile of its standard error. Three things vary independently:
the seeds of either arm, and the test examples. Examples are paired: one that is hard for one arm tends to be hard for
the other. Their part is measured by leaving out one at a time, or one cluster (an article, a document) at a time where
examples of a cluster are alike. Seeds are not paired, since equal seeds of two arms were found to be unrelated. A fold
has test examples and trainings of its own, so that leaving out one fold at a time shows all that varies.

The share of errors removed has Fieller's interval: all shares that the test behind the gain's interval does not reject.
So both include zero, or neither does.

The intervals are for one trained biLM and one untrained control: what training them again would change is not in them.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

from results.records.identity import FOLD

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray"
# Of the exp-sinh rule: a distance from the start of an area, and how fast its logarithm grows there.
_STEPS = [(math.exp(math.pi / 2 * math.sinh(k / 16)), math.cosh(k / 16)) for k in range(-64, 64)]


class Spread(NamedTuple):
    """A source of variance of an estimate: its estimated variance, and the degrees of freedom of that estimate."""

    variance: float
    df: float


def combined(parts: Iterable[Spread]) -> Spread:
    """The variance of a sum of independent terms, with the degrees of freedom of Welch and Satterthwaite."""
    varying = [part for part in parts if part.variance > 0]
    total = sum(part.variance for part in varying)
    if not varying:
        return Spread(0.0, math.inf)
    return Spread(total, total**2 / sum(part.variance**2 / part.df for part in varying))


def two_sided_p(t: float, df: float) -> float:
    """The chance of a value at least as far from zero as t."""
    return _tail(abs(t), df) / _tail(0.0, df)


@cache
def quantile(share: float, df: float) -> float:
    """The value that a share of the distribution, more than half of it, lies below."""
    found, whole, step = statistics.NormalDist().inv_cdf(share), _tail(0.0, df), math.inf
    while step > 1e-14 * found:  # Newton's method; each step ends below the value, as the first guess does
        step = (_tail(found, df) - 2 * (1 - share) * whole) / _density(found, df)
        found += step
    return found


def _tail(t: float, df: float) -> float:
    """The area below `_density` from t on, by the exp-sinh rule, to nine digits or more from one degree of freedom on.

    scipy.special has it, too, but takes 0.3 CPU seconds to import, a fifth of what a table took.
    """
    return math.fsum(_density(t + step, df) * step * rate for step, rate in _STEPS) * math.pi / 32


def _density(t: float, df: float) -> float:
    """Student's t density, times a constant that depends on the degrees of freedom; endless ones are a normal one."""
    df = min(df, 1e15)
    return math.exp(-(df + 1) / 2 * math.log1p(t * t / df))


LEVEL = 0.05  # of all tests
FEW_SEEDS = 3  # below, a deviation is hardly known: tables mark such intervals
_ROUNDING = 1e-9  # points; what is smaller comes from rounding, and is 0

Over = Literal["examples and seeds", "examples", "seeds", "folds", "tasks"]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Interval:
    """A 95 % interval.

    Attributes:
        low: Its lower end, in points or percent.
        high: Its upper end.
        p: The two-sided p-value of no difference.
        over: What varies; "examples" if no deviation between seeds is known.
        seeds: The number of seeds of the arm that has fewer; of folds, if these are what varies.
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
    """The intervals of the gain in points, and of the share of errors removed in percent.

    `cut` is None if the baseline's errors may be none, so that no share of them is too large, and if the variances of
    both means and of the gain contradict each other.
    """

    gain: Interval
    cut: Interval | None


@dataclass(frozen=True)
class ArmScores:
    """One arm: its scores, and what each cluster of test examples adds to them.

    Attributes:
        scores: One per seed.
        shares: What each cluster adds to the mean score, as deviations from their mean, times the number of clusters.
        noise: The part of the variance between seeds that is chance within the test set, so that leaving out examples
            shows it too; 0 for one run.
        df: The degrees of freedom of the variance between seeds; by default one less than seeds.
    """

    scores: Sequence[float]
    shares: Array | None = None
    noise: float = 0.0
    df: int | None = None

    @cached_property
    def mean(self) -> float:
        """The mean score."""
        return statistics.fmean(self.scores)

    @cached_property
    def variance(self) -> float:
        """The variance between seeds; 0 for one run."""
        return statistics.variance(self.scores) if len(self.scores) > 1 else 0.0


@dataclass(frozen=True)
class _Pair:
    """Two arms, the arm whose deviation between seeds a single run borrows, and the clusters of test examples."""

    first: ArmScores
    second: ArmScores
    lender: ArmScores | None = None
    unit: str = ""
    clusters: int | None = None

    def variance(self, slopes: tuple[float, float]) -> Spread:
        """The variance of the sum of both means, each times its slope.

        The examples' part is the jackknife variance less `noise`, which the seeds' part has, too, or zero; its
        degrees of freedom are the jackknife's times the square of the share that is left, at least one.
        """
        seeds, noise = self._of_seeds(slopes)
        if self.first.shares is None or self.second.shares is None:
            return combined(seeds)
        size = len(self.first.shares)
        shares = slopes[0] * self.first.shares + slopes[1] * self.second.shares
        whole = float((shares**2).sum()) / (size * (size - 1))
        if self.unit == FOLD:
            return combined([Spread(whole, size - 1)])
        examples = max(whole - noise, 0.0)
        df = max((size - 1) * (examples / whole) ** 2, 1.0) if whole else 1.0
        return combined([*seeds, Spread(examples, df)])

    def _of_seeds(self, slopes: tuple[float, float]) -> tuple[list[Spread], float]:
        """The parts from seeds, and how much of them is chance within the test set."""
        weights = dict[tuple[float, ...], float]()  # by the scores that give a deviation, so that none counts twice
        known = dict[tuple[float, ...], ArmScores]()
        for slope, arm, other in ((slopes[0], self.first, self.second), (slopes[1], self.second, self.first)):
            source = arm if len(arm.scores) > 1 else self.lender or other
            key = tuple(source.scores)
            weights[key] = weights.get(key, 0.0) + slope**2 / len(arm.scores)
            if key not in known or source is self.lender:
                known[key] = source
        several = [(arm, weights[key]) for key, arm in known.items() if len(arm.scores) > 1]
        parts = [Spread(weight * arm.variance, arm.df or len(arm.scores) - 1) for arm, weight in several]
        return parts, sum(weight * arm.noise for arm, weight in several)

    def interval(self, low: float, high: float, p: float) -> Interval:
        """The interval with these ends, and what varies."""
        seeds = min(len(self.first.scores), len(self.second.scores))
        over: Over = "examples and seeds" if self._of_seeds((-1.0, 1.0))[0] else "examples"
        if self.first.shares is None or self.second.shares is None:
            over = "seeds"
        elif self.unit == FOLD:
            over, seeds = "folds", len(self.first.shares)
        return Interval(low, high, p, over, seeds, self.unit, self.clusters)

    @property
    def varies(self) -> bool:
        """Whether the seeds or examples of an arm have different scores."""
        parts = [part for arm in (self.first, self.second) for part in (arm.scores, arm.shares) if part is not None]
        return any(max(part) - min(part) > _ROUNDING for part in parts)


def paired_intervals(
    first: ArmScores,
    second: ArmScores,
    clusters: Sequence[float] | None = None,
    unit: str = "",
    lender: ArmScores | None = None,
) -> Intervals | None:
    """The intervals of the second arm's gain over the first, over test examples and seeds; None if nothing varies.

    Args:
        first: An arm, `measured` on the examples.
        second: The other, with the same examples in the same order.
        clusters: The number of each example's cluster; None if every example stands alone, or clusters are unknown.
        unit: The name of the clusters.
        lender: The arm whose deviation between seeds a single run borrows; by default that of the other arm.
    """
    return _intervals(_Pair(first, second, lender, unit, None if clusters is None else len(set(clusters))))


def seed_intervals(
    first: Sequence[float], second: Sequence[float], lender: ArmScores | None = None
) -> Intervals | None:
    """The intervals from scores of seeds alone, as Welch computes them; None if nothing varies."""
    return _intervals(_Pair(ArmScores(first), ArmScores(second), lender))


def measured(counts: Array, recompute: Callable[[Array], Array], clusters: Sequence[float] | None) -> ArmScores:
    """The arm with these counts of its runs' test examples, (seeds, examples, counts).

    Its noise is the variance of a seed's score that chance within the test set alone gives: what the pseudo-values of a
    seed differ from their mean over seeds.
    """
    import numpy as np  # imported here: no command needs it for --help

    if clusters is not None:
        order = np.argsort(clusters, kind="stable")
        _, starts = np.unique(np.asarray(clusters)[order], return_index=True)
        counts = np.add.reduceat(counts[:, order], starts, axis=1)  # (seeds, clusters, counts)
    seeds, size = counts.shape[:2]
    totals = counts.sum(axis=1)  # (seeds, counts)
    scores = recompute(totals)
    if size < 2:
        return ArmScores(scores.tolist())
    left_out = recompute(totals[:, None] - counts)  # (seeds, clusters)
    shares = (size - 1) * (left_out.mean(axis=1, keepdims=True) - left_out)
    mean_shares = shares.mean(axis=0)
    noise = ((shares - mean_shares) ** 2).sum() / (max(seeds - 1, 1) * (size - 1) * size)
    return ArmScores(scores.tolist(), mean_shares, float(noise))


def mean_over_tasks(gains: Sequence[float]) -> Interval | None:
    """The interval of the mean gain on several tasks, as a sample of tasks; None if nothing varies.

    The gain on a task is a mean over seeds and examples, so how gains vary between tasks has all three levels in it.
    """
    error = (statistics.variance(gains) / len(gains)) ** 0.5 if len(gains) > 1 else 0.0
    if error < _ROUNDING:
        return None
    mean, df = statistics.fmean(gains), len(gains) - 1
    half = quantile(1 - LEVEL / 2, df) * error
    return Interval(mean - half, mean + half, two_sided_p(mean / error, df), "tasks", len(gains))


def supported_ranks(pairs: Mapping[tuple[str, str], Interval | None]) -> dict[str, tuple[int, int]]:
    """Name -> the best and the worst rank that it may have, given each pair's interval of the second over the first.

    A rank needs differences that hold after Holm's correction for all pairs: in 95 % of tables no range is wrong.
    """
    signs, names = corrected_signs(pairs), dict.fromkeys(name for pair in pairs for name in pair)
    better = Counter(pair[sign > 0] for pair, sign in signs.items() if sign)
    worse = Counter(pair[sign < 0] for pair, sign in signs.items() if sign)
    return {name: (1 + worse[name], len(names) - better[name]) for name in names}


def corrected_signs(intervals: Mapping[Name, Interval | None]) -> dict[Name, int]:
    """Name -> the sign of its interval, 0 if not beyond noise; Holm's method corrects for all that are compared."""
    signs, known = dict.fromkeys(intervals, 0), {name: interval for name, interval in intervals.items() if interval}
    for number, name in enumerate(sorted(known, key=lambda name: known[name].p)):
        if known[name].p * (len(known) - number) >= LEVEL:
            break
        signs[name] = known[name].sign
    return signs


def _intervals(pair: _Pair) -> Intervals | None:
    """The intervals of the gain, and of the share of errors removed where the first arm has errors.

    None if nothing varies: then nothing says how far off the gain may be. That is so for one run of each arm with one
    cluster of examples, and for a gain that all seeds and all examples have alike.
    """
    gain = pair.second.mean - pair.first.mean
    variance, df = pair.variance((-1.0, 1.0))
    error = variance**0.5
    if error < _ROUNDING:
        if abs(gain) >= _ROUNDING or not pair.varies:
            return None
        equal = pair.interval(gain, gain, 1.0)
        return Intervals(equal, equal if pair.first.mean < 100 else None)
    t = quantile(1 - LEVEL / 2, df)
    of_gain = pair.interval(gain - t * error, gain + t * error, two_sided_p(gain / error, df))
    return Intervals(of_gain, _cut(pair, of_gain, t**2))


def _cut(pair: _Pair, gain: Interval, t2: float) -> Interval | None:
    """Fieller's interval of the gain's share of the errors: shares r where (gain - r * errors)^2 <= t2 * its variance.

    None if errors of none are among what the test does not reject: then no share is too large. None, too, if the three
    variances contradict each other: each is estimated alone, so the means could correlate by more than one.
    """
    estimate, errors = pair.second.mean - pair.first.mean, 100 - pair.first.mean
    of_gain, of_first, of_second = (pair.variance(slopes).variance for slopes in ((-1.0, 1.0), (1.0, 0.0), (0.0, 1.0)))
    shared = (of_first + of_second - of_gain) / 2  # the covariance of both means
    square = errors**2 - t2 * of_first
    if errors <= 0 or square <= 0 or abs(shared) > (of_first * of_second) ** 0.5 + _ROUNDING:
        return None
    middle = estimate * errors - t2 * (of_first - shared)
    root = max(middle**2 - square * (estimate**2 - t2 * of_gain), 0.0) ** 0.5
    return replace(gain, low=100 * (middle - root) / square, high=100 * (middle + root) / square)
