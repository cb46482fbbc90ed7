"""The interval of a gain, against closed forms and a plain loop."""

import itertools
import math
import random
import statistics

import numpy as np
import pytest

from results.analysis import bootstrap
from results.analysis.bootstrap import FEWEST_SEEDS, paired_interval, seed_interval


def accuracies(seeds, examples, share, seed):
    draw = random.Random(seed)
    return [[{"correct": int(draw.random() < share)} for _ in range(examples)] for _ in range(seeds)]


def test_equal_arms_differ_by_nothing():
    arm = accuracies(3, 50, 0.6, seed=1)
    found = paired_interval(arm, arm, "accuracy", same_seeds=True)
    assert (found.low, found.high, found.p) == (0, 0, 1)


def test_one_run_each_gives_the_normal_approximation():
    """Of one seed the difference of paired examples has a variance that can be written down."""
    (first,), (second,) = accuracies(1, 400, 0.5, seed=1), accuracies(1, 400, 0.6, seed=2)
    differences = [100 * (b["correct"] - a["correct"]) for a, b in zip(first, second, strict=True)]
    mean = sum(differences) / 400
    spread = math.sqrt(sum((d - mean) ** 2 for d in differences) / 400 / 400)
    found = paired_interval([first], [second], "accuracy", same_seeds=True)
    assert found.low == pytest.approx(mean - 1.96 * spread, abs=0.5)
    assert found.high == pytest.approx(mean + 1.96 * spread, abs=0.5)


def test_pairing_counts():
    """Examples that are hard for both arms widen nothing: only where they differ is anything to be unsure of."""
    hard = [{"correct": int(i % 2)} for i in range(300)]
    better = [{"correct": int(i % 2 or i % 20 == 0)} for i in range(300)]
    paired = paired_interval([hard], [better], "accuracy", same_seeds=True)
    unpaired = paired_interval([hard], [better[150:] + better[:150][::-1]], "accuracy", same_seeds=True)
    assert paired.low > 0
    assert paired.high - paired.low < 0.5 * (unpaired.high - unpaired.low)


def test_seeds_that_disagree_widen_the_interval():
    low, high = [{"correct": 0}] * 40 + [{"correct": 1}] * 60, [{"correct": 0}] * 60 + [{"correct": 1}] * 40
    steady = paired_interval([low, low, low], [low, low, low], "accuracy", same_seeds=True)
    shaken = paired_interval([low, low, low], [low, high, low], "accuracy", same_seeds=True)
    assert steady.high - steady.low == 0
    assert shaken.low < -15
    assert shaken.high == 0


def test_f1_is_that_of_the_whole_not_the_mean_of_sentences():
    """Two sentences, one of a hundred entities and one of one: a resample may hold either twice."""
    baseline = [[{"tp": 0, "fp": 0, "fn": 100}, {"tp": 1, "fp": 0, "fn": 0}]]
    better = [[{"tp": 100, "fp": 0, "fn": 0}, {"tp": 1, "fp": 0, "fn": 0}]]
    found = paired_interval(baseline, better, "f1", same_seeds=True)
    assert found.low == 0  # the second sentence twice: both are perfect
    assert found.high == 100  # the first twice: nothing against everything


def test_scores_of_the_metric_s_own_name():
    baseline, better = [[{"f1": 40.0, "em": 0.0}] * 10], [[{"f1": 55.0, "em": 0.0}] * 10]
    found = paired_interval(baseline, better, "f1", same_seeds=True)
    assert found.low == pytest.approx(15)
    assert found.high == pytest.approx(15)
    assert found.p == 1 / 2000


@pytest.mark.parametrize(
    ("baseline", "other"),
    [([], []), ([[{"correct": 1}]], [[{"correct": 1}] * 2]), ([[{"other": 1}]], [[{"other": 1}]])],
    ids=["no runs", "other examples", "no such score"],
)
def test_what_cannot_be_paired_has_no_interval(baseline, other):
    assert paired_interval(baseline, other, "accuracy", same_seeds=True) is None


def test_arms_with_unequal_numbers_of_seeds():
    found = paired_interval(accuracies(2, 200, 0.3, 1), accuracies(5, 200, 0.7, 2), "accuracy", same_seeds=False)
    assert 25 < found.low < 40 < found.high < 55


def test_runs_of_other_seeds_are_not_paired_by_their_order():
    """Three bad to good seeds of either arm: one point apart if they were pairs, which they are not."""
    arms = [
        [[{"correct": int(i < right)} for i in range(100)] for right in rights]
        for rights in ((50, 60, 70), (51, 61, 71))
    ]
    first, second = arms
    pairs = paired_interval(first, second, "accuracy", same_seeds=True)
    others = [paired_interval(first, order, "accuracy", same_seeds=False) for order in (second, second[::-1])]
    assert pairs.low >= 0
    assert pairs.high < 5
    for found in others:
        assert found.low < -10
        assert found.high > 10
        assert found.p > 0.5


def test_seeds_alone_give_95_percent():
    """Against all 6^6 ways of drawing six differences."""
    gains = [0.4, 1.0, -0.2, 0.9, 0.3, 0.7]
    means = sorted(statistics.fmean(drawn) for drawn in itertools.product(gains, repeat=6))
    found = seed_interval(dict.fromkeys(range(6), 0.0), dict(enumerate(gains)))
    assert found.low == pytest.approx(means[int(0.025 * len(means))], abs=0.03)
    assert found.high == pytest.approx(means[int(0.975 * len(means))], abs=0.03)


def test_what_was_resampled_is_told():
    arm = accuracies(2, 20, 0.5, 1)
    assert paired_interval(arm[:1], arm[:1], "accuracy", same_seeds=True).over == "examples"
    assert paired_interval(arm, arm[:1], "accuracy", same_seeds=False).over == "examples"
    assert paired_interval(arm, arm, "accuracy", same_seeds=True).over == "examples and seeds"


def plain_interval(baseline, other, same_seeds):
    """The same by a loop that keeps nothing: accuracy, from draws in the order that is documented."""
    generator, found = np.random.default_rng(0), []
    runs = np.array([[100.0 * example["correct"] for example in run] for run in [*baseline, *other]])
    examples, split = runs.shape[1], len(baseline)
    for _ in range(20):
        counts = generator.multinomial(examples, [1 / examples] * examples, size=100)
        seeds = generator.integers(split, size=(100, split))
        others = seeds if same_seeds else generator.integers(len(other), size=(100, len(other)))
        for count, own, its in zip(counts, seeds, others, strict=True):
            scores = runs @ count / examples
            found.append(scores[split:][its].mean() - scores[:split][own].mean())
    shares = [sum(difference <= 0 for difference in found) / 2000, sum(difference >= 0 for difference in found) / 2000]
    return [*np.percentile(found, [2.5, 97.5]), min(1, max(1 / 2000, 2 * min(shares)))]


@pytest.mark.parametrize("most_kept", [0, 20_000], ids=["drawn each time", "kept"])
@pytest.mark.parametrize(("first", "second", "same_seeds"), [(3, 3, True), (3, 3, False), (2, 4, False)])
def test_kept_draws_are_those_of_a_loop_that_keeps_nothing(monkeypatch, first, second, same_seeds, most_kept):
    monkeypatch.setattr(bootstrap, "MOST_KEPT", most_kept)
    for seed in (1, 3):  # the second finds draws that are kept
        arms = accuracies(first, 60, 0.5, seed), accuracies(second, 60, 0.6, seed + 1)
        found = paired_interval(*arms, "accuracy", same_seeds=same_seeds)
        assert [found.low, found.high, found.p] == pytest.approx(plain_interval(*arms, same_seeds))


def test_pairs_of_arms_of_one_size_share_their_draws(monkeypatch):
    started, really = [], np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed: started.append(seed) or really(seed))
    for seed in range(5):
        paired_interval(*(accuracies(2, 37, 0.5, 10 * seed + arm) for arm in (1, 2)), "accuracy", same_seeds=True)
    assert started == [0]


def test_without_numpy_there_is_no_interval(monkeypatch):
    monkeypatch.setattr("results.analysis.bootstrap.find_spec", lambda name: None)
    arm = accuracies(2, 20, 0.5, 1)
    assert paired_interval(arm, arm, "accuracy", same_seeds=True) is None


def seeds(differences):
    return dict(enumerate([50.0] * len(differences))), {i: 50.0 + d for i, d in enumerate(differences)}


def test_below_six_seeds_there_is_no_p_from_seeds_alone():
    assert FEWEST_SEEDS == 6
    for count in range(6):
        assert seed_interval(*seeds([1.0] * count)) is None
    assert seed_interval(*seeds([1.0] * 6)) is not None
    baseline, other = seeds([1.0] * 6)
    assert seed_interval(baseline, {seed + 1: score for seed, score in other.items()}) is None  # five are shared


def test_p_from_seeds_is_the_share_of_sign_patterns():
    differences = [0.4, 1.0, -0.2, 0.9, 0.3, 0.7]
    found = seed_interval(*seeds(differences))
    sums = [sum(s * d for s, d in zip(p, differences, strict=True)) for p in itertools.product((1, -1), repeat=6)]
    assert found.p == pytest.approx(sum(abs(total) >= abs(sum(differences)) - 1e-6 for total in sums) / 64)
    assert found.over == "seeds"
    assert found.low < sum(differences) / 6 < found.high
    assert seed_interval(*seeds([1.0] * 6)).p == pytest.approx(2 / 64)  # the least that six seeds can give


def test_many_seeds_take_drawn_sign_patterns():
    found = seed_interval(*seeds([1.0, -1.0] * 10))
    assert found.p == 1
    assert seed_interval(*seeds([1.0 + i / 10 for i in range(20)])).p < 0.01
