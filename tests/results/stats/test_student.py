"""Student's t against printed tables and closed forms."""

import math
from statistics import NormalDist

import pytest
from scipy.special import stdtr, stdtrit

from results.stats import Spread, combined, quantile, two_sided_p


# From printed tables of Student's t, to their last digit.
@pytest.mark.parametrize(
    ("df", "at_95", "at_975", "at_995"),
    [
        (1, 6.314, 12.706, 63.657),
        (2, 2.920, 4.303, 9.925),
        (4, 2.132, 2.776, 4.604),
        (10, 1.812, 2.228, 3.169),
        (30, 1.697, 2.042, 2.750),
        (120, 1.658, 1.980, 2.617),
    ],
)
def test_quantiles_of_the_printed_table(df, at_95, at_975, at_995):
    found = [quantile(share, df) for share in (0.95, 0.975, 0.995)]
    assert found == pytest.approx([at_95, at_975, at_995], abs=0.0005)


@pytest.mark.parametrize("df", [1, 1.3, 2, 3.9, 8, 57.3, 400, 3000, 1e5])
def test_it_is_what_scipy_computes(df):
    for t in (0.0, 0.01, 0.5, 2.0, 3.5, 10.0, 30.0):
        assert two_sided_p(-t, df) == pytest.approx(2 * stdtr(df, -t), rel=1e-12)
    for share in (0.55, 0.95, 0.975, 0.9999):
        assert quantile(share, df) == pytest.approx(stdtrit(df, share), rel=1e-12)


def test_closed_forms_for_one_and_two_degrees_of_freedom():
    for t in (0.0, 1e-3, 0.5, 2.0, 30.0):
        assert two_sided_p(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=1e-12)
        assert two_sided_p(-t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)


def test_the_quantile_inverts_p_for_broken_degrees_of_freedom():
    for df in (1.0, 1.3, 2.7, 19.5, 1e5):
        assert two_sided_p(quantile(0.975, df), df) == pytest.approx(0.05, rel=1e-9)


def test_endless_degrees_of_freedom_are_the_normal_distribution():
    assert quantile(0.975, math.inf) == pytest.approx(NormalDist().inv_cdf(0.975), rel=1e-12)
    assert two_sided_p(1.5, math.inf) == pytest.approx(two_sided_p(1.5, 1e7), rel=1e-6)


def test_two_samples_have_the_degrees_of_freedom_of_welch():
    """By hand: variances 4 and 1 of means of 5 and 10 numbers: (0.8 + 0.1)^2 / (0.8^2 / 4 + 0.1^2 / 9)."""
    variance, df = combined([Spread(4 / 5, 4), Spread(1 / 10, 9)])
    assert variance == pytest.approx(0.9)
    assert df == pytest.approx(0.81 / (0.16 + 0.01 / 9))
    assert combined([Spread(0.0, 4), Spread(2.0, 7)]) == (2.0, 7)
    assert combined([]) == (0.0, math.inf)
