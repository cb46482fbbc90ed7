"""The table of an experiment, on records made by hand."""

import csv
import json
import re
import shlex
from dataclasses import replace

import pytest

from results.records.record import RunError
from tests.results.making import CLEAN, first_right, make_record, run_table, save

OWN = """
title = "Two rows"
seeds = [1, 2]
compare = ["a", "b"]
[arms]
a = ["features=glove"]
b = ["features=elmo", "trainer.lr=0.5"]
c = ["features=word2vec"]
[[rows]]
overrides = ["task=ner", "data=wnut17"]
paper = {a = 40.0, c = 50.5}
paper_std = {c = 0.25}
source = "Table 9, row 3"
[[rows]]
overrides = ["task=ner", "data=wnut17", "train_fraction=0.1"]
title = "a tenth"
"""


@pytest.fixture
def runs(tmp_path):
    """The first row: a has 40 and 44, b 61 and failed, c nothing; and runs that are no cells."""
    folder = tmp_path / "runs"
    save(folder, make_record(40.0, data="wnut17"))
    save(folder, make_record(44.0, data="wnut17", seed=2))
    save(folder, make_record(61.0, data="wnut17", features="elmo", variant={"trainer.lr": 0.5}, lr=0.5))
    broken = RunError("ValueError", "too wide")
    save(folder, make_record(data="wnut17", features="elmo", seed=2, variant={"trainer.lr": 0.5}, lr=0.5, error=broken))
    save(folder, make_record(11.0, data="wnut17", features="elmo"))
    save(folder, make_record(12.0, data="wnut17", seed=3))
    save(folder, make_record(13.0, data="wnut17", limit=5))
    save(folder, make_record(14.0))
    return folder


def missing(out):
    """What the line on empty cells says: the counts, and the words of the command."""
    (line,) = [line for line in out.splitlines() if "to fill them: " in line]
    counts, command = line.strip().split("; to fill them: ")
    return counts, shlex.split(command)[4:]


class TestRows:
    def test_cells_next_to_the_paper_s_numbers(self, own, runs, capsys):
        code, out, _ = run_table(capsys, "--runs", runs, "--experiment", own)
        assert code == 0
        lines = out.splitlines()
        assert lines[0] == "Two rows: scores in percent, mean±std (number of seeds)"
        assert lines[2].split() == ["task", "a", "b", "c", "gain,", "paper"]
        first, second = (line for line in lines[4:] if line.startswith(("wnut17", "NER", "a tenth")))
        # The mean of 40 and 44, with a deviation of 2 * sqrt(2), and 61 - 42.
        for cell in ("42.00±2.83 (2)", "61.00 (1)", "+19.00", "40.0 → 50.5"):
            assert cell in first
        assert set(second.removeprefix("a tenth").split()) == {"-"}
        assert all(f"{score}.00" not in out for score in (11, 12, 13, 14))
        assert "Table 9, row 3" in out

    def test_one_command_fills_the_empty_cells(self, own, runs, capsys):
        """Of six cells c lacks both, and the row of a tenth a and b; of b's two seeds one failed."""
        out = run_table(capsys, "--runs", runs, "--experiment", own)[1]
        counts, words = missing(out)
        assert counts == "4 of 6 cells are empty, 9 of 12 runs are missing"
        assert words == [f"experiment={own}", f"runs_dir={runs}", "retry=failed"]
        assert "ValueError: too wide" in out
        brief = run_table(capsys, "--runs", runs, "--experiment", own, notes=False)[1]
        assert missing(brief)[1] == words

    def test_seeds_that_ran_with_an_older_recipe_are_missing(self, own, tmp_path, capsys):
        """SST-5 has recipe 2. Arm a ran with both recipes, b with recipe 1 alone: it has a score, but an older one."""
        own.write_text(OWN.partition("[[rows]]")[0] + '[[rows]]\noverrides = ["task=sst5", "data=paper"]\n')
        old = {"task": "sst5", "recipe": 1}
        save(tmp_path / "runs", make_record(40.0, task="sst5"))
        save(tmp_path / "runs", make_record(44.0, seed=2, **old))
        save(tmp_path / "runs", make_record(46.0, features="elmo", variant={"trainer.lr": 0.5}, lr=0.5, **old))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own)[1]
        assert missing(out)[0] == "1 of 3 cells are empty, 5 of 6 runs are missing or of an older recipe"

    def test_seeds_with_an_older_recipe_of_a_user_s_task_are_missing(self, own, tmp_path, capsys):
        """The suite does not know its newest recipe, but no mean has both."""
        own.write_text(OWN.partition("[[rows]]")[0] + '[[rows]]\noverrides = ["task=mine", "data=paper"]\n')
        for seed, recipe in ((1, 3), (2, 2)):
            save(tmp_path / "runs", make_record(40.0, task="mine", seed=seed, recipe=recipe))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own)[1]
        assert missing(out)[0] == "2 of 3 cells are empty, 5 of 6 runs are missing"

    def test_the_note_of_the_file_is_below_the_table(self, own, runs, capsys):
        assert "gain: b minus a" not in run_table(capsys, "--runs", runs, "--experiment", own)[1]
        own.write_text(own.read_text().replace("[arms]", 'note = "gain: b minus a"\n[arms]'), encoding="utf-8")
        out = run_table(capsys, "--runs", runs, "--experiment", own)[1]
        assert out.index("42.00") < out.index("  gain: b minus a\n")

    @pytest.mark.parametrize("by_arm", ["false", "true"])
    def test_what_the_commands_need_first_is_below_them(self, by_arm, own, runs, capsys):
        added = f'by_arm = {by_arm}\nneeds = ["vectors, by make vectors", "DIR"]\n[arms]'
        own.write_text(own.read_text().replace("[arms]", added), encoding="utf-8")
        out = run_table(capsys, "--runs", runs, "--experiment", own)[1]
        below = out[out.rindex("python -m tasks.run") :]
        assert "  needed first: vectors, by make vectors\n  needed first: DIR\n" in below

    def test_notes_have_the_titles_of_arms(self, own, tmp_path, capsys):
        """Titles in the file, or those of the features that an arm is named like."""
        head = OWN.partition("[[rows]]")[0].replace("a = [", "glove = [").replace('"a"', '"glove"')
        own.write_text(f'{head}[titles]\nb = "fast biLM"\n[[rows]]\noverrides = ["task=sst5", "data=paper"]\n')
        for features, settings in (("glove", {}), ("elmo", {"variant": {"trainer.lr": 0.5}, "lr": 0.5})):
            for seed, recipe in ((1, 2), (2, 1)):
                changed = replace(CLEAN, dirty=True)
                made = {"task": "sst5", "features": features, "seed": seed, "recipe": recipe, "environment": changed}
                save(tmp_path / "runs", make_record(**made, **settings))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own)[1]
        for arm in ("GloVe", "fast biLM"):
            assert f"\n  SST-5, {arm}: recipe 1 is left out (seed 2); the others have recipe 2\n" in out
            assert f"\n  SST-5, {arm}: code with uncommitted changes (seed 1)\n" in out

    def test_notes_have_the_titles_of_rows(self, own, tmp_path, capsys):
        """Two rows of one task have different names in their notes."""
        head = OWN.partition("[[rows]]")[0].replace("a = [", "glove = [").replace('"a"', '"glove"')
        row = '[[rows]]\ntitle = "at {lr}"\noverrides = ["task=sst5", "data=paper", "trainer.lr={lr}"]\n'
        own.write_text(head + row.format(lr=0.1) + row.format(lr=0.5), encoding="utf-8")
        for lr in (0.1, 0.5):
            made = {"task": "sst5", "seed": 1, "variant": {"trainer.lr": lr}, "lr": lr}
            save(tmp_path / "runs", make_record(**made, environment=replace(CLEAN, dirty=True)))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own)[1]
        for lr in (0.1, 0.5):
            assert f"\n  at {lr}, GloVe: code with uncommitted changes (seed 1)\n" in out

    def test_nothing_was_run(self, own, tmp_path, capsys):
        out = run_table(capsys, "--runs", tmp_path, "--experiment", own, "seed=1", "limit=5")[1]
        assert missing(out)[1] == [f"experiment={own}", "seed=1", "limit=5", f"runs_dir={tmp_path}"]

    @pytest.mark.parametrize(("key", "meant"), [("sed", "seed"), ("task.nam", "task.name"), ("xyz", None)])
    def test_a_misspelt_key_is_named(self, own, runs, capsys, key, meant):
        code, out, err = run_table(capsys, "--runs", runs, "--experiment", own, f"{key}=1")
        hint = f" Did you mean {meant}?" if meant else ""
        assert (code, out) == (1, "")
        assert err == f"results.table: unknown key {key}: no run and no cell of experiment={own} has it.{hint}\n"

    @pytest.mark.parametrize(
        "typed", ["limit=5", "threads=2", "+data.reader.x=1", "datasets.paper.x=1", "~trainer.lr", "trainer=x"]
    )
    def test_a_setting_that_runs_may_have_is_no_mistake(self, own, runs, capsys, typed):
        assert run_table(capsys, "--runs", runs, "--experiment", own, typed)[0] == 0

    def test_a_choice_of_cells_and_a_further_setting(self, own, runs, capsys):
        out = run_table(capsys, "--runs", runs, "--experiment", own, "limit=5", "seed=1", "features=glove")[1]
        assert "13.00 (1)" in out
        assert "40.00" not in out
        code, _, err = run_table(capsys, "--runs", runs, "--experiment", own, "seed=9")
        assert (code, err[:15]) == (1, "results.table: ")
        assert "no cell of experiment=" in err

    def test_another_metric_on_another_split(self, own, tmp_path, capsys):
        own.write_text(OWN.replace('source = "Table 9, row 3"', 'metric = "em"\nsplit = "dev"'))
        scores = {"test": {"f1": 40.0, "em": 30.0}, "dev": {"f1": 20.0, "em": 10.0}}
        save(tmp_path / "runs", replace(make_record(40.0, data="wnut17"), scores=scores))
        save(tmp_path / "runs", make_record(40.0, data="wnut17", seed=2))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own, "--wide")[1]
        assert "dev exact match" in out
        assert "10.00 (1)" in out
        assert "1 runs have no dev score by em" in out

    def test_two_rows_with_different_metrics_of_the_same_runs(self, own, tmp_path, capsys):
        twice = '[[rows]]\noverrides = ["task=ner", "data=wnut17"]\n'
        own.write_text(OWN.partition("[[rows]]")[0] + twice + twice + 'metric = "em"\nsplit = "dev"\n')
        scores = {"test": {"f1": 40.0}, "dev": {"em": 10.0}}
        save(tmp_path / "runs", replace(make_record(40.0, data="wnut17"), scores=scores))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own, "--format", "json")[1]
        shown = [(line["metric"], line["split"], line["arms"]["a"]["scores"]) for line in json.loads(out)]
        assert shown == [("f1", "test", [40.0]), ("em", "dev", [10.0])]

    def test_runs_under_different_settings_are_not_averaged(self, own, tmp_path, capsys):
        for folder, score, lr in (("x", 40.0, 0.1), ("y", 50.0, 0.2)):
            save(tmp_path / folder, make_record(score, data="wnut17", lr=lr))
        code, out, err = run_table(capsys, "--runs", tmp_path, "--experiment", own, "--check")
        assert code == 1
        assert "runs that differ in trainer.lr are not averaged" in err
        assert "45.00" not in out

    def test_the_paper_s_numbers_are_those_of_scores_toml(self, tmp_path, capsys):
        """Table 1: NER 90.15 and 92.22 ± 0.10, SST-5 51.4 and 54.7; a part of SNLI has none."""
        out = run_table(capsys, "--runs", tmp_path, "--experiment", "table1", "--format", "json")[1]
        rows = {(row["data"], row["task"]): row["arms"] for row in json.loads(out)}
        found = {key: (arms["glove"]["paper"], arms["elmo"]["paper"]) for key, arms in rows.items()}
        assert found["paper", "ner"] == (90.15, 92.22)
        assert found["paper", "sst5"] == (51.4, 54.7)
        assert found["snli100k", "snli"] == (None, None)
        assert rows["paper", "ner"]["elmo"]["paper_std"] == 0.1

    def test_table1_with_other_ingredients_takes_its_own_runs_only(self, tmp_path, capsys):
        """The same names with the settings of each, and a run with those of neither."""
        save(tmp_path, make_record(79.0, task="squad"))
        save(tmp_path, make_record(80.0, task="squad", variant={"features.words.vectors": "wink-100d"}))
        variant = {"features.words.vectors": "glove/840B.300d", "features.words.lowercase": False}
        save(tmp_path, make_record(81.0, task="squad", variant=variant))
        ours, theirs = (
            run_table(capsys, "--runs", tmp_path, "--experiment", name, "task=squad")[1]
            for name in ("table1", "table1_paper")
        )
        assert re.findall(r"\b(\d\d\.00) \(1\)", ours) == ["80.00"]
        assert re.findall(r"\b(\d\d\.00) \(1\)", theirs) == ["81.00"]


class TestFormats:
    def test_json_and_csv_have_the_same_numbers(self, own, runs, capsys):
        _, out, err = run_table(capsys, "--runs", runs, "--experiment", own, "--format", "json")
        first, second = json.loads(out)
        assert first["arms"]["a"]["scores"] == [40.0, 44.0]
        empty = {"mean": None, "std": None, "scores": [], "seeds": [], "n": 0, "limit": None, "recipe": None}
        assert first["arms"]["c"] == {**empty, "paper": 50.5, "paper_std": 0.25, "verdict": None}
        assert (first["gain"], first["compared"], second["gain"]) == (19.0, ["a", "b"], None)
        assert second["row"] == "a tenth"
        assert "cells are empty" in err
        out = run_table(capsys, "--runs", runs, "--experiment", own, "--format", "csv")[1]
        rows = list(csv.DictReader(out.splitlines()))
        names = [(row["row"], row["arm"]) for row in rows]
        assert names == [(row, arm) for row in (first["row"], "a tenth") for arm in "abc"]
        a, b, c, empty, _, _ = rows
        assert (a["mean"], a["n"], c["paper"], c["n"], empty["mean"]) == ("42.0", "2", "50.5", "0", "")
        assert (b["over"], b["gain"], a["gain"]) == ("a", "19.0", "")

    @pytest.mark.parametrize(("form", "mark"), [("md", "| a tenth |"), ("tex", r"\begin{tabular}")])
    def test_markdown_and_tex(self, own, runs, capsys, form, mark):
        out = run_table(capsys, "--runs", runs, "--experiment", own, "--format", form)[1]
        assert mark in out
        assert "61.00 (1)" in out

    def test_another_pair_is_compared(self, own, runs, capsys):
        out = run_table(capsys, "--runs", runs, "--experiment", own, "--compare", "b", "a", "--format", "json")[1]
        assert json.loads(out)[0]["gain"] == -19.0
        code, _, err = run_table(capsys, "--runs", runs, "--experiment", own, "--compare", "glove", "a")
        assert (code, err) == (1, "results.table: --compare: expected two of a, b, c, found glove a\n")

    def test_the_gain_has_an_interval_over_examples(self, own, tmp_path, capsys):
        for features, right, extra in (("glove", 50, {}), ("elmo", 80, {"variant": {"trainer.lr": 0.5}, "lr": 0.5})):
            for seed in (1, 2):
                record = make_record(
                    right + seed, data="wnut17", features=features, seed=seed, metric="accuracy", **extra
                )
                save(tmp_path / "runs", record, first_right(right + seed))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own, "--format", "json")[1]
        interval = json.loads(out)[0]["gain_interval"]
        assert interval["low"] < 30 < interval["high"]
        assert interval["over"] == "examples and seeds"

    def test_without_runs_no_cell_is_blank(self, tmp_path, capsys):
        out = run_table(capsys, "--runs", tmp_path, "--experiment", "table2", "task=squad", "--format", "md")[1]
        (line,) = [line for line in out.splitlines() if line.startswith("| SQuAD")]
        assert line.strip("| ").split(" | ")[1:] == ["-", "-", "-", "-", "80.8 → 84.7 → 85.0 → 85.2"]

    def test_notes_name_the_rows_that_they_are_about(self, own, tmp_path, capsys):
        """On test one row has one seed and the other two; dev scores are not known by example."""
        extra = {"variant": {"trainer.lr": 0.5}, "lr": 0.5}
        rows = '[[rows]]\noverrides = ["task=ner", "data=wnut17"]\nsplit = "dev"\n'
        rows += '[[rows]]\noverrides = ["task=ner", "data=btc"]\n'
        own.write_text(OWN + rows, encoding="utf-8")
        for data, seed in (("wnut17", 1), ("wnut17", 2), ("btc", 1)):
            for features, right, typed in (("glove", 50, {}), ("elmo", 80, extra)):
                made = make_record(right + seed, data=data, features=features, seed=seed, metric="accuracy", **typed)
                both = {split: {"accuracy": float(right + seed)} for split in ("dev", "test")}
                save(tmp_path / "runs", replace(made, scores=both), first_right(right + seed))
        out = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own)[1]
        notes = [line for line in out.splitlines() if "intervals and p" in line]
        assert [note.partition("): ")[0].strip() for note in notes] == [
            "95 % intervals and p (NER, WNUT-17, accuracy",
            "95 % intervals and p (btc NER",
            "95 % intervals and p (NER, WNUT-17, dev accuracy",
        ]
        assert "each arm has one seed" in notes[1]
        assert "over seeds alone, because scores of single examples are not known" in notes[2]

    def test_check_fails_for_an_empty_arm_of_the_comparison(self, own, runs, capsys):
        code, _, err = run_table(capsys, "--runs", runs, "--experiment", own, "--check")
        assert code == 1
        assert "check: empty cells: 4 of 6 cells are empty" in err
        assert "arms differ" not in err, "the rate is part of the arm"

    def test_check_fails_for_copies_with_different_scores(self, own, tmp_path, capsys):
        for folder, score in (("one", 40.0), ("two", 41.0)):
            save(tmp_path / folder, make_record(score, data="wnut17"))
            save(tmp_path / folder, make_record(score, data="conll"))  # in no row
        _, _, err = run_table(
            capsys, "--runs", tmp_path / "one", "--runs", tmp_path / "two", "--experiment", own, "--check"
        )
        assert err.count("are the same run with different scores") == 1


class TestMistakes:
    def test_an_unknown_experiment(self, capsys):
        code, _, err = run_table(capsys, "--experiment", "table9")
        assert code == 1
        assert err.startswith("results.table: experiment=table9: expected board, controls, fewer_labels")

    @pytest.mark.parametrize("arguments", [["task=ner"], ["--experiment", "mini", "--data", "mini"]])
    def test_options_that_do_not_go_together(self, arguments, capsys):
        with pytest.raises(SystemExit):
            run_table(capsys, *arguments)
        assert "--experiment" in capsys.readouterr().err


def test_the_table_says_how_many_settings_were_tried_before(tmp_path, capsys):
    arms = '[arms]\nglove = ["features=glove"]\nelmo = ["features=elmo"]\n'
    rows = [
        f'[[rows]]\noverrides = ["task=ner", "data={data}", "trial=true", "features.dropout={tried}"]\nsplit = "dev"\n'
        for data, tried in (("paper", "0.3,0.5"), ("wnut17", "0.1,0.2,0.3"))
    ]
    tried = tmp_path / "tried.toml"
    tried.write_text(f'title = "Tried"\nseeds = [1, 2, 3]\n{arms}{rows[0]}{rows[1]}arms = ["elmo"]\n')
    own = tmp_path / "own.toml"
    row = '[[rows]]\noverrides = ["task=ner", "data=paper"]\n'
    own.write_text(f'title = "Own"\nseeds = [1]\ntrials = "{tried}"\n{arms}{row}')
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--experiment", own)
    assert "NER, CoNLL-2003: GloVe 2, + ELMo 2; NER, WNUT-17: + ELMo 3; other rows: none" in out
