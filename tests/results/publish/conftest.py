"""A repository with nothing published, and runs to publish."""

import pytest

from tests.results.publish.finished_runs import README, save_run


@pytest.fixture
def root(tmp_path):
    """A repository with nothing published yet."""
    (tmp_path / "root" / "results" / "published").mkdir(parents=True)
    (tmp_path / "root" / "README.md").write_text(README)
    return tmp_path / "root"


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    for seed, (glove, elmo) in enumerate([(50, 60), (52, 63)], start=1):
        save_run(folder, glove, task="sst5", features="glove", seed=seed)
        save_run(folder, elmo, task="sst5", features="elmo", seed=seed)
    return folder
