"""Publishing: which runs are copied or refused, and what is written."""

import gzip
from dataclasses import replace

import pytest

from elmo.common.files import read_json, write_json
from results.names import load_names
from results.publish import main
from results.records.example_scores import write_confidences, write_examples, write_predictions
from results.records.identity import CONFIDENCES_NAME, EXAMPLES_NAME, PREDICTIONS_NAME, also_name
from results.records.record import FurtherTest, RunError, read_record, write_record
from tests.results.making import CLEAN, make_record, save
from tests.results.publish.finished_runs import README, save_run


def published(root):
    folder = root / "results" / "published"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.parent != folder)


def test_records_and_examples_are_copied_and_nothing_else(runs, root, capsys):
    arms = [str(runs / "paper" / "sst5" / arm) for arm in ("glove", "elmo")]
    assert main(["--runs", *arms], root) == 0
    names = ("examples.json.gz", "record.json")
    folders = [f"paper/sst5/{arm}/seed-{seed}" for arm in ("elmo", "glove") for seed in (1, 2)]
    assert published(root) == [f"{folder}/{name}" for folder in folders for name in names]
    for name in published(root):
        assert (root / "results" / "published" / name).read_bytes() == (runs / name).read_bytes()
    out = capsys.readouterr().out
    assert out.count("added") == 4
    assert "added     paper sst5 elmo seed 2: accuracy 63.00" in out


FILES = {"train": ["sst5/a.txt"], "dev": ["sst5/b.txt"], "test": ["sst5/c.txt"]}
OURS = {"shipped": True, "hub": None, "splits": FILES}


def save_with_predictions(runs, data, seed=1):
    """A run of these data that kept its predictions."""
    path = save_run(runs, 1, of=2, data="mini", task="sst5", seed=seed)
    record = read_record(path)
    write_record(path, replace(record, config={**record.config, "data": data}))
    line = {"example": {"tokens": ["A", "bore"]}, "gold": {"label": "bad"}}
    lines = [{"id": label, **line, "predicted": {"label": label}} for label in ("bad", "good")]
    write_predictions(path.with_name(PREDICTIONS_NAME), record.fingerprint, lines)
    return path


def test_further_test_sets_and_confidences_are_copied_as_numbers_alone(root, tmp_path, capsys):
    runs = tmp_path / "runs"
    path = save_run(runs, 1, of=2, task="sst5")
    record = replace(read_record(path), also={"films": FurtherTest({"accuracy": 50.0})})
    write_record(path, record)
    assert main(["--runs", str(runs)], root) == 1
    assert "expected examples-films.json.gz next to the record, found none" in capsys.readouterr().out
    write_examples(path.with_name(also_name("films")), record.fingerprint, [{"correct": 0}, {"correct": 1}])
    kept = path.with_name(CONFIDENCES_NAME)
    write_confidences(kept, record.fingerprint, {"test": [[(0.9, True)], [(0.5, False)]]})
    clean = kept.read_bytes()
    kept.write_bytes(gzip.compress(gzip.decompress(clean).replace(b'{"split"', b'{"text": "A bore", "split"')))
    assert main(["--runs", str(runs)], root) == 0
    folder = path.parent.relative_to(runs).as_posix()
    names = [CONFIDENCES_NAME, "examples-films.json.gz", "examples.json.gz", "record.json"]
    assert published(root) == [f"{folder}/{name}" for name in names]
    assert (root / "results" / "published" / folder / CONFIDENCES_NAME).read_bytes() == clean
    kept.unlink()
    write_record(path, replace(record, also={}, seconds=2.0))
    assert main(["--runs", str(runs)], root) == 0
    assert published(root) == [f"{folder}/{name}" for name in names[2:]], "those of a run that was replaced"


def test_a_trial_is_its_record_alone_and_no_score_of_a_table(root, tmp_path, capsys):
    trial = make_record(None, task="sst5", metric="accuracy", variant={"trial": True}, dev=51.5)
    path = save(tmp_path / "runs", trial)
    assert main(["--runs", str(tmp_path / "runs")], root) == 0
    assert published(root) == [path.relative_to(tmp_path / "runs").as_posix()]
    assert "trial=true: accuracy 51.50" in capsys.readouterr().out
    write_examples(path.with_name(EXAMPLES_NAME), trial.fingerprint, [{"correct": 1}])
    assert main(["--runs", str(tmp_path / "runs")], root) == 1
    assert "expected nothing about test examples next to a trial" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "copied"),
    [
        ({}, True),
        ({"shipped": False}, False),
        ({"shipped": "true"}, False),
        ({"hub": {"path": "licensed/data"}}, False),
        ({"documents": "{id}.txt"}, False),
        ({"splits": {**FILES, "test": ["/home/licensed/test.txt"]}}, False),  # refused
        ({"splits": {**FILES, "test": ["../../licensed/test.txt"]}}, False),
        ({"splits": {}}, False),
    ],
)
def test_predictions_are_copied_only_where_the_data_come_with_the_suite(root, tmp_path, changes, copied):
    path = save_with_predictions(tmp_path / "runs", {**OURS, **changes})
    main(["--runs", str(tmp_path / "runs")], root)
    target = root / "results" / "published" / path.relative_to(tmp_path / "runs")
    assert target.with_name(PREDICTIONS_NAME).exists() is copied
    texts = [file for file in root.rglob("*") if file.is_file() and b"bore" in file.read_bytes()]
    packed = [file for file in root.rglob("*.gz") if b"bore" in gzip.decompress(file.read_bytes())]
    assert (texts, len(packed)) == ([], int(copied))


def test_predictions_of_further_seeds_are_not_copied(root, tmp_path):
    path = save_with_predictions(tmp_path / "runs", OURS, seed=2)
    assert main(["--runs", str(tmp_path / "runs")], root) == 0
    target = root / "results" / "published" / path.relative_to(tmp_path / "runs")
    assert (target.exists(), target.with_name(PREDICTIONS_NAME).exists()) == (True, False)


def test_records_without_data_in_their_config_publish_no_predictions(root, tmp_path):
    path = save_with_predictions(tmp_path / "runs", None)
    assert main(["--runs", str(tmp_path / "runs")], root) == 0
    target = root / "results" / "published" / path.relative_to(tmp_path / "runs")
    assert (target.exists(), target.with_name(PREDICTIONS_NAME).exists()) == (True, False)


def test_predictions_follow_their_record(root, tmp_path, capsys):
    runs = tmp_path / "runs"
    path = save_with_predictions(runs, OURS)
    target = root / "results" / "published" / path.relative_to(runs)
    kept = path.with_name(PREDICTIONS_NAME).read_bytes()
    assert main(["--runs", str(runs)], root) == 0
    assert target.with_name(PREDICTIONS_NAME).read_bytes() == kept
    path.with_name(PREDICTIONS_NAME).unlink()
    write_record(path, replace(read_record(path), seconds=2.0))
    assert main(["--runs", str(runs)], root) == 0
    assert not target.with_name(PREDICTIONS_NAME).exists(), "predictions of a run that was replaced"
    path.with_name(PREDICTIONS_NAME).write_bytes(kept[:-9])
    capsys.readouterr()
    assert main(["--runs", str(runs)], root) == 1
    assert "expected predictions, a JSON object a line, found" in capsys.readouterr().out


def test_what_is_made_from_them_is_written_and_then_up_to_date(runs, root, capsys):
    main(["--runs", str(runs)], root)
    page = (root / "results" / "tables.md").read_text()
    # (51 -> 61.5: 10.5 of 49); the paper: 51.4 -> 54.7; the band: 50.5 to 52
    for cell in ("51.00±1.41 (2)", "61.50±2.12 (2)", "+10.50", "21.4 %", "51.4 → 54.7", "6.8 %", "+6.80 open"):
        assert cell in page
    # five runs of the paper's with our deviation: 12.706 * 1.414 * sqrt(1 / 2 + 1 / 5)
    assert "| -0.40 open (-15.43 to +14.63) |" in page
    assert "| in 50.5 to 52.0 |" in page
    readme = (root / "README.md").read_text().replace("\u00a0", " ")
    assert "61.50±2.12 (2)" in readme
    assert "old" not in readme
    assert readme.startswith("# Top\n\n<!-- table1 -->\n\n| ")
    assert readme.endswith("<!-- /demo -->\n\nend\n")
    assert "51.0 to 61.5, ELMo 21.4 %" in (root / "results" / "published" / "errors-removed.svg").read_text()
    assert not list(root.rglob("*.html"))
    capsys.readouterr()
    assert main(["--check"], root) == 0
    assert capsys.readouterr().out == ""


def test_no_place_on_this_machine_is_named(runs, root):
    main(["--runs", str(runs)], root)
    for name in ("README.md", "results/tables.md", "results/published/errors-removed.svg"):
        assert str(root.parent) not in (root / name).read_text()


def test_check_names_what_is_out_of_date_and_writes_nothing(runs, root, capsys):
    main(["--runs", str(runs)], root)
    (root / "results" / "tables.md").write_text("by hand\n")
    capsys.readouterr()
    assert main(["--check"], root) == 1
    assert capsys.readouterr().out.startswith("results/tables.md: out of date")
    assert (root / "results" / "tables.md").read_text() == "by hand\n"
    assert main([], root) == 0
    assert main(["--check"], root) == 0


def test_a_run_that_is_there_is_left_and_a_rerun_replaces_it(runs, root, capsys):
    main(["--runs", str(runs)], root)
    capsys.readouterr()
    assert main(["--runs", str(runs)], root) == 0
    assert capsys.readouterr().out == "left      4 that are there already\n"
    save_run(runs, 61, task="sst5", features="elmo", seed=1)  # a GPU does not give the same bits twice
    assert main(["--runs", str(runs)], root) == 0
    assert "replaced  paper sst5 elmo seed 1: 60.00 -> accuracy 61.00" in capsys.readouterr().out


def test_other_settings_under_the_same_name_are_refused(runs, root, capsys):
    main(["--runs", str(runs)], root)
    save_run(runs, 70, task="sst5", features="elmo", seed=1, lr=0.1)
    assert main(["--runs", str(runs)], root) == 1
    assert "made under other settings is published (trainer.lr)" in capsys.readouterr().out
    assert read_record(root / "results/published/paper/sst5/elmo/seed-1/record.json").score == 60


def test_a_newer_recipe_replaces_an_older_one_and_never_the_reverse(runs, root, tmp_path, capsys):
    there = root / "results/published/paper/sst5/elmo/seed-1/record.json"
    main(["--runs", str(runs)], root)
    newest = load_names().tasks["sst5"].recipe
    for recipe, score in ((newest + 1, 70), (newest + 3, 50)):
        save_run(tmp_path / "new", score, task="sst5", features="elmo", seed=1, recipe=recipe)
        assert main(["--runs", str(tmp_path / "new")], root) == 0
        assert (read_record(there).score, read_record(there).recipe) == (score, recipe)
    assert (
        f"paper sst5 elmo seed 1: 70.00 -> accuracy 50.00, recipe {newest + 1} -> {newest + 3}\n"
        in capsys.readouterr().out
    )
    save_run(tmp_path / "old", 80, task="sst5", features="elmo", seed=1, recipe=newest + 2)
    save_run(tmp_path / "other", 80, task="sst5", features="elmo", seed=1, recipe=newest + 4, lr=0.1)
    assert main(["--runs", str(tmp_path / "old"), str(tmp_path / "other")], root) == 1
    out = capsys.readouterr().out
    assert f"a run of this name with recipe {newest + 3} is published, and this run has recipe {newest + 2}" in out
    assert "made under other settings is published (recipes.task, trainer.lr)" in out
    assert read_record(there).score == 50


class TestRefused:
    """Each with the reason; the other runs are published."""

    def assert_refused(self, runs, root, capsys, *reasons):
        assert main(["--runs", str(runs)], root) == 1
        out = capsys.readouterr().out
        for reason in ("refused", *reasons):
            assert reason in out
        assert out.count("refused") == 1
        assert out.count("added") == 4
        assert not [name for name in published(root) if "seed-9" in name]

    def edit(self, path, **changes):
        write_json(path, {**read_json(path), **changes})

    def test_failed(self, runs, root, capsys):
        save(runs, make_record(task="sst5", seed=9, error=RunError("OutOfMemoryError", "no room")))
        self.assert_refused(runs, root, capsys, "seed 9", "OutOfMemoryError: no room")

    def test_cut_data(self, runs, root, capsys):
        save_run(runs, 50, task="sst5", seed=9, limit=100)
        self.assert_refused(runs, root, capsys, "limit=100")

    def test_uncommitted_changes(self, runs, root, capsys):
        save_run(runs, 50, task="sst5", seed=9, environment=replace(CLEAN, dirty=True))
        self.assert_refused(runs, root, capsys, "sst5 glove seed 9", "uncommitted changes", "commit them and run again")

    def test_a_task_that_does_not_come_with_the_suite(self, runs, root, capsys):
        save_run(runs, 50, task="irony", seed=9)
        self.assert_refused(runs, root, capsys, "paper irony glove seed 9", "ner, sst5, pos_probe", "found irony")

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"right": 51}, "are the same run with different scores, test.accuracy 51.0 and 50.0"),
            ({"lr": 0.1}, "2 different runs have this name; publish only the right one"),
        ],
    )
    def test_two_runs_of_one_name_that_contradict_each_other(self, runs, root, tmp_path, capsys, changed, reason):
        """Neither is published, whichever file is found first."""
        run = {"right": 50, "task": "sst5", "seed": 9}
        for name, own in (("a", run), ("b", run | changed)):
            save_run(tmp_path / name, **own)
        assert main(["--runs", *map(str, (tmp_path / "a", tmp_path / "b", runs))], root) == 1
        out = capsys.readouterr().out
        refused = [line for line in out.splitlines() if line.startswith("refused")]
        assert refused
        for line in refused:
            assert "paper sst5 glove seed 9: " in line
            assert reason in line
        assert out.count("added") == 4
        assert not [name for name in published(root) if "seed-9" in name]

    def test_a_failed_copy_does_not_keep_a_finished_one_back(self, runs, root, tmp_path, capsys):
        save(tmp_path / "a", make_record(task="sst5", seed=9, lr=0.1, error=RunError("OutOfMemoryError", "no room")))
        save_run(tmp_path / "b", 50, task="sst5", seed=9)
        assert main(["--runs", *map(str, (tmp_path / "a", tmp_path / "b"))], root) == 1
        assert "added     paper sst5 glove seed 9: accuracy 50.00" in capsys.readouterr().out

    def test_no_examples(self, runs, root, capsys):
        save_run(runs, 50, task="sst5", seed=9).with_name(EXAMPLES_NAME).unlink()
        self.assert_refused(runs, root, capsys, "expected examples.json.gz next to the record")

    def test_examples_of_another_score(self, runs, root, capsys):
        path = save_run(runs, 50, task="sst5", seed=9).with_name(EXAMPLES_NAME)
        self.edit(path, scores=[{"correct": 1}] * 100)
        self.assert_refused(
            runs, root, capsys, "scores.test.accuracy: expected 100, which examples.json.gz gives, found 50"
        )

    def test_examples_that_do_not_give_the_main_metric(self, runs, root, capsys):
        path = save_run(runs, 50, task="sst5", seed=9).with_name(EXAMPLES_NAME)
        self.edit(path, scores=[{"read": 1}] * 100)
        reason = "examples.json.gz: expected counts that give accuracy, found none"
        self.assert_refused(runs, root, capsys, reason)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"scores": [{"correct": 1, "was a bore": 1}] * 50 + [{"correct": 0}] * 50}, "found 'was a bore'"),
            ({"scores": [{"correct": 1, "text": "a bore"}] * 50 + [{"correct": 0}] * 50}, "finite numbers"),
        ],
    )
    def test_text_in_the_examples(self, runs, root, capsys, changes, reason):
        self.edit(save_run(runs, 50, task="sst5", seed=9).with_name(EXAMPLES_NAME), **changes)
        self.assert_refused(runs, root, capsys, reason)

    @pytest.mark.parametrize(
        "changes",
        [
            {"details": {"worst": "The film was a bore. " * 9}},
            {"data": {"train": {"warnings": ["/home/someone/data"]}}},
        ],
        ids=str,
    )
    def test_text_in_the_record(self, runs, root, capsys, changes):
        self.edit(save_run(runs, 50, task="sst5", seed=9), **changes)
        self.assert_refused(runs, root, capsys, "expected names and numbers, found a text or a path of one machine")

    def test_no_such_folder(self, root, capsys):
        assert main(["--runs", "nowhere"], root) == 1
        assert "nowhere: expected a folder with runs, found no record.json below it" in capsys.readouterr().out

    def test_a_folder_without_runs(self, root, tmp_path, capsys):
        (tmp_path / "empty").mkdir()
        assert main(["--runs", str(tmp_path / "empty")], root) == 1
        assert "empty: expected a folder with runs, found no record.json below it" in capsys.readouterr().out


def test_check_takes_no_runs(runs, root, capsys):
    assert main(["--runs", str(runs), "--check"], root) == 1
    assert published(root) == []


@pytest.mark.parametrize("readme", ["", README.replace("<!-- demo -->", ""), README + README])
def test_a_readme_without_a_place_for_the_table(runs, root, capsys, readme):
    (root / "README.md").write_text(readme)
    assert main(["--runs", str(runs)], root) == 1
    assert "README.md: expected one line <!--" in capsys.readouterr().err
    assert (root / "README.md").read_text() == readme


def test_an_installed_package_has_nowhere_to_publish_to(runs, tmp_path, capsys):
    assert main(["--runs", str(runs)], tmp_path / "site-packages") == 1
    assert "Run the command in a clone" in capsys.readouterr().err
    assert not (tmp_path / "site-packages").exists()
