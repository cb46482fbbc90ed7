"""The environment of a run: versions, commit, device. Part of every record, never of its fingerprint."""

import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    *("torch", "numpy", "datasets", "pytorch-crf", "seqeval", "hydra-core", "h5py", "safetensors", "elmo-benchmark"),
)

# `git archive` writes the commit's hash here (.gitattributes says so); in a checkout the line stays as it is.
ARCHIVED = "$Format:%H$"

# Files that can change a score. Data and weights are hashed in the fingerprint; documents and records do not matter.
_CODE = ("*.py", "*.yaml", "*.toml")


@dataclass(frozen=True)
class Environment:
    """The machine and software of a run.

    Attributes:
        commit: None outside a checkout or archive.
        dirty: None outside a checkout.
        kernels: what computed recurrences, "C", "Triton" or "torch"; None in earlier records.
    """

    python: str
    packages: Mapping[str, str]
    device: str
    threads: int
    platform: str
    commit: str | None = None
    dirty: bool | None = None
    kernels: str | None = None


def describe_environment(
    device: str, threads: int, kernels: str | None = None, packages: Sequence[str] = PACKAGES
) -> Environment:
    """The environment of this process; packages that are not installed are left out, and none is imported."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and tables do not need it

    versions = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    machine = f"{platform.system()} {platform.machine()}"  # the kernel's build does not affect scores
    return Environment(platform.python_version(), versions, device, threads, machine, *commit_state(), kernels)


def commit_state(source: Path | None = None) -> tuple[str | None, bool | None]:
    """The commit of the checkout or `git archive` that this code runs from, and whether code or configuration differ.

    Both are None if it is neither, or git is missing; an archive does not know the second. Untracked code counts as
    dirty, because the commit alone does not reproduce its results.

    Args:
        source: A file of the checkout; by default this one.
    """
    source = source or Path(__file__).resolve()
    # An installed copy may be in a virtual environment inside another repository, whose commit is not ours.
    if _git(source.parent, "ls-files", "--error-unmatch", source.name) is None:
        return ARCHIVED if re.fullmatch(r"[0-9a-f]{40,64}", ARCHIVED) else None, None
    root = _git(source.parent, "rev-parse", "--show-toplevel")
    commit = _git(source.parent, "rev-parse", "HEAD")
    if root is None or commit is None:  # no commit yet
        return None, None
    return commit, bool(_git(Path(root), "status", "--porcelain", "--", *_CODE))


def known_commits(root: Path) -> frozenset[str] | None:
    """The commits of the checkout in this folder; None if it is no checkout, or a shallow one, which lacks most."""
    if not (root / ".git").exists() or _git(root, "rev-parse", "--is-shallow-repository") != "false":
        return None
    return frozenset((_git(root, "rev-list", "--all", "HEAD") or "").split())


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git, or None if it fails or is not installed."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
