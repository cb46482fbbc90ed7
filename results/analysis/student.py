"""Student's t distribution, and the standard error of an estimate with several sources of variance."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class Part(NamedTuple):
    """A source of variance of an estimate: its estimated variance, and the degrees of freedom of that estimate."""

    variance: float
    df: float


def combined(parts: Iterable[Part]) -> Part:
    """The variance of a sum of independent terms, with the degrees of freedom of Welch and Satterthwaite."""
    varying = [part for part in parts if part.variance > 0]
    total = sum(part.variance for part in varying)
    if not varying:
        return Part(0.0, math.inf)
    return Part(total, total**2 / sum(part.variance**2 / part.df for part in varying))


def two_sided_p(t: float, df: float) -> float:
    """The chance of a value at least as far from zero as t."""
    from scipy.special import stdtr  # imported here: slow to import

    return float(2 * stdtr(df, -abs(t)))


def quantile(share: float, df: float) -> float:
    """The value that a share of the distribution lies below."""
    from scipy.special import stdtrit  # imported here: slow to import

    return float(stdtrit(df, share))
