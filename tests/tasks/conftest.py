"""Settings that every test of the benchmark shares."""

import os
import subprocess
import sys

import pytest
import torch

from tasks.run import main
from tests.tasks.user import make_place

os.environ["HF_HUB_OFFLINE"] = "1"  # read when `datasets` is first imported, in this process or in one it starts
os.environ.pop("ELMO_DATA", None)
os.environ.pop("ELMO_FLAIR", None)
os.environ.pop("HYDRA_FULL_ERROR", None)

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _quick(configs_are_composed_quickly):
    pass


@pytest.fixture(scope="session")
def unpacked(shared, tmp_path_factory):
    """Unpacks official files by the names of their datasets; returns the folder, as a user would lay it out."""
    tool = shared / "tools" / "unpack-data"
    if not tool.is_file():
        pytest.skip("needs shared/tools/unpack-data next to the checkout")

    def unpack(*names):
        folder = tmp_path_factory.mktemp("data")
        subprocess.run([str(tool), str(folder), *names], check=True, capture_output=True)
        return folder

    return unpack


@pytest.fixture(scope="session")
def official(unpacked):
    """A folder with the official NER files."""
    return unpacked("conll2003", "ner")


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A user's folder: data, a biLM, and YAML files that name them."""
    return make_place(tmp_path_factory.mktemp("user"))


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """The datasets library, with its cache and its locks in this test's folder."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    return datasets


@pytest.fixture
def command(monkeypatch, capsys):
    """python -m tasks.run in this process: the arguments in, exit status, stdout and stderr out."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["tasks.run", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as exit_:
            if isinstance(exit_.code, str):
                print(exit_.code, file=sys.stderr)
            code = exit_.code if isinstance(exit_.code, int) else 1
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    return call
