"""Run locks: a file in the folder of a run, locked while the run is running, with its owner and progress.

The lock is flock(2), by the filelock package: the kernel releases it when the process ends, also after kill -9. The
file's content is for people and for `python -m results.status`; a file that no process has locked means nothing.

Records are correct without locks: two runs of one identity write the same scores, each in one rename. So nothing is
wrong on a file system whose locks end at the machine, as NFS with local_lock, but machines may do a run twice there.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from elmo.common.files import read_json
from results.records.printing import printable
from results.records.record import timestamp
from results.records.typed_json import decode

LOCK_NAME = "lock.json"
PATIENCE = 2.0  # seconds to wait for a lock: the workers of a killed sweep need a moment to end
LONGEST_TITLE = 200


@dataclass(frozen=True)
class Owner:
    """The process that does a run, and how far it has got.

    Attributes:
        host: The machine's name.
        pid: The process.
        title: The run's name.
        since: ISO 8601, UTC.
        seconds: The run time at the end of that epoch.
        epoch: The last finished epoch.
        epochs: The maximum; 0 before it is known.
        best: The best dev score so far, in percent.
    """

    host: str
    pid: int
    title: str = ""
    since: str = ""
    seconds: float = 0.0
    epoch: int = 0
    epochs: int = 0
    best: float | None = None

    def __str__(self) -> str:
        return printable(f"host {self.host}, pid {self.pid}, since {self.since}")


class HeldLock:
    """A lock that this process holds."""

    def __init__(self, path: Path, owner: Owner) -> None:
        self._path, self._owner, self._started = path, owner, time.monotonic()
        self._write()

    def progress(self, epoch: int, epochs: int, best: float | None = None) -> None:
        """Writes the progress of the run, for `python -m results.status`."""
        seconds = round(time.monotonic() - self._started, 1)
        self._owner = replace(self._owner, seconds=seconds, epoch=epoch, epochs=epochs, best=best)
        self._write()

    def _write(self) -> None:
        with suppress(OSError):  # a full disk must not end the run
            self._path.write_text(json.dumps(asdict(self._owner)), encoding="utf-8")  # in place: a new file has no lock


@contextmanager
def run_lock(folder: Path, title: str = "", patience: float = PATIENCE) -> Iterator[HeldLock | Owner]:
    """Holds the lock on a run's folder in the block; the block gets its owner instead if another process has it.

    Raises:
        OSError: The folder cannot be written to.
    """
    path = folder / LOCK_NAME
    lock = FileLock(path, timeout=patience)
    try:
        lock.acquire()
    except Timeout:
        yield read_lock(path) or Owner("unknown", 0)
        return
    try:
        for left in folder.glob("*.partial"):  # by killed processes
            left.unlink(missing_ok=True)
        yield HeldLock(path, Owner(socket.gethostname(), os.getpid(), title[:LONGEST_TITLE], timestamp()))
    finally:
        path.unlink(missing_ok=True)  # before the release: who waits for this file tries again with a new one
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock on a file; also true if this process may not find out."""
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
        owner: Owner = decode(Owner, read_json(path))
    except FileNotFoundError:
        return None
    except (ValueError, OSError):  # it may be in the middle of a rewrite
        return Owner("unknown", 0, since="unknown")
    return owner
