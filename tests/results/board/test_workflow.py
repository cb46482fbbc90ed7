"""The workflow of pull requests that add bundles: it takes these files alone and runs the base's code."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
BUNDLES = "results/board/bundles"


@pytest.fixture
def step():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "board.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    checkout, *_, last = workflow["jobs"]["verify"]["steps"]
    assert checkout["with"]["ref"] == "${{ github.event.pull_request.base.sha }}"
    return last["run"]


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize(("name", "status"), [("mine.tar.gz", 0), ("bad.tar.gz", 1)])
def test_only_added_bundles_are_taken_and_verified(tmp_path, step, name, status):
    base, fork, checkout = tmp_path / "base", tmp_path / "fork", tmp_path / "checkout"
    (base / BUNDLES).mkdir(parents=True)
    python = base / ".venv" / "bin" / "python"  # stands for that of `make setup`
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "base: $*"; cat "$3"; case "$3" in *bad*) exit 1;; esac\n')
    python.chmod(0o755)
    (base / BUNDLES / "ours.tar.gz").write_text("ours\n")
    git(tmp_path, "init", "-q", "-b", "main", str(base))
    git(base, "add", "-A")
    git(base, "commit", "-q", "-m", "base")
    git(tmp_path, "clone", "-q", str(base), str(fork))
    (fork / ".venv" / "bin" / "python").write_text("#!/bin/sh\necho code of a stranger\n")
    (fork / "results" / "verify.py").write_text("print('code of a stranger')\n")
    (fork / BUNDLES / "notes.txt").write_text("no bundle\n")
    (fork / BUNDLES / name).write_text("added\n")
    git(fork, "add", "-A")
    git(fork, "commit", "-q", "-m", "stranger")
    git(base, "fetch", "-q", str(fork), "HEAD:refs/pull/7/head")
    git(tmp_path, "clone", "-q", str(base), str(checkout))
    found = {**os.environ, "NUMBER": "7", "FOUND": str(tmp_path / "found")}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step], cwd=checkout, env=found, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    assert done.stdout == f"base: -m results.verify {tmp_path}/found/{name}\nadded\n"
    assert "stranger" not in git(checkout, "log", "--all", "--format=%s"), "its commits would count as known ones"
