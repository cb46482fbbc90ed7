"""Records that are not as they should be: named, and the rest still shown, in the table and on the page."""

import dataclasses
import json
import os
import re
from html import unescape

import pytest

import results.table
from results.record import EXAMPLES_NAME, write_examples, write_record
from results.report.__main__ import main as report
from tests.results.making import make_record, save


@pytest.fixture
def good(tmp_path):
    """Both arms of one row, with the examples that bear out their scores."""
    for features, right in (("glove", 60), ("elmo", 80)):
        record = make_record(right, data="mini", task="sst5", metric="accuracy", features=features)
        path = save(tmp_path / "runs", record)
        scores = [{"correct": int(i < right)} for i in range(100)]
        write_examples(path.with_name(EXAMPLES_NAME), record.fingerprint, scores)
    return tmp_path / "runs"


def cut_short(runs):
    path = save(runs, make_record(70.0, seed=2))
    path.write_text(path.read_text()[:200])
    return "expected one whole JSON object", True


def settings_edited(runs):
    path = save(runs, make_record(70.0, seed=2))
    path.write_text(path.read_text().replace('"lr": 0.001', '"lr": 0.01'))
    return "was it edited by hand?", True


def score_edited(runs):
    path = runs / "mini" / "sst5" / "elmo" / "seed-1" / "record.json"
    path.write_text(path.read_text().replace('"accuracy": 80', '"accuracy": 83'))
    return "scores.test.accuracy is 83.0000, but the examples beside it give 80.0000", True


def examples_of_another_run(runs):
    path = runs / "mini" / "sst5" / "elmo" / "seed-1" / EXAMPLES_NAME
    path.write_text(path.read_text().replace('"fingerprint": "', '"fingerprint": "0'))
    return "expected the fingerprint of the record beside it", True


def from_the_future(runs):
    path = save(runs, make_record(70.0, seed=2))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 99}))
    return "written with record schema 99, this suite knows up to", True


def one_identity_two_scores(runs):
    save(runs / "copy", make_record(81.0, data="mini", task="sst5", metric="accuracy", features="elmo"))
    return "are the same run with other scores", True


def one_identity_two_settings(runs):
    save(runs / "copy", make_record(81.0, data="mini", task="sst5", metric="accuracy", features="elmo_random"))
    save(runs, make_record(82.0, data="mini", task="sst5", metric="accuracy", features="elmo_random", lr=0.5))
    return "runs that differ in trainer.lr are not averaged", True


def clock_went_backwards(runs):
    record = make_record(50.0, data="mini", task="sst5", metric="accuracy", features="elmo_random")
    times = {"started_at": "2026-11-15T08:00:00+00:00", "finished_at": "2026-11-15T07:00:00+00:00"}
    save(runs, dataclasses.replace(record, **times))
    return "lies before started_at 2026-11-15T08:00:00+00:00: the clock went backwards", False


def no_clock_at_all(runs):
    record = make_record(50.0, data="mini", task="sst5", metric="accuracy", features="elmo_random")
    save(runs, dataclasses.replace(record, started_at="yesterday", finished_at="2026-11-15T07:00:00+00:00"))
    return "started_at 'yesterday'", False


def folder_that_refuses(runs):
    """Root may read anything, so that the refusal is played."""
    folder = runs / "locked"
    folder.mkdir()
    return f"{folder}: expected a folder that can be read, found: Permission denied", True


BAD = [cut_short, settings_edited, score_edited, examples_of_another_run, from_the_future, one_identity_two_scores]
BAD += [one_identity_two_settings, clock_went_backwards, no_clock_at_all, folder_that_refuses]


@pytest.fixture(params=BAD, ids=lambda spoil: spoil.__name__)
def spoilt(request, good, monkeypatch):
    reason, wrong = request.param(good)
    really = os.scandir

    def scandir(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return really(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return good, reason, wrong


def test_the_table_names_it_and_shows_the_rest(capsys, spoilt):
    runs, reason, wrong = spoilt
    assert results.table.main(["--runs", str(runs)]) == 0
    out = capsys.readouterr().out
    assert reason in out
    assert "60.00 (1)" in out
    assert results.table.main(["--runs", str(runs), "--check"]) == (1 if wrong else 0)
    err = capsys.readouterr().err
    assert (reason in err) == wrong


def test_the_page_names_it_and_shows_the_rest(spoilt):
    runs, reason, _ = spoilt
    page = runs.parent / "report.html"
    assert report(["--runs", str(runs), "--out", str(page)]) == 0
    text = unescape(re.sub(r"<[^>]*>", " ", page.read_text(encoding="utf-8")))
    assert reason in text
    assert "60.00" in text


def test_a_file_in_place_of_the_folder_is_named(capsys, tmp_path):
    (tmp_path / "runs").write_text("")
    results.table.main(["--runs", str(tmp_path / "runs")])
    assert f"{tmp_path}/runs: expected a folder that can be read, found: Not a directory" in capsys.readouterr().out
    assert report(["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")]) == 1
    assert "Not a directory" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_only_bad_records_still_make_a_page_that_names_them(tmp_path):
    path = save(tmp_path / "runs", make_record(70.0))
    path.write_text("{")
    page = tmp_path / "report.html"
    assert report(["--runs", str(tmp_path / "runs"), "--out", str(page)]) == 1
    assert str(path) in page.read_text(encoding="utf-8")


def test_a_record_of_strange_but_valid_parts_is_shown(tmp_path):
    """Everything that is not typed may be anything."""
    record = make_record(70.0, data="mini")
    strange = dataclasses.replace(
        record,
        epochs=[{"epoch": None, "f1": "x"}, {}],
        details={"labels": [1], "confusion": {"labels": [], "gold_by_predicted": []}},
        data={"train": "none"},
        environment=None,
    )
    path = save(tmp_path / "runs", record)
    write_record(path, strange)
    page = tmp_path / "report.html"
    assert report(["--runs", str(tmp_path / "runs"), "--out", str(page)]) == 0
    assert "70.00" in page.read_text(encoding="utf-8")
