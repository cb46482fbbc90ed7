"""Ranks by all pairwise differences: chances of a wrong one in simulated tables, and what the mean over tasks is."""

import statistics
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from results.stats import Interval, mean_over_tasks, seed_intervals, supported_ranks

ARMS, TASKS, SEEDS = "abcdef", 6, 3
REPEATS = 400  # the standard error of a share of 5 % is 1.1


def over_tasks(draw, shifts):
    """Six arms on six tasks: tasks differ, and how well an arm suits a task varies, too."""
    level, own = draw.normal(60, 15, TASKS), draw.normal(0, 3, (len(ARMS), TASKS))
    scores = dict(zip(ARMS, level + own + np.array(shifts)[:, None], strict=True))
    return {(a, b): mean_over_tasks((scores[b] - scores[a]).tolist()) for a, b in combinations(ARMS, 2)}


def over_seeds(draw, shifts):
    """Six arms on one task, three seeds of each."""
    scores = dict(zip(ARMS, draw.normal(60, 1, (len(ARMS), SEEDS)) + np.array(shifts)[:, None], strict=True))
    return {(a, b): seed_intervals(scores[a].tolist(), scores[b].tolist()).gain for a, b in combinations(ARMS, 2)}


@pytest.mark.parametrize("drawn", [over_tasks, over_seeds])
@pytest.mark.parametrize("shifts", [[0] * 6, [0, 0, 0, 30, 30, 30]], ids=["all equal", "two groups"])
def test_five_in_a_hundred_tables_at_most_have_a_wrong_rank(drawn, shifts):
    true = {arm: (1 + sum(s > own for s in shifts), sum(s >= own for s in shifts)) for arm, own in zip(ARMS, shifts)}  # noqa: B905
    draw, wrong, alone = np.random.default_rng(7), 0, 0
    for _ in range(REPEATS):
        pairs = drawn(draw, shifts)
        ranks = supported_ranks(pairs)
        wrong += any(low > true[arm][0] or high < true[arm][1] for arm, (low, high) in ranks.items())
        alone += any(pairs[pair].sign for pair in pairs if true[pair[0]] == true[pair[1]])
    assert wrong / REPEATS < 0.05 + 3 * 0.011
    assert alone / REPEATS > 0.1, "without a correction, more of them would be"


def test_what_differs_is_ranked():
    draw, shifts = np.random.default_rng(8), [0, 20, 40, 60, 80, 100]
    found = [supported_ranks(over_tasks(draw, shifts)) for _ in range(50)]
    right = {arm: (6 - number, 6 - number) for number, arm in enumerate(ARMS)}
    assert sum(ranks == right for ranks in found) > 40


def test_ranks_by_hand():
    """c is better than a and b, which do not differ; what nothing is known of may have any rank."""
    interval = {sign: Interval(sign - 0.5, sign + 0.5, 0.001, "tasks", 6) for sign in (-1, 0, 1)}
    pairs = {("a", "b"): interval[0], ("a", "c"): interval[1], ("c", "b"): interval[-1]}
    assert supported_ranks(pairs) == {"a": (2, 3), "b": (2, 3), "c": (1, 1)}
    assert supported_ranks({("a", "b"): None}) == {"a": (1, 2), "b": (1, 2)}
    assert supported_ranks({}) == {}


def test_the_mean_over_tasks_is_that_of_a_sample_of_tasks():
    gains = [11.2, -3.0, 4.5, 0.1, 7.7]
    found, expected = mean_over_tasks(gains), ttest_1samp(gains, 0.0)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.ends == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert sum(found.ends) / 2 == pytest.approx(statistics.fmean(gains))
    assert mean_over_tasks([1.0]) is None
    assert mean_over_tasks([1.0, 1.0]) is None
