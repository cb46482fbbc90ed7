"""Confidence interval of a gain: a paired bootstrap over test examples and seeds."""

from __future__ import annotations

import hashlib
import itertools
import random
import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from results.analysis.interval import Interval, remembered
from results.records.example_scores import Example, parts

if TYPE_CHECKING:
    import numpy as np

VERSION = 1  # of the paired bootstrap; raise it if its numbers change, because intervals are cached on disk
RESAMPLES = 2000
AT_ONCE = 100  # resamples held in memory at the same time
MOST_KEPT = 20_000  # examples; up to this many the draws are kept in memory, a byte each: 40 MB
# With five seeds there are 32 sign patterns, so p is at least 2/32: never significant.
FEWEST_SEEDS = 6
MOST_FLIPS = 2**12

Columns = tuple["array[float]", "array[float]"]


def paired_interval(
    baseline: Sequence[Sequence[Example]], other: Sequence[Sequence[Example]], metric: str, same_seeds: bool
) -> Interval | None:
    """The interval of the other arm's mean score minus the baseline's; None if the examples cannot be paired.

    A resample draws test examples with replacement, the same ones for both arms and all seeds, because an example that
    is hard for one arm tends to be hard for the other. It also draws seeds: one draw for both arms if they have the
    same seeds (equal seeds start from equal parameters), else one for each. p is twice the share of resamples on the
    wrong side of zero, at least 1 / RESAMPLES and at most 1.

    Args:
        baseline: The scores of the test examples, for each seed.
        other: The same for the other arm, with the same examples in the same order.
        metric: The record's main metric.
        same_seeds: Whether both arms have the same seeds in the same order.
    """
    runs = [*baseline, *other]
    if not baseline or not other or len({len(run) for run in runs}) != 1 or not can_resample():
        return None
    found_parts = [parts(run, metric) for run in runs]
    if any(part is None for part in found_parts):
        return None
    # For each run (numerators, denominators), by example.
    columns = [(array("d", part[0]), array("d", part[1])) for part in found_parts if part is not None]
    split = len(baseline)
    return remembered(_key(columns, split, metric, same_seeds), lambda: _resampled(columns, split, same_seeds))


def _key(columns: Sequence[Columns], split: int, metric: str, same_seeds: bool) -> str:
    """The hash of everything that determines the interval; numpy's draws may change between versions."""
    import numpy as np

    about = (VERSION, np.__version__, RESAMPLES, AT_ONCE, metric, same_seeds, split, len(columns), len(columns[0][0]))
    hashed = hashlib.sha256(repr(about).encode())
    for column in itertools.chain.from_iterable(columns):
        hashed.update(column)
    return hashed.hexdigest()


def _resampled(columns: Sequence[Columns], split: int, same_seeds: bool) -> Interval:
    """The interval by resampling; the first `split` runs are the baseline's."""
    import numpy as np  # imported here: the table itself needs only the standard library

    table = np.stack([np.stack(pair, axis=1) for pair in columns], axis=1)  # (examples, runs, 2)
    examples, others_seeds = len(table), len(columns) - split
    draws = _kept_draws if examples <= MOST_KEPT else _draws
    differences: list[np.ndarray] = []
    for drawn, seeds, others in draws(examples, split, None if same_seeds else others_seeds):
        scores = _score(np.tensordot(drawn.astype(float), table, axes=1))  # (resamples, runs)
        own = np.take_along_axis(scores[:, :split], seeds, axis=1).mean(axis=1)
        differences.append(np.take_along_axis(scores[:, split:], others, axis=1).mean(axis=1) - own)
    found = np.concatenate(differences)
    low, high = np.percentile(found, [2.5, 97.5])
    wrong_side = min((found <= 0).mean(), (found >= 0).mean())
    p = float(min(max(2 * wrong_side, 1 / RESAMPLES), 1))
    several = min(split, others_seeds) > 1
    return Interval(float(low), float(high), p, "examples and seeds" if several else "examples")


def _draws(examples: int, seeds: int, other_seeds: int | None) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The resamples, AT_ONCE at a time; always the same draws, so that the same records give the same interval.

    Args:
        examples: The number of examples.
        seeds: The number of the baseline's seeds.
        other_seeds: The number of the other arm's seeds; None if both arms share a draw.

    Yields:
        How often each example was drawn, (resamples, examples); the baseline's seeds, (resamples, seeds); the other's.
    """
    import numpy as np

    generator = np.random.default_rng(0)
    for _ in range(RESAMPLES // AT_ONCE):
        drawn = generator.multinomial(examples, np.full(examples, 1 / examples), size=AT_ONCE)
        own = generator.integers(seeds, size=(AT_ONCE, seeds))
        others = own if other_seeds is None else generator.integers(other_seeds, size=(AT_ONCE, other_seeds))
        yield drawn.astype(np.min_scalar_type(drawn.max())), own, others


@lru_cache(maxsize=4)
def _kept_draws(
    examples: int, seeds: int, other_seeds: int | None
) -> Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The cached draws of `_draws`: they take most of the time and serve every pair of arms of these sizes."""
    return list(_draws(examples, seeds, other_seeds))


def seed_interval(baseline: Mapping[int, float], other: Mapping[int, float]) -> Interval | None:
    """The interval from the scores of shared seeds alone, for runs without example scores; None below six seeds.

    The interval is a bootstrap over seeds. p comes from a sign-flip test of the differences (all patterns, or 4096 of
    them), because a bootstrap of so few numbers is too optimistic.

    Args:
        baseline: Seed -> test score.
        other: The same for the other arm.
    """
    differences = [other[seed] - baseline[seed] for seed in sorted(baseline.keys() & other.keys())]
    if len(differences) < FEWEST_SEEDS:
        return None
    draw = random.Random(0)  # the same records give the same interval
    means = [statistics.fmean(draw.choices(differences, k=len(differences))) for _ in range(RESAMPLES)]
    cuts = statistics.quantiles(means, n=40, method="inclusive")  # the first is 2.5 %, the last 97.5 %
    return Interval(cuts[0], cuts[-1], _sign_flips(differences, draw), "seeds")


def can_resample() -> bool:
    """Whether numpy is installed; without it a table has no intervals over examples."""
    return find_spec("numpy") is not None


def _sign_flips(differences: Sequence[float], draw: random.Random) -> float:
    """The share of sign patterns whose sum is at least as far from zero as the observed one."""
    if 2 ** len(differences) <= MOST_FLIPS:
        patterns = list(itertools.product((1, -1), repeat=len(differences)))
    else:  # the observed pattern is one of them
        patterns = [(1,) * len(differences)]
        patterns += [tuple(draw.choices((1, -1), k=len(differences))) for _ in range(MOST_FLIPS - 1)]
    found = abs(sum(differences)) - 1e-9
    sums = (sum(sign * difference for sign, difference in zip(p, differences, strict=True)) for p in patterns)
    return sum(abs(total) >= found for total in sums) / len(patterns)


def _score(sums: np.ndarray) -> np.ndarray:
    """Scores in percent from summed numerators and denominators: (..., 2) -> (...)."""
    import numpy as np

    score: np.ndarray = sums[..., 0] / np.maximum(sums[..., 1], 1)
    return score
