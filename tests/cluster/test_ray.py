"""A real Ray on this machine, on loopback: make test-cluster, which gives it an environment of its own."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cluster.sweeps import (
    FOUR,
    FOUR_CELLS,
    LOOPBACK,
    ONE_OF_FOUR_FAILS,
    check_four,
    check_merged,
    check_one_of_four_fails,
    loopback_reason,
    sweep,
)

pytestmark = pytest.mark.cluster
START = f"cd / && {sys.executable} -m ray.scripts.scripts start --head --include-dashboard=false --port=6379"
RUNNING = [LOOPBACK, "sh", "-c", f'({START}) >/dev/null && "$@"', "sh"]  # starts a cluster, then a command


@pytest.fixture(scope="session")  # first, so that a skip costs no sweep
def ray():
    """Skips the test if Ray is not installed."""
    if importlib.util.find_spec("hydra_plugins.hydra_ray_launcher") is None:
        pytest.skip("needs Ray, in an environment of its own: pip install -c constraints-ray.txt -e '.[glove,ray,dev]'")
    if reason := loopback_reason():
        pytest.skip(reason)


@pytest.fixture
def room(tmp_path):
    """Folders for the files that Ray leaves, and no usage reports."""
    home = tmp_path / "home"
    home.mkdir()
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:  # its sockets need a short path
        yield {"HOME": str(home), "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}


def test_records_equal_those_of_sequential_runs(ray, room, tmp_path, one_by_one):
    runs = tmp_path / "runs"
    done = sweep(runs, *FOUR_CELLS, "hydra/launcher=ray", inside=[LOOPBACK], environment=room)
    print(done.stderr)
    check_four(done, runs, one_by_one)
    logs = f"{room['RAY_TMPDIR']}/ray/session_latest/logs"
    assert f"sweep  4 runs are handed to ray. Logs: {logs} on each machine. " in done.stderr
    assert "f1: dev" in "".join(path.read_text() for path in Path(logs).glob("worker-*.err"))
    assert "validated against ConfigStore schema" not in done.stderr
    check_merged(runs, one_by_one, tmp_path / "merged")


def test_a_failed_run_does_not_stop_the_others(ray, room, tmp_path):
    runs = tmp_path / "runs"
    done = sweep(runs, *ONE_OF_FOUR_FAILS, "hydra/launcher=ray", inside=[LOOPBACK], environment=room)
    print(done.stderr)
    check_one_of_four_fails(done, runs)


def test_joining_a_cluster_that_is_running(ray, room, tmp_path, one_by_one):
    """From another folder, as on another machine: runs_dir is an absolute path."""
    settings = [*FOUR, "hydra/launcher=ray", "hydra.launcher.ray.init.address=127.0.0.1:6379"]
    runs = tmp_path / "runs"
    done = sweep(runs, *settings, inside=RUNNING, environment=room)
    print(done.stderr)
    check_four(done, runs, one_by_one)


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """Four small texts."""
    folder = tmp_path_factory.mktemp("texts")
    for number, name in enumerate("abcd"):
        lines = (f"line {n} of {name} has {'so ' * (n * number % 7)}many words\n" for n in range(40))
        (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    return folder


def embed(*command, inside=(), environment=None):
    """Runs a command that embeds, started by `inside`."""
    return subprocess.run(
        [*inside, sys.executable, "-m", *map(str, command)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="session")
def on_one_machine(texts, tmp_path_factory):
    """The bytes of all shards, made without Ray."""
    out = tmp_path_factory.mktemp("shards") / "out"
    done = embed("elmo.embed", f"{texts}/*.txt", "--out", out)
    assert done.returncode == 0, done.stderr
    return shards(out)


def shards(folder):
    found = {path.name: path.read_bytes() for path in folder.glob("*") if path.name != "_lock"}
    assert len(found) == 4
    return found


def test_shards_equal_those_of_one_machine(ray, room, texts, tmp_path, on_one_machine):
    out = tmp_path / "out"
    arguments = [f"{texts}/*.txt", "--out", out, "--engine", "ray", "--workers", 2]
    done = embed("elmo.embed", *arguments, inside=[LOOPBACK], environment=room)
    print(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "4 shards written" in done.stdout
    assert shards(out) == on_one_machine
    assert "Deprecat" not in done.stderr


def test_the_shard_of_a_killed_worker_is_computed_again(ray, room, texts, tmp_path, on_one_machine):
    """On a cluster that is running, which RAY_ADDRESS names."""
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    arguments = [marks, 1, f"{texts}/*.txt", "--out", out, "--engine", "ray", "--workers", 2]
    environment = {**room, "RAY_ADDRESS": "127.0.0.1:6379"}
    done = embed("tests.cluster.dying_worker", *arguments, inside=RUNNING, environment=environment)
    print(done.stderr)
    assert done.returncode == 0, done.stderr
    assert len(list(marks.iterdir())) == 1, "one worker died"
    assert shards(out) == on_one_machine


def test_a_shard_that_always_kills_its_worker_fails_alone(ray, room, texts, tmp_path):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    arguments = [marks, 99, f"{texts}/*.txt", "--out", out, "--engine", "ray", "--workers", 2]
    done = embed("tests.cluster.dying_worker", *arguments, inside=[LOOPBACK], environment=room)
    print(done.stderr)
    assert done.returncode == 1
    assert "1 of 4 shards failed" in done.stderr
    assert "b.txt: 3 workers died while they embedded it" in done.stderr
    assert {path.name for path in out.glob("*.parquet")} == {f"{name}.txt.parquet" for name in "acd"}


def test_no_cluster_to_embed_on(ray, room, texts, tmp_path):
    arguments = [f"{texts}/*.txt", "--out", tmp_path / "out", "--engine", "ray", "--address", "auto"]
    done = embed("elmo.embed", *arguments, inside=[LOOPBACK], environment=room)
    assert done.returncode == 1
    assert "elmo.embed: --address: Ray cannot be started or joined: " in done.stderr
    assert "Traceback" not in done.stderr


def test_no_cluster_to_join(ray, room, tmp_path):
    settings = [*FOUR, "hydra/launcher=ray", "hydra.launcher.ray.init.address=auto"]
    done = sweep(tmp_path / "runs", *settings, inside=[LOOPBACK], environment=room)
    assert done.returncode == 1
    assert "tasks.run: ray: " in done.stderr
    assert "Traceback" not in done.stderr
