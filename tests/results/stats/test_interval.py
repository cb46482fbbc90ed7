"""The intervals of a gain and of the errors removed, against closed forms."""

import math
import random
import statistics
from dataclasses import replace

import numpy as np
import pytest

from results import stats
from results.stats import (
    ArmScores,
    Interval,
    corrected_signs,
    measured,
    quantile,
    seed_intervals,
)


def percent(sums):
    return 100 * sums[..., 0] / sums[..., 1]


def f1(sums):
    return 200 * sums[..., 0] / (2 * sums[..., 0] + sums[..., 1] + sums[..., 2])


def counts_of(runs):
    """(seeds, examples, 2): the score of each example, and one."""
    scores = np.array(runs, float)
    return np.stack([scores, np.ones_like(scores)], axis=2)


def drawn(seeds, examples, share, seed):
    draw = random.Random(seed)
    return [[int(draw.random() < share) for _ in range(examples)] for _ in range(seeds)]


def paired_intervals(first, second, recompute, clusters=None, unit="", lender=None):
    """Of the counts of both arms."""
    arms = [measured(counts, recompute, clusters) for counts in (first, second)]
    return stats.paired_intervals(*arms, clusters, unit, lender)


def gain_of(first, second, clusters=None):
    return paired_intervals(counts_of(first), counts_of(second), percent, clusters).gain


def test_equal_arms_differ_by_nothing():
    arm = [[1, 0, 1, 1]] * 3
    found = gain_of(arm, arm)
    assert (found.low, found.high, found.p) == (0, 0, 1)


def test_a_gain_has_no_interval_if_nothing_varies():
    """Otherwise a few examples, or two seeds with equal scores, would make it certain: an interval of no width."""
    assert seed_intervals([75.0, 75.0], [100.0, 100.0]) is None
    assert seed_intervals([75.0], [100.0, 100.0]) is None
    assert seed_intervals([75.0, 75.0], [75.0, 75.0]) is None
    assert seed_intervals([75.0, 75.0], [100.0, 99.0]) is not None
    wrong, right = counts_of([[0] * 7]), counts_of([[1] * 7])
    assert paired_intervals(wrong, right, percent) is None
    assert paired_intervals(wrong, wrong, percent) is None
    thirds = (counts_of([[score] * 7] * 2) for score in (1 / 3, 2 / 3))  # not exact as binary fractions
    assert paired_intervals(*thirds, percent) is None


def test_one_cluster_shows_nothing_beyond_the_seeds():
    article = [5] * 4
    one, other = counts_of([[1, 0, 0, 0]]), counts_of([[1, 1, 0, 1]])
    assert paired_intervals(one, other, percent, article) is None
    assert paired_intervals(one, one, percent, article) is None
    more = counts_of([[1, 1, 0, 1], [1, 1, 1, 1], [0, 1, 0, 1]])  # scores of 75, 100 and 50
    found = paired_intervals(one, more, percent, article, "article").gain
    alone = seed_intervals([25.0], [75.0, 100.0, 50.0]).gain
    assert (found.low, found.high, found.over) == pytest.approx((alone.low, alone.high, "seeds"))


def test_runs_that_agree_on_all_examples_give_the_interval_of_welch():
    """All examples of a run have one score, so only seeds vary."""
    first, second = [40.0, 42.0, 47.0], [50.0, 51.0, 55.0, 58.0]
    arms = [counts_of([[score / 100] * 20 for score in scores]) for scores in (first, second)]
    parts = [statistics.variance(scores) / len(scores) for scores in (first, second)]
    df = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3)
    gain = statistics.fmean(second) - statistics.fmean(first)
    half = quantile(0.975, df) * math.sqrt(sum(parts))
    for found in (paired_intervals(*arms, percent).gain, seed_intervals(first, second).gain):
        assert (found.low, found.high) == pytest.approx((gain - half, gain + half))
        assert found.seeds == 3


def test_one_run_each_gives_the_paired_t_test_of_the_examples():
    first, second = drawn(1, 400, 0.5, seed=1), drawn(1, 400, 0.6, seed=2)
    differences = [100 * (b - a) for a, b in zip(first[0], second[0], strict=True)]
    half = quantile(0.975, 399) * statistics.stdev(differences) / 20
    found = gain_of(first, second)
    mean = statistics.fmean(differences)
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half))
    assert found.over == "examples"


@pytest.mark.parametrize(("easy", "share"), [(0, 0.99), (100, 0.8)])
def test_chance_within_the_test_set_is_not_counted_twice(easy, share):
    """The variance components of runs that differ by chance on examples, by the sums of squares in a loop.

    The second arm is always right on `easy` examples; noise is about this share of what the examples show.
    """
    first, second = drawn(4, 300, 0.5, seed=1), [[1] * easy + run[easy:] for run in drawn(4, 300, 0.6, seed=2)]
    of_examples = [[100 * statistics.fmean(column) for column in zip(*arm, strict=True)] for arm in (first, second)]
    examples = statistics.variance([b - a for a, b in zip(*of_examples, strict=True)]) / 300
    seeds, noise = [], 0.0
    for arm, columns in zip((first, second), of_examples, strict=True):
        scores = [100 * statistics.fmean(run) for run in arm]
        seeds.append(statistics.variance(scores) / 4)
        for run, score in zip(arm, scores, strict=True):
            rest = [100 * x - score - mean + statistics.fmean(columns) for x, mean in zip(run, columns, strict=True)]
            noise += sum(r * r for r in rest) / (3 * 299) / (4 * 300)
    left = examples - noise
    variance = sum(seeds) + left
    # What is left is as uncertain as all that the examples show, but has at least one degree of freedom.
    df = variance**2 / (seeds[0] ** 2 / 3 + seeds[1] ** 2 / 3 + min(examples**2 / 299, left**2))
    found = gain_of(first, second)
    assert noise / examples == pytest.approx(share, abs=0.05)
    assert (found.high - found.low) / 2 == pytest.approx(quantile(0.975, df) * math.sqrt(variance))
    assert found.over == "examples and seeds"


def test_examples_that_are_hard_for_both_arms_widen_nothing():
    hard = [i % 2 for i in range(300)]
    better = [int(i % 2 or i % 20 == 0) for i in range(300)]
    paired, unpaired = gain_of([hard], [better]), gain_of([hard], [better[150:] + better[:150][::-1]])
    assert paired.low > 0
    assert paired.high - paired.low < 0.5 * (unpaired.high - unpaired.low)


def test_arms_are_not_paired_by_seed():
    first, second = [[50.0] * 9, [60.0] * 9, [70.0] * 9], [[51.0] * 9, [61.0] * 9, [71.0] * 9]
    forward, backward = (gain_of(np.array(first) / 100, np.array(order) / 100) for order in (second, second[::-1]))
    assert (forward.low, forward.high) == pytest.approx((backward.low, backward.high))
    assert forward.low < -10


def test_f1_is_that_of_all_sentences_together():
    """Leaving out each of three sentences, worked out by hand for one run of either arm."""
    first = np.array([[[4, 1, 1], [2, 0, 3], [5, 2, 0]]], float)
    second = np.array([[[5, 0, 1], [4, 1, 1], [5, 1, 0]]], float)
    gains = []
    for kept in ([1, 2], [0, 2], [0, 1]):
        scores = []
        for arm in (first, second):
            tp, fp, fn = (sum(arm[0, i, column] for i in kept) for column in range(3))
            scores.append(200 * tp / (2 * tp + fp + fn))
        gains.append(scores[1] - scores[0])
    variance = 2 / 3 * sum((gain - statistics.fmean(gains)) ** 2 for gain in gains)  # Tukey's jackknife
    found = paired_intervals(first, second, f1).gain
    assert (found.high - found.low) / 2 == pytest.approx(quantile(0.975, 2) * math.sqrt(variance))
    assert (found.high + found.low) / 2 == pytest.approx(100 * (28 / 32 - 22 / 29))


def test_clusters_count_as_one_example_each():
    """Six articles of ten equal questions: as sure as six questions, in whatever order they stand."""
    first, second = [0, 1, 0, 1, 1, 0], [1, 1, 1, 0, 1, 1]
    articles = list(range(6)) * 10
    found = gain_of([first * 10], [second * 10], articles)
    alone = gain_of([first], [second])
    assert (found.low, found.high, found.p) == pytest.approx((alone.low, alone.high, alone.p))
    assert found.clusters == 6
    assert gain_of([first * 10], [second * 10]).low > found.low


def test_the_errors_removed_are_the_shares_that_are_not_rejected():
    """At both ends, the second mean minus (1 - share) of the first, less the share of 100, is t errors from zero."""
    first, second = [57.0, 60.0, 63.0], [69.5, 70.0, 70.5]  # variances 9 and 0.25
    found = seed_intervals(first, second)
    parts = 9 / 3, 0.25 / 3
    t = quantile(0.975, sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 2))
    for share, side in ((found.cut.low / 100, 1), (found.cut.high / 100, -1)):
        estimate = 70 - (1 - share) * 60 - 100 * share
        assert estimate / math.sqrt((1 - share) ** 2 * parts[0] + parts[1]) == pytest.approx(side * t)
    assert found.cut.low < 25 < found.cut.high
    assert found.cut.p == found.gain.p


def test_the_errors_removed_of_one_run_each_vary_with_paired_examples():
    """At both ends, the t-test of b - a - share * (100 - a) over the examples gives 5 %."""
    first, second = drawn(1, 400, 0.5, seed=1), drawn(1, 400, 0.6, seed=2)
    found = paired_intervals(counts_of(first), counts_of(second), percent).cut
    for share in (found.low / 100, found.high / 100):
        terms = [100 * (b - a - share * (1 - a)) for a, b in zip(first[0], second[0], strict=True)]
        t = abs(statistics.fmean(terms)) / (statistics.stdev(terms) / 20)
        assert t == pytest.approx(quantile(0.975, 399))


def test_the_gain_and_the_errors_removed_agree_about_zero():
    """Seeds whose gain is just not beyond noise, and whose errors vary so much that a share of them could be."""
    generator = np.random.default_rng(1)
    near_zero = 0
    for _ in range(2000):
        first, second = generator.normal(80, 3, 4), generator.normal(84, 3, 4)
        found = seed_intervals(first.tolist(), second.tolist())
        near_zero += 0.02 < found.gain.p < 0.1
        assert found.cut is None or found.cut.sign == found.gain.sign
    assert near_zero > 200


def test_the_errors_removed_are_within_their_interval():
    """Few examples and seeds: the variances of both means and of the gain, each estimated alone, may contradict."""
    shown = 0
    for seed in range(300):
        draw = np.random.default_rng(seed)
        chances = draw.random(12)
        first, second = (draw.random((2, 12)) < chances), (draw.random((2, 12)) < 0.5 + 0.5 * chances)
        found = paired_intervals(counts_of(first), counts_of(second), percent)
        if found is None or found.cut is None:
            continue
        shown += 1
        removed = 100 * (second.mean() - first.mean()) / (1 - first.mean())
        assert found.cut.low - 1e-6 <= removed <= found.cut.high + 1e-6
    assert shown > 100


def test_no_share_is_too_large_if_there_may_be_no_errors():
    assert seed_intervals([100.0, 100.0], [99.0, 100.0]).cut is None
    assert seed_intervals([99.0, 99.9, 98.0], [99.5, 99.0, 99.8]).cut is None


def test_a_single_run_has_the_deviation_of_the_other_arm():
    found = seed_intervals([50.0], [60.0, 62.0, 64.0]).gain
    half = quantile(0.975, 2) * math.sqrt(4 * (1 + 1 / 3))
    assert (found.low, found.high) == pytest.approx((12 - half, 12 + half))
    assert found.few_seeds
    assert seed_intervals([50.0], [60.0]) is None


def test_a_single_run_borrows_the_deviation_that_is_lent():
    """Variances 16 for the single run and 4 for the mean of three; the lender's 16 has 10 degrees of freedom."""
    lender = ArmScores([50.0, 54.0, 58.0], df=10)
    found = seed_intervals([50.0], [60.0, 62.0, 64.0], lender).gain
    parts = 16, 4 / 3
    half = quantile(0.975, sum(parts) ** 2 / (parts[0] ** 2 / 10 + parts[1] ** 2 / 2)) * math.sqrt(sum(parts))
    assert (found.low, found.high) == pytest.approx((12 - half, 12 + half))
    both = seed_intervals([50.0], [60.0], lender).gain  # one deviation for both
    half = quantile(0.975, 10) * math.sqrt(16 + 16)
    assert (both.low, both.high, both.few_seeds) == pytest.approx((10 - half, 10 + half, True))
    several = [60.0, 62.0], [60.0, 62.0, 64.0]
    assert seed_intervals(*several, lender) == seed_intervals(*several)


def test_what_a_lender_shows_within_the_test_set_is_not_counted_twice():
    """Runs that differ by chance on examples alone: their deviation adds next to nothing to that of the examples."""
    first, second, more = (counts_of(drawn(runs, 2000, 0.5, seed)) for runs, seed in ((1, 1), (1, 2), (40, 3)))
    alone = paired_intervals(first, second, percent).gain
    lent = paired_intervals(first, second, percent, lender=measured(more, percent, None)).gain
    twice = paired_intervals(first, second, percent, lender=replace(measured(more, percent, None), noise=0.0)).gain
    widths = [found.high - found.low for found in (alone, lent, twice)]
    assert widths[1] / widths[0] == pytest.approx(1, abs=0.1)
    assert widths[2] / widths[0] == pytest.approx(math.sqrt(2), abs=0.1)
    assert (alone.over, lent.over) == ("examples", "examples and seeds")


def test_folds_are_paired_and_show_all_that_varies():
    """Ten folds of equal size: the paired t-test of their differences, with 9 degrees of freedom, for any seeds."""
    generator = np.random.default_rng(3)
    arms = [generator.random((2, 10)) < share for share in (0.5, 0.6)]  # (seeds, folds)
    folds = [fold for fold in range(10) for _ in range(4)]
    counts = [counts_of(np.repeat(own, 4, axis=1)) for own in arms]
    differences = 100 * (arms[1].mean(axis=0) - arms[0].mean(axis=0))
    half = quantile(0.975, 9) * differences.std(ddof=1) / math.sqrt(10)
    found = paired_intervals(*counts, percent, folds, "fold").gain
    assert (found.low, found.high) == pytest.approx((differences.mean() - half, differences.mean() + half))
    assert (found.over, found.clusters, found.few_seeds) == ("folds", 10, False)


def test_signs_of_several_arms_are_corrected_by_holm():
    """Limits of 0.05 / 3, / 2 and / 1 for the smallest p, the next and the last; after one above, none counts."""

    def signs(*ps):
        found = {name: Interval(1.0, 2.0, p, "seeds", 3) for name, p in zip("abc", ps, strict=False)}
        return list(corrected_signs({"base": None, **found}).values())[1:]

    assert signs(0.04) == [1]
    assert signs(0.04, 0.01) == [1, 1]
    assert signs(0.04, 0.03) == [0, 0]
    assert signs(0.03, 0.001, 0.02) == [1, 1, 1]
    assert signs(0.03, 0.001, 0.026) == [0, 1, 0]
    assert corrected_signs({"a": Interval(-2.0, -1.0, 0.01, "seeds", 3), "base": None}) == {"a": -1, "base": 0}


@pytest.mark.parametrize(("first", "second", "few"), [(3, 3, False), (2, 5, True), (5, 1, True)])
def test_fewer_than_three_seeds_are_marked(first, second, few):
    assert gain_of(drawn(first, 50, 0.5, 1), drawn(second, 50, 0.6, 2)).few_seeds is few


@pytest.mark.parametrize(("low", "high", "sign"), [(0.1, 2.0, 1), (-2.0, -0.1, -1), (-0.1, 0.1, 0), (0.0, 1.0, 0)])
def test_the_sign_is_that_of_both_ends(low, high, sign):
    assert Interval(low, high, 0.5, "seeds", 3).sign == sign
