"""Scores and predictions of test examples: reading and refusing."""

import gzip
import json
import math

import pytest

from results.records.example_scores import (
    ExamplesUnreadable,
    Prediction,
    read_examples,
    read_predictions,
    write_examples,
    write_predictions,
)


def written(path, **content):
    content = {"schema": 1, "fingerprint": "ab", "scores": [{"correct": 1}]} | content
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return path


def test_a_missing_file_is_none_and_a_whole_one_is_read(tmp_path):
    assert read_examples(tmp_path / "none.json.gz", "ab") is None
    assert read_examples(written(tmp_path / "examples.json.gz"), "ab") == [{"correct": 1}]


def test_equal_scores_are_equal_bytes(tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        write_examples(tmp_path / name, "ab", [{"correct": 1, "f1": 0.1}])
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert read_examples(tmp_path / "a.json.gz", "ab") == [{"correct": 1, "f1": 0.1}]


def test_the_scores_of_an_earlier_version_are_read_from_a_file_that_is_not_compressed(tmp_path):
    written(tmp_path / "examples.json").write_text('{"fingerprint": "ab", "scores": [{"correct": 0}]}')
    assert read_examples(tmp_path / "examples.json.gz", "ab") == [{"correct": 0}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"fingerprint": "cd"}, "expected the fingerprint of the record next to it, ab, found cd"),
        ({"scores": []}, "expected a list of objects with finite numbers"),
        ({"scores": [1, 2]}, "expected a list of objects with finite numbers"),
        ({"scores": [{"correct": "yes"}]}, "expected a list of objects with finite numbers"),
        ({"scores": [{"correct": math.nan}]}, "expected one whole JSON object, found: expected value at line 1"),
    ],
)
def test_examples_of_another_run_are_refused_with_the_reason(tmp_path, content, reason):
    path = written(tmp_path / "examples.json.gz", **content)
    with pytest.raises(ExamplesUnreadable, match=reason) as caught:
        read_examples(path, "ab")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\x00", gzip.compress(b"{}", mtime=0)[:-5], gzip.compress(b"{", mtime=0)]
)
def test_a_file_cut_short_is_refused(tmp_path, content):
    path = tmp_path / "examples.json.gz"
    path.write_bytes(content)
    with pytest.raises(ExamplesUnreadable, match="restore the file from a copy"):
        read_examples(path, "ab")


LINES = [
    {"id": "a:1", "example": {"tokens": ["Zo\u00eb", "\u4e00"]}, "gold": {"label": "x"}, "predicted": {"label": None}},
    {"id": "a:2", "example": {}, "gold": {"spans": [{"start": 0, "end": 2}]}, "predicted": {"spans": []}},
]


def test_predictions_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "predictions.jsonl.gz"
    assert read_predictions(path, "ab") is None
    write_predictions(path, "ab", LINES)
    assert read_predictions(path, "ab") == [Prediction(**line) for line in LINES]
    first = path.read_bytes()
    write_predictions(path, "ab", iter(LINES))
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_prediction_that_json_does_not_have_is_text(tmp_path):
    path = tmp_path / "predictions.jsonl.gz"
    write_predictions(path, "ab", [{**LINES[0], "predicted": {"prediction": {1}}}])
    (one,) = read_predictions(path, "ab")
    assert one.predicted == {"prediction": "{1}"}


def test_predictions_that_fail_half_way_leave_the_file_as_it_was(tmp_path):
    path = tmp_path / "predictions.jsonl.gz"
    write_predictions(path, "ab", LINES)
    with pytest.raises(ZeroDivisionError):
        write_predictions(path, "ab", ({**LINES[0], "id": str(1 // number)} for number in (1, 0)))
    assert read_predictions(path, "ab") == [Prediction(**line) for line in LINES]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda packed: packed[:-12], "found: Compressed file ended"),
        (lambda packed: b"", "expected predictions, a JSON object a line, found: an empty file; restore the file"),
        (lambda packed: b"plain text", "Not a gzipped file"),
        (lambda packed: packed[:12] + bytes([packed[12] ^ 255]) + packed[13:], "expected predictions"),
        (lambda packed: gzip.compress(gzip.decompress(packed).replace(b'"ab"', b'"cd"')), "next to it, ab, found cd"),
        (lambda packed: gzip.compress(gzip.decompress(packed).replace(b'"gold"', b'"bold"')), "gold: missing"),
        (lambda packed: gzip.compress(gzip.decompress(packed) + b"{"), "expected predictions"),
    ],
)
def test_damaged_predictions_are_refused_with_the_reason(tmp_path, spoil, reason):
    path = tmp_path / "predictions.jsonl.gz"
    write_predictions(path, "ab", LINES)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ExamplesUnreadable, match=reason) as caught:
        read_predictions(path, "ab")
    assert str(path) in str(caught.value)
