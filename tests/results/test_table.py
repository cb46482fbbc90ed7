"""The results table: chosen records, comparisons, and --check."""

import csv
import io
import json
from dataclasses import replace

import pytest

import results.table
import results.tables.run_options
from results.names import load_names
from results.records.record import RunError
from tests.results.making import first_right, make_record, run_table, save


@pytest.fixture
def good(tmp_path):
    """Both arms of one row and nothing to complain of."""
    save(tmp_path, make_record(90.15))
    save(tmp_path, make_record(92.22, features="elmo"))
    return tmp_path


def test_limited_runs_are_marked_when_asked_for(capsys, good):
    save(good, make_record(50.0, seed=2, limit=200, variant={"limit": 200}))
    _, out, _ = run_table(capsys, "--runs", good)
    assert "50.00" not in out
    assert "limited runs left out: 1" in out
    _, out, _ = run_table(capsys, "--runs", good, "--include-limited", "--wide")
    (line,) = [line for line in out.splitlines() if "50.00" in line]
    assert "at most 200 examples" in line
    assert "left out" not in out


def test_without_records_it_says_how_to_make_one(capsys, tmp_path, monkeypatch):
    status, out, _ = run_table(capsys, "--runs", tmp_path)
    assert status == 0
    assert out == f"No records in {tmp_path}. To make the first one:\n  {load_names().first_run}\n"
    monkeypatch.chdir(tmp_path)
    status, out, _ = run_table(capsys)
    assert out.startswith("No records in results/runs (no such folder).")
    status, out, err = run_table(capsys, "--format", "json")
    assert (status, json.loads(out)) == (0, [])
    assert load_names().first_run in err
    assert run_table(capsys, "--check")[0] == 1


def test_unknown_data_are_reported_with_the_known_ones(capsys, good):
    status, out, _ = run_table(capsys, "--runs", good, "--data", "papre")
    assert status == 0
    assert "No records with data=papre" in out
    assert "data=paper." in out


def test_a_folder_of_broken_records_only_names_them(capsys, tmp_path):
    (tmp_path / "record.json").write_text("{")
    status, out, _ = run_table(capsys, "--runs", tmp_path)
    assert status == 0
    assert f"unreadable: {tmp_path}/record.json" in out


def test_the_default_folder_is_that_of_the_runs(capsys, tmp_path, monkeypatch):
    save(tmp_path / "results" / "runs", make_record(90.15))
    monkeypatch.chdir(tmp_path)
    _, out, _ = run_table(capsys)
    assert "90.15 (1)" in out
    assert "NER, CoNLL-2003: no runs of elmo" in out


def test_published_records_alone_or_with_runs(capsys, tmp_path, monkeypatch):
    save(tmp_path / "published", make_record(90.15))
    save(tmp_path / "mine", make_record(61.0, data="mini"))
    save(tmp_path / "results" / "runs", make_record(62.0, data="mini"))
    monkeypatch.setattr(results.tables.run_options, "PUBLISHED", tmp_path / "published")
    monkeypatch.chdir(tmp_path)
    _, out, _ = run_table(capsys, "--published")
    assert "90.15 (1)" in out
    assert "mini" not in out
    _, out, _ = run_table(capsys, "--published", "--runs", "mine")
    assert "90.15 (1)" in out
    assert "61.00 (1)" in out
    assert "62.00" not in out


def test_check_passes_a_table_that_is_whole(capsys, good):
    status, _, err = run_table(capsys, "--runs", good, "--check")
    assert (status, err) == (0, "check: nothing is wrong\n")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda d: save(d, make_record(seed=2, error=RunError("RuntimeError", "x"))), "failed run: paper ner glove"),
        (lambda d: (d / "record.json").write_text("{"), "not read: "),
        (lambda d: save(d, make_record(50.0, task="sst5")), "empty cells: SST-5: no runs of elmo"),
        (lambda d: save(d, make_record(90.0, seed=2, environment=None)), "several commits"),
        (lambda d: save(d / "b", make_record(90.15, lr=0.5)), "runs that differ in trainer.lr"),
        (lambda d: save(d / "b", make_record(91.15)), "the same run with different scores"),
        (lambda d: save(d, make_record(92.0, features="elmo", lr=0.5)), "GloVe and + ELMo: arms differ in trainer.lr"),
    ],
)
def test_check_fails_with_the_reason_and_without_it_the_status_is_0(capsys, good, spoil, reason):
    spoil(good)
    status, _, err = run_table(capsys, "--runs", good, "--check")
    assert status == 1
    assert [line for line in err.splitlines() if line.startswith("check: ") and reason in line]
    assert run_table(capsys, "--runs", good)[0] == 0


def test_a_list_in_the_fingerprint_of_a_users_features_is_no_difference(capsys, tmp_path):
    """The fingerprint of a user's YAML has the settings, too, with lists as text."""
    for name, own in (("glove", {}), ("mine", {"settings": {"task.maxout": "[64,32]", "trainer.lr": 0.001}})):
        record = make_record(90.0, features=name)
        config = record.config | {"task": {**record.config.get("task", {}), "maxout": [64, 32]}}
        save(tmp_path, replace(record, fingerprinted=record.fingerprinted | own, config=config))
    status, out, err = run_table(capsys, "--runs", tmp_path, "--compare", "glove", "mine", "--check")
    assert "90.00 (1)" in out
    assert "arms differ" not in out + err
    assert status == 0


@pytest.mark.parametrize(
    "part", [{"transformer": {"warning": "read this"}}, {"frozen": {"mine": {"warning": "read this"}}}]
)
def test_a_warning_of_the_features_marks_their_scores_and_is_printed(capsys, good, part):
    record = make_record(95.0, features="transformer")
    save(good, replace(record, config={**record.config, "features": {"name": "transformer", **part}}))
    status, out, _ = run_table(capsys, "--runs", good, "--wide", "--check")
    assert status == 0
    assert "95.00 (1)‡" in out
    assert "NER, CoNLL-2003, transformer: ‡ read this" in out
    assert "92.22 (1)‡" not in out


def test_help_says_what_check_means(capsys):
    with pytest.raises(SystemExit) as caught:
        results.table.main(["--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    assert "--check fails (status 1) if" in out
    assert "python -m results.table --published" in out


def test_the_papers_numbers_are_shown_for_its_own_data_only(capsys, tmp_path):
    save(tmp_path, make_record(60.0, data="mini"))
    save(tmp_path, make_record(70.0, data="mini", features="elmo"))
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--wide")
    assert "90.15" not in out
    assert "92.22" not in out


def test_a_gain_has_an_interval_where_the_examples_are_there(tmp_path, capsys):
    """Two arms of two seeds, right in 60 and in 80 of 100 examples, the same ones each time: 20 points, and no less."""
    for features, right in (("glove", 60), ("elmo", 80)):
        save_pairs(tmp_path, features, right)
    results.table.main(["--runs", str(tmp_path), "--format", "json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["gain"] == 20
    interval = row["gain_interval"]
    assert 10 < interval["low"] < 20 < interval["high"] < 30
    assert interval["p"] < 0.01
    results.table.main(["--runs", str(tmp_path)])
    assert f"{interval['low']:+.1f} to {interval['high']:+.1f}†" in capsys.readouterr().out


def save_pairs(runs, features, right, seeds=(1, 2), **options):
    """Runs that answer the first `right` of 100 examples, and the scores of those examples."""
    for seed in seeds:
        record = make_record(right, features=features, seed=seed, task="sst5", metric="accuracy", **options)
        save(runs, record, first_right(right))


def test_any_two_features_are_compared(capsys, tmp_path):
    for features, right in (("glove", 40), ("elmo_random", 45), ("elmo", 60)):
        save_pairs(tmp_path, features, right)
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--compare", "elmo_random", "elmo", "--format", "json")
    (row,) = json.loads(out)
    assert (row["compared"], row["gain"]) == (["elmo_random", "elmo"], 15)
    assert row["gain_interval"]["low"] > 5
    assert row["errors_removed"] == pytest.approx(100 * 15 / 55)
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--compare", "elmo", "glove")
    header, line = out.splitlines()[2], next(line for line in out.splitlines() if line.startswith("SST-5"))
    assert header.split()[1:5] == ["+", "ELMo", "GloVe", "gain,"]
    assert "-20.00" in line
    assert "51.4" not in out  # only the paper's comparison has the paper's columns


def test_any_two_settings_are_compared(capsys, tmp_path):
    """Under equal other settings: 70 less 60, and with another rate 90 less 75."""
    for last, others, right in ((False, {}, 60), (True, {}, 70), (False, {"x": 1}, 75), (True, {"x": 1}, 90)):
        layers = {"features.elmo.layers": "last"} if last else {}
        save_pairs(tmp_path, "elmo", right, variant={**layers, **others})
    names = ("elmo", "elmo features.elmo.layers=last")
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--compare", *names, "--format", "json")
    row, other = json.loads(out)
    assert (row["compared"], row["gain"], other["settings"], other["gain"]) == (list(names), 10, {"x": "1"}, 15)
    assert row["gain_interval"]["low"] > 0
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--compare", *names)
    assert out.splitlines()[2].split()[:6] == ["task", "+", "ELMo", "+", "ELMo", "features.elmo.layers=last"]
    assert "no runs" not in out
    assert "arms differ" not in out
    status, _, err = run_table(capsys, "--runs", tmp_path, "--compare", "elmo", "elmo x=2")
    assert (status, err) == (
        1,
        "results.table: --compare: no records of elmo with x=2; there are features.elmo.layers=last, x=1\n",
    )


def test_features_without_records_are_refused_and_the_known_ones_listed(capsys, good):
    status, out, err = run_table(capsys, "--runs", good, "--compare", "glove", "elmoo")
    assert (status, out) == (1, "")
    assert err == "results.table: --compare: no records of features=elmoo; there are elmo, glove\n"
    assert run_table(capsys, "--runs", good, "--compare", "elmo", "elmo")[0] == 1


def test_p_is_shown_next_to_the_interval_with_its_kind(capsys, tmp_path):
    save_pairs(tmp_path, "glove", 40)
    save_pairs(tmp_path, "elmo", 60)
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--wide")
    assert "<0.001" in out
    assert "95 % intervals and p: over paired test examples, and over the seeds of both arms" in out
    assert "† fewer than 3 seeds" in out
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--format", "csv")
    _, row = csv.DictReader(io.StringIO(out))
    assert float(row["gain_p"]) < 0.001
    assert (row["over"], row["arm"]) == ("glove", "elmo")
    # 20 of 60 errors; the share of one of 100 examples among them varies as a binomial
    assert 20 < float(row["errors_removed_low"]) < 100 / 3 < float(row["errors_removed_high"]) < 46


def test_one_seed_says_that_it_is_one(capsys, tmp_path):
    save_pairs(tmp_path, "glove", 40, seeds=(1,))
    save_pairs(tmp_path, "elmo", 60, seeds=(1,))
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    assert "over paired test examples; each arm has one seed, no arm of the task has three" in out


@pytest.mark.parametrize("seeds", [1, 2])
def test_without_examples_there_is_an_interval_over_seeds_from_two_on(capsys, tmp_path, seeds):
    for seed in range(seeds):
        save(tmp_path, make_record(90.0 + seed / 10, seed=seed))
        save(tmp_path, make_record(91.0 + seed / 10, features="elmo", seed=seed))
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--format", "json")
    interval = json.loads(out)[0]["gain_interval"]
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    if seeds == 1:
        assert interval is None
        assert "no interval (NER, CoNLL-2003): examples.json.gz is missing" in out
    else:  # the variance of a difference of two means is 0.1^2 / 2, with two degrees of freedom
        assert interval["high"] - interval["low"] == pytest.approx(2 * 4.3027 * 0.1 / 2**0.5, abs=1e-3)
        assert "over seeds alone" in out


def test_a_baseline_without_the_settings_of_a_bilm_is_checked_like_any_other(capsys, tmp_path):
    """The gain of an arm with such a setting is over the plain baseline, which must have the same data."""
    save(tmp_path, make_record(90.0))
    record = make_record(92.0, features="elmo", variant={"features.elmo.l2": 1})
    save(tmp_path, replace(record, fingerprinted={**record.fingerprinted, "data": {"train": "cd" * 32}}))
    status, out, err = run_table(capsys, "--runs", tmp_path, "--wide", "--check")
    assert (status, "+2.00" in out) == (1, True)
    assert "arms differ in data.train" in err


@pytest.mark.parametrize("seeds", [1, 2])
def test_examples_that_contradict_a_score_make_no_interval(capsys, tmp_path, seeds):
    """It would be around the gain of the examples, 20, and not around the one that is shown."""
    for seed in range(seeds):
        save(tmp_path, make_record(40.0, metric="accuracy", seed=seed), first_right(40))
        save(tmp_path, make_record(80.0 + seed, metric="accuracy", features="elmo", seed=seed), first_right(60))
    _, out, err = run_table(capsys, "--runs", tmp_path, "--format", "json")
    (row,) = json.loads(out)
    assert "accuracy: expected 60, which examples.json.gz gives, found 8" in err
    if seeds == 1:
        assert (row["gain"], row["gain_interval"]) == (40.0, None)
    else:
        assert row["gain_interval"]["over"] == "seeds"
        assert row["gain_interval"]["low"] + row["gain_interval"]["high"] == pytest.approx(2 * 40.5)


def test_the_verdict_is_for_the_papers_data_only(capsys, tmp_path):
    for data in ("paper", "mini", "standin"):
        save(tmp_path, make_record(90.15, data=data))
        save(tmp_path, make_record(91.39, data=data, features="elmo"))
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--wide")
    names = {"NER, CoNLL-2003  ": "paper", "mini NER  ": "mini", "standin NER  ": "standin"}
    lines = {names[name]: line for line in out.splitlines() for name in names if line.startswith(name)}
    assert "+0.00 one run" in lines["paper"]
    assert "-0.83 short" in lines["paper"]
    assert "21.0 %" in lines["paper"]  # the paper's own share
    for data in ("mini", "standin"):
        assert "paper" not in lines[data]
        assert "short" not in lines[data]
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--data", "mini")
    assert "to paper's" not in out


def test_a_score_that_the_limit_on_epochs_may_have_cut_short_is_marked(capsys, tmp_path):
    for features, best in (("glove", 2), ("elmo", 1)):
        curve = [{"epoch": epoch, "f1": 80.0 + (epoch == best)} for epoch in (1, 2)]
        record = make_record(90.0, features=features)
        trainer = record.config["trainer"] | {"epochs": 2}
        save(tmp_path, replace(record, epochs=curve, config=record.config | {"trainer": trainer}))
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    assert "90.00 (1)§  90.00 (1)" in out
    assert "§ more epochs may raise it" in out
