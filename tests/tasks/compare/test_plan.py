"""Splits of own data: equal texts stay together, labels keep their shares, and the files are an ordinary experiment."""

import csv
from collections import Counter

import yaml

from results.experiments import load_experiment
from tasks.compare.plan import FEW, FOLDS, PARTS, make_plan, parts_of
from tasks.compare.reading import OwnData, OwnExample


def examples(count, labels="aab"):
    return [OwnExample((f"text {number}",), labels[number % len(labels)]) for number in range(count)]


def own(rows):
    return OwnData("classify", ["review", "stars"], rows, [])


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def test_parts_have_each_example_once_and_equal_shares_of_labels():
    rows = examples(300)
    parts = parts_of(rows)
    assert len(parts) == PARTS
    assert sorted(row.texts for part in parts for row in part) == sorted(row.texts for row in rows)
    assert [Counter(row.label for row in part) for part in parts] == [Counter(a=20, b=10)] * PARTS


def test_equal_texts_are_in_one_part_whatever_their_case_and_spaces():
    rows = [*examples(200), *(OwnExample((f"Text  {number}",), "b") for number in range(0, 200, 2))]
    homes = {}
    for number, part in enumerate(parts_of(rows)):
        for row in part:
            homes.setdefault(" ".join(row.texts[0].lower().split()), set()).add(number)
    assert all(len(places) == 1 for places in homes.values())


def test_pairs_of_one_premise_are_in_one_part_unless_many_have_it():
    rows = [OwnExample((f"premise {number // 3}", f"hypothesis {number}"), "abc"[number % 3]) for number in range(300)]
    homes = [{row.texts[0] for row in part} for part in parts_of(rows)]
    assert all(not first & second for i, first in enumerate(homes) for second in homes[:i])
    alike = [OwnExample(("one question", f"answer {number}"), "ab"[number % 2]) for number in range(100)]
    assert {len(part) for part in parts_of(alike)} == {10}


def test_few_examples_are_each_tested_once(tmp_path):
    plan = make_plan(own(examples(100)), "My data", tmp_path, [1, 2, 3])
    folder = plan.folder / "data"
    tests = [row for fold in range(FOLDS) for row in read(folder / f"{fold}-test.csv")]
    assert sorted(tests) == sorted([*row.texts, row.label] for row in plan.data.rows)
    for fold in range(FOLDS):
        splits = [{text for text, _ in read(folder / f"{fold}-{split}.csv")} for split in ("train", "dev", "test")]
        assert sum(map(len, splits)) == len(set.union(*splits)) == 100
    config = yaml.safe_load((plan.folder / f"{plan.name}.yaml").read_text())
    assert config["folds"] == FOLDS
    assert config["reader"] == {"text": "review", "label": "stars"}


def test_many_examples_have_one_test_set_of_a_fifth(tmp_path):
    plan = make_plan(own(examples(FEW)), "x", tmp_path, [1, 2, 3])
    assert plan.folds is None
    assert len(plan.tested) == FEW // 5


def test_the_experiment_has_all_runs_and_one_recipe(tmp_path):
    plan = make_plan(own(examples(100)), "My data", tmp_path, [1, 2, 3])
    experiment = load_experiment(str(plan.experiment))
    assert len(experiment.cells) == plan.runs == 4 * 3 * FOLDS
    settings = {
        tuple(sorted((k, v) for k, v in cell.named.items() if k not in ("features", "fold")))
        for cell in experiment.cells
    }
    assert len(settings) == 1
    assert {cell.identity.data for cell in experiment.cells} == {plan.name}


def test_equal_data_have_one_name_and_changed_data_another(tmp_path):
    first, again = (make_plan(own(examples(100)), "x", tmp_path, [1]).name for _ in range(2))
    other = make_plan(own([*examples(99), OwnExample(("another",), "a")]), "x", tmp_path, [1]).name
    assert first == again != other


def test_more_than_the_most_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.compare.plan.MOST", 90)
    data = own(examples(100))
    plan = make_plan(data, "x", tmp_path, [1])
    assert len(plan.data.rows) == 90
    assert data.said == ["90 of the 100 examples are used, drawn at random"]
