"""A real Ray on this machine, on loopback: make test-cluster, which gives it an environment of its own."""

import importlib.util
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
    start = f"cd / && {sys.executable} -m ray.scripts.scripts start --head --include-dashboard=false --port=6379"
    inside = [LOOPBACK, "sh", "-c", f'({start}) >/dev/null && "$@"', "sh"]
    settings = [*FOUR, "hydra/launcher=ray", "hydra.launcher.ray.init.address=127.0.0.1:6379"]
    runs = tmp_path / "runs"
    done = sweep(runs, *settings, inside=inside, environment=room)
    print(done.stderr)
    check_four(done, runs, one_by_one)


def test_no_cluster_to_join(ray, room, tmp_path):
    settings = [*FOUR, "hydra/launcher=ray", "hydra.launcher.ray.init.address=auto"]
    done = sweep(tmp_path / "runs", *settings, inside=[LOOPBACK], environment=room)
    assert done.returncode == 1
    assert "tasks.run: ray: " in done.stderr
    assert "Traceback" not in done.stderr
