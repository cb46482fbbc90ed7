"""The audit: everything that can be computed again is, and each edit is named with its file."""

import gzip
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import results.audit
from elmo.common.files import read_json, write_json
from results.audit import audit, unsafe_name
from results.publish import main as publish
from results.records.collect import PUBLISHED, RecordFile, collect
from results.records.environment import known_commits
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME, Identity, settings_hash
from results.records.record import read_record, write_record
from results.tables_page import generated
from tests.results.making import CLEAN, make_record, run_table, save
from tests.results.publish.finished_runs import README, save_run

CODE = "0f1e2d3c" * 5


def run_audit(capsys, *arguments):
    status = results.audit.main([str(argument) for argument in arguments])
    return status, capsys.readouterr().out


@pytest.fixture
def copied(tmp_path):
    """Copies a published run, as its own process would have left it, and changes its files."""

    def copy(place, record=None, examples=None, predictions=None, seed=None):
        source = PUBLISHED / place
        target = tmp_path / "runs" / place
        shutil.copytree(source, target)
        if record:
            path = target / "record.json"
            content = json.loads(path.read_text())
            record(content)
            path.write_text(json.dumps(content))
        if examples:
            path = target / EXAMPLES_NAME
            content = read_json(path)
            examples(content["scores"])
            write_json(path, content)
        if predictions:
            path = target / PREDICTIONS_NAME
            header, *lines = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
            predictions(lines)
            path.write_bytes(gzip.compress("\n".join(map(json.dumps, [header, *lines])).encode()))
        return target / "record.json"

    return copy


def edit(*keys, by=1.0):
    """Adds to the number under these keys of a record."""

    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] += by

    return change


NER, SNLI, COREF = ("mini/ner/elmo/seed-1", "mini/snli/elmo/seed-1", "mini/coref/elmo/seed-1")
(WSD,) = (path.relative_to(PUBLISHED).as_posix() for path in PUBLISHED.glob("paper/wsd_probe/elmo/*layers=1*/seed-1"))


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        (NER, ("scores", "test", "f1")),
        (NER, ("scores", "test", "precision")),
        (NER, ("scores", "dev", "f1")),
        (NER, ("scores", "dev", "recall")),
        (COREF, ("scores", "test", "muc")),
        (WSD, ("scores", "test", "semeval2013")),
    ],
    ids=str,
)
def test_every_score_is_computed_again(copied, capsys, place, keys):
    path = copied(place, record=edit(*keys))
    status, out = run_audit(capsys, "--runs", path.parent)
    assert status == 1
    lines = [line for line in out.splitlines() if line.startswith(f"{path}: ")]
    named = [key for key in keys if isinstance(key, str)][:2]
    assert any(".".join(named) in line or named[0] in line for line in lines), out
    assert all("expected" in line and "found" in line and "Restore the folder from a copy" in line for line in lines)


def test_the_best_epoch_is_compared_with_dev(copied, capsys):
    def raise_the_curve(content):
        best = max(content["epochs"], key=lambda epoch: epoch["f1"])
        best["f1"] += 1

    path = copied(NER, record=raise_the_curve)
    assert (
        "scores.dev.f1: expected 84.4983, that of the best epoch, found 83.4983"
        in run_audit(capsys, "--runs", path.parent)[1]
    )


def test_scores_without_their_examples_are_named(copied, capsys):
    path = copied("mini/sst5/glove/seed-1", lambda content: content["scores"]["test"].update(accuracy=99.0))
    path.with_name(PREDICTIONS_NAME).unlink()
    path.with_name(EXAMPLES_NAME).unlink()
    status, out = run_audit(capsys, "--runs", path.parents[4])
    assert status == 1
    assert f"{EXAMPLES_NAME}: expected the scores of the test examples, found none" in out


def test_table_check_and_publish_find_the_same(copied, capsys, tmp_path):
    path = copied(NER, record=edit("scores", "test", "recall"))
    expected = "scores.test.recall: expected 81.2419, which examples.json.gz gives, found 82.2419"
    status, _, err = run_table(capsys, "--runs", tmp_path / "runs", "--check")
    assert (status, err.count(f"check: wrong: {path}: {expected}")) == (1, 1)
    (tmp_path / "root" / "results" / "published").mkdir(parents=True)
    (tmp_path / "root" / "README.md").write_text(README)
    assert publish(["--runs", str(tmp_path / "runs")], tmp_path / "root") == 1
    assert expected in capsys.readouterr().out


class TestPredictions:
    """Score and examples that were edited together are contradicted by the predictions."""

    def forged(self, copied, place, column):
        """One example has one more, and the record has the scores that the examples then give."""

        def more(scores):
            one = next(one for one in scores if one.get(column, 0) == 0)
            one[column] = 1

        path = copied(place, examples=more)
        (finding,) = [own for own in audit([RecordFile(path, read_record(path))]) if PREDICTIONS_NAME in own.text]
        return finding.text

    @pytest.mark.parametrize(("task", "column"), [("ner", "tp"), ("ner", "fp"), ("sst5", "correct")])
    def test_they_are_scored_again(self, copied, task, column):
        text = self.forged(copied, f"mini/{task}/elmo/seed-1", column)
        assert f", {column}: expected 0, as predicted, found 1" in text

    def test_edited_predictions(self, copied, capsys):
        path = copied(SNLI, predictions=lambda lines: lines[0].update(predicted=lines[0]["gold"]))
        out = run_audit(capsys, "--runs", path.parent)[1]
        assert "example 0, correct: expected 1, as predicted, found 0 among the scores" in out


class TestCopiedSeeds:
    def test_two_seeds_with_one_curve_are_impossible(self, copied, tmp_path, capsys):
        """A copy with its name and fingerprint changed counts as a further seed, unless the curve is compared."""
        path = copied(NER)
        record = read_record(path)
        config = {**record.config, "seed": 7}
        examples = read_json(path.with_name(EXAMPLES_NAME))["scores"]
        other = save(
            tmp_path / "runs", replace(record, identity=replace(record.identity, seed=7), config=config), examples
        )
        status, out = run_audit(capsys, "--runs", tmp_path / "runs")
        assert status == 1
        assert f" and {other}: epochs: expected different curves of seeds 1 and 7, found the same" in out
        status, _, err = run_table(capsys, "--runs", tmp_path / "runs", "--check")
        assert "expected different curves of seeds 1 and 7" in err

    def test_neither_is_published(self, tmp_path, capsys):
        root = tmp_path / "root"
        (root / "results" / "published").mkdir(parents=True)
        (root / "README.md").write_text(README)
        for seed in (1, 2, 3):
            path = save_run(tmp_path / "runs", 50 + seed // 3, task="sst5", seed=seed)
            curve = [{"epoch": 1, "loss": 1.5 if seed < 3 else 1.25, "accuracy": 50.0}]
            write_record(path, replace(read_record(path), epochs=curve))
        assert publish(["--runs", str(tmp_path / "runs")], root) == 1
        assert capsys.readouterr().out.count("expected different curves of seeds 1 and 2") == 2
        assert [item.record.identity.seed for item in collect([root]).files] == [3]
        # as a later copy of what is published
        shutil.rmtree(tmp_path / "runs" / "paper" / "sst5" / "glove" / "seed-1")
        assert publish(["--runs", str(tmp_path / "runs")], root) == 0
        assert {item.record.identity.seed for item in collect([root]).files} == {2, 3}
        path = save_run(tmp_path / "late", 50, task="sst5", seed=1)
        write_record(path, replace(read_record(path), epochs=[{"epoch": 1, "loss": 1.5, "accuracy": 50.0}]))
        assert publish(["--runs", str(tmp_path / "late")], root) == 1
        assert {item.record.identity.seed for item in collect([root]).files} == {2, 3}

    def test_early_stopping_may_give_one_seed_the_same_curve_twice(self, tmp_path):
        curve = [{"epoch": 1, "loss": 1.5, "f1": 50.0}]
        for epochs in (10, 20):
            record = make_record(90.0, variant={"trainer.epochs": epochs})
            save(tmp_path, replace(record, epochs=curve), [{"tp": 9, "fp": 1, "fn": 1}])
        assert audit(collect([tmp_path]).files) == []


class TestNames:
    @pytest.mark.parametrize("name", ["", " ", ".", "..", "a\0b", "<script>", "a\u202eb", "a|b", "a/b", "a`b", "x\ny"])
    @pytest.mark.parametrize("key", ["data", "task", "features"])
    def test_unsafe(self, name, key):
        names = {"data": "paper", "task": "ner", "features": "glove"} | {key: name}
        assert unsafe_name(Identity(**names, seed=1)).startswith(f"identity.{key}: expected a name")

    @pytest.mark.parametrize("name", ["mini", "my data", "büro-2.1", "数据", "a+b@c"])
    def test_safe(self, name):
        variant = {"features.elmo.places": "[input,output]", "features.elmo.weights": "./small", "limit": 5}
        assert unsafe_name(Identity(name, name, name, 1, variant)) == ""

    def test_of_settings(self):
        assert "found 'a=<b>'" in unsafe_name(Identity("d", "t", "f", 1, {"a": "<b>"}))


class TestPublish:
    @pytest.fixture
    def root(self, tmp_path):
        (tmp_path / "root" / "results" / "published").mkdir(parents=True)
        (tmp_path / "root" / "README.md").write_text(README)
        return tmp_path / "root"

    @pytest.mark.parametrize("data", ["<script>alert(1)</script>", "a\u202eb"])
    def test_unsafe_names_are_refused_and_would_be_escaped(self, root, tmp_path, capsys, data):
        for features in ("glove", "elmo"):
            save_run(tmp_path / "runs", 50, task="sst5", data=data, features=features)
        assert publish(["--runs", str(tmp_path / "runs")], root) == 1
        assert "identity.data: expected a name of letters" in capsys.readouterr().out
        assert collect([root]).files == []

    def test_a_run_that_contradicts_the_published_one_is_not_copied(self, root, tmp_path, capsys):
        """It used to be copied first, and then every later update failed."""
        one, two = ({"trainer": {"lr": 0.001, "epochs": epochs}} for epochs in (5, 6))
        save_run(tmp_path / "first", 50, task="sst5", config=one)
        assert publish(["--runs", str(tmp_path / "first")], root) == 0
        save_run(tmp_path / "second", 51, task="sst5", seed=2, config=two)
        assert publish(["--runs", str(tmp_path / "second")], root) == 1
        assert "found trainer.epochs: 5 and 6" in capsys.readouterr().out
        save_run(tmp_path / "third", 52, task="sst5", seed=3, config=one)
        assert publish(["--runs", str(tmp_path / "third")], root) == 0
        assert [item.record.identity.seed for item in collect([root]).files] == [1, 3]

    @pytest.mark.parametrize(("commit", "shown"), [(None, "found none"), (CODE, f"found {CODE}")])
    def test_commits_are_those_of_the_repository(self, root, tmp_path, capsys, commit, shown):
        git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
        (known,) = known_commits(root)
        save_run(tmp_path / "known", 50, task="sst5", environment=replace(CLEAN, commit=known))
        assert publish(["--runs", str(tmp_path / "known")], root) == 0
        path = save_run(tmp_path / "other", 51, task="sst5", seed=2, environment=replace(CLEAN, commit=commit))
        write_record(path, replace(read_record(path), inputs={"data.test/mine": "0" * 64}))
        assert publish(["--runs", str(tmp_path / "other")], root) == 1
        assert f"environment.commit: expected a commit of this repository, {shown}" in capsys.readouterr().out

    def test_a_shallow_clone_knows_no_commits(self, root, tmp_path):
        git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run([*git, "init", "-q"], check=True)
        for name in ("one", "two"):
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", name], check=True)
        clone = ["git", "clone", "-q", "--depth", "1", f"file://{root}", str(tmp_path / "clone")]
        subprocess.run(clone, check=True)
        assert len(known_commits(root)) == 2
        assert known_commits(tmp_path / "clone") is None
        assert known_commits(tmp_path) is None


def test_a_config_that_was_edited_has_another_hash(tmp_path):
    """A change that no name and no other seed contradicts."""
    record = make_record(90.0)
    examples = [{"tp": 9, "fp": 1, "fn": 1}]
    save(tmp_path, replace(record, inputs={"settings": settings_hash(record.config)}), examples)
    (item,) = collect([tmp_path]).files
    assert audit([item]) == []
    edited = replace(item.record, config={**record.config, "trainer": {"lr": 0.5}})
    (finding,) = audit([replace(item, record=edited)])
    assert "config: expected the hash" in finding.text


def test_names_are_escaped_on_the_pages(tmp_path):
    """Also if a record gets into the folder of published ones by another way."""
    (tmp_path / "results" / "published").mkdir(parents=True)
    (tmp_path / "README.md").write_text(README)
    for features in ("glove", "elmo"):
        for data in ("<script>alert(1)</script>", "a\u202eb", "a|b"):
            save_run(tmp_path / "results" / "published", 50, task="sst5", data=data, features=features)
    files = generated(tmp_path, collect([tmp_path / "results" / "published"]))
    for name in ("README.md", "results/tables.md"):
        text = files[Path(name)]
        assert "&lt;script>alert(1)&lt;/script>" in text
        assert "<script" not in re.sub(r"```.*?```", "", text, flags=re.DOTALL)  # in a block of commands it is text
        assert "\u202e" not in text
        assert r"a\|b" in text


def test_a_folder_without_runs(capsys, tmp_path):
    status, out = run_audit(capsys, "--runs", tmp_path)
    assert status == 1
    assert f"{tmp_path}: expected records of runs, found none; name their folder" in out
