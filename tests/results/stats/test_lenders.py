"""The deviation that a single run borrows: the largest of its task's arms with three or more seeds."""

import random
from dataclasses import replace

import pytest

from results.experiments import load_experiment
from results.records.collect import collect
from results.stats import quantile
from results.tables.fill import Selection, fill, fill_all
from tests.results.making import make_record, save

OWN = """
title = "Two arms"
seeds = [1]
compare = ["glove", "elmo"]
[arms]
glove = ["features=glove"]
elmo = ["features=elmo"]
[[rows]]
overrides = ["task=ner", "data=paper"]
"""
STEADY, WIDE, IDLE = (50.0, 51.0, 52.0), (30.0, 32.0, 34.0, 36.0), (0.0, 20.0, 40.0)


def save_runs(runs, features, scores, **options):
    for seed, score in enumerate(scores, start=1):
        save(runs, make_record(score, features=features, seed=seed, **options))


@pytest.fixture
def runs(tmp_path):
    """Single runs of both arms, and others of the same task; only those of WIDE and STEADY count."""
    for features in ("glove", "elmo"):
        save_runs(tmp_path / "runs", features, [60.0])
    save_runs(tmp_path / "runs", "elmo_layer0", STEADY)
    save_runs(tmp_path / "runs", "elmo_random", WIDE)
    save_runs(tmp_path / "runs", "word2vec", [10.0, 90.0])  # too few seeds
    save_runs(tmp_path / "runs", "elmo_shuffled", IDLE)  # one learned nothing
    save_runs(tmp_path / "runs", "flair", IDLE[1:] * 2, variant={"train_fraction": 0.1})
    save_runs(tmp_path / "runs", "masked", IDLE[1:] * 2, task="srl")
    save_runs(tmp_path / "runs", "static_elmo", IDLE[1:] * 2, recipe=9)
    return tmp_path / "runs"


def row_of(runs, label=""):
    table = fill_all(collect([runs]), Selection())
    (row,) = [row for row in [*table.rows, *table.others] if row.task == "ner" and row.label == label]
    return row


def test_it_is_the_largest_and_has_the_seeds_of_all(runs):
    """Variance 20 / 3 for both arms; 2 and 3 degrees of freedom."""
    found = row_of(runs).interval
    half = quantile(0.975, 5) * (2 * 20 / 3) ** 0.5
    assert (found.low, found.high, found.few_seeds) == pytest.approx((-half, half, True))


def test_a_share_of_the_data_has_a_lender_of_its_own(runs):
    save_runs(runs, "glove", [60.0], variant={"train_fraction": 0.1})
    save_runs(runs, "elmo", [60.0], variant={"train_fraction": 0.1})
    found = row_of(runs, "train_fraction=0.1").interval
    assert found.high == pytest.approx(quantile(0.975, 3) * (2 * 400 / 3) ** 0.5)


def test_an_experiment_without_the_lender_has_the_same_interval(runs, own):
    (line,) = fill(collect([runs]), load_experiment(str(own))).rows
    assert {group.features for group in line.groups} == {"glove", "elmo"}
    assert line.interval == row_of(runs).interval


def test_examples_of_the_lender_are_read(tmp_path, own):
    """Else its chance within the test set would count twice: the interval would be wider."""
    runs = tmp_path / "runs"
    for features, count in (("glove", 1), ("elmo", 1), ("elmo_random", 12)):
        for seed in range(1, count + 1):
            draw = random.Random(f"{features} {seed}")
            right = [{"f1": 100.0 * (draw.random() < 0.5)} for _ in range(200)]
            score = sum(example["f1"] for example in right) / 200
            save(runs, replace(make_record(score, features=features, seed=seed), metrics={}), right)
    row = row_of(runs)
    (line,) = fill(collect([runs]), load_experiment(str(own))).rows
    assert line.interval == row.interval
    (lender,) = row.lenders
    without = replace(row, lenders=[replace(lender, group=replace(lender.group, examples=()))])
    assert without.interval.high > row.interval.high
