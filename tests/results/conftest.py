"""An experiment of a test module's own, and published files that are read once."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _quick(published_files_are_read_once):
    pass


@pytest.fixture
def own(request, tmp_path):
    """The file of the experiment that the test module has as OWN."""
    path = tmp_path / "mine.toml"
    path.write_text(request.module.OWN, encoding="utf-8")
    return path
