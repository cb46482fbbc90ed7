"""Student's t distribution, and the standard error of an estimate with several sources of variance."""

import math
from collections.abc import Iterable
from statistics import NormalDist
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
    if math.isinf(df):
        return math.erfc(abs(t) / math.sqrt(2))
    return _incomplete_beta(df / 2, 0.5, df / (df + t * t))


def quantile(share: float, df: float) -> float:
    """The value that a share of the distribution, between 0.5 and 1, lies below; df is at least 1."""
    t = NormalDist().inv_cdf(share)
    if math.isinf(df):
        return t
    scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    step = t
    # Newton's method: the distribution function is concave above zero, so steps from below never pass the quantile.
    while step > 1e-12 * t:
        density = math.exp(scale - (df + 1) / 2 * math.log1p(t * t / df))
        step = (two_sided_p(t, df) / 2 - (1 - share)) / density
        t += step
    return t


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below
        return 1 - _incomplete_beta(b, a, 1 - x)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    # The convergents upper / lower, scaled so that lower stays 1.
    before_upper, before_lower, upper = 1.0, 0.0, 1.0
    for m in range(10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)) if m else 0.0
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        last = upper
        for term in (even, odd) if m else (odd,):
            next_upper, next_lower = upper + term * before_upper, 1 + term * before_lower
            before_upper, before_lower, upper = upper / next_lower, 1 / next_lower, next_upper / next_lower
        if abs(upper - last) < 1e-15 * abs(upper):
            break
    return math.exp(log_front) / (a * upper)
