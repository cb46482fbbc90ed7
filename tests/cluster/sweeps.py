"""Checks of sweeps on clusters: the records must equal those of sequential runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tasks.making import NO_COLUMN, WORD_COLUMN
from tests.tasks.user import outcomes

HERE = Path(__file__).resolve().parent
LOOPBACK = str(HERE / "loopback.sh")
TINY = ["data=mini", "limit=20", "trainer.epochs=1", "device=cpu"]
FOUR = ["task.hidden=8", "features=glove,elmo", "seed=1,2"]
FOUR_CELLS = ["experiment=mini", "task=ner", *FOUR]  # the same runs, chosen from a table
ONE_OF_FOUR_FAILS = ["features=glove", "task.hidden=8", f"{WORD_COLUMN}=0,1,-2,{NO_COLUMN}"]
SETTINGS = r"mini ner (glove|elmo) seed (\d) .*"


def loopback_reason():
    """Why a process cannot be isolated from other machines here; empty if it can."""
    if sys.platform != "linux" or shutil.which("unshare") is None or shutil.which("ip") is None:
        return "needs Linux with unshare and ip: apt-get install util-linux iproute2"
    tried = subprocess.run([LOOPBACK, "true"], capture_output=True, text=True)
    return f"needs root or user namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def sweep(runs, *settings, inside=(), environment=None):
    """Runs python -m tasks.run -m, started by `inside`; returns the process with its exit status and output."""
    command = [*inside, sys.executable, "-m", "tasks.run", "-m", f"runs_dir={runs}", *TINY, *settings]
    # Should it take too long, loopback.sh is killed, and all that it has started with it.
    return subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=300
    )


def table(runs):
    command = [sys.executable, "-m", "results.table", "--include-limited", "--format", "csv", "--runs", str(runs)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_four(done, runs, one_by_one):
    """A sweep of four: every record there, finished and the same; a line for each run, printed by the sweep itself."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(outcomes(runs)) == 4
    assert {outcome[0] for outcome in outcomes(runs).values()} == {"finished"}
    assert outcomes(runs) == outcomes(one_by_one)
    lines = re.findall(rf"^{SETTINGS}f1: dev [\d.]+, test [\d.]+  \d+ s$", done.stderr, re.MULTILINE)
    assert sorted(lines) == sorted((arm, seed) for arm in ("glove", "elmo") for seed in "12"), "each once"
    assert f"To follow them: python -m results.status --watch --runs {runs}\n" in done.stderr


def check_one_of_four_fails(done, runs):
    """One run of four fails: the exit status and a line with the reason say so, and the others finish."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert sorted(outcome[0] for outcome in outcomes(runs).values()) == ["failed", *["finished"] * 3]
    assert re.search(rf"word_column={NO_COLUMN} .*failed: InputError: ", done.stderr)
    assert "sweep  3 runs finished, 1 failed" in done.stderr
    assert "Traceback" not in done.stderr


def check_merged(runs, one_by_one, merged):
    """Seed 1 of one machine and seed 2 of another, copied into one folder: one table, and nothing left to do."""
    for machine, seed in ((one_by_one, 1), (runs, 2)):
        others = shutil.ignore_patterns(f"seed-{3 - seed}", ".sweep")
        shutil.copytree(machine, merged, ignore=others, dirs_exist_ok=True)
    assert len(outcomes(merged)) == 4
    assert table(merged) == table(one_by_one)
    again = sweep(merged, *FOUR)
    assert again.returncode == 0
    assert "all 4 runs were done already" in again.stderr
