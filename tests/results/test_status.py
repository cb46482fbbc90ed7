"""The status of sweeps: done, running, failed and missing runs, and the time they take, from files alone."""

import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from filelock import FileLock

from results import status
from results.records.identity import Identity, record_path
from results.records.record import RunError
from results.records.run_lock import LOCK_NAME, Owner, run_lock
from results.records.sweep_manifest import Manifest, at_work, write_manifest
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


def locked(runs, who, alive, **more):
    """A run's lock file; a process that is alive holds the lock."""
    path = record_path(runs, who).with_name(LOCK_NAME)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path in LOCKS:
        LOCKS.pop(path).release()
    owner = Owner("far", 7, since="2026-01-01T00:00:00+00:00", **{"seconds": 30.0, **more})
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
    locked(runs, identity(3), True, epoch=3, epochs=8)
    done(runs, 4, 10.0, error=FAILED)
    locked(runs, identity(5), False, epoch=2, epochs=8)


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
        assert lines[4] == "  missing  paper ner glove seed 5  stopped in epoch 3 of 8"
        assert lines[5] == "  missing  paper ner glove seed 6"
        assert len(lines) == 6

    def test_a_run_that_was_stopped_while_it_was_tested(self, tmp_path, shown):
        sweep_of_six(tmp_path)
        locked(tmp_path, identity(6), False, epoch=8, epochs=8)
        assert shown()[1].splitlines()[5] == "  missing  paper ner glove seed 6  stopped after its last epoch"

    def test_for_programs(self, tmp_path, shown):
        sweep_of_six(tmp_path)
        found = json.loads(shown("--format", "json")[1])
        (sweep,) = found["sweeps"]
        assert (sweep["done"], sweep["running"], sweep["failed"], sweep["missing"]) == (2, 1, 1, 2)
        assert (sweep["seconds_spent"], sweep["seconds_left"]) == (280.0, 330.0)
        assert [run["state"] for run in sweep["runs"]] == ["done", "done", "running", "failed", "missing", "missing"]
        assert sweep["runs"][2]["epoch"] == 3
        assert found["problems"] == []

    def test_the_time_left_looks_at_runs_of_the_same_kind_first(self, tmp_path, shown):
        runs = [identity(1), identity(1, "elmo"), identity(2, "elmo"), identity(1, "elmo", "squad")]
        write_manifest(tmp_path, Manifest("mini", "", runs))
        done(tmp_path, 1, 10.0)
        done(tmp_path, 1, 50.0, "elmo")
        (sweep,) = json.loads(shown("--format", "json")[1])["sweeps"]
        assert sweep["seconds_left"] == 50 + 30, "as long as the other seed with ELMo; of SQuAD nothing is known"

    def test_runs_side_by_side_share_the_time_left(self, tmp_path, shown):
        write_manifest(tmp_path, Manifest("mini", "", [identity(seed) for seed in range(1, 6)]))
        done(tmp_path, 1, 100.0)
        for seed in (2, 3):
            locked(tmp_path, identity(seed), True)
        (sweep,) = json.loads(shown("--format", "json")[1])["sweeps"]
        assert sweep["seconds_left"] == (70 + 70 + 100 + 100) / 2

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
        locked(tmp_path, identity(3), True, title="paper ner glove seed 3")
        lines = shown()[1].splitlines()
        assert lines[0].startswith("runs of no sweep: 1 of 3 done, 1 running, 1 failed; ")
        assert "paper ner glove seed 3" in lines[1]

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
        assert "there are: table1. The suite has no such experiment; one of your configs starts with: python" in err

    def test_an_experiment_that_was_not_started_is_its_table(self, tmp_path, shown):
        """Records from another machine count, in whichever way their names say the same."""
        file = tmp_path / "mine.toml"
        file.write_text(
            'title = "mine"\nseeds = [1, 2]\n[arms]\na = ["features=glove"]\nb = ["features=elmo"]\n'
            '[[rows]]\noverrides = ["task=ner", "data=paper", "trainer.lr=1e-3"]\n'
        )
        save(tmp_path, make_record())
        save(tmp_path, make_record(features="elmo", seed=2))
        save(tmp_path, make_record(features="elmo", seed=1, variant={"trainer.lr": 0.5}, lr=0.5))
        code, out, _ = shown("--experiment", str(file))
        assert code == 0
        first, command, *missing = out.splitlines()
        assert first.startswith("mine: 2 of 4 done, 2 missing; ")
        assert command.strip() == f"python -m tasks.run -m experiment={file} runs_dir={tmp_path}"
        assert [line.split()[:6] for line in missing] == [
            ["missing", "paper", "ner", "elmo", "seed", "1"],
            ["missing", "paper", "ner", "glove", "seed", "2"],
        ]

    def test_its_command_finds_what_a_single_run_was_typed_with(self, tmp_path, shown):
        command = "python -m tasks.run --config-dir 'my configs' data_dir=corpora"
        write_manifest(tmp_path, Manifest("run-1", command, []))
        assert (
            f" experiment=table1 --config-dir 'my configs' data_dir=corpora runs_dir={tmp_path}\n"
            in shown("--experiment", "table1")[1]
        )
        assert shown()[1].startswith("No runs in "), "a single run is no sweep"

    def test_an_experiment_s_file_with_a_mistake(self, tmp_path, shown):
        file = tmp_path / "mine.toml"
        file.write_text('title = "mine"\nseed = 1\n')
        code, _, err = shown("--experiment", str(file))
        assert (code, err[:16]) == (1, "results.status: ")
        assert "mine.toml: seed: expected one of title, seeds" in err

    def test_a_single_run_that_was_stopped(self, tmp_path, shown):
        """With Ctrl-C only the checkpoint of its last epoch is left; with kill -9 the lock, too."""
        folder = tmp_path / "paper" / "ner" / "glove" / "trainer.epochs=9" / "seed-1"
        folder.mkdir(parents=True)
        (folder / "checkpoint.pt").write_text("the last epoch")
        stopped = "  missing  paper/ner/glove/trainer.epochs=9/seed-1  stopped"
        head = "runs of no sweep: 0 of 1 done, 1 missing; 0 s spent, time left not known yet"
        remedy = "  the command that started a stopped run continues it"
        assert shown()[1].splitlines() == [head, remedy, stopped]
        locked(tmp_path, identity(2), False, title="paper ner glove seed 2", epoch=2, epochs=8)
        assert shown()[1].splitlines()[1:3] == [
            remedy,
            "  missing  paper ner glove seed 2" + " " * 17 + "  stopped in epoch 3 of 8",
        ]

    def test_a_stopped_run_of_a_sweep_is_not_like_one_that_never_started(self, tmp_path, shown):
        sweep_of_six(tmp_path)
        record_path(tmp_path, identity(6)).parent.mkdir(parents=True)
        record_path(tmp_path, identity(6)).with_name("checkpoint.pt").write_text("the last epoch")
        assert "  missing  paper ner glove seed 6  stopped\n" in shown()[1]
        assert "runs of no sweep" not in shown()[1]

    def test_nothing_at_all(self, tmp_path, shown):
        assert "experiment=mini" in shown()[1]
        assert "(no such folder)" in shown("--runs", str(tmp_path / "nowhere"))[1]

    def test_what_is_broken_is_named_and_the_rest_is_shown(self, tmp_path, shown):
        sweep_of_six(tmp_path)
        cut = record_path(tmp_path, identity(2))
        cut.write_text(cut.read_text()[:100])
        (tmp_path / ".sweep" / "torn.json").write_text("{")
        (tmp_path / ".sweep" / "later.json").write_text('{"schema": 99}')
        locked(tmp_path, identity(6), True).write_text("torn")
        code, out, _ = shown()
        assert code == 0
        assert "table1: 1 of 6 done, " in out
        assert "torn.json: expected the list of a sweep's runs" in out
        assert "later.json: expected the list of a sweep's runs, found: written with schema 99" in out
        assert f"{cut}: expected one whole JSON object" in out
        assert "  failed   paper ner glove seed 2" in out


class TestWatch:
    def test_it_ends_when_nothing_is_left(self, tmp_path, shown, monkeypatch):
        monkeypatch.setattr(status, "LOOKS_EVERY", 0.0)
        manifest = Manifest("mini", "", [identity(1), identity(2), identity(3)])
        write_manifest(tmp_path, manifest)
        done(tmp_path, 1, 10.0, error=FAILED)
        steps = iter([lambda: None, lambda: done(tmp_path, 2, 20.0), lambda: done(tmp_path, 3, 20.0)])
        monkeypatch.setattr(time, "sleep", lambda _: next(steps)())
        with at_work(tmp_path, manifest):
            code, out, _ = shown("--watch", "--experiment", "mini")
        assert code == 0
        heads = [line.split(";")[0] for line in out.splitlines() if line.startswith("mini")]
        states = ["0 of 3 done, 1 failed, 2 missing", "1 of 3 done, 1 failed, 1 missing", "2 of 3 done, 1 failed"]
        assert heads == [f"mini: {state}" for state in states], "once for each change"

    def test_it_ends_when_no_process_will_start_what_is_missing(self, tmp_path, shown, monkeypatch):
        sweep_of_six(tmp_path)
        monkeypatch.setattr(time, "sleep", lambda _: record_path(tmp_path, identity(3)).with_name(LOCK_NAME).unlink())
        code, out, _ = shown("--watch")
        assert code == 0
        assert out.count("table1: ") == 2, "once while a run is at work"
        assert out.rstrip().endswith("Nothing runs, and no process will start what is missing (3).")

    def test_a_sweep_that_may_start_what_is_missing_is_waited_for(self, tmp_path, shown, monkeypatch):
        manifest, slept = Manifest("mini", "", [identity(1), identity(2)]), []
        write_manifest(tmp_path, manifest)
        with ExitStack() as sweep:
            sweep.enter_context(at_work(tmp_path, manifest))

            def sleep(seconds):
                slept.append(seconds)
                if len(slept) == 10:
                    sweep.close()

            monkeypatch.setattr(time, "sleep", sleep)
            assert shown("--watch")[0] == 0
        assert len(slept) == 10

    def test_stopped_runs_of_no_sweep_are_not_waited_for(self, tmp_path, shown):
        locked(tmp_path, identity(5), False, epoch=2, epochs=8)
        assert "no process will start what is missing (1)." in shown("--watch")[1]

    def test_an_unknown_experiment(self, shown):
        assert shown("--watch", "--experiment", "ours")[0] == 1

    def test_on_a_terminal_it_redraws(self, tmp_path, shown, monkeypatch):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(time, "sleep", lambda _: done(tmp_path, 1, 10.0))
        manifest = Manifest("mini", "", [identity(1)])
        write_manifest(tmp_path, manifest)
        with at_work(tmp_path, manifest):
            first, second = shown("--watch")[1].split(status.CLEAR)[1:]
        assert "0 of 1 done" in first
        assert "1 of 1 done" in second


def test_a_lock_that_a_run_holds_is_seen(tmp_path, shown):
    folder = record_path(tmp_path, identity(1)).parent
    folder.mkdir(parents=True)
    with run_lock(folder, "paper ner glove seed 1") as held:
        held.progress(1, 5)
        assert "running  paper ner glove seed 1  epoch 1 of 5, 0 s, host" in shown()[1]
        held.progress(2, 5, 71.239)
        assert "running  paper ner glove seed 1  epoch 2 of 5, best dev 71.24, 0 s, host" in shown()[1]
    assert "No runs in" in shown()[1]


def test_the_scores_of_finished_runs_are_below_the_status(tmp_path, shown):
    assert "Test scores" not in shown("--scores")[1]
    save(tmp_path, make_record(60.0))
    save(tmp_path, make_record(70.0, features="elmo"))
    save(tmp_path, make_record(error=RunError("ValueError", "1"), seed=2))
    out = shown("--scores")[1]
    assert "2 of 3 done, 1 failed" in out
    (line,) = [line for line in out.splitlines() if line.startswith("NER, CoNLL-2003")]
    assert line.split()[2:7] == ["60.00", "(1)", "70.00", "(1)", "+10.00"]


class TestStartedHere:
    """What `make demo` does: the table fills while the sweep runs."""

    COMMAND = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[2]); from tests.results.making import make_record, save; "
        "save(pathlib.Path(sys.argv[1]), make_record(61.0)); print('a line'); sys.exit(int(sys.argv[3]))"
    )

    def command(self, runs, code):
        root = str(Path(status.__file__).parents[1])
        return ["--", sys.executable, "-c", self.COMMAND, str(runs), root, str(code)]

    @pytest.mark.parametrize("code", [0, 3])
    def test_on_a_terminal(self, tmp_path, capsys, monkeypatch, code):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(status, "LOOKS_EVERY", 0.05)
        arguments = ["--runs", str(tmp_path), "--scores", *self.command(tmp_path, code)]
        assert status.main(arguments) == code
        out, err = capsys.readouterr()
        assert "61.00 (1)" in out
        assert "a line" not in out
        assert (tmp_path / "sweep.log").read_text() == "a line\n"
        assert ("The command failed. The end of" in err) == (code != 0)

    def test_without_a_terminal_the_sweep_prints_its_own_lines(self, tmp_path, capfd):
        assert status.main(["--runs", str(tmp_path), *self.command(tmp_path, 3)]) == 3
        assert capfd.readouterr().out == "a line\n"
