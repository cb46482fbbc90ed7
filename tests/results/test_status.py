"""The status of sweeps: done, running, failed and missing runs, and the time they take, from files alone."""

import json
import sys
import time
from dataclasses import asdict, replace

import pytest
from filelock import FileLock

from results import status
from results.records.identity import Identity
from results.records.progress import LOCK_NAME, Manifest, Owner, run_lock, write_manifest
from results.records.record import RunError
from tests.results.making import make_record, save

FAILED = RunError("OutOfMemoryError", "CUDA out of memory.\nTried to allocate 20 MiB", ["Traceback", "..."])


def identity(seed, features="glove", task="ner"):
    return Identity("paper", task, features, seed)


def done(runs, seed, seconds, features="glove", task="ner", error=None):
    record = make_record(seed=seed, features=features, task=task, error=error)
    return save(runs, replace(record, seconds=seconds))


LOCKS = {}  # those that this process holds, by their paths


@pytest.fixture(autouse=True)
def released():
    """Gives back what a test has locked."""
    yield
    for lock in LOCKS.values():
        lock.release()
    LOCKS.clear()


def locked(runs, who, alive, progress="epoch 3 of 8"):
    """A run's lock file; a process that is alive holds the lock."""
    path = (runs / who.path).with_name(LOCK_NAME)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path in LOCKS:
        LOCKS.pop(path).release()
    owner = Owner("far", 7, since="2026-01-01T00:00:00+00:00", seconds=30.0, progress=progress)
    path.write_text(json.dumps(asdict(owner)))
    if alive:
        LOCKS[path] = FileLock(path)
        LOCKS[path].acquire(blocking=False)
    return path


@pytest.fixture
def shown(tmp_path, capsys):
    """The command on this test's folder: exit status, text, complaints."""

    def show(*arguments):
        code = status.main(["--runs", str(tmp_path), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return show


def sweep_of_six(runs):
    """Two done, one running, one failed, one stopped, one not begun."""
    runs_of_it = [identity(seed) for seed in range(1, 7)]
    write_manifest(runs, Manifest("table1", "python -m tasks.run -m experiment=table1", runs_of_it, [], "2026"))
    done(runs, 1, 100.0)
    done(runs, 2, 140.0)
    locked(runs, identity(3), True)
    done(runs, 4, 10.0, error=FAILED)
    locked(runs, identity(5), False)


class TestSweep:
    def test_every_state_is_counted_and_named(self, tmp_path, shown):
        sweep_of_six(tmp_path)
        code, out, _ = shown()
        assert code == 0
        lines = out.splitlines()
        # 100 + 140 + 10 of the failed + 30 of the running; to come 90 + 120 + 120 of 120 each, one at a time
        assert lines[0] == "table1: 2 of 6 done, 1 running, 1 failed, 2 missing; 4.7 min spent, about 5.5 min left"
        assert lines[1].strip() == "python -m tasks.run -m experiment=table1"
        assert lines[2].startswith("  running  paper ner glove seed 3  epoch 3 of 8, 30 s, host far, pid ")
        assert lines[3] == "  failed   paper ner glove seed 4  OutOfMemoryError: CUDA out of memory."
        assert lines[4] == "  missing  paper ner glove seed 5  stopped"
        assert lines[5] == "  missing  paper ner glove seed 6"
        assert len(lines) == 6

    def test_the_time_left_looks_at_runs_of_the_same_kind_first(self, tmp_path):
        runs = [identity(1), identity(1, "elmo"), identity(2, "elmo"), identity(1, "elmo", "squad")]
        write_manifest(tmp_path, Manifest("mini", "", runs))
        done(tmp_path, 1, 10.0)
        done(tmp_path, 1, 50.0, "elmo")
        (sweep,), _ = status.sweeps_of(tmp_path)
        assert sweep.seconds_left == 50 + 30, "as long as the other seed with ELMo; of SQuAD nothing is known"

    def test_runs_side_by_side_share_the_time_left(self, tmp_path):
        write_manifest(tmp_path, Manifest("mini", "", [identity(seed) for seed in range(1, 6)]))
        done(tmp_path, 1, 100.0)
        for seed in (2, 3):
            locked(tmp_path, identity(seed), True)
        (sweep,), _ = status.sweeps_of(tmp_path)
        assert sweep.seconds_left == (70 + 70 + 100 + 100) / 2

    def test_before_any_run_has_ended(self, tmp_path, shown):
        write_manifest(tmp_path, Manifest("mini", "", [identity(1)]))
        assert "mini: 0 of 1 done, 1 missing; 0 s spent, time left not known yet" in shown()[1]

    def test_a_run_that_is_tried_again_is_running(self, tmp_path, shown):
        write_manifest(tmp_path, Manifest("mini", "", [identity(1)]))
        done(tmp_path, 1, 10.0, error=FAILED)
        locked(tmp_path, identity(1), True)
        assert "0 of 1 done, 1 running; " in shown()[1]
        locked(tmp_path, identity(1), False)
        assert "0 of 1 done, 1 failed; " in shown()[1], "and was stopped again"

    def test_a_run_that_was_refused_has_failed(self, tmp_path, shown):
        write_manifest(tmp_path, Manifest("mini", "", [], ["task=squad data=wnut17: data=wnut17 is for task=ner"]))
        assert "  failed   task=squad data=wnut17  data=wnut17 is for task=ner" in shown()[1]

    def test_long_lists_are_cut(self, tmp_path, shown):
        write_manifest(tmp_path, Manifest("mini", "", [identity(seed) for seed in range(30)]))
        assert shown()[1].rstrip().endswith("missing  and 18 more")


class TestFolder:
    def test_without_a_sweep_all_runs_are_shown(self, tmp_path, shown):
        done(tmp_path, 1, 10.0)
        done(tmp_path, 2, 5.0, error=FAILED)
        locked(tmp_path, identity(3), True)
        lines = shown()[1].splitlines()
        assert lines[0].startswith("runs of no sweep: 1 of 3 done, 1 running, 1 failed; ")
        assert "paper/ner/glove/seed-3" in lines[1]

    def test_runs_of_a_sweep_are_shown_once(self, tmp_path, shown):
        sweep_of_six(tmp_path)
        done(tmp_path, 9, 1.0)
        out = shown()[1]
        assert out.count("seed 3") == 1
        assert "runs of no sweep: 1 of 1 done; 1 s spent" in out
        assert "runs of no sweep" not in shown("--experiment", "table1")[1]

    def test_an_unknown_experiment(self, tmp_path, shown):
        code, out, err = shown("--experiment", "ours")
        assert (code, out) == (1, "")
        assert "no sweep 'ours' was started with this folder; none was started yet" in err
        sweep_of_six(tmp_path)
        err = shown("--experiment", "ours")[2]
        assert "there are: table1. To start it: python -m tasks.run -m experiment=ours" in err

    def test_a_single_run_that_was_stopped(self, tmp_path, shown):
        """With Ctrl-C only the checkpoint of its last epoch is left; with kill -9 the lock, too."""
        folder = tmp_path / "paper" / "ner" / "glove" / "trainer.epochs=9" / "seed-1"
        folder.mkdir(parents=True)
        (folder / "checkpoint.pt").write_text("the last epoch")
        stopped = "  missing  paper/ner/glove/trainer.epochs=9/seed-1  stopped"
        head = "runs of no sweep: 0 of 1 done, 1 missing; 0 s spent, time left not known yet"
        remedy = "  the command that started a stopped run continues it"
        assert shown()[1].splitlines() == [head, remedy, stopped]
        locked(tmp_path, identity(2), False)
        assert shown()[1].splitlines()[1:3] == [remedy, "  missing  paper/ner/glove/seed-2                   stopped"]

    def test_a_stopped_run_of_a_sweep_is_not_like_one_that_never_started(self, tmp_path, shown):
        sweep_of_six(tmp_path)
        (tmp_path / identity(6).path).parent.mkdir(parents=True)
        (tmp_path / identity(6).path).with_name("checkpoint.pt").write_text("the last epoch")
        assert "  missing  paper ner glove seed 6  stopped\n" in shown()[1]
        assert "runs of no sweep" not in shown()[1]

    def test_nothing_at_all(self, tmp_path, shown):
        assert "experiment=mini" in shown()[1]
        assert "(no such folder)" in shown("--runs", str(tmp_path / "nowhere"))[1]

    def test_what_is_broken_is_named_and_the_rest_is_shown(self, tmp_path, shown):
        sweep_of_six(tmp_path)
        cut = tmp_path / identity(2).path
        cut.write_text(cut.read_text()[:100])
        (tmp_path / ".sweep" / "torn.json").write_text("{")
        locked(tmp_path, identity(6), True).write_text("torn")
        code, out, _ = shown()
        assert code == 0
        assert "table1: 1 of 6 done, " in out
        assert "torn.json: expected the list of a sweep's runs" in out
        assert f"{cut}: expected one whole JSON object" in out
        assert "  failed   paper ner glove seed 2" in out


class TestWatch:
    def test_it_ends_when_nothing_is_left(self, tmp_path, shown, monkeypatch):
        write_manifest(tmp_path, Manifest("mini", "", [identity(1), identity(2), identity(3)]))
        done(tmp_path, 1, 10.0, error=FAILED)
        steps = iter([lambda: None, lambda: done(tmp_path, 2, 20.0), lambda: done(tmp_path, 3, 20.0)])
        monkeypatch.setattr(time, "sleep", lambda _: next(steps)())
        code, out, _ = shown("--watch", "--experiment", "mini")
        assert code == 0
        heads = [line.split(";")[0] for line in out.splitlines() if line.startswith("mini")]
        states = ["0 of 3 done, 1 failed, 2 missing", "1 of 3 done, 1 failed, 1 missing", "2 of 3 done, 1 failed"]
        assert heads == [f"mini: {state}" for state in states], "once for each change"

    def test_an_unknown_experiment(self, shown):
        assert shown("--watch", "--experiment", "ours")[0] == 1

    def test_on_a_terminal_it_redraws(self, tmp_path, shown, monkeypatch):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(time, "sleep", lambda _: done(tmp_path, 1, 10.0))
        write_manifest(tmp_path, Manifest("mini", "", [identity(1)]))
        first, second = shown("--watch")[1].split(status.CLEAR)[1:]
        assert "0 of 1 done" in first
        assert "1 of 1 done" in second


def test_a_lock_that_a_run_holds_is_seen(tmp_path, shown):
    folder = (tmp_path / identity(1).path).parent
    folder.mkdir(parents=True)
    with run_lock(folder) as held:
        held.progress(1, 5)
        assert "running  paper/ner/glove/seed-1  epoch 1 of 5, 0 s, host" in shown()[1]
        held.progress(2, 5, 71.239)
        assert "running  paper/ner/glove/seed-1  epoch 2 of 5, best dev 71.24, 0 s, host" in shown()[1]
    assert "No runs in" in shown()[1]
