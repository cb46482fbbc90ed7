"""Run records: written atomically, read back, and refused if damaged or in conflict."""

import dataclasses
import gzip
import json
import math
import os

import pytest

from results.records.example_scores import write_examples
from results.records.record import (
    FurtherTest,
    Mix,
    RecordConflict,
    RecordUnreadable,
    RunError,
    decide,
    read_record,
    write_record,
)
from tests.results.making import CLEAN, make_record, save


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def full_record():
    return dataclasses.replace(
        make_record(92.22, features="elmo", variant={"trainer.epochs": 2, "name": "a", "on": True, "rate": 0.5}),
        scores={"dev": {"f1": 95.5}, "test": {"f1": 92.22, "precision": 92.0}},
        details={"test": {"LOC": {"f1": 93.1}}},
        also={
            "other": FurtherTest({"f1": 80.5}, {"sentences": 9, "warnings": []}, {"gold": {"person": "PER", "x": None}})
        },
        data={"train": {"examples": 14041, "sha256": "0" * 64, "warnings": ["14041 of 14987"]}},
        weights={"name": "small", "sha256": "1" * 64, "state": "zero"},
        mixes={"input": Mix([0.2, 0.5, 0.3], 1.1)},
        epochs=[{"epoch": 1, "loss": 3.5, "dev_f1": 80.0}],
        seconds=12.5,
        peak_memory_mb=800.0,
        inputs={"settings": "2" * 64, "vectors/glove": "3" * 64},
        model="4" * 64,
        earlier=[dataclasses.replace(CLEAN, threads=1, kernels="torch")],
        started_at="2026-01-01T00:00:00+00:00",
        finished_at="2026-01-01T00:00:12+00:00",
    )


def test_what_is_written_is_read_back(tmp_path):
    record = full_record()
    path = tmp_path / "deep" / "record.json"
    write_record(path, record)
    assert read_record(path) == record
    assert json.loads(path.read_text())["fingerprint"] == record.fingerprint


def test_a_failed_record_keeps_its_reason(tmp_path):
    try:
        raise RuntimeError("CUDA out of memory")
    except RuntimeError as error:
        record = make_record(error=RunError.of(error))
    read = read_record(save(tmp_path, record))
    assert read.error is not None
    assert (read.error.type, read.error.message) == ("RuntimeError", "CUDA out of memory")
    assert read.error.traceback[-1] == "RuntimeError: CUDA out of memory"
    assert 'raise RuntimeError("CUDA out of memory")' in read.error.traceback[-2]


def test_a_traceback_is_cut_to_its_last_lines():
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    whole = RunError.of(caught.value).traceback
    assert whole[0].startswith("Traceback")
    assert RunError.of(caught.value, last_lines=2).traceback == whole[-2:]


def test_a_loss_that_is_no_number_is_written_as_null(tmp_path):
    record = dataclasses.replace(
        make_record(error=RunError("FloatingPointError", "loss")), epochs=[{"epoch": 1, "loss": math.nan}]
    )
    assert read_record(save(tmp_path, record)).epochs == [{"epoch": 1, "loss": None}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": {"test": {"f1": math.nan}}}, r"scores\.test\.f1: expected a finite number"),
        ({"scores": {"dev": {"f1": 1.0}}}, r"scores\.test\.f1: missing"),
        ({"status": "failed"}, "error: missing"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(make_record(), **change)


def test_a_value_that_json_cannot_hold_is_named_and_leaves_no_file(tmp_path):
    record = dataclasses.replace(make_record(), details={"test": [{"LOC": {1, 2}}]})
    with pytest.raises(TypeError, match=r"details\.test\[0\]\.LOC.*set"):
        write_record(tmp_path / "record.json", record)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_failed_write_leaves_the_old_record_and_nothing_else(tmp_path, monkeypatch, function):
    path = save(tmp_path, make_record(90.0))
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, function, full)
    with pytest.raises(OSError, match="No space left"):
        write_record(path, make_record(91.0))
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["record.json"]
    write_record(path, make_record(91.0))
    assert read_record(path).score == 91.0


def test_the_new_content_is_whole_and_on_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    """The order that makes a kill harmless: everything written and synced, then one rename in the same folder."""
    steps = []
    fsync, replace = os.fsync, os.replace

    def seen_fsync(handle):
        fsync(handle)
        steps.append("fsync")

    def seen_replace(source, target):
        steps.append("replace")
        assert json.loads(source.read_text())["scores"] == {"test": {"f1": 90.0}}
        assert source.parent == target.parent
        assert not target.exists()
        replace(source, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    save(tmp_path, make_record(90.0))
    assert steps == ["fsync", "replace"]


def test_a_record_has_the_usual_permissions(tmp_path):
    path = save(tmp_path, make_record())
    plain = path.with_name("plain")
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_truncated_record_is_named_at_every_length(tmp_path):
    path = save(tmp_path, make_record())
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(RecordUnreadable, match="expected one whole JSON object") as caught:
            read_record(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("identity"), "identity: missing"),
        (lambda c: c["identity"].pop("seed"), r"identity\.seed: missing"),
        (lambda c: c["identity"].update(seed="one"), r"identity\.seed: expected a valid integer, .*, found 'one'"),
        (lambda c: c["identity"]["variant"].update(x=[1]), r"identity\.variant\.x.* expected a valid string"),
        (lambda c: c["scores"]["test"].update(f1="good"), r"scores\.test\.f1: expected a valid number"),
        (lambda c: c.update(scores=[]), r"scores: expected a valid dictionary, found \[\]"),
        (lambda c: c.update(status="done"), "status: expected 'finished' or 'failed', found 'done'"),
        (lambda c: c.update(epochs={}), r"epochs: expected .*, found \{\}"),
        (lambda c: c["fingerprinted"]["recipes"].update(task=9), "fingerprint: expected .* edited by hand"),
        (lambda c: c["identity"]["variant"].update(limit=3), "fingerprint: expected .* edited by hand"),
        (lambda c: c["identity"].update(features="elmo"), "fingerprint: expected .* edited by hand"),
        (
            lambda c: c["fingerprinted"].update(lr=math.nan),
            "found: expected value at line 1",
        ),
        (lambda c: c.pop("fingerprint"), "fingerprint: expected .* found None"),
    ],
)
def test_an_edited_record_is_named_with_the_key(tmp_path, change, message):
    path = save(tmp_path, make_record())
    edit(path, change)
    with pytest.raises(RecordUnreadable, match=message) as caught:
        read_record(path)
    assert str(path) in str(caught.value)


def test_what_is_not_an_object_or_not_text_is_named(tmp_path):
    path = tmp_path / "record.json"
    for content in (b"[]", b"null", b"\xff\xfe\x00", b'{"seconds": NaN}'):
        path.write_bytes(content)
        with pytest.raises(RecordUnreadable, match=r"record\.json"):
            read_record(path)


def test_a_record_of_schema_1_is_refused(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"schema": 1, "status": "finished", "fingerprinted": {"config": {}}}))
    with pytest.raises(RecordUnreadable) as caught:
        read_record(path)
    remedy = "Delete its folder and run again"
    assert str(caught.value) == f"{path}: expected record schema 2, found 1. {remedy}"


def test_a_schema_from_the_future_asks_for_an_update(tmp_path):
    path = save(tmp_path, make_record())
    edit(path, lambda c: c.update(schema=99, status="something new"))
    with pytest.raises(RecordUnreadable, match=r"found 99.*Update the suite"):
        read_record(path)


def test_an_unknown_key_is_ignored(tmp_path):
    path = save(tmp_path, make_record())
    edit(path, lambda c: c.update(carbon=1))
    assert read_record(path) == make_record()


def test_decide_runs_what_is_missing_or_failed_and_skips_what_is_done(tmp_path):
    record = make_record()
    path = tmp_path / "paper" / "record.json"
    assert decide(path, record.hashed) == "run"
    write_record(path, make_record(error=RunError("RuntimeError", "x"), lr=0.5))
    assert decide(path, record.hashed) == "run", "it failed under other settings"
    write_record(path, make_record(error=RunError("RuntimeError", "x")))
    assert decide(path, record.hashed) == "failed"
    write_record(path, record)
    assert decide(path, record.hashed) == "skip"


@pytest.mark.parametrize(
    ("message", "line"),
    [("CUDA out of memory.\nTried to allocate", "E: CUDA out of memory."), ("", "E"), ("\n two\n", "E: two")],
)
def test_the_last_line_of_an_error_is_one_line(message, line):
    assert RunError("E", message).last_line == line


def test_a_conflict_lists_the_differing_keys_and_the_way_out(tmp_path):
    path = save(tmp_path, make_record(lr=0.001, recipe=1))
    with pytest.raises(RecordConflict) as caught:
        decide(path, make_record(lr=0.002, recipe=2).hashed)
    message = str(caught.value)
    assert "  trainer.lr: 0.001 there, 0.002 here\n" in message
    assert "  recipes.task: 1 there, 2 here\n" in message
    assert message.count(" there, ") == 2
    assert "runs_dir=DIR" in message
    assert str(path.parent) in message


def test_decide_does_not_run_over_what_it_cannot_read(tmp_path):
    path = save(tmp_path, make_record())
    path.write_text("{")
    with pytest.raises(RecordUnreadable, match=r"record\.json"):
        decide(path, make_record().hashed)


def test_examples_hold_scores_and_the_run_they_belong_to(tmp_path):
    path = tmp_path / "examples.json.gz"
    write_examples(path, "f" * 64, [{"tp": 1, "fp": 0, "fn": 2}, {"tp": 0, "fp": 0, "fn": 0}])
    assert json.loads(gzip.decompress(path.read_bytes())) == {
        "schema": 1,
        "fingerprint": "f" * 64,
        "scores": [{"tp": 1, "fp": 0, "fn": 2}, {"tp": 0, "fp": 0, "fn": 0}],
    }


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([{"answer": "in Paris"}], "example 0, answer: expected a finite number"),
        ([{"f1": math.inf}], "example 0, f1: expected a finite number"),
    ],
)
def test_examples_never_hold_text(tmp_path, scores, message):
    with pytest.raises(ValueError, match=message):
        write_examples(tmp_path / "examples.json.gz", "f" * 64, scores)
    assert list(tmp_path.iterdir()) == []


def test_a_trial_has_a_dev_score_and_no_test_score():
    trial = make_record(None, variant={"trial": True}, dev=91.5)
    assert (trial.judged, trial.score) == ("dev", 91.5)
    with pytest.raises(ValueError, match="a trial is judged on dev alone"):
        make_record(90.0, variant={"trial": True}, dev=91.5)
    with pytest.raises(ValueError, match="a trial is judged on dev alone"):
        dataclasses.replace(trial, also={"other": FurtherTest({"f1": 80.0})})
    with pytest.raises(ValueError, match=r"scores\.dev\.f1: missing"):
        make_record(None, variant={"trial": True})


@pytest.mark.parametrize(
    ("scores", "limit", "limited"),
    [
        (range(24), 24, True),  # the last epoch is the best
        ([*range(21), 99, 0, 0], 24, True),  # epoch 22 of 24: the last tenth begins after 21.6
        ([*range(20), 99, 0, 0, 0], 24, False),
        (range(12), 24, False),
        ([5, 5, 5], 3, False),  # the first of equal scores is the best
        ([None, 1, None], 2, True),  # epochs without a score
        ([7], 1, False),  # nothing was trained
        ([], 24, False),
    ],
)
def test_a_curve_tells_whether_its_best_epoch_is_in_the_last_tenth_of_the_limit(scores, limit, limited):
    curve = [{"epoch": number, "f1": score} for number, score in enumerate(scores, start=1)]
    record = dataclasses.replace(make_record(), epochs=curve, config={"trainer": {"epochs": limit}})
    assert record.limited is limited
    assert dataclasses.replace(record, at_limit=True).limited  # what the run noted counts
