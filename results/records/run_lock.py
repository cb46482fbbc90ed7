"""Locks: one file beside the record while a run is under way, which expires with its owner.

`take` creates it, or says who holds it. Of an owner on this machine the process is looked up, so that a lock is free
the moment its owner is dead, also after kill -9. Of an owner elsewhere, on a folder that machines share, only the
heartbeat can be seen: the owner rewrites the file every few seconds.

Clocks decide nothing. The heartbeat's age is measured against a file that is written beside it, both by the clock of
whoever keeps the files; and before a silent lock is taken over it is watched, for longer than a heartbeat takes.

No lock is needed for a record to be right: two runs of one identity would write the same scores, each in one rename.
"""

import contextlib
import errno
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from results.records.printing import printable
from results.records.typed_json import decode, read_json

LOCK_NAME = "lock.json"
HEARTBEAT = 10.0  # seconds between signs of life
SILENCE = 60.0  # seconds without one after which an owner elsewhere is looked at twice
_WATCHED = 3  # heartbeats that a silent lock is watched for before it is taken over
_DOOMED = 15.0  # seconds that are given to a process whose launcher is gone, which ends by itself
LONGEST_TITLE = 200
_SIZE = 2048  # bytes of a lock file: always the same, so that it can be rewritten in place
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same number.

    Attributes:
        pid: Its number.
        born: When the kernel started it, in the kernel's own count; None where that cannot be read.
        machine: Where numbers of processes mean the same: this boot of this machine, and this container on it.
    """

    pid: int
    born: str | None
    machine: str

    @classmethod
    def of(cls, pid: int) -> "Process":
        """The process that has this number now."""
        return cls(pid, _birth_and_state(pid)[0], _machine())

    def alive(self) -> bool | None:
        """Whether it still exists; None if it cannot be seen from here."""
        if self.machine != _machine():
            return None
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):  # OverflowError: no process has such a number
            return False
        except PermissionError:
            pass  # another user's
        born, state = _birth_and_state(self.pid)
        # A zombie has ended, and only its parent has not asked how.
        return state not in ("Z", "X") and (self.born is None or born == self.born)


@dataclass(frozen=True)
class Owner:
    """What a lock file says.

    Attributes:
        token: Of this lock and no other.
        host: The machine's name, for people.
        process: Who does the run.
        launcher: Whom `process` will not outlive: the sweep that it is part of, if it runs on the same machine.
        title: What is locked, for people.
        since: ISO 8601, UTC.
        seconds: How long the run has taken so far, by a clock that cannot go backwards.
        epoch: The last epoch that is over.
        epochs: How many there may be; 0 before it is known.
    """

    token: str
    host: str
    process: Process
    launcher: Process | None = None
    title: str = ""
    since: str = ""
    seconds: float = 0.0
    epoch: int = 0
    epochs: int = 0

    def __str__(self) -> str:
        return printable(f"host {self.host}, pid {self.process.pid}, since {self.since}")


class Lock:
    """A lock that is held; leaving the `with` block gives it back.

    While it is held a thread rewrites the file, in place and through the open file: should another machine have taken
    it over all the same, the thread writes to a file without a name, and disturbs nobody.
    """

    def __init__(self, path: Path, owner: Owner, heartbeat: float = HEARTBEAT) -> None:
        self._path = path
        self._owner = owner
        self._heartbeat = heartbeat
        self._started = time.monotonic()
        self._ending = threading.Event()
        self._writing = threading.Lock()
        self._descriptor = os.open(path, os.O_RDWR)
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> "Lock":
        _sweep_up(self._path.parent)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        if self.held():
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def held(self) -> bool:
        """Whether the file is still this lock's: another machine takes over from one that was silent for long."""
        try:
            return self._path.stat().st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return False

    def progress(self, epoch: int, epochs: int) -> None:
        """Writes down how far the run is, for those who ask (python -m results.status)."""
        self._owner = replace(self._owner, epoch=epoch, epochs=epochs)
        self._write()

    def _beat(self) -> None:
        while not self._ending.wait(self._heartbeat):
            self._write()

    def _write(self) -> None:
        with self._writing, contextlib.suppress(OSError):  # a full disk must not end the run for want of a sign of life
            seconds = round(time.monotonic() - self._started, 1)
            os.pwrite(self._descriptor, _text(replace(self._owner, seconds=seconds)), 0)
            os.fsync(self._descriptor)  # so that other machines see it


def take(folder: Path, title: str = "", launcher: Process | None = None, heartbeat: float = HEARTBEAT) -> Lock | Owner:
    """The lock on a run's folder, or the owner who has it.

    Taking over is creating a file whose name holds the dead lock's token, which only one can do; who did it moves it
    over the dead lock.

    Raises:
        OSError: The folder cannot be written to.
    """
    path = folder / LOCK_NAME
    while True:
        holder = _end_of_chain(path)
        with _new(folder, title, launcher) as (mine, draft):
            if holder is None:
                if _create(draft, path):
                    return Lock(path, mine, heartbeat)
                continue
            at, owner = holder
            if not _dead(at, owner, draft, heartbeat):
                return owner
            claim = _successor(path, owner)
            if not _create(draft, claim):
                continue  # somebody was faster
            end = _end_of_chain(path)
            if end is None or end[1].token != mine.token:
                claim.unlink(missing_ok=True)  # the dead lock was gone before the claim to it was made
                continue
            claim.replace(path)
            return Lock(path, mine, heartbeat)


def read_lock(path: Path) -> Owner | None:
    """What a lock file says, or None where there is none; one that cannot be understood has an unknown owner."""
    for _ in range(3):  # it may be read in the middle of being rewritten
        try:
            owner: Owner = decode(Owner, read_json(path))
        except FileNotFoundError:
            return None
        except (ValueError, OSError):
            time.sleep(0.01)
        else:
            return owner
    return Owner(f"unknown-{path.name}", host="unknown", process=Process(0, None, "unknown"), since="unknown")


def silence(path: Path) -> float:
    """Seconds since the lock was last rewritten, by this machine's clock: good enough to show, not to act on.

    Raises:
        FileNotFoundError: It is gone.
    """
    return time.time() - path.stat().st_mtime


def _dead(path: Path, owner: Owner, draft: Path, heartbeat: float) -> bool:
    """Whether the owner of a lock is gone; for one that cannot be seen from here this may take half a minute."""
    alive = owner.process.alive()
    if alive and owner.launcher is not None and owner.launcher.alive() is False:
        deadline = time.monotonic() + _DOOMED
        while alive and time.monotonic() < deadline:
            time.sleep(0.05)
            alive = owner.process.alive()
    if alive is not None:
        return not alive
    now, before = _modified(draft), _modified(path)
    if now is None or before is None:
        return True  # one of them is gone already, which whoever claims the lock will find out
    if abs(now - before) <= SILENCE * 1e9:
        return False
    # Long ago, or in the future: the owner is dead, or the clock was moved. A live one will show itself.
    deadline = time.monotonic() + _WATCHED * heartbeat
    while time.monotonic() < deadline:
        time.sleep(min(heartbeat / 4, 1.0))
        if _modified(path) != before:
            return False
    return True


def _end_of_chain(path: Path) -> tuple[Path, Owner] | None:
    """The lock that counts: the file itself, or whoever was about to take it over when it was killed, and so on."""
    owner = read_lock(path)
    if owner is None:
        return None
    while (successor := read_lock(_successor(path, owner))) is not None:
        path, owner = _successor(path, owner), successor
    return path, owner


def _successor(path: Path, owner: Owner) -> Path:
    return path.with_name(f"{LOCK_NAME}.{owner.token}")


@contextlib.contextmanager
def _new(folder: Path, title: str, launcher: Process | None) -> Iterator[tuple[Owner, Path]]:
    """A lock of this process's, in a file that has no meaning yet, and vanishes if it gets none."""
    mine = Owner(
        token=secrets.token_hex(8),
        host=socket.gethostname(),
        process=Process.of(os.getpid()),
        launcher=launcher,
        title=title[:LONGEST_TITLE],
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    draft = folder / f"{LOCK_NAME}.{os.getpid()}-{mine.token}.partial"
    try:
        with open(draft, "xb") as file:
            file.write(_text(mine))
            file.flush()
            os.fsync(file.fileno())
        yield mine, draft
    finally:
        draft.unlink(missing_ok=True)


def _create(draft: Path, path: Path) -> bool:
    """Gives the draft's content this name, whole and at once; False if the name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        # A file server that answers too late is asked again, and then finds what it did itself.
        with contextlib.suppress(FileNotFoundError):
            return path.samefile(draft)
        return False
    except FileNotFoundError:
        return False  # who holds the lock has swept up our draft
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _create_without_links(draft, path)
    return True


def _create_without_links(draft: Path, path: Path) -> bool:
    """The same, but a kill right here would leave an empty lock, which is free only when it has been silent."""
    try:
        with open(draft, "rb") as source, open(path, "xb") as file:
            file.write(source.read())
    except (FileExistsError, FileNotFoundError):
        return False
    return True


def _sweep_up(folder: Path) -> None:
    """Removes what killed processes were about to write; only who holds the lock may do that."""
    for pattern in ("*.partial", f"{LOCK_NAME}.*"):
        for left in folder.glob(pattern):
            left.unlink(missing_ok=True)


def _modified(path: Path) -> int | None:
    """When the file was last written, in nanoseconds; opened, since file servers let old answers stand until then."""
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return None


def _text(owner: Owner) -> bytes:
    content: Mapping[str, object] = asdict(owner)
    return (json.dumps(content).ljust(_SIZE - 1) + "\n").encode()


def _birth_and_state(pid: int) -> tuple[str | None, str | None]:
    """When a process was started and its state's letter, from Linux's /proc; elsewhere neither."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return fields[19], fields[0]


def _machine() -> str:
    """Where a number names one process: this machine, its boot, and the container, as far as they can be told apart."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)
