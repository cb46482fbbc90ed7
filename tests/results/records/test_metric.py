"""Metrics as declarations: scores from counts of single examples."""

import itertools
import random
from dataclasses import asdict

import numpy as np
import pytest

from results.records.metric import Metric, Ratio, mean_of
from results.records.typed_json import decode

MICRO = Metric([[Ratio({"tp": 200}, {"tp": 2, "fp": 1, "fn": 1})]])


def pair(name):
    """Precision and recall with numerators of their own, as of B-cubed."""
    return [Ratio({f"{name}_p": 100}, {f"{name}_guessed": 1}), Ratio({f"{name}_r": 100}, {f"{name}_gold": 1})]


def test_scores_by_hand():
    """3 of 4 right; 2 tp, 1 fp, 3 fn -> 4 / 8; the mean of 40 and 60."""
    assert mean_of("correct", 100).of_examples([{"correct": c} for c in (1, 0, 1, 1)]) == 75
    assert MICRO.of_examples([{"tp": 2, "fp": 0, "fn": 3}, {"tp": 0, "fp": 1, "fn": 0}]) == 50
    assert mean_of("overlap").of_examples([{"overlap": 40.0, "article": 1}, {"overlap": 60.0, "article": 2}]) == 50


def test_zero_where_nothing_was_counted():
    assert MICRO.of_examples([{"tp": 0, "fp": 0, "fn": 0}]) == 0
    empty = {"a_p": 0, "a_guessed": 0, "a_r": 0, "a_gold": 3}
    assert Metric([pair("a")]).of_examples([empty]) == 0


def test_no_score_without_examples_or_columns():
    assert MICRO.of_examples([]) is None
    assert MICRO.of_examples([{"tp": 1, "fp": 0, "fn": 0}, {"tp": 1, "fp": 0}]) is None


def test_an_average_of_several():
    """As CoNLL-2012 scores coreference: the mean of three F1s, each from precision and recall."""
    draw = random.Random(3)
    columns = [f"{name}_{part}" for name, part in itertools.product("abc", ("p", "guessed", "r", "gold"))]
    examples = [{column: draw.uniform(1, 5) for column in columns} for _ in range(7)]
    metric = Metric([pair(name) for name in "abc"], unit="document")
    total = {column: sum(example[column] for example in examples) for column in columns}
    expected = []
    for name in "abc":
        precision = total[f"{name}_p"] / total[f"{name}_guessed"]
        recall = total[f"{name}_r"] / total[f"{name}_gold"]
        expected.append(100 / ((1 / precision + 1 / recall) / 2))
    assert metric.of_examples(examples) == pytest.approx(sum(expected) / 3)
    assert sorted(metric.columns) == sorted(columns)


def test_arrays_of_sums_give_the_score_of_each():
    """Resampling needs many scores at once."""
    counts = np.array([[[2, 0, 3], [0, 1, 0]], [[0, 0, 0], [4, 4, 4]]])  # (resamples, runs, columns)
    sums = {name: counts[..., i] for i, name in enumerate(MICRO.columns)}
    found = MICRO.score(sums, np.full((2, 2), 10))
    assert found == pytest.approx(np.array([[400 / 7, 0], [0, 50]]))


@pytest.mark.parametrize("terms", [[], [[]], [[Ratio({"a": 1})] * 3]])
def test_a_formula_without_meaning_is_refused(terms):
    with pytest.raises(ValueError, match="expected at least one, each of one ratio or two"):
        Metric(terms)


def test_a_declaration_survives_json():
    metric = Metric([pair("a"), [Ratio({"b": 100})]], unit="document", title="mean")
    assert asdict(decode(Metric, asdict(metric))) == asdict(metric)


def test_an_example_is_right_if_nothing_can_be_added():
    assert [MICRO.is_right({"tp": tp, "fp": fp, "fn": fn}) for tp, fp, fn in itertools.product(range(3), repeat=3)] == [
        fp == fn == 0 for _, fp, fn in itertools.product(range(3), repeat=3)
    ]
    assert [mean_of("correct", 100).is_right({"correct": value}) for value in (0, 1)] == [False, True]
    assert [mean_of("share").is_right({"share": value}) for value in (99.9, 100.0)] == [False, True]
    both = Metric([[Ratio({"a": 100}, {"b": 1}), Ratio({"a": 100}, {"c": 1})]])
    assert both.is_right({"a": sum([0.1] * 10), "b": 1, "c": 1.0})
    assert not both.is_right({"a": 1, "b": 1, "c": 2})
    with pytest.raises(KeyError):
        MICRO.is_right({"tp": 1})
