"""A real SLURM of one node, from Debian's packages, on loopback: make test-cluster."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.cluster.sweeps import (
    FOUR,
    FOUR_CELLS,
    HERE,
    LOOPBACK,
    ONE_OF_FOUR_FAILS,
    check_four,
    check_merged,
    check_one_of_four_fails,
    loopback_reason,
    sweep,
)

pytestmark = pytest.mark.cluster
DAEMONS = ("slurmctld", "slurmd", "munged", "sbatch", "srun")
INSTALL = "apt-get install --no-install-recommends slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
WITH_DAEMONS = [LOOPBACK, str(HERE / "slurm.sh")]


@pytest.fixture(scope="session")  # first, so that a skip costs no sweep
def slurm():
    """Skips the test if SLURM is not installed."""
    pytest.importorskip("submitit", reason="needs pip install -c constraints.txt -e '.[slurm]'")
    missing = [name for name in DAEMONS if shutil.which(name) is None and shutil.which(f"/usr/sbin/{name}") is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: {INSTALL}")
    if reason := loopback_reason():
        pytest.skip(reason)


@pytest.fixture
def room():
    """The folder for the files of the daemons, which must remove them."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:  # their sockets need a short path
        yield {"TMPDIR": folder}
        assert list(Path(folder).glob("daemons-*")) == []


def test_records_equal_those_of_sequential_runs(slurm, room, tmp_path, one_by_one):
    runs = tmp_path / "runs"
    done = sweep(runs, *FOUR_CELLS, "hydra/launcher=slurm", inside=WITH_DAEMONS, environment=room)
    print(done.stderr)
    check_four(done, runs, one_by_one)
    assert f"sweep  4 runs are handed to slurm. Logs: {runs}/.sweep/.submitit. " in done.stderr
    jobs = sorted(path.name for path in (runs / ".sweep" / ".submitit").glob("*/*_log.out"))
    assert jobs == [f"1_{task}_0_log.out" for task in range(4)], "four tasks of one job array have run"
    check_merged(runs, one_by_one, tmp_path / "merged")


def test_a_failed_run_does_not_stop_the_others(slurm, room, tmp_path):
    runs = tmp_path / "runs"
    done = sweep(runs, *ONE_OF_FOUR_FAILS, "hydra/launcher=slurm", inside=WITH_DAEMONS, environment=room)
    print(done.stderr)
    check_one_of_four_fails(done, runs)


def test_a_partition_that_does_not_exist(slurm, room, tmp_path):
    settings = [*FOUR, "hydra/launcher=slurm", "hydra.launcher.partition=nowhere"]
    done = sweep(tmp_path / "runs", *settings, inside=WITH_DAEMONS, environment=room)
    assert done.returncode == 1
    assert "tasks.run: slurm: " in done.stderr
    assert "invalid partition specified: nowhere" in done.stderr
    assert "Traceback" not in done.stderr
