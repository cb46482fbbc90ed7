"""The expected best of n draws, against an enumeration of all draws."""

import itertools
import statistics

import pytest

from results.analysis.expected_best import expected_best

SCORES = [81.2, 79.9, 84.0, 80.5]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_the_closed_form_is_the_mean_over_all_draws(n):
    draws = itertools.product(SCORES, repeat=n)
    assert expected_best(SCORES, n) == pytest.approx(statistics.fmean(max(draw) for draw in draws))


def test_equal_scores_count_each():
    scores = [70.0, 80.0, 80.0]
    draws = itertools.product(scores, repeat=2)
    assert expected_best(scores, 2) == pytest.approx(statistics.fmean(max(draw) for draw in draws))
