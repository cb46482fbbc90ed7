"""Runs that fail, failed before, or run in another process: messages, files and exit status."""

import errno
import json
import shutil
import signal
from concurrent.futures.process import BrokenProcessPool
from hashlib import sha256
from types import SimpleNamespace

import pytest
import torch

from results.records.progress import LOCK_NAME, run_lock
from results.records.record import read_record
from tasks.ner import BiLstmCrf
from tasks.sweeps.command import _explain_failure
from tasks.sweeps.launchers import explain_launcher
from tasks.sweeps.sweeper import MOST_BREAKS, SuiteSweeper, SweepJob
from tasks.training.trainer import Trainer
from tests.elmo.common.waiting import wait_for
from tests.tasks.user import arguments, path_of, start

pytestmark = pytest.mark.integration


class TestFailure:
    def test_leaves_a_failed_record_and_runs_again(self, place, command, tmp_path):
        """The test file is broken, which comes to light when training is over."""
        data = tmp_path / "mine"
        data.mkdir()
        for split in ("train", "dev", "test"):
            (data / f"{split}.txt").write_bytes((place.data / "mine" / f"{split}.txt").read_bytes())
        good = (data / "test.txt").read_text()
        (data / "test.txt").write_text(good + "stray\n")
        path = path_of(tmp_path / "runs")
        code, _, err = command(*arguments(place, tmp_path / "runs", data=tmp_path))
        assert code == 1
        line = good.count("\n") + 1
        assert f"{data / 'test.txt'}, line {line}: expected 2 columns" in err
        assert "'stray'" in err
        assert "Traceback" not in err
        record = read_record(path)
        assert record.status == "failed"
        assert record.error.type == "InputError"
        assert f"line {line}" in record.error.message
        assert len(record.epochs) == 8
        assert "f1" in record.scores["dev"]
        assert not record.scores.get("test")

        (data / "test.txt").write_text(good)
        code, _, err = command(*arguments(place, tmp_path / "runs", data=tmp_path))
        assert code == 0
        assert read_record(path).status == "finished"
        assert {file.name for file in path.parent.iterdir()} == {
            "record.json",
            "examples.json.gz",
            "predictions.jsonl.gz",
        }

    @pytest.mark.parametrize("changed", ["train", "test"])
    def test_data_that_change_during_training_are_no_result(self, place, command, tmp_path, monkeypatch, changed):
        """No record may have the hash of one test file and the score of another."""
        data = tmp_path / "mine"
        shutil.copytree(place.data / "mine", data)
        file = data / f"{changed}.txt"
        before = file.read_bytes()
        fit = Trainer.fit

        def fit_and_replace(*arguments):
            state = fit(*arguments)
            file.write_bytes((data / "dev.txt").read_bytes())
            return state

        monkeypatch.setattr(Trainer, "fit", fit_and_replace)
        asked = arguments(place, tmp_path / "runs", "trainer.epochs=1", data=tmp_path)
        path = path_of(tmp_path / "runs", **{"trainer.epochs": 1})
        code, _, err = command(*asked)
        assert (code, "Traceback" in err) == (1, False)
        assert f"the {changed} split changed during the run: mine/{file.name}. " in err
        assert read_record(path).status == "failed"
        assert ("test" in read_record(path).data) == (changed == "train"), "which is compared at the end"

        monkeypatch.setattr(Trainer, "fit", fit)
        file.write_bytes(before)
        code, _, err = command(*asked, "retry=failed")
        assert (code, "continues after epoch 1" in err) == (0, True)
        record = read_record(path)
        assert record.fingerprinted["data"][changed] == sha256(sha256(before).digest()).hexdigest()

    def test_a_failed_run_of_a_sweep_does_not_stop_the_others(self, place, command, tmp_path):
        code, _, err = command("-m", "--keep-going", *arguments(place, tmp_path, features="broken,words"))
        assert code == 1
        assert "'nowhere.txt' is neither" in err
        assert read_record(path_of(tmp_path)).status == "finished"

    def test_missing_data(self, place, command, tmp_path):
        code, _, err = command(*arguments(place, tmp_path / "runs", data=tmp_path))
        assert code == 1
        for hint in (str(tmp_path / "mine" / "train.txt"), "data_dir=DIR", "ELMO_DATA"):
            assert hint in err
        assert "Traceback" not in err
        assert not (tmp_path / "runs").exists()

    def test_a_folder_that_cannot_be_written(self, place, command, tmp_path):
        (tmp_path / "runs").write_text("a file, not a folder")
        code, _, err = command(*arguments(place, tmp_path / "runs"))
        assert code == 1
        assert "runs_dir=DIR" in err
        assert "Traceback" not in err
        code, _, err = command("-m", *arguments(place, tmp_path / "runs", "seed=1,2"))
        assert code == 1
        assert "runs_dir=DIR" in err
        assert "Traceback" not in err

    def test_a_loss_that_is_not_finite(self, place, command, tmp_path):
        code, _, err = command(*arguments(place, tmp_path, "trainer.lr=1e30", "trainer.grad_norm=null"))
        assert code == 1
        assert "train.txt:" in err, "the batch is named"
        record = read_record(path_of(tmp_path, **{"trainer.lr": 1e30, "trainer.grad_norm": None}))
        assert (record.status, record.error.type) == ("failed", "NonFiniteLoss")

    def test_too_little_memory(self, place, command, tmp_path, monkeypatch):
        def refuses(*_):
            raise torch.OutOfMemoryError("CUDA out of memory.")

        monkeypatch.setattr(BiLstmCrf, "loss", refuses)
        code, _, err = command(*arguments(place, tmp_path))
        assert code == 1
        assert "tasks.run: epoch 1, step 1: out of memory with a batch of 4 examples" in err
        assert "Traceback" not in err
        assert read_record(path_of(tmp_path)).error.type == "OutOfMemory"

    def test_scorers_that_disagree_on_test_are_a_warning(self, place, command, tmp_path, monkeypatch):
        monkeypatch.setattr("tasks.ner.seqeval_scores", lambda *_: {"f1": -1.0})
        code, _, err = command(*arguments(place, tmp_path, "trainer.epochs=1"))
        assert code == 0
        assert "warning: metrics of task=ner: f1 of the test examples is" in err
        assert "but score() returns -1.0000" in err


class TestFailedBefore:
    ASTRAY = ("trainer.lr=1e30", "trainer.grad_norm=null", "trainer.epochs=1")
    VARIANT = {"trainer.lr": 1e30, "trainer.grad_norm": None, "trainer.epochs": 1}  # noqa: RUF012

    def test_runs_again_only_with_retry(self, place, command, tmp_path):
        path = path_of(tmp_path, **self.VARIANT)
        assert command(*arguments(place, tmp_path, *self.ASTRAY))[0] == 1
        before = path.read_bytes()
        code, _, err = command(*arguments(place, tmp_path, *self.ASTRAY))
        assert code == 1
        assert "failed before, and runs again with retry=failed: NonFiniteLoss: epoch 1, step " in err
        assert str(path) in err
        assert "parameters to train" not in err
        assert path.read_bytes() == before

        code, _, err = command(*arguments(place, tmp_path, *self.ASTRAY, "retry=failed"))
        assert code == 1
        assert "parameters to train" in err
        assert path.read_bytes() != before, "another time, another record"
        assert read_record(path).fingerprint == json.loads(before)["fingerprint"], "retry is no setting of the run"
        assert [file.name for file in path.parent.iterdir()] == ["record.json"]

    def test_a_sweep_counts_it(self, place, command, tmp_path):
        grid = arguments(place, tmp_path, "trainer.lr=1e30,0.02", *self.ASTRAY[1:])
        code, _, err = command("-m", *grid)
        assert code == 1
        assert "sweep  1 runs finished, 1 failed; retry=failed runs those again" in err
        code, _, err = command("-m", *grid)
        assert code == 1
        assert "failed before, and runs again with retry=failed: NonFiniteLoss: epoch 1, step " in err
        said = "sweep  0 runs finished, 1 were done already, 1 had failed before; retry=failed runs those again"
        assert said in err
        code, _, err = command("-m", *grid, "retry=failed")
        assert code == 1
        assert "sweep  0 runs finished, 1 were done already, 1 failed; retry=failed runs those again" in err

    def test_an_unknown_value_of_retry(self, place, command, tmp_path):
        code, _, err = command(*arguments(place, tmp_path, "retry=all"))
        assert code == 1
        assert "retry: expected null or failed, found 'all'" in err


def test_a_full_disk_names_the_settings_to_change():
    said = _explain_failure(OSError(errno.ENOSPC, "No space left on device"))
    assert said.endswith("use another disk: runs_dir=DIR for results, store.path=DIR for frozen layers")


class TestElsewhere:
    def test_a_run_that_is_under_way_is_not_started_twice(self, place, command, tmp_path):
        path = path_of(tmp_path, **{"trainer.epochs": 1})
        path.parent.mkdir(parents=True)
        with run_lock(path.parent):
            code, _, err = command(*arguments(place, tmp_path, "trainer.epochs=1"))
            assert code == 0, "nothing has failed"
            assert "mine ner words seed 1 trainer.epochs=1  is running elsewhere: host " in err
            code, _, err = command("-m", *arguments(place, tmp_path, "trainer.epochs=1", "seed=1,2"))
            assert code == 0
            assert "sweep  1 runs finished, 1 are running elsewhere" in err
            assert [file.name for file in path.parent.iterdir()] == [LOCK_NAME]
        assert command(*arguments(place, tmp_path, "trainer.epochs=1"))[0] == 0
        assert {file.name for file in path.parent.iterdir()} == {
            "record.json",
            "examples.json.gz",
            "predictions.jsonl.gz",
        }

    @pytest.mark.processes
    def test_only_one_of_two_processes_does_the_run(self, place, tmp_path):
        processes = [start(place, tmp_path, "trainer.epochs=30") for _ in range(2)]
        said = [process.communicate(timeout=120)[1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], said
        trained = [text for text in said if "epoch 30/30" in text]
        other = [text for text in said if "is running elsewhere" in text or "is done already" in text]
        assert (len(trained), len(other)) == (1, 1)
        folder = path_of(tmp_path, **{"trainer.epochs": 30}).parent
        assert {file.name for file in folder.iterdir()} == {"record.json", "examples.json.gz", "predictions.jsonl.gz"}

    def test_files_left_by_a_kill_after_the_record_are_removed(self, place, command, tmp_path):
        path = path_of(tmp_path, **{"trainer.epochs": 1})
        assert command(*arguments(place, tmp_path, "trainer.epochs=1"))[0] == 0
        before = path.read_bytes()
        (path.parent / LOCK_NAME).write_text("{}")
        (path.parent / "checkpoint.pt").write_text("the last epoch")
        (path.parent / "record.json.7-ab.partial").write_text("half")
        code, _, err = command(*arguments(place, tmp_path, "trainer.epochs=1"))
        assert (code, err.count("is done already")) == (0, 1)
        assert {file.name for file in path.parent.iterdir()} == {
            "record.json",
            "examples.json.gz",
            "predictions.jsonl.gz",
        }
        assert path.read_bytes() == before


def test_sigterm_stops_a_run_and_releases_its_lock(place, tmp_path):
    process = start(place, tmp_path, "trainer.epochs=10000", "trainer.patience=null")
    folder = path_of(tmp_path, **{"trainer.epochs": 10000}).parent
    wait_for((folder / "checkpoint.pt").exists)
    assert (folder / LOCK_NAME).exists()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 143
    assert err.endswith("tasks.run: stopped; the same command continues from here\n")
    assert [file.name for file in folder.iterdir()] == ["checkpoint.pt"]


def test_ctrl_c_inside_torch_save_stops_the_sweep(place, command, tmp_path, monkeypatch):
    """The cleanup of torch.save then raises an error of its own; the run must not count as failed."""
    save = torch.save

    def interrupted(*_):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("unexpected position in the file")

    monkeypatch.setattr(torch, "save", interrupted)
    sweep = ["-m", *arguments(place, tmp_path, "trainer.epochs=2", "seed=1,2")]
    code, _, err = command(*sweep)
    assert code == 130
    assert err.endswith("tasks.run: stopped; the same command continues from here\n")
    assert "failed" not in err
    assert list(tmp_path.rglob("record.json")) == []

    monkeypatch.setattr(torch, "save", save)
    assert command(*sweep)[0] == 0
    assert len(list(tmp_path.rglob("record.json"))) == 2


class TestBrokenPools:
    """Joblib ends all its processes if one is killed; test_kills.py does that for real."""

    def sweeper(self, monkeypatch, ended):
        """A sweeper whose launcher breaks; at the n-th break `ended[n]` runs have ended. Also the launcher's starts."""
        job, starts = SweepJob(None), []
        monkeypatch.setattr(job, "runs_ended", lambda: ended[len(starts) - 1])

        def launch(runs, initial_job_idx):
            starts.append(runs)
            if len(starts) > len(ended):
                return []
            raise BrokenProcessPool

        sweeper = SuiteSweeper()
        sweeper._job, sweeper.launcher = job, SimpleNamespace(launch=launch)
        return sweeper, starts

    def test_stops_if_no_run_ends(self, monkeypatch):
        sweeper, starts = self.sweeper(monkeypatch, [0] * 10)
        with pytest.raises(BrokenProcessPool) as broken:
            sweeper._launch("", [["seed=1"]])
        assert len(starts) == MOST_BREAKS
        assert "hydra.launcher.n_jobs=N" in explain_launcher(broken.value)

    def test_continues_while_runs_end(self, monkeypatch, capsys):
        sweeper, starts = self.sweeper(monkeypatch, [1, 1, 3, 3, 4, 7])
        sweeper._launch("", [["seed=1"]])
        assert len(starts) == 7
        assert capsys.readouterr().err.count("a process was killed in the middle of its run; the sweep continues") == 6


def test_an_experiment_that_names_an_unknown_task(place, command, tmp_path):
    folder = tmp_path / "conf" / "experiment"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {task: 'ner,nerd'}}}\n"
    )
    code, _, err = command("-m", "--config-dir", tmp_path / "conf", "experiment=mine", f"runs_dir={tmp_path / 'runs'}")
    assert code == 1
    assert "task=nerd: no such choice" in err
    assert "snli" in err, "what there is"
    assert "Traceback" not in err
    assert list((tmp_path / "runs").rglob("record.json")) == []
