"""Arms that learned nothing, and data with warnings: what tables say about them."""

from dataclasses import replace

import pytest

from results.records.collect import collect
from results.tables.fill import Selection, fill_all
from tests.results.making import make_record, run_table, save


def classified(counts, **settings):
    """A run of classification with these counts by gold and predicted class."""
    right = sum(row[number] for number, row in enumerate(counts))
    record = make_record(
        100 * right / sum(map(sum, counts)), data="mine", task="classify", metric="accuracy", **settings
    )
    names = [f"class {number}" for number in range(len(counts))]
    return replace(record, details={"confusion": {"labels": names, "gold_by_predicted": counts}})


def notes(folder):
    return [finding.text for finding in fill_all(collect([folder]), Selection()).findings if finding.kind == "note"]


@pytest.mark.parametrize(
    ("counts", "nothing"),
    [
        ([[0, 7], [0, 3]], True),
        ([[0, 0, 7], [0, 0, 3], [0, 0, 0]], True),
        ([[1, 6], [0, 3]], False),
        ([[0, 0], [0, 9]], False),  # the test set has one class
        ([[0, 9], [3, 0]], True),  # all wrong: 0
    ],
)
def test_one_class_for_all_examples_or_zero(counts, nothing):
    assert classified(counts).learned_nothing is nothing


@pytest.mark.parametrize("confusion", [None, {}, [], {"labels": ["a"], "gold_by_predicted": [[1, 2]]}, {"labels": 1}])
def test_without_a_whole_confusion_matrix_the_score_decides(confusion):
    for score in (0.0, 50.0):
        record = replace(make_record(score), details={"confusion": confusion})
        assert record.learned_nothing is (score == 0)


def test_a_gain_of_zero_between_such_arms_has_a_line(tmp_path, capsys):
    for seed in (1, 2, 3):
        for features in ("glove", "elmo", "elmo_random"):
            save(tmp_path, classified([[0, 5], [0, 5]], features=features, seed=seed))
    save(tmp_path, classified([[4, 1], [0, 5]], features="glove", seed=4))
    status, out, _ = run_table(capsys, "--wide", "--runs", tmp_path)
    (line,) = [line for line in out.splitlines() if "learned nothing" in line]
    assert "GloVe (seeds 1 to 3), + ELMo (seeds 1 to 3), untrained biLM (control) (seeds 1 to 3)" in line
    assert "Try more epochs or smaller batches" in line
    assert status == 0


def test_warnings_about_data_are_shown_once(tmp_path):
    """Also where folds and draws of the training examples have other numbers."""
    for seed, features in enumerate(("glove", "elmo", "elmo"), start=1):
        warnings = [f"test: the texts of {seed} of 9 examples are also in train", "test: labels that train lacks: 'x'"]
        save(tmp_path, replace(make_record(seed=seed, features=features), data={"test": {"warnings": warnings}}))
    shown = [text for text in notes(tmp_path) if "data: " in text]
    assert [text.partition("data: ")[2] for text in shown] == [
        "test: the texts of 1 of 9 examples are also in train",
        "test: labels that train lacks: 'x'",
    ]
