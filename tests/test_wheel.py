"""The built wheel holds what it should, and its command runs from a folder that knows nothing of the checkout."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import h5py
import pytest

from elmo import random_bilm, save_bilm

pytestmark = pytest.mark.processes


def call(*command, **keywords):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **keywords)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def tracked(repository):
    """The files that a fresh clone would have."""
    if shutil.which("git") is None or not (repository / ".git").exists():
        pytest.skip("needs a git checkout")
    names = call("git", "ls-files", "-z", cwd=repository).split("\0")
    return [Path(name) for name in names if name and (repository / name).is_file()]


@pytest.fixture(scope="module")
def clone(repository, tracked, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone")
    for name in tracked:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, clone / name)
    return clone


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(clone))
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-compile", "--no-deps", "--target", str(target), str(wheel))
    return target


def pip(*arguments):
    call(sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check", "--no-index")


def test_contents(wheel, tracked):
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name) for name in archive.namelist()}
    house = [name for name in tracked if name.parts[0] in ("elmo", "tasks", "results")]
    code = {name for name in house if name.suffix in (".py", ".c", ".h")}
    settings = {"tasks" / name for name in tracked if name.parts[0] == "conf"}
    tables = {name for name in tracked if name.parent == Path("results/paper") and name.suffix == ".toml"}
    assert Path("elmo/embed/one_file.py") in code
    assert code | settings | tables <= names
    others = {name.parts[0] for name in names} - {"elmo", "tasks", "results"}
    assert all(name.endswith(".dist-info") for name in others), others
    assert not [name for name in names if name.parts[:2] in (("results", "runs"), ("results", "published"))]


def test_console_scripts(installed, repository):
    scripts = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert "elmo-embed" in scripts
    assert {path.name for path in (installed / "bin").iterdir()} == set(scripts)


def test_the_command_runs_from_another_folder(installed, tmp_path):
    save_bilm(random_bilm("tiny", seed=1), tmp_path / "model" / "weights.safetensors")
    (tmp_path / "in.txt").write_text("from another folder\n\nlast\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    where = "import elmo, results, tasks.conf; print(*(m.__file__ for m in (elmo, results, tasks.conf)))"
    modules = call(sys.executable, "-c", where, cwd=tmp_path, env=environment).split()
    assert [Path(path).relative_to(installed).parts[0] for path in modules] == ["elmo", "results", "tasks"]

    # As a module with weights of the user, and as a script with those in the wheel.
    for command, weights, dim in (
        (("-m", "elmo.embed"), "model", 16),
        ((installed / "bin" / "elmo-embed",), "small", 256),
    ):
        call(sys.executable, *command, "in.txt", "out.hdf5", "--weights", weights, cwd=tmp_path, env=environment)
        with h5py.File(tmp_path / "out.hdf5") as file:
            assert [file[name].shape for name in ("0", "1", "2")] == [(3, 3, dim), (3, 0, dim), (3, 1, dim)]
        (tmp_path / "out.hdf5").unlink()
    assert (installed / "elmo" / "pretrained" / "small-softmax" / "vocabulary.txt.gz").is_file()


def test_commands_find_their_configs_next_to_a_folder_conf_of_the_user(installed, tmp_path):
    """A folder of that name is where CONTRIBUTING puts a user's own."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "__init__.py").write_text("raise ImportError('not this one')\n")
    source = """
import sys
from elmo.pretrain.__main__ import main as pretrain
from tasks.run import main as run

sys.argv[1:] = ["task=sst5", "--cfg", "job"]
run()
sys.argv[1:] = ["size=tiny", "--cfg", "job"]
pretrain()
"""
    printed = call(sys.executable, "-c", source, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)})
    assert "tasks.sst5.Sst5" in printed
    assert "heldout_unit: document" in printed


def test_published_records_are_said_to_be_in_the_repository(installed, tmp_path):
    command = [sys.executable, str(installed / "bin" / "elmo-table"), "--published"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert f"--published: expected the suite's records in {installed / 'results' / 'published'}" in done.stderr
    assert "run the command in a clone" in done.stderr


def test_folders_of_the_user_do_not_hide_the_packages_of_an_editable_install(clone, tmp_path):
    """A task of CONTRIBUTING has its YAML in `conf`, and runs leave records in `results`."""
    build = f"import setuptools.build_meta as backend; print(backend.build_editable({str(tmp_path)!r}))"
    call(sys.executable, "-c", build, cwd=clone)
    site, mine = tmp_path / "site", tmp_path / "mine"
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    for name in ("conf", "results"):
        (mine / name).mkdir(parents=True)
    where = f"import site; site.addsitedir({str(site)!r}); import conf, results; print(conf.__file__, results.__file__)"
    environment = {**os.environ, "PYTHONPATH": ""}
    without_others = (sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, ''); {where}")
    found = call(*without_others, cwd=mine, env=environment).split()
    assert found == [str(clone / name / "__init__.py") for name in ("conf", "results")]
