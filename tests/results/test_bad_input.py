"""Invalid records: the table and the report name them and show the rest."""

import dataclasses
import os
import re
from html import unescape

import pytest

import results.calibration
import results.publish
import results.shift
import results.status
import results.submit
import results.table
from elmo.common.files import read_json, write_json
from results.publish import publish_runs
from results.records.identity import EXAMPLES_NAME
from results.records.progress import LOCK_NAME
from results.records.record import write_record
from tests.results.making import first_right, make_record, run_report, save


@pytest.fixture
def good(tmp_path):
    """Both arms of one row, with examples that give their scores."""
    for features, right in (("glove", 60), ("elmo", 80)):
        record = make_record(right, data="mini", task="sst5", metric="accuracy", features=features)
        save(tmp_path / "runs", record, first_right(right))
    return tmp_path / "runs"


def cut_short(runs):
    path = save(runs, make_record(70.0, seed=2))
    path.write_text(path.read_text()[:200])
    return "expected one whole JSON object", True


def score_edited(runs):
    path = runs / "mini" / "sst5" / "elmo" / "seed-1" / "record.json"
    path.write_text(path.read_text().replace('"accuracy": 80', '"accuracy": 83'))
    return "scores.test.accuracy: expected 80, which examples.json.gz gives, found 83", True


def examples_of_another_run(runs):
    path = runs / "mini" / "sst5" / "elmo" / "seed-1" / EXAMPLES_NAME
    write_json(path, {**read_json(path), "fingerprint": "0"})
    return "expected the fingerprint of the record next to it", True


def one_identity_two_scores(runs):
    save(runs / "copy", make_record(81.0, data="mini", task="sst5", metric="accuracy", features="elmo"))
    return "are the same run with different scores", True


def one_identity_two_settings(runs):
    save(runs / "copy", make_record(81.0, data="mini", task="sst5", metric="accuracy", features="elmo_random"))
    save(runs, make_record(82.0, data="mini", task="sst5", metric="accuracy", features="elmo_random", lr=0.5))
    return "runs that differ in trainer.lr are not averaged", True


def with_details(runs, details):
    path = save(runs, make_record(70.0, seed=2))
    path.write_text(path.read_text().replace('"details": {}', f'"details": {details}'))
    return str(path)


def endless_brackets(runs):
    found = with_details(runs, "[" * 100_000)
    return f"{found}: expected one whole JSON object, found: recursion limit exceeded", True


def integer_of_400_digits(runs):
    path = save(runs, make_record(70.0, seed=2))
    path.write_text(path.read_text().replace('"f1": 70.0', f'"f1": {"9" * 400}'))
    return f"{path}: not a run record: scores.test.f1: expected", True


def integer_of_10000_digits(runs):
    found = with_details(runs, f'{{"x": {"9" * 10_000}}}')
    return f"{found}: expected one whole JSON object", True


def half_a_character(runs):
    found = with_details(runs, '{"\\ud800": 1}')
    return f"{found}: expected one whole JSON object, found: unexpected end of hex escape", True


def pipe(runs):
    path = save(runs, make_record(70.0, seed=2))
    path.unlink()
    os.mkfifo(path)
    return f"{path}: expected a file, found a folder, a pipe or a device", True


def examples_with_endless_brackets(runs):
    path = runs / "mini" / "sst5" / "elmo" / "seed-1" / EXAMPLES_NAME
    path.write_text("[" * 100_000)
    return f"{path}: expected one whole JSON object, found: recursion limit exceeded", True


def examples_with_an_integer_of_400_digits(runs):
    path = runs / "mini" / "sst5" / "elmo" / "seed-1" / EXAMPLES_NAME
    write_json(path, {**read_json(path), "scores": [{"correct": int("1" * 400)}]})
    return f"{path}: scores: expected a list of objects with finite numbers", True


def edited_name(runs, variant, before, after):
    """The hash covers the name that the record gives itself."""
    path = save(runs, make_record(70.0, variant=variant, seed=2))
    edited = re.sub(before, after, path.read_text(), count=1)
    assert edited != path.read_text()
    path.write_text(edited)
    return f"{path}: fingerprint: expected", True


def limit_taken_out(runs):
    return edited_name(runs, {"limit": 50}, r'"variant": {\s*"limit": 50\s*}', '"variant": {}')


def variant_edited(runs):
    return edited_name(runs, {"trainer.epochs": 2}, '"trainer.epochs": 2', '"trainer.epochs": 20')


def other_arm_s_name(runs):
    return edited_name(runs, {}, '"features": "glove"', '"features": "elmo"')


HOSTILE = [
    endless_brackets,
    integer_of_400_digits,
]
HOSTILE += [integer_of_10000_digits, half_a_character, pipe]
MISNAMED = [limit_taken_out, variant_edited, other_arm_s_name]
BAD = [cut_short, score_edited, examples_of_another_run, one_identity_two_scores]
BAD += [one_identity_two_settings]
BAD += [examples_with_endless_brackets, examples_with_an_integer_of_400_digits, *HOSTILE, *MISNAMED]


@pytest.fixture(params=BAD, ids=lambda spoil: spoil.__name__)
def spoilt(request, good):
    return good, *request.param(good)


def test_the_table_names_it_and_shows_the_rest(capsys, spoilt):
    runs, reason, wrong = spoilt
    assert results.table.main(["--runs", str(runs), "--notes", "--wide"]) == 0
    out = capsys.readouterr().out
    assert reason in out
    assert "60.00 (1)" in out
    assert results.table.main(["--runs", str(runs), "--check"]) == (1 if wrong else 0)
    err = capsys.readouterr().err
    assert (reason in err) == wrong


def test_the_page_names_it_and_shows_the_rest(spoilt):
    runs, reason, _ = spoilt
    status, page = run_report(runs)
    assert status == 0
    text = unescape(re.sub(r"<[^>]*>", " ", page))
    assert reason in text
    assert "60.00" in text


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_the_status_names_it_and_shows_the_rest(capsys, good, spoil):
    reason, _ = spoil(good)
    assert results.status.main(["--runs", str(good)]) == 0
    out = capsys.readouterr().out
    assert reason in out
    assert "runs of no sweep: 2 of 2 done" in out


@pytest.mark.parametrize("spoil", MISNAMED, ids=lambda spoil: spoil.__name__)
def test_it_is_not_published(good, tmp_path, spoil):
    reason, _ = spoil(good)
    lines = publish_runs([good], tmp_path / "published")
    assert [reason in line for line in lines if line.startswith("refused")] == [True]
    assert sum(line.startswith("added") for line in lines) == 2


def test_with_a_published_record_that_cannot_be_read_nothing_is_published(good, tmp_path, capsys):
    published = tmp_path / "results" / "published"
    target = published / "mini" / "sst5" / "elmo" / "seed-1" / "record.json"
    target.parent.mkdir(parents=True)
    target.write_text("{")
    assert results.publish.main(["--runs", str(good)], tmp_path) == 1
    path = target.relative_to(tmp_path)
    assert f"{path}: expected one whole JSON object" in capsys.readouterr().out
    assert target.read_text() == "{"
    assert list(published.rglob("*.*")) == [target]


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"runs": 1e999}', "loop", "pipe"], ids=lambda content: content[:20]
)
def test_a_hostile_lock_or_list_of_runs_does_not_end_the_status(capsys, good, content):
    for path in (good / ".sweep" / "bad.json", good / "mini" / "sst5" / "glove" / "seed-1" / LOCK_NAME):
        path.parent.mkdir(exist_ok=True)
        if content == "loop":
            path.symlink_to(path)
        elif content == "pipe":
            os.mkfifo(path)
        else:
            path.write_text(content)
    assert results.status.main(["--runs", str(good)]) == 0
    out = capsys.readouterr().out
    assert "bad.json: expected the list of a sweep's runs" in out
    assert "runs of no sweep: 2 of 2 done" in out


def test_only_bad_records_still_make_a_page_that_names_them(tmp_path):
    path = save(tmp_path / "runs", make_record(70.0))
    path.write_text("{")
    status, page = run_report(tmp_path / "runs")
    assert (status, str(path) in page) == (1, True)


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
    status, page = run_report(tmp_path / "runs")
    assert (status, "70.00" in page) == (0, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "nonsense: expected KEY=VALUE, such as seed=1. Folders come after --runs"),
        (["=1"], "=1: expected KEY=VALUE"),
        (["--runs", "seed=1"], "--runs seed=1: expected a folder, found none"),
    ],
)
def test_a_table_of_an_experiment_takes_settings_of_runs_alone(capsys, good, words, message):
    words = [*words, "--runs", str(good)] if words[0] != "--runs" else [*words, str(good)]
    assert results.table.main(["--experiment", "mini", *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"results.table: {message}")
    assert len(err.splitlines()) == 1


def test_a_table_of_an_experiment_takes_what_runs_have(capsys, good):
    config = dataclasses.replace(make_record(70.0, seed=2), config={"trainer": {"lr": 0.1}})
    save(good, config)
    for word in ("trainer.lr=0.1", "device=cpu"):
        assert results.table.main(["--experiment", "mini", word, "--runs", str(good)]) == 0
        assert word in capsys.readouterr().out


def test_several_folders_may_follow_one_option(capsys, tmp_path):
    for number, right in enumerate((60, 80)):
        record = make_record(right, data="mini", task="sst5", metric="accuracy", features=("glove", "elmo")[number])
        save(tmp_path / str(number), record, first_right(right))
    assert results.table.main(["--runs", str(tmp_path / "0"), str(tmp_path / "1")]) == 0
    assert "+20.00" in capsys.readouterr().out


@pytest.mark.parametrize("command", [results.shift, results.calibration], ids=lambda it: it.__name__)
def test_a_study_says_where_it_found_nothing(capsys, tmp_path, command):
    assert command.main(["--runs", str(tmp_path)]) == 1
    assert f"No records in {tmp_path}. To make the first one:" in capsys.readouterr().err


def test_a_source_without_runs_is_not_submitted(capsys, good, tmp_path):
    words = ["--title", "T", "--text", "none", "--out", str(tmp_path), "--runs", str(good)]
    assert results.submit.main(["--source", "elmoo", *words]) == 1
    assert "--source elmoo: expected runs of it, found ['elmo', 'glove']" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.gz"))
