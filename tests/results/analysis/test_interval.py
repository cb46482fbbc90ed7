"""The disk cache of intervals: numbers never change, whatever the folder contains."""

import json
import os
import random
from dataclasses import replace

import pytest

import results.table
from results.analysis import bootstrap, interval
from results.analysis.bootstrap import paired_interval
from results.analysis.interval import Interval, kept_intervals, remembered
from results.records.identity import EXAMPLES_NAME
from results.records.record import write_examples
from tests.results.making import make_record, save

FIRST = Interval(-1.25, 2.0, 0.5, "examples")


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Where the intervals of these tests are kept."""
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / f"intervals-{os.geteuid()}.json"


def arm(right, seeds=2, examples=40):
    return [[{"correct": int((i + seed) % examples < right)} for i in range(examples)] for seed in range(seeds)]


def asked(*keys, found=FIRST):
    """The keys that had to be computed."""
    computed = []
    with kept_intervals():
        for key in keys:
            assert remembered(key, lambda key=key: computed.append(key) or found) == found
    return computed


def test_a_table_has_the_same_numbers_cold_and_warm(tmp_path, file, monkeypatch, capsys):
    draw = random.Random(1)
    for features, share in (("glove", 0.5), ("elmo", 0.6)):
        for seed in (1, 2, 3):
            scores = [{"correct": int(draw.random() < share)} for _ in range(50)]
            score = 100 * sum(example["correct"] for example in scores) / 50
            record = make_record(score, features=features, seed=seed, metric="accuracy")
            write_examples(save(tmp_path / "runs", record).with_name(EXAMPLES_NAME), record.fingerprint, scores)
    shown = []
    for _ in range(2):
        assert results.table.main(["--runs", str(tmp_path / "runs"), "--format", "json"]) == 0
        shown.append(capsys.readouterr().out)
        monkeypatch.setattr(bootstrap, "_resampled", None)  # the second table cannot compute any
    assert shown[0] == shown[1]
    found = json.loads(shown[0])[0]["gain_interval"]
    assert [found] == list(json.loads(file.read_text()).values())


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"a": 1}', b'{"a": {"low": 1}}', b"\xff\xfe", b'{"a": {"low": NaN, "high": 1, "p": 1}}'],
)
def test_a_damaged_file_is_ignored_and_replaced(file, content):
    file.parent.mkdir()
    file.write_bytes(content)
    assert asked("a") == ["a"]
    assert asked("a") == []


def test_a_file_that_is_too_large_is_not_read(file, monkeypatch):
    assert asked("a") == ["a"]
    monkeypatch.setattr(interval, "LARGEST_FILE", file.stat().st_size - 1)
    assert asked("a") == ["a"]


def test_a_file_of_other_user_else_is_not_read(file, monkeypatch):
    assert asked("a") == ["a"]
    other_user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other_user)
    file.rename(file.with_name(f"intervals-{other_user}.json"))
    assert asked("a") == ["a"]


def test_another_score_metric_pairing_or_bootstrap_is_another_interval(file, monkeypatch):
    def ask(first, second, metric="accuracy", same_seeds=True):
        with kept_intervals():
            paired_interval(first, second, metric, same_seeds)
        return len(json.loads(file.read_text()))

    first, second = arm(20), arm(25)
    assert ask(first, second) == 1
    assert ask(first, second) == 1
    changed = [[{"correct": 1 - second[0][0]["correct"]}, *second[0][1:]], second[1]]
    assert ask(first, changed) == 2
    assert ask(second, first) == 3
    assert ask(first, second, same_seeds=False) == 4
    assert ask(first[:1], [*first[1:], *second], same_seeds=False) == 5  # the same runs, split elsewhere
    assert ask([*first, second[0]], second[1:], same_seeds=False) == 6
    named = [[[{"em": 100.0 * example["correct"]} for example in run] for run in runs] for runs in (first, second)]
    assert ask(*named, metric="em") == 7
    for number, name in enumerate(("VERSION", "RESAMPLES", "AT_ONCE"), 8):
        monkeypatch.setattr(bootstrap, name, 2 * getattr(bootstrap, name))
        assert ask(first, second) == number


def test_those_not_used_for_the_longest_time_go_first(file, monkeypatch):
    monkeypatch.setattr(interval, "MOST_KEPT", 3)
    assert asked("a", "b", "c") == ["a", "b", "c"]
    assert asked("a", "d") == ["d"]
    assert list(json.loads(file.read_text())) == ["c", "a", "d"]


def test_nothing_is_written_where_nothing_can_be(file):
    file.parent.write_text("a file in place of the folder")
    assert asked("a") == ["a"]
    assert asked("a") == ["a"]
    assert file.parent.read_text() == "a file in place of the folder"


def test_nothing_is_written_where_nothing_is_new(file):
    asked("a")
    before = file.stat()
    asked("a")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    file.unlink()
    asked()
    assert not file.exists()


def test_without_a_home_nothing_is_kept(monkeypatch):
    monkeypatch.delenv("ELMO_CACHE")
    monkeypatch.setattr("pathlib.Path.expanduser", lambda path: (_ for _ in ()).throw(RuntimeError("no home")))
    assert asked("a") == ["a"]
    assert asked("a") == ["a"]


def test_outside_of_a_command_nothing_is_kept(file):
    other = replace(FIRST, low=0.0)
    assert remembered("a", lambda: FIRST) == FIRST
    assert remembered("a", lambda: other) == other
    assert not file.exists()
