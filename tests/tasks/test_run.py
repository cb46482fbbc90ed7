"""python -m tasks.run, from the command line to the record, on a dataset and arms that a user might add."""

import gzip
import hashlib
import json
import re
import shlex
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from elmo import random_bilm, save_bilm
from elmo.common.device import PROCESS, peak_mb
from elmo.common.files import read_json
from results.records.example_scores import groups_path, read_groups, read_predictions
from results.records.identity import PREDICTIONS_NAME, Identity
from results.records.progress import read_manifests
from results.records.record import read_record
from results.table import main as table
from tasks.data.datasets import DataSource
from tasks.ner import Ner
from tasks.training.trainer import Trainer
from tests.elmo.common.waiting import wait_for
from tests.tasks.user import ARMS, arguments, outcome, path_of, sentences, start

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def finished(place):
    """Both arms, run by one command in a process of its own."""
    before = hashlib.sha256(place.bilm.read_bytes()).hexdigest()
    runs = place.root / "runs"
    process = start(place, runs, "-m", features=",".join(ARMS))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    after = hashlib.sha256(place.bilm.read_bytes()).hexdigest()
    return SimpleNamespace(runs=runs, out=out, err=err, weights=(before, after))


class TestFinishedRun:
    def test_a_sweep_runs_each_arm(self, finished):
        for arm in ARMS:
            assert read_record(path_of(finished.runs, arm)).status == "finished"
            assert re.search(
                rf"^mine ner {arm} seed 1 +f1: dev .*, test .* s  [12] of 2 done", finished.err, re.MULTILINE
            )

    def test_the_list_of_the_sweep_has_the_whole_command(self, place, finished):
        (manifest,), _ = read_manifests(finished.runs)
        words = shlex.split(manifest.command)
        assert words[:6] == ["python", "-m", "tasks.run", "-m", "--config-dir", str(place.config)]
        assert f"data_dir={place.data}" in words

    def test_the_record_audits_the_number(self, place, finished):
        record = read_record(path_of(finished.runs, "elmo_tiny"))
        assert record.identity == Identity("mine", "ner", "elmo_tiny", 1, {})
        assert (record.schema, record.metric, record.error, record.limit) == (2, "f1", None, None)
        for split in ("dev", "test"):
            assert set(record.scores[split]) == {"f1", "precision", "recall"}
            assert all(0 <= value <= 100 for value in record.scores[split].values())
        assert record.details["labels"]["PER"]["gold"] == 7
        assert record.data["train"] == {
            **{"sentences": 12, "tokens": 67, "entities": 24, "LOC": 12, "PER": 12, "scheme": "IOB2"},
            "warnings": ["train: expected 13 sentences as published, found 12"],
        }
        assert record.data["test"]["sentences"] == 7
        assert record.data["test"]["also_in_train"] == {"examples": 7, "share": 1.0}
        assert set(record.mixes) == {"input"}
        assert len(record.mixes["input"].weights) == 3
        assert sum(record.mixes["input"].weights) == pytest.approx(1)
        assert record.weights["sha256"] == random_bilm("tiny", 5).fingerprint()
        assert record.weights["state"] == "zero"
        assert [epoch["epoch"] for epoch in record.epochs] == list(range(1, 9))
        assert all(set(epoch) >= {"loss", "f1", "lr", "seconds"} for epoch in record.epochs)
        assert max(epoch["f1"] for epoch in record.epochs) == record.scores["dev"]["f1"]
        assert record.seconds > 0
        assert record.peak_memory_mb > 50
        assert record.started_at <= record.finished_at
        assert record.environment.device == "cpu"
        assert record.environment.threads == 1
        assert record.environment.packages["torch"] == torch.__version__

    def test_the_fingerprint_covers_name_content_recipes_and_own_settings(self, place, finished):
        record = read_record(path_of(finished.runs, "elmo_tiny"))
        parts = record.fingerprinted
        assert set(parts) == {"data", "vectors", "weights", "recipes", "settings"}
        assert parts["recipes"] == {"task": Ner.recipe, "words": 1, "characters": 1, "elmo": 1}
        inner = hashlib.sha256((place.data / "mine" / "test.txt").read_bytes()).digest()
        assert parts["data"]["test"] == hashlib.sha256(inner).hexdigest()
        assert parts["weights"] == record.weights["sha256"]
        assert parts["settings"]["trainer.epochs"] == record.config["trainer"]["epochs"] == 8
        assert "features.elmo.weights" not in parts["settings"], "a folder's name; the content is hashed"
        text = path_of(finished.runs, "elmo_tiny").read_text()
        assert str(place.root) not in text
        assert record.weights["name"] == "bilm"
        assert str(finished.runs) not in text

    def test_the_baseline_has_no_weights_and_no_mixes(self, finished):
        record = read_record(path_of(finished.runs, "words"))
        assert record.weights is None
        assert record.mixes == {}
        assert record.fingerprinted["weights"] is None

    def test_examples_hold_one_score_each_and_no_text(self, place, finished):
        path = path_of(finished.runs, "elmo_tiny")
        text = gzip.decompress(path.with_name("examples.json.gz").read_bytes()).decode()
        examples = json.loads(text)
        assert len(examples["scores"]) == 7
        assert examples["fingerprint"] == read_record(path).fingerprint
        tp, fp, fn = (sum(score[key] for score in examples["scores"]) for key in ("tp", "fp", "fn"))
        assert tp + fn == 14
        assert tp > 0, "something has been learned"
        assert read_record(path).scores["test"]["recall"] == pytest.approx(100 * tp / (tp + fn))
        assert read_record(path).scores["test"]["precision"] == pytest.approx(100 * tp / (tp + fp))
        words = {line.split()[0] for line in (place.data / "mine" / "test.txt").read_text().splitlines() if line}
        for word in words - {".", "in"}:
            assert word not in text
            assert word not in path.read_text()

    def test_test_predictions_are_kept_next_to_the_record(self, place, finished):
        path = path_of(finished.runs, "elmo_tiny")
        kept = read_predictions(path.with_name(PREDICTIONS_NAME), read_record(path).fingerprint)
        blocks = (place.data / "mine" / "test.txt").read_text().strip().split("\n\n")
        columns = [[line.split() for line in block.splitlines()] for block in blocks]
        assert [one.example for one in kept] == [{"tokens": [cells[0] for cells in lines]} for lines in columns]
        assert [one.gold["tags"] for one in kept] == [[cells[-1] for cells in lines] for lines in columns]
        scores = read_json(path.with_name("examples.json.gz"))["scores"]
        for one, score in zip(kept, scores, strict=True):
            gold, guessed = (
                {(entity["label"], entity["start"], entity["end"]) for entity in side["entities"]}
                for side in (one.gold, one.predicted)
            )
            assert (len(gold & guessed), len(guessed - gold), len(gold - guessed)) == (
                score["tp"],
                score["fp"],
                score["fn"],
            )

    def test_kinds_of_test_examples_are_kept_once_for_all_runs_and_without_text(self, place, finished):
        data = read_record(path_of(finished.runs, "elmo_tiny")).fingerprinted["data"]
        path = groups_path(finished.runs, "ner", data["test"])
        known = read_groups(path)
        assert len(known.ids) == 7
        assert known.groups["length"].of == [0] * 7  # all have fewer than ten tokens
        assert known.groups["entities"].of == [0] * 7  # seven of twelve sentences of training, again
        assert known.train == data["train"]
        text = gzip.decompress(path.read_bytes()).decode()
        words = {line.split()[0] for line in (place.data / "mine" / "test.txt").read_text().splitlines() if line}
        assert [word for word in words - {".", "in"} if f'"{word}' in text] == []

    def test_nothing_else_is_left_behind(self, place, finished):
        files = [path for path in finished.runs.rglob("*") if path.is_file()]
        ours = {path.name for path in files if path.parent.name != ".sweep"}  # where Hydra keeps a sweep's settings
        (groups,) = (finished.runs / "test_sets").iterdir()
        assert ours == {"record.json", "examples.json.gz", "predictions.jsonl.gz", groups.name}
        assert list((place.root / "elsewhere").iterdir()) == []

    def test_the_bilm_stays_as_it_was(self, finished):
        assert finished.weights[0] == finished.weights[1]

    def test_a_mismatch_of_counts_is_said(self, finished):
        assert "warning: train: expected 13 sentences as published, found 12" in finished.err

    def test_the_table_shows_both(self, finished, capsys):
        assert table(["--runs", str(finished.runs), "--format", "json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert (row["data"], row["task"], row["metric"]) == ("mine", "ner", "f1")
        for arm in ARMS:
            score = read_record(path_of(finished.runs, arm)).score
            assert row["arms"][arm]["mean"] == pytest.approx(score)
            assert row["arms"][arm]["n"] == 1

    def test_run_again_it_is_skipped(self, place, finished, command):
        path = path_of(finished.runs)
        before = path.stat().st_mtime_ns
        code, _, err = command(*arguments(place, finished.runs, "threads=1"))
        assert code == 0
        assert f"mine ner words seed 1  is done already: {path}" in err.replace("\n", "")
        assert path.stat().st_mtime_ns == before

    def test_another_fingerprint_at_the_same_path_is_an_error(self, place, finished, command, tmp_path):
        data = tmp_path / "mine"
        data.mkdir()
        for split in ("train", "dev", "test"):
            (data / f"{split}.txt").write_bytes((place.data / "mine" / f"{split}.txt").read_bytes())
        (data / "train.txt").write_text(sentences(11, 0))
        path = path_of(finished.runs)
        before = path.read_bytes()
        code, _, err = command(*arguments(place, finished.runs, data=tmp_path))
        assert code == 1
        assert "data.train" in err
        assert "data.dev" not in err
        assert str(path.parent) in err
        assert "Traceback" not in err
        assert path.read_bytes() == before

    def test_determinism_across_processes(self, place, finished, command, tmp_path):
        """The same run elsewhere, in this process: scores and losses equal to the last digit."""
        torch.rand(5)
        code, _, _ = command(*arguments(place, tmp_path, features="elmo_tiny"))
        assert code == 0
        here, there = (read_record(path_of(runs, "elmo_tiny")) for runs in (tmp_path, finished.runs))
        assert outcome(here) == outcome(there)
        assert here.fingerprint == there.fingerprint
        examples = [path_of(runs, "elmo_tiny").with_name("examples.json.gz") for runs in (tmp_path, finished.runs)]
        assert examples[0].read_bytes() == examples[1].read_bytes()

    def test_another_seed_is_another_run(self, place, finished, command, tmp_path):
        assert command(*arguments(place, tmp_path, "seed=2"))[0] == 0
        other = read_record(tmp_path / Identity("mine", "ner", "words", 2, {}).path)
        first = read_record(path_of(finished.runs))
        assert other.fingerprint != first.fingerprint
        assert [epoch["loss"] for epoch in other.epochs] != [epoch["loss"] for epoch in first.epochs]


def test_a_killed_run_continues_and_ends_the_same(place, command, tmp_path):
    """A real SIGKILL, some epochs into the run."""
    settings = ("trainer.epochs=15",)
    runs, calm = tmp_path / "killed", tmp_path / "calm"
    path = path_of(runs, "elmo_tiny", **{"trainer.epochs": 15})
    checkpoint = path.with_name("checkpoint.pt")
    process = start(place, runs, *settings, features="elmo_tiny")
    wait_for(lambda: checkpoint.exists() or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, "it was still at work"
    epoch = torch.load(checkpoint, weights_only=True)["state"]["epoch"]
    assert 1 <= epoch < 15
    assert not path.exists()

    code, _, err = command(*arguments(place, runs, *settings, features="elmo_tiny"))
    assert code == 0
    assert f"continues after epoch {epoch}" in err
    assert f"epoch {epoch}/15" not in err
    assert f"epoch {epoch + 1}/15" in err
    assert not checkpoint.exists()
    killed = read_record(path)
    assert killed.seconds > sum(epoch["seconds"] for epoch in killed.epochs), "the epochs before the kill count too"

    code, _, err = command(*arguments(place, calm, *settings, features="elmo_tiny"))
    assert code == 0
    assert "continues after" not in err
    undisturbed = read_record(path_of(calm, "elmo_tiny", **{"trainer.epochs": 15}))
    assert outcome(killed) == outcome(undisturbed)
    assert len(undisturbed.epochs) == 15


def test_another_bilm_in_a_folder_of_the_same_name_says_how_to_name_it(place, command, tmp_path):
    """elmo.pretrain exports to export/small unless it is given a name."""
    for seed, folder in ((1, "a/export/small"), (2, "b/export/small"), (2, "b/export/news")):
        save_bilm(random_bilm("tiny", seed), tmp_path / folder / "weights.safetensors")
    common = ("trainer.epochs=1", "limit=3", "store.path=null")

    def run(folder):
        weights = f"features.elmo.weights={tmp_path / folder}"
        return command(*arguments(place, tmp_path / "runs", *common, weights, features="elmo_tiny"))

    assert run("a/export/small")[0] == 0
    code, _, err = run("b/export/small")
    assert code == 1
    assert "python -m elmo.pretrain name=NAME" in err
    assert "features/NAME.yaml" in err
    assert run("b/export/news")[0] == 0, "as the message says"


def test_few_steps_in_an_epoch_are_warned_of(place, command, finished, tmp_path):
    """The training file has 12 sentences, and batches have 4 of them."""
    assert "steps in an epoch" not in finished.err
    code, _, err = command(*arguments(place, tmp_path, "trainer.batch_size=6", "trainer.epochs=1"))
    assert code == 0
    assert "warning: steps in an epoch: 2 (12 examples, trainer.batch_size=6)" in err
    assert "Set a smaller one, such as trainer.batch_size=1\n" in err


def test_limit_is_in_the_path_and_the_record(place, command, tmp_path):
    code, _, err = command(*arguments(place, tmp_path, "limit=3", "trainer.epochs=1"))
    assert code == 0
    assert "steps in an epoch" not in err, "it is a quick look"
    path = path_of(tmp_path, **{"limit": 3, "trainer.epochs": 1})
    record = read_record(path)
    assert record.limit == 3
    assert record.hashed["identity"]["variant"]["limit"] == record.config["limit"] == 3
    assert record.data["test"]["sentences"] == 7
    assert len(read_json(path.with_name("examples.json.gz"))["scores"]) == 3


def test_the_test_split_is_read_once_when_training_is_over(place, command, tmp_path, monkeypatch):
    events = []
    load, fit = DataSource.load, Trainer.fit

    def watched_load(self, task, split):
        events.append(split)
        assert split != "test" or "fitted" in events, "the test split was read before training was over"
        return load(self, task, split)

    def watched_fit(self, model, train, dev, *rest):
        state = fit(self, model, train, dev, *rest)
        assert len(train) == 12
        assert len(dev) == 5
        events.append("fitted")
        return state

    monkeypatch.setattr(DataSource, "load", watched_load)
    monkeypatch.setattr(Trainer, "fit", watched_fit)
    assert command(*arguments(place, tmp_path, "trainer.epochs=2"))[0] == 0
    assert events == ["train", "dev", "fitted", "test"]


def test_words_of_dev_are_as_new_to_the_model_as_those_of_test(place, command, tmp_path, monkeypatch):
    known, of_train, of_dev = set(), set(), set()
    fit = Trainer.fit

    def watched_fit(self, model, train, dev, *rest):
        known.update(model.features.training_words)
        for words, part in ((of_train, train), (of_dev, dev)):
            words.update(word.lower() for example in part for word in example.words)
        return fit(self, model, train, dev, *rest)

    monkeypatch.setattr(Trainer, "fit", watched_fit)
    assert command(*arguments(place, tmp_path, "trainer.epochs=1", "train_fraction=0.1"))[0] == 0
    assert of_dev - of_train, "else the next line says nothing"
    assert {word.lower() for word in known} == of_train


@pytest.mark.skipif(not (PROCESS / "clear_refs").exists(), reason="only Linux can reset the peak")
def test_the_peak_memory_is_that_of_the_run(place, command, tmp_path):
    """Not of what the process did before, such as an earlier run of a sweep."""
    np.ones(600 * 2**20, dtype=np.uint8)  # not of torch, which keeps it for later
    before = peak_mb(torch.device("cpu"))
    assert command(*arguments(place, tmp_path, "trainer.epochs=1"))[0] == 0
    assert 50 < read_record(path_of(tmp_path, **{"trainer.epochs": 1})).peak_memory_mb < before - 300


def test_the_data_folder_may_come_from_the_environment(place, command, tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_DATA", str(place.data))
    given = [argument for argument in arguments(place, tmp_path, "trainer.epochs=1") if "data_dir" not in argument]
    assert command(*given)[0] == 0
