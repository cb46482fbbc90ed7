"""The files of a sweep before its records: the list of its runs, and the lock of each run with its progress.

The lock is flock(2), by the filelock package: the kernel releases it when the process ends, also after kill -9. The
file's content is for people and for `python -m results.status`; a file that no process has locked means nothing.

Records are correct without locks: two runs of one identity write the same scores, each in one rename. So nothing is
wrong on a file system whose locks end at the machine, as NFS with local_lock, but machines may do a run twice there.
"""

import argparse
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from elmo.common.files import read_json, write_json
from results.records.identity import Identity
from results.records.printing import printable
from results.records.record import timestamp
from results.records.typed_json import decode

DEFAULT_RUNS = Path("results", "runs")  # of tasks.run, and of the commands that read runs
LOCK_NAME = "lock.json"
PATIENCE = 2.0  # seconds to wait for a lock: the workers of a killed sweep need a moment to end
_SWEEPS = ".sweep"  # below runs_dir


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Adds --runs: folders, after one option or several."""
    about = f"folders with runs, the runs_dir of tasks.run (default: {DEFAULT_RUNS})"
    parser.add_argument("--runs", metavar="DIR", nargs="+", action="extend", type=Path, default=[], help=about)


@dataclass(frozen=True)
class Owner:
    """The process that does a run, and how far it has got.

    Attributes:
        host: The machine's name.
        pid: The process.
        since: ISO 8601, UTC.
        seconds: The run time at the end of the last epoch.
        progress: That epoch and the best dev score so far, for people.
    """

    host: str
    pid: int
    since: str = ""
    seconds: float = 0.0
    progress: str = ""

    def __str__(self) -> str:
        return printable(f"host {self.host}, pid {self.pid}, since {self.since}")


class HeldLock:
    """A lock that this process holds."""

    def __init__(self, path: Path) -> None:
        self._path, self._started = path, time.monotonic()
        self._owner = Owner(socket.gethostname(), os.getpid(), timestamp())
        self._write()

    def progress(self, epoch: int, epochs: int, best: float | None = None) -> None:
        """Writes the progress of the run, for `python -m results.status`."""
        text = f"epoch {epoch} of {epochs}" + ("" if best is None else f", best dev {best:.2f}")
        self._owner = replace(self._owner, seconds=round(time.monotonic() - self._started, 1), progress=text)
        self._write()

    def _write(self) -> None:
        with suppress(OSError):  # a full disk must not end the run
            self._path.write_text(json.dumps(asdict(self._owner)), encoding="utf-8")  # in place: a new file has no lock


@contextmanager
def run_lock(folder: Path, patience: float = PATIENCE) -> Iterator[HeldLock | Owner]:
    """Holds the lock on a run's folder in the block; the block gets its owner instead if another process has it.

    Raises:
        OSError: The folder cannot be created or written to.
    """
    from filelock import FileLock, Timeout  # here and below: tables do not need it

    path = folder / LOCK_NAME
    lock = FileLock(path, timeout=patience)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        yield read_lock(path) or Owner("unknown", 0)
        return
    except OSError as error:
        expected = f"{folder}: expected a folder that this run can write its record to, found: {error}"
        raise OSError(f"{expected}; make it writable, or use another runs_dir=DIR") from error
    try:
        for left in folder.glob("*.partial"):  # by killed processes
            left.unlink(missing_ok=True)
        yield HeldLock(path)
    finally:
        path.unlink(missing_ok=True)  # before the release: who waits for this file tries again with a new one
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock on a file; also true if this process may not find out."""
    from filelock import FileLock

    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except OSError:  # Timeout is one
        return True
    lock.release()
    return False


def read_lock(path: Path) -> Owner | None:
    """The owner in a lock file, or None if there is no file; an unreadable file has an unknown owner."""
    try:
        return decode(Owner, read_json(path))
    except FileNotFoundError:
        return None
    except (ValueError, OSError):  # it may be in the middle of a rewrite
        return Owner("unknown", 0, since="unknown")


@dataclass(frozen=True)
class Manifest:
    """The list of a sweep's runs, written when it starts, so that missing runs can be shown.

    Attributes:
        name: The experiment's name, or one made from the command; the same command overwrites the file.
        command: The command line.
        runs: All runs in order.
        refused: Runs that can never start, such as a dataset with another task's reader, each with the reason.
        started_at: ISO 8601, UTC.
    """

    name: str
    command: str
    runs: Sequence[Identity]
    refused: Sequence[str] = field(default_factory=list)
    started_at: str = ""


def write_manifest(runs_dir: Path, manifest: Manifest) -> None:
    """Writes the list below the folder of records, in one rename."""
    write_json(runs_dir / _SWEEPS / f"{manifest.name.replace('/', '%2F')}.json", asdict(manifest))


def read_manifests(runs_dir: Path) -> tuple[list[Manifest], list[str]]:
    """All sweeps that were started with this folder, oldest first, and a line for each unreadable file."""
    manifests, problems = list[Manifest](), []
    for path in sorted((runs_dir / _SWEEPS).glob("*.json")):
        try:
            manifests.append(decode(Manifest, read_json(path)))
        except (ValueError, OSError) as error:
            expected = f"{path}: expected the list of a sweep's runs, found: {error}"
            problems.append(f"{expected}. Start the sweep again, or delete it")
    return sorted(manifests, key=lambda manifest: (manifest.started_at, manifest.name)), problems


def hydra_value(text: str) -> str:
    """A value in quotes if Hydra needs them, as for letters that are not ASCII; the shell's quotes are not included."""
    escaped = text.replace("'", r"\'")
    return text if re.fullmatch(r"[\w/+.%@: -]*", text, re.ASCII) else f"'{escaped}'"
