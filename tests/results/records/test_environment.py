"""The environment in a record: the commit of a checkout or an archive, and versions."""

import importlib.metadata
import os
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from results.records.environment import commit_state, describe_environment


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one committed source file; the user's own git settings stay out of it."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "code.py").write_text("x = 1\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "package/code.py")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "first")
    return tmp_path


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_clean_checkout(checkout):
    assert commit_state(checkout / "package" / "code.py") == (git(checkout, "rev-parse", "HEAD"), False)


@pytest.mark.parametrize(
    ("name", "dirty"),
    [("package/code.py", True), ("other/new.py", True), ("conf.yaml", True), ("notes.md", False), ("run.json", False)],
)
def test_dirty_means_code_or_configuration(checkout, name, dirty):
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("changed\n")
    assert commit_state(checkout / "package" / "code.py")[1] is dirty


def test_an_installed_copy_inside_another_repository_has_no_commit(checkout):
    copy = checkout / "venv" / "code.py"
    copy.parent.mkdir()
    copy.write_text("x = 1\n")
    assert commit_state(copy) == (None, None)


def test_no_checkout_and_no_git_give_none(tmp_path, checkout, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    outside = tmp_path.parent / "outside-of-any-checkout"
    outside.mkdir(exist_ok=True)
    (outside / "code.py").touch()
    assert commit_state(outside / "code.py") == (None, None)
    monkeypatch.setenv("PATH", "")
    assert commit_state(checkout / "package" / "code.py") == (None, None)


def test_code_from_an_archive_knows_its_commit(checkout):
    """The real file and the real .gitattributes, through `git archive`, run where there is no repository."""
    repository = Path(__file__).parents[3]
    (checkout / "results" / "records").mkdir(parents=True)
    for name in (
        ".gitattributes",
        "results/__init__.py",
        "results/records/__init__.py",
        "results/records/environment.py",
    ):
        (checkout / name).write_bytes((repository / name).read_bytes())
    git(checkout, "add", ".")
    git(checkout, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "second")
    git(checkout, "archive", "--output", "code.tar", "HEAD")
    outside = checkout.parent / "unpacked"
    with tarfile.open(checkout / "code.tar") as archive:
        archive.extractall(outside, filter="data")
    code = "from results.records.environment import commit_state as s; print(*s())"
    command = [sys.executable, "-c", code]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # may name another checkout
    environment["GIT_CEILING_DIRECTORIES"] = str(checkout.parent)
    done = subprocess.run(command, cwd=outside, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [git(checkout, "rev-parse", "HEAD"), "None"]


def test_the_environment_names_versions_and_leaves_out_what_is_absent():
    environment = describe_environment("cpu", 3, packages=("pytest", "surely-not-installed"))
    assert environment.packages == {"pytest": importlib.metadata.version("pytest")}
    assert environment.python == platform.python_version()
    assert (environment.device, environment.threads) == ("cpu", 3)
