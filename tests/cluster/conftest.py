"""A sweep on this machine, to compare those on clusters with."""

import pytest

pytest.register_assert_rewrite("tests.cluster.sweeps")

from tests.cluster.sweeps import FOUR, sweep  # noqa: E402


@pytest.fixture(scope="session")
def one_by_one(tmp_path_factory):
    """Records of four runs, one after the other in one process."""
    runs = tmp_path_factory.mktemp("one-by-one")
    done = sweep(runs, *FOUR, "hydra/launcher=basic")
    assert done.returncode == 0, done.stderr
    return runs
