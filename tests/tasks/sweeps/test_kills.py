"""Kill -9 of workers, the parent or all processes at random moments does not change the records."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from results.records.identity import PREDICTIONS_NAME, RECORD_NAME
from results.records.progress import LOCK_NAME, is_locked, read_lock
from tests.tasks.making import SMALL
from tests.tasks.user import outcomes

pytestmark = pytest.mark.processes

SETTINGS = ["device=cpu", "task.hidden=8", *SMALL, "features.elmo.untrained=true", "features.elmo.weights=tiny"]
SETTINGS += ["limit=60", "trainer.patience=null", "features=glove,elmo"]
SIDE_BY_SIDE = ["hydra/launcher=cores", "hydra.launcher.n_jobs=2"]
PATIENCE = 300  # seconds for what takes a few


class Sweep:
    """The command in a session of its own, so that a signal to the group reaches its processes and no others."""

    def __init__(self, runs, settings):
        self.runs = runs
        # Not a pipe, which would not end before the last orphan does.
        self.said = runs.with_name(f"{runs.name}-{time.monotonic_ns()}.txt")
        with open(self.said, "w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tasks.run", "-m", f"runs_dir={runs}", *SETTINGS, *settings],
                env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
            )

    def running(self):
        return self.process.poll() is None

    def workers(self):
        """The processes of this sweep that hold a lock on a run; not the orphans of another."""
        owners = [read_lock(path) for path in self.runs.rglob(LOCK_NAME) if is_locked(path)]
        return [owner.pid for owner in owners if owner is not None and self.has(owner.pid)]

    def has(self, pid):
        with contextlib.suppress(ProcessLookupError):
            return pid > 0 and os.getpgid(pid) == self.process.pid
        return False

    def wait_for_work(self):
        """The processes that do runs, as soon as there is one; none if the sweep has ended."""
        deadline = time.monotonic() + PATIENCE
        while not (workers := self.workers()) and self.running() and time.monotonic() < deadline:
            time.sleep(0.02)
        return workers

    def kill(self, victim, choice):
        if victim == "group":
            os.killpg(self.process.pid, signal.SIGKILL)
        elif victim == "parent":
            self.process.kill()
        elif workers := self.wait_for_work():  # a lock that is just being rewritten names no process
            os.kill(choice.choice(workers), signal.SIGKILL)

    def end(self, orphans=False):
        """Its output, after all its processes have ended; with orphans, after all that held a lock have ended.

        An orphan that was waiting for its first run stays for joblib's five minutes.
        """
        self.process.wait(10 * PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while self.workers() if orphans else self.alive():
            if time.monotonic() > deadline:
                self.clean_up()
                pytest.fail("processes of the sweep outlive it")
            time.sleep(0.02)
        return self.said.read_text()

    def alive(self):
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def clean_up(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def left_behind(runs):
    """Files that are not results, and the names of those in the folder of sweeps."""
    names = {RECORD_NAME, "examples.json.gz", PREDICTIONS_NAME}
    strange = [path for path in runs.rglob("*") if path.is_file() and path.name not in names]
    lists = [path.name for path in strange if path.parent.name == ".sweep"]
    return [path for path in strange if path.parent.name != ".sweep"], sorted(lists)


def all_done(runs, last, calm):
    """What must hold after the last command, however often others were killed before."""
    err = last.end()
    assert last.process.returncode == 0, err
    assert outcomes(runs) == outcomes(calm), err
    strange, lists = left_behind(runs)
    assert strange == [], err
    return err, lists


@pytest.fixture
def calm(command, tmp_path):
    """Runs a sweep that nothing disturbs, and returns its folder."""

    def run(*settings):
        code, _, err = command("-m", f"runs_dir={tmp_path / 'calm'}", *SETTINGS, *settings)
        assert code == 0, err
        return tmp_path / "calm"

    return run


def test_each_kind_of_kill_changes_no_record(calm, tmp_path):
    """The parent alone, then all processes; then one worker, as when memory runs out: the sweep continues by itself."""
    runs, settings = tmp_path / "killed", ["trainer.epochs=20", "seed=1,2"]
    before = []
    for victim in ("parent", "group"):
        before.append(Sweep(runs, [*settings, *SIDE_BY_SIDE]))
        before[-1].wait_for_work()
        before[-1].kill(victim, random)
        before[-1].end(orphans=victim == "parent")
    settings[-1] = "seed=1,2,3,4"  # orphans may have ended the runs of the first seeds
    last = Sweep(runs, [*settings, *SIDE_BY_SIDE])
    last.kill("worker", random)
    err, _ = all_done(runs, last, calm(*settings))
    for sweep in before:  # not earlier: a re-run must do with what is left of them
        sweep.clean_up()
    assert "tasks.run: a process was killed in the middle of its run; the sweep continues" in err


@pytest.mark.slow
def test_twenty_kills_change_no_record(calm, tmp_path):
    """Starts the sweep, kills something at a random moment, starts it again where that has ended it; then a re-run."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"the random seed of this test is {seed}")
    choice = random.Random(seed)
    runs, settings = tmp_path / "killed", ["trainer.epochs=40", "seed=1,2,3,4"]
    victims = [("worker", "parent", "group")[kill % 3] for kill in range(20)]
    choice.shuffle(victims)
    sweep, before = None, []
    for victim in victims:
        if sweep is None:
            sweep = Sweep(runs, [*settings, *SIDE_BY_SIDE])
        if choice.random() < 0.8 or victim == "worker":
            sweep.wait_for_work()
            time.sleep(choice.uniform(0, 1.5))
        else:
            time.sleep(choice.uniform(0, 6))  # while it starts
        sweep.kill(victim, choice)
        if victim != "worker" or not sweep.running():
            sweep.end(orphans=victim == "parent")
            before.append(sweep)
            sweep = None
    if sweep is not None:
        sweep.end()
    _, lists = all_done(runs, Sweep(runs, [*settings, *SIDE_BY_SIDE]), calm(*settings))
    for sweep in before:
        sweep.clean_up()
    assert len(lists) == 1, lists


def test_sigterm_to_the_parent_ends_its_workers(tmp_path):
    sweep = Sweep(tmp_path, ["trainer.epochs=10000", *SIDE_BY_SIDE])
    sweep.wait_for_work()
    sweep.process.send_signal(signal.SIGTERM)
    err = sweep.end()
    assert sweep.process.returncode == 143
    assert err.splitlines()[-1] == "tasks.run: stopped; the same command continues from here"
    assert "Traceback" not in err
    assert outcomes(tmp_path) == {}
