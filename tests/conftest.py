"""What every test may use: one thread a process, a layer store of its own, and the shared folder if it is there."""

import gc
import os
import subprocess
from functools import cache
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest

os.environ.pop("COLUMNS", None)  # the width of tables, where there is no terminal
os.unsetenv("COLUMNS")  # set by readline, which pytest imports, where os.environ does not see it
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports torch; the commands that tests start inherit it

gc.set_threshold(50_000, 20, 100)  # the default looks through all that torch and the records keep, again and again

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def store_of_the_tests(tmp_path_factory):
    """A store and a cache for this session, also for the commands that tests start: never the user's own."""
    os.environ["ELMO_STORE"] = str(tmp_path_factory.mktemp("layers"))
    os.environ["ELMO_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def configs_are_composed_quickly():
    from tests.composing import composing_quickly

    with composing_quickly():
        yield


@pytest.fixture(scope="session")
def published_files_are_read_once():
    """Tests make many tables from the published records and their scores, which do not change meanwhile."""
    published = f"{REPOSITORY / 'results' / 'published'}{os.sep}"

    def once(read):
        kept = cache(read)
        return lambda path, *more: (kept if str(path).startswith(published) else read)(path, *more)

    collect = import_module("results.records.collect")
    readers = {name: once(getattr(collect, name)) for name in ("read_record", "read_examples")}
    with patch.multiple(collect, **readers):
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """Data and references next to the checkout; none of them belongs to the project, so they may be absent."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the folder shared/ next to the checkout")
    return folder


@pytest.fixture(scope="session")
def reference(shared: Path) -> Path:
    """A tiny biLM of bilm-tf with the embeddings that its TensorFlow code computed."""
    folder = shared / "reference" / "bilm-tf"
    if not folder.is_dir():
        pytest.skip("needs shared/reference/bilm-tf next to the checkout")
    return folder


@pytest.fixture
def called(capsys):
    """Calls the `main` of a command: exit status, output and errors, as if it had a process of its own."""

    def call(main, *arguments):
        capsys.readouterr()
        try:
            status = main([*map(str, arguments)])
        except SystemExit as end:
            status = end.code
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return call
