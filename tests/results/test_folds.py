"""Runs on the folds of a dataset: one score for each seed, over the examples of all folds."""

import json
import random
import re
from dataclasses import replace

import pytest

from results.publish import main as publish
from results.records.collect import collect
from results.records.example_scores import write_examples
from results.records.identity import EXAMPLES_NAME
from results.records.metric import Metric, Ratio
from results.records.record import RunError, RunRecord, read_record, write_record
from results.tables.fill import Selection, commands_of, commit_of, fill_all
from tests.results.making import CLEAN, make_record, run_report, run_table, save

# As B-cubed: precision and recall with numerators and denominators of their own.
METRIC = Metric([[Ratio({"right": 100}, {"predicted": 1}), Ratio({"found": 100}, {"gold": 1})]])
ALL = "fold=0,1,2"


def documents(seed, count):
    draw = random.Random(seed)
    return [
        {"right": draw.randrange(4), "predicted": 4 + draw.randrange(4), "found": draw.randrange(5), "gold": 5}
        for _ in range(count)
    ]


def harmonic(examples):
    precision = sum(e["right"] for e in examples) / sum(e["predicted"] for e in examples)
    recall = sum(e["found"] for e in examples) / sum(e["gold"] for e in examples)
    return 100 * 2 * precision * recall / (precision + recall)


def save_fold(runs, fold, examples, *, folds=3, test="", unit="", **options):
    """A finished run on one fold with these test examples, as a run leaves it."""
    metric = replace(METRIC, unit=unit)
    record = make_record(METRIC.of_examples(examples), data="books", task="coref", fold=fold, folds=folds, **options)
    hashes = {"train": f"{fold}" * 64, "test": test or f"{fold + 3}" * 64}
    parts = {**record.fingerprinted, "data": hashes}
    config = {**record.config, "fold": fold}
    record = replace(record, fingerprinted=parts, config=config, metrics={"f1": metric})
    return save(runs, record, examples)


def save_folds(runs, seed=1, features="glove", folds=(0, 1, 2), **options):
    """Runs on folds of two, three and four documents; returns the counts of all documents."""
    sets = [documents(f"{features} {seed} {fold}", 2 + fold) for fold in folds]
    for fold, examples in zip(folds, sets, strict=True):
        save_fold(runs, fold, examples, seed=seed, features=features, **options)
    return [example for examples in sets for example in examples]


def row_of(runs):
    summary = fill_all(collect([runs]), Selection())
    (row,) = summary.rows
    return row, summary.findings


def labelled(runs):
    """All rows by their settings, as typed."""
    table = fill_all(collect([runs]), Selection())
    return {row.label: row for row in [*table.rows, *table.others]}


class TestOneScore:
    def test_it_is_that_of_all_documents_together(self, tmp_path):
        """The closed form over the concatenated documents, not the mean of the folds' scores."""
        together = save_folds(tmp_path)
        row, findings = row_of(tmp_path)
        group = row.group("glove")
        assert group.scores == pytest.approx([harmonic(together)])
        folds = [record.score for record in group.runs]
        assert len(folds) == 3
        assert abs(sum(folds) / 3 - group.mean) > 0.1
        assert (group.seeds, group.std, group.label) == ([1], None, "")
        assert [{key: own[key] for key in own if key != "fold"} for own in group.examples[0]] == together
        assert not [finding for finding in findings if finding.kind == "note"]

    def test_seeds_are_averaged_and_folds_are_not(self, tmp_path):
        together = [save_folds(tmp_path, seed) for seed in (1, 2)]
        group = row_of(tmp_path)[0].group("glove")
        assert group.seeds == [1, 2]
        assert group.mean == pytest.approx(sum(map(harmonic, together)) / 2)

    @pytest.mark.parametrize("unit", ["", "sentence"])
    def test_the_interval_is_over_the_folds(self, tmp_path, unit):
        """Tukey's jackknife by hand: the gain without each of three folds, with 2 degrees of freedom."""
        together = {arm: save_folds(tmp_path, features=arm, unit=unit) for arm in ("glove", "elmo")}
        folds = [0, 0, 1, 1, 1, 2, 2, 2, 2]
        without = [
            [harmonic([e for e, own in zip(examples, folds, strict=True) if own != fold]) for fold in range(3)]
            for examples in together.values()
        ]
        gains = [second - first for first, second in zip(*without, strict=True)]
        variance = 2 / 3 * sum((gain - sum(gains) / 3) ** 2 for gain in gains)
        row = row_of(tmp_path)[0]
        found, half = row.interval, 4.303 * variance**0.5
        assert (found.low, found.high) == pytest.approx((row.gain - half, row.gain + half), rel=1e-3)
        assert (found.over, found.clusters) == ("folds", 3)
        assert not found.few_seeds  # three trainings of each arm

    def test_one_fold_alone_has_an_interval_over_its_documents(self, tmp_path):
        for features in ("glove", "elmo"):
            save_folds(tmp_path, features=features, folds=(2,))
        assert labelled(tmp_path)["fold=2"].interval.over == "examples"

    def test_seeds_with_other_files_in_a_fold_are_not_averaged(self, tmp_path):
        save_folds(tmp_path, seed=1)
        save_folds(tmp_path, seed=2, test="f" * 64)
        rows, findings = labelled(tmp_path), fill_all(collect([tmp_path]), Selection()).findings
        assert "" not in rows
        assert [row.group("glove").seeds for row in rows.values()] == [[1], [2]]
        assert any("differ in data.0.test, data.1.test, data.2.test are not averaged" in f.text for f in findings)

    def test_commits_of_single_folds_are_compared(self, tmp_path):
        save_folds(tmp_path, folds=(0, 1))
        save_folds(tmp_path, folds=(2,), environment=replace(CLEAN, commit="b" * 40))
        row, findings = row_of(tmp_path)
        commits = "aaaaaaaaaa (seed 1, folds 0, 1), bbbbbbbbbb (seed 1, fold 2)"
        assert any(f.text.endswith(f"one mean over several commits: {commits}") for f in findings)
        assert commit_of(row.groups) == "at aaaaaaaaaa and bbbbbbbbbb"


class TestIncomplete:
    def test_it_is_shown_apart_with_the_folds_that_are_there(self, tmp_path, capsys):
        save_folds(tmp_path, seed=1)
        partial = save_folds(tmp_path, seed=2, folds=(0, 2))
        row, _ = row_of(tmp_path)
        assert row.group("glove").seeds == [1]
        group = labelled(tmp_path)["fold=0,2"].group("glove")
        assert (group.scores, group.partial) == (pytest.approx([harmonic(partial)]), True)
        out = run_table(capsys, "--runs", tmp_path)[1]
        score = f"{harmonic(partial):.2f}"
        assert f"books coref glove seed 2 fold=0,2: 2 of 3 folds, f1 {score} over their examples alone" in out

    def test_folds_with_other_settings_are_not_joined(self, tmp_path):
        """A default that was edited between two folds changes no fingerprint."""
        save_folds(tmp_path, folds=(0, 1))
        save_folds(tmp_path, folds=(2,))
        path = next(tmp_path.rglob("fold-2/**/record.json"))
        record = read_record(path)
        write_record(path, replace(record, config={**record.config, "trainer": {"lr": 0.5}}))
        findings = fill_all(collect([tmp_path]), Selection()).findings
        assert {label: len(row.groups[0].runs) for label, row in labelled(tmp_path).items()} == {
            "fold=0,1": 2,
            "fold=2": 1,
        }
        wrong = [finding.text for finding in findings if finding.kind == "note" and finding.wrong]
        assert len(wrong) == 2
        assert all(text.endswith("Other folds differ in trainer.lr") for text in wrong)

    def test_a_failed_fold_leaves_the_set_incomplete(self, tmp_path, capsys):
        save_folds(tmp_path, folds=(0, 1))
        broken = RunError("ValueError", "too long")
        save(tmp_path, make_record(data="books", task="coref", fold=2, folds=3, error=broken))
        out = run_table(capsys, "--runs", tmp_path)[1]
        assert "2 of 3 folds" in out
        assert "books coref glove fold 2 seed 1: ValueError: too long" in out

    def test_an_arm_without_a_whole_set_is_empty(self, tmp_path, capsys):
        save_folds(tmp_path)
        save_folds(tmp_path, features="elmo", folds=(1,))
        assert "books Coref: no runs of elmo" in run_table(capsys, "--runs", tmp_path)[1]

    @pytest.mark.parametrize("examples", [None, [{"other": 1}]])
    def test_a_fold_without_counts_is_left_out_and_reported(self, tmp_path, capsys, examples):
        save_folds(tmp_path, folds=(0, 1))
        path = save_fold(tmp_path, 2, documents(1, 1))
        path.with_name(EXAMPLES_NAME).unlink()
        if examples:
            write_examples(path.with_name(EXAMPLES_NAME), read_record(path).fingerprint, examples)
        status, out, err = run_table(capsys, "--runs", tmp_path, "--check")
        assert "books coref glove fold 2 seed 1: left out, because f1 over several folds needs the counts" in out
        assert "2 of 3 folds" in out
        assert (status, "left out" in err) == (1, True)

    def test_a_second_run_of_a_fold_with_other_data_is_not_lost(self, tmp_path):
        save_folds(tmp_path / "a")
        save_fold(tmp_path / "b", 1, documents(5, 3), test="e" * 64)
        assert labelled(tmp_path).keys() == {"", "fold=1"}

    def test_a_fold_of_another_version_of_the_data_is_in_no_whole_set(self, tmp_path):
        """The folder that comes first has one fold of it, and the second has all folds of the newer version."""
        save_fold(tmp_path / "a", 0, documents(5, 3), test="e" * 64)
        together = save_folds(tmp_path / "b")
        rows = labelled(tmp_path)
        assert rows[""].group("glove").scores == pytest.approx([harmonic(together)])
        assert rows["fold=0"].group("glove").scores == pytest.approx([harmonic(documents(5, 3))])

    def test_folds_in_two_folders_are_one_set(self, tmp_path):
        first, second = save_folds(tmp_path / "a", folds=(0, 2)), save_folds(tmp_path / "b", folds=(1,))
        (group,) = row_of(tmp_path)[0].groups
        assert (group.label, group.scores) == ("", pytest.approx([harmonic([*first, *second])]))


OWN = """
title = "Books"
seeds = [1, 2]
compare = ["a", "b"]
[arms]
a = ["features=glove"]
b = ["features=elmo"]
[[rows]]
overrides = ["task=coref", "data=books"]
folds = 3
[[rows]]
overrides = ["task=ner", "data=paper"]
"""


class TestExperiment:
    def test_a_cell_has_the_score_over_all_folds(self, own, tmp_path, capsys):
        scores = [harmonic(save_folds(tmp_path / "runs", seed)) for seed in (1, 2)]
        save_folds(tmp_path / "runs", 1, "elmo", folds=(0, 2))
        _, out, err = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own, "--format", "json")
        arms = json.loads(out)[0]["arms"]
        assert (arms["a"]["scores"], arms["a"]["seeds"]) == (pytest.approx(scores, abs=1e-5), [1, 2])
        assert arms["b"]["mean"] is None
        assert "elmo seed 1 fold=0,2: 2 of 3 folds" in err
        assert "are not averaged" not in err

    def test_missing_folds_are_counted(self, own, tmp_path, capsys):
        save_folds(tmp_path / "runs", 1)
        save_folds(tmp_path / "runs", 2, folds=(0, 2))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own)[1]
        assert "3 of 4 cells are empty, 11 of 16 runs are missing" in out

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            ('"data=books"]\nfolds = 3', '"data=books", "fold=1"]', r"`folds` of a row, found 'fold=1'"),
            ("folds = 3", "folds = 1", r"rows\[0\].folds: expected greater than or equal to 2"),
        ],
    )
    def test_mistakes_in_its_file(self, own, tmp_path, capsys, old, new, expected):
        own.write_text(OWN.replace(old, new))
        status, _, err = run_table(capsys, "--runs", tmp_path, "--experiment", own)
        assert status == 1
        assert re.search(expected, err)


def test_the_command_that_repeats_a_set(tmp_path):
    save_folds(tmp_path, seed=1)
    save_folds(tmp_path, seed=2, folds=(1,))
    rows = labelled(tmp_path)
    assert commands_of([rows[""].group("glove")]) == [
        f"python -m tasks.run -m task=coref data=books features=glove seed=1 {ALL} threads=2 device=cpu"
    ]
    assert commands_of([rows["fold=1"].group("glove")]) == [
        "python -m tasks.run -m task=coref data=books features=glove seed=2 fold=1 threads=2 device=cpu"
    ]


def test_publishing_and_the_report(tmp_path, capsys):
    """Every fold is published and has a card; the tables have one number for each seed."""
    root = tmp_path / "root"
    (root / "results" / "published").mkdir(parents=True)
    marks = "".join(f"<!-- {name} -->\n<!-- /{name} -->\n" for name in ("figure", "table1", "representations", "demo"))
    (root / "README.md").write_text(marks)
    scores = {arm: harmonic(save_folds(tmp_path / "runs", features=arm)) for arm in ("glove", "elmo")}
    assert publish(["--runs", str(tmp_path / "runs")], root) == 0
    assert len(list((root / "results" / "published").rglob("books/coref/*/fold-?/seed-1/record.json"))) == 6
    page = (root / "results" / "tables.md").read_text()
    assert f"| {scores['glove']:.2f} (1) | {scores['elmo']:.2f} (1) |" in page
    assert f"python -m tasks.run -m task=coref data=books features=glove,elmo seed=1 {ALL} threads=2 device=cpu" in page
    html = run_report(tmp_path / "runs")[1]
    assert f"{scores['elmo']:.2f}" in html
    assert "+ ELMo fold 2, seed 1" in html
    link = '<a href="runs/books/coref/elmo/fold-0/seed-1/record.json">fold 0</a>'
    assert f"<td>{scores['elmo']:.2f}<small>{link}" in html


@pytest.mark.parametrize("folds", [None, 2])
def test_a_record_of_a_fold_says_how_many_there_are(folds):
    with pytest.raises(ValueError, match=f"folds: expected a number of folds above identity.fold, 2, found {folds}"):
        make_record(fold=2, folds=folds)
    assert isinstance(make_record(fold=1, folds=2), RunRecord)
