"""Scores of test examples: reading and refusing."""

import json
import math

import pytest

from results.records.example_scores import ExamplesUnreadable, read_examples


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
def test_examples_of_another_run_are_refused_with_the_reason(tmp_path, content, reason):
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
