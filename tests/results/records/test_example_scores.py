"""Scores of test examples: reading, refusing, and computing the run's score."""

import json
import math

import pytest

from results.records.example_scores import ExamplesUnreadable, read_examples, score_of


def written(path, **content):
    path.write_text(json.dumps({"schema": 1, "fingerprint": "ab", "scores": [{"correct": 1}]} | content))
    return path


def test_a_missing_file_is_none_and_a_whole_one_is_read(tmp_path):
    assert read_examples(tmp_path / "none.json", "ab") is None
    assert read_examples(written(tmp_path / "examples.json"), "ab") == [{"correct": 1}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"fingerprint": "cd"}, "expected the fingerprint of the record next to it, ab, found cd"),
        ({"scores": []}, "expected a list of objects with finite numbers"),
        ({"scores": [1, 2]}, "expected a list of objects with finite numbers"),
        ({"scores": [{"correct": "yes"}]}, "expected a list of objects with finite numbers"),
        ({"scores": [{"correct": math.nan}]}, "NaN is not a JSON number"),
    ],
)
def test_what_is_not_of_the_run_is_refused_with_the_reason(tmp_path, content, reason):
    path = written(tmp_path / "examples.json", **content)
    with pytest.raises(ExamplesUnreadable, match=reason) as caught:
        read_examples(path, "ab")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_file_cut_short_is_refused(tmp_path, text):
    path = tmp_path / "examples.json"
    path.write_text(text)
    with pytest.raises(ExamplesUnreadable, match="restore the file from a copy"):
        read_examples(path, "ab")


def test_the_score_is_made_again():
    """By hand: 3 of 4; 2 tp, 1 fp, 3 fn -> 4 / 8; the mean of 40 and 60."""
    assert score_of([{"correct": c} for c in (1, 0, 1, 1)], "accuracy") == 75
    assert score_of([{"tp": 2, "fp": 0, "fn": 3}, {"tp": 0, "fp": 1, "fn": 0}], "f1") == 50
    assert score_of([{"f1": 40.0}, {"f1": 60.0}], "f1") == 50
    assert score_of([{"tp": 0, "fp": 0, "fn": 0}], "f1") == 0
    assert score_of([{"em": 1.0}], "f1") is None
