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

pytestmark = pytest.mark.integration

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
        """The processes that hold a lock on a run."""
        owners = [read_lock(path) for path in self.runs.rglob(LOCK_NAME) if is_locked(path)]
        return [owner.pid for owner in owners if owner is not None and owner.pid]

    def wait_for_work(self):
        deadline = time.monotonic() + PATIENCE
        while not self.workers() and self.running() and time.monotonic() < deadline:
            time.sleep(0.02)

    def kill(self, victim, choice):
        if victim == "group":
            os.killpg(self.process.pid, signal.SIGKILL)
        elif victim == "parent":
            self.process.kill()
        elif workers := self.workers():
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


@pytest.mark.parametrize(
    ("settings", "kills"),
    [
        (["trainer.epochs=12", "seed=1,2"], 3),
        pytest.param(["trainer.epochs=40", "seed=1,2,3,4"], 20, marks=pytest.mark.slow),
    ],
    ids=["three", "twenty"],
)
def test_kills_change_no_record(command, tmp_path, settings, kills):
    """Starts the sweep, kills something, starts it again where that has ended it; then a plain re-run."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"the random seed of this test is {seed}")
    choice = random.Random(seed)
    code, _, err = command("-m", f"runs_dir={tmp_path / 'calm'}", *SETTINGS, *settings)
    assert code == 0, err
    runs = tmp_path / "killed"
    victims = [("worker", "parent", "group")[kill % 3] for kill in range(kills)]
    choice.shuffle(victims)
    sweep = None
    said, orphaned = [], []
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
            said.append(sweep.end(orphans=victim == "parent"))
            orphaned.append(sweep)
            sweep = None
    if sweep is not None:
        said.append(sweep.end())
    last = Sweep(runs, [*settings, *SIDE_BY_SIDE])
    said.append(last.end())
    for sweep in orphaned:  # not before: a re-run must do with what is left of them
        sweep.clean_up()
    assert last.process.returncode == 0, said
    assert outcomes(runs) == outcomes(tmp_path / "calm"), said
    strange, lists = left_behind(runs)
    assert strange == [], said
    assert len(lists) == 1, lists


def test_a_killed_worker_does_not_stop_the_others(tmp_path):
    """As when memory runs out: the sweep continues by itself, with the killed run too."""
    sweep = Sweep(tmp_path, ["trainer.epochs=12", *SIDE_BY_SIDE])
    sweep.wait_for_work()
    sweep.kill("worker", random)
    err = sweep.end()
    assert sweep.process.returncode == 0, err
    assert "tasks.run: a process was killed in the middle of its run; the sweep continues" in err
    assert [outcome[0] for outcome in outcomes(tmp_path).values()] == ["finished"] * 2
    assert left_behind(tmp_path)[0] == []


def test_sigterm_to_the_parent_ends_its_workers(tmp_path):
    sweep = Sweep(tmp_path, ["trainer.epochs=10000", *SIDE_BY_SIDE])
    sweep.wait_for_work()
    sweep.process.send_signal(signal.SIGTERM)
    err = sweep.end()
    assert sweep.process.returncode == 143
    assert err.splitlines()[-1] == "tasks.run: stopped; the same command continues from here"
    assert "Traceback" not in err
    assert outcomes(tmp_path) == {}
