"""Batches: every example once, within the bounds, decided by the seed."""

import random
import statistics

import pytest

from tasks.training.trainer import plan_batches
from tests.tasks.training.test_trainer import Line, fit


def sizes_like_text(n=500):
    draw = random.Random(0)
    return [1 + int(draw.expovariate(1 / 20)) for _ in range(n)]


@pytest.mark.parametrize(("shuffle_seed", "by_length"), [(None, True), (1, True), (2, True), (1, False), (2, False)])
@pytest.mark.parametrize(("max_examples", "max_tokens"), [(1, 1000), (8, 100), (64, 200), (64, 10**9), (10**6, 300)])
def test_every_example_once_and_within_bounds(max_examples, max_tokens, shuffle_seed, by_length):
    sizes = sizes_like_text()
    batches = plan_batches(sizes, max_examples, max_tokens, shuffle_seed, by_length)
    assert sorted(example for batch in batches for example in batch) == list(range(len(sizes)))
    for batch in batches:
        assert 0 < len(batch) <= max_examples
        assert len(batch) == 1 or len(batch) * max(sizes[example] for example in batch) <= max_tokens


def test_batches_are_as_large_as_the_bounds_allow():
    assert [len(batch) for batch in plan_batches([5] * 10, 4, 10**9)] == [4, 4, 2]
    assert [len(batch) for batch in plan_batches([5] * 10, 100, 20)] == [4, 4, 2]


@pytest.mark.parametrize("shuffle_seed", [None, 1])
def test_an_example_over_the_bound_is_a_batch_by_itself(shuffle_seed):
    batches = plan_batches([3, 999, 4, 5], 64, 100, shuffle_seed)
    assert [1] in batches
    assert sorted(map(sorted, batches)) == [[0, 2, 3], [1]]


def test_lengths_are_alike_in_a_batch():
    """Padding is what it saves: a third of what batches in any order would need, at most."""
    sizes = sizes_like_text()

    def padding(batches):
        return sum(len(batch) * max(sizes[example] for example in batch) for batch in batches) - sum(sizes)

    in_order = [list(range(start, min(start + 32, 500))) for start in range(0, 500, 32)]
    assert padding(plan_batches(sizes, 32, 10**9, shuffle_seed=1)) < padding(in_order) / 3


def test_random_batches_mix_all_lengths():
    """Each batch is a draw from all: its mean length is near the mean of all, and there are as many batches."""
    sizes = sizes_like_text(6400)
    batches = plan_batches(sizes, 64, 10**9, 3, by_length=False)
    assert len(batches) == len(plan_batches(sizes, 64, 10**9, 3)) == 100
    mean, spread = statistics.fmean(sizes), statistics.stdev(sizes)
    off = [(statistics.fmean(sizes[example] for example in batch) - mean) / (spread / 8) for batch in batches]
    assert max(map(abs, off)) < 5
    assert 0.7 < statistics.stdev(off) < 1.3, "standard normal"


@pytest.mark.parametrize("by_length", [True, False])
def test_seeds_decide_the_batches_and_their_order(by_length):
    sizes = sizes_like_text()
    first, again, other = (plan_batches(sizes, 16, 2000, seed, by_length) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in other}, (
        "other batches, not only order"
    )
    longest = [max(sizes[example] for example in batch) for batch in first]
    assert longest != sorted(longest)


def test_the_global_generator_is_unchanged():
    random.seed(5)
    expected = random.Random(5).random()
    plan_batches([1, 2, 3], 2, 10, shuffle_seed=1)
    assert random.random() == expected


def test_the_trainer_s_key_reaches_them():
    """Two examples a batch, of length 1 or 50: by length a batch never has both."""
    train = [(str(number), length, 0.0) for number, length in enumerate([1, 50] * 20)]
    mixed = {}
    for kind in ("length", "random"):
        task, batches = Line([0]), []
        task.collate = lambda examples, task=task, to=batches: to.append(examples) or Line.collate(task, examples)
        fit(task, train, epochs=1, batch_size=2, batches=kind)
        trained = batches[:20]  # the others are dev's
        assert sorted(example[0] for batch in trained for example in batch) == sorted(example[0] for example in train)
        mixed[kind] = sum(len({example[1] for example in batch}) == 2 for batch in trained)
    assert mixed["length"] == 0
    assert mixed["random"] > 3


def test_without_a_seed_by_length_and_number():
    assert plan_batches([3, 1, 3, 2], 2, 100) == [[1, 3], [0, 2]]
    assert plan_batches([], 2, 100) == []


@pytest.mark.parametrize(("max_examples", "max_tokens"), [(0, 10), (10, 0), (-1, 10)])
def test_limits_below_one_are_an_error(max_examples, max_tokens):
    with pytest.raises(ValueError, match="at least one example and token"):
        plan_batches([1], max_examples, max_tokens)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_example_does_not_count_in_the_batches_after_it(seed):
    """Twenty examples of one token fill two batches of ten, or three where the long one comes between them."""
    batches = plan_batches([10] + [1] * 20, 99, max_tokens=10, shuffle_seed=seed, by_length=False)
    assert len(batches) <= 4
