"""Where a run took place: versions, commit, device. Kept in every record, never part of its fingerprint."""

import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "torch",
    "numpy",
    "datasets",
    "pytorch-crf",
    "seqeval",
    "hydra-core",
    "h5py",
    "safetensors",
    "elmo-benchmark",
)

# `git archive` writes the commit's hash here (.gitattributes says so); in a checkout the line stays as it is.
ARCHIVED = "$Format:%H$"

# What can change a score. Data and weights are hashed in the fingerprint; notes and published records change nothing.
_CODE = ("*.py", "*.yaml", "*.toml")


@dataclass(frozen=True)
class CommitState:
    """The commit that this code is of, and whether code or configuration differ from it; in an archive nobody knows."""

    commit: str
    dirty: bool | None


@dataclass(frozen=True)
class Environment:
    """The machine and software of a run; outside a checkout `dirty` is None, `commit` too but in a `git archive`."""

    python: str
    packages: Mapping[str, str]
    device: str
    threads: int
    platform: str
    commit: str | None = None
    dirty: bool | None = None


def describe_environment(device: str, threads: int, packages: Sequence[str] = PACKAGES) -> Environment:
    """The environment of this process; packages that are not installed are left out, none is imported."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and the table never needs it

    versions = {}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    state = commit_state()
    return Environment(
        python=platform.python_version(),
        packages=versions,
        device=device,
        threads=threads,
        platform=f"{platform.system()} {platform.machine()}",  # a kernel's build name says nothing about a score
        commit=state.commit if state else None,
        dirty=state.dirty if state else None,
    )


def commit_state(source: Path | None = None) -> CommitState | None:
    """The state of the checkout or `git archive` that this code runs from, or None where it is neither (or no git).

    Untracked code counts as dirty: a result that it took part in cannot be had from the commit.

    Args:
        source: A file of the checkout; this one unless told.
    """
    source = source or Path(__file__).resolve()
    # An installed copy may lie in a virtual environment inside another repository, whose commit says nothing about us.
    if _git(source.parent, "ls-files", "--error-unmatch", source.name) is None:
        return archived_state(ARCHIVED)
    root = _git(source.parent, "rev-parse", "--show-toplevel")
    commit = _git(source.parent, "rev-parse", "HEAD")
    if root is None or commit is None:  # no commit yet
        return None
    return CommitState(commit, dirty=bool(_git(Path(root), "status", "--porcelain", "--", *_CODE)))


def archived_state(written: str) -> CommitState | None:
    """The commit that `git archive` wrote into the code; None where the code came another way."""
    return CommitState(written, dirty=None) if re.fullmatch(r"[0-9a-f]{40,64}", written) else None


def full_commit(name: str, source: Path | None = None) -> str | None:
    """The whole hash of a commit of this checkout, from its beginning or a name; None where there is no such commit."""
    return _git((source or Path(__file__).resolve()).parent, "rev-parse", "--verify", f"{name}^{{commit}}")


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None when it refuses or is not installed."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
