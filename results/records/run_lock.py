"""Run locks: a file next to the record while a run is running, with its owner, a heartbeat and an expiry.

`take` creates the file, or returns the owner who holds it. If the owner is on this machine, its process is looked up: a
lock is free as soon as its owner is dead, also after kill -9. If the owner is on another machine that shares the
folder, only the heartbeat is visible: the owner rewrites the file every few seconds.

Clocks of different machines are never compared. The age of a heartbeat is measured against a file written next to it,
both by the file server's clock. Before a silent lock is taken over it is watched for several heartbeats.

Records are correct without locks: two runs of one identity write the same scores, each in one rename. Locks only save
the time of doing a run twice.

Why not the `filelock` package: its FileLock is flock(2), which the kernel releases when a process dies. That would
replace the process lookup and the takeover, about a third of this file, but only where flock works across machines. On
several shared file systems (NFS with local_lock, Lustre without -o flock, many FUSE mounts) it is local to a machine
or does nothing, silently: each machine would do every run. Its SoftFileLock has no heartbeat, so the lock of a machine
that crashed would never expire. And either needs a second file with owner and progress for `python -m results.status`,
which cannot test a flock without taking it from a run that is about to start. So this module stays.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType

from elmo.common.files import read_json
from results.records.printing import printable
from results.records.record import timestamp
from results.records.typed_json import decode

LOCK_NAME = "lock.json"
HEARTBEAT = 10.0  # seconds between two writes
SILENCE = 60.0  # seconds without a heartbeat after which an owner on another machine may be dead
_WATCHED = 3  # heartbeats; how long a silent lock is watched before it is taken over
_DOOMED = 15.0  # seconds to wait for a process to end after its launcher has ended
_SETTLING = 5.0  # seconds to wait until a claim to a dead lock has become the lock or is withdrawn
LONGEST_TITLE = 200
_SIZE = 2048  # bytes of a lock file: constant, so that it can be rewritten in place
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True)
class Process:
    """A process, distinguishable from a later one with the same pid.

    Attributes:
        pid: Its number.
        born: Its start time in kernel ticks; None where /proc is missing.
        machine: The scope of pids: host, boot and container.
    """

    pid: int
    born: str | None
    machine: str

    @classmethod
    def of(cls, pid: int) -> "Process":
        """The process that has this pid now."""
        return cls(pid, _birth_and_state(pid)[0], _machine())

    def alive(self) -> bool | None:
        """Whether it still exists; None if it is on another machine."""
        if self.machine != _machine():
            return None
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):  # OverflowError: no valid pid
            return False
        except PermissionError:
            pass  # it exists and belongs to another user
        born, state = _birth_and_state(self.pid)
        # A zombie has ended; its parent has not yet read its exit status.
        return state not in ("Z", "X") and (self.born is None or born == self.born)


@dataclass(frozen=True)
class Owner:
    """The content of a lock file.

    Attributes:
        token: A unique name of this lock.
        host: The machine's name, for display.
        process: The process that does the run.
        launcher: The sweep's process, if it is on the same machine; `process` ends when it ends.
        title: The run's name, for display.
        since: ISO 8601, UTC.
        seconds: The run time so far, by a monotonic clock.
        epoch: The last finished epoch.
        epochs: The maximum; 0 before it is known.
        best: The best dev score so far, in percent.
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
    best: float | None = None

    def __str__(self) -> str:
        return printable(f"host {self.host}, pid {self.process.pid}, since {self.since}")


class Lock:
    """A held lock; leaving the `with` block releases it.

    While it is held, a thread rewrites the file in place through the open descriptor. If another machine has taken the
    lock over, the thread writes to a file that no longer has a name, which does no harm.
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
        _remove_leftovers(self._path.parent)
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
        """Whether the lock is still held: another machine takes over a lock that was silent for long."""
        try:
            return self._path.stat().st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return False

    def progress(self, epoch: int, epochs: int, best: float | None = None) -> None:
        """Writes the progress of the run to the lock file, for `python -m results.status`."""
        self._owner = replace(self._owner, epoch=epoch, epochs=epochs, best=best)
        self._write()

    def _beat(self) -> None:
        while not self._ending.wait(self._heartbeat):
            self._write()

    def _write(self) -> None:
        with self._writing, contextlib.suppress(OSError):  # a full disk must not end the run
            seconds = round(time.monotonic() - self._started, 1)
            os.pwrite(self._descriptor, _text(replace(self._owner, seconds=seconds)), 0)
            os.fsync(self._descriptor)  # so that other machines see it


def take(folder: Path, title: str = "", launcher: Process | None = None, heartbeat: float = HEARTBEAT) -> Lock | Owner:
    """The lock on a run's folder, or the owner who holds it.

    To take over a dead lock, a process creates a file whose name contains the dead lock's token, which only one process
    can do, and renames it to the lock's name.

    Raises:
        OSError: The folder cannot be written to.
    """
    path = folder / LOCK_NAME
    settled = time.monotonic() + _SETTLING
    while True:
        holder = _end_of_chain(path)
        with _new(folder, title, launcher) as (mine, draft):
            if holder is None:
                if _create(draft, path):
                    return Lock(path, mine, heartbeat)
                continue
            at, owner = holder
            if not _dead(at, owner, draft, heartbeat):
                if at == path or time.monotonic() > settled:
                    return owner
                time.sleep(0.01)
                continue
            claim = _successor(path, owner)
            if not _create(draft, claim):
                continue  # another process was faster
            end = _end_of_chain(path)
            if end is None or end[1].token != mine.token:
                claim.unlink(missing_ok=True)  # the dead lock was gone before we claimed it
                continue
            claim.replace(path)
            return Lock(path, mine, heartbeat)


def read_lock(path: Path) -> Owner | None:
    """The owner in a lock file, or None if there is no file; an unreadable file has an unknown owner."""
    for _ in range(3):  # it may be in the middle of a rewrite
        try:
            owner: Owner = decode(Owner, read_json(path))
            if re.fullmatch(r"[0-9A-Za-z_-]{1,64}", owner.token):  # it becomes part of a file's name
                return owner
        except FileNotFoundError:
            if not path.is_symlink():  # one that leads nowhere is in the way of a lock
                return None
        except (ValueError, OSError):
            pass
        time.sleep(0.01)
    return Owner(f"unknown-{path.name}", host="unknown", process=Process(0, None, "unknown"), since="unknown")


def silence(path: Path) -> float:
    """Seconds since the last heartbeat by this machine's clock: for display only, since clocks differ.

    Raises:
        FileNotFoundError: There is no such lock.
    """
    return time.time() - path.stat().st_mtime


def _dead(path: Path, owner: Owner, draft: Path, heartbeat: float) -> bool:
    """Whether the owner of a lock is dead; for an owner on another machine this may take half a minute."""
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
        return True  # one of the files is gone; claiming the lock will show whether it is free
    if abs(now - before) <= SILENCE * 1e9:
        return False
    # Long ago or in the future: the owner is dead, or a clock was changed. A live owner will write again.
    deadline = time.monotonic() + _WATCHED * heartbeat
    while time.monotonic() < deadline:
        time.sleep(min(heartbeat / 4, 1.0))
        if _modified(path) != before:
            return False
    return True


def _end_of_chain(path: Path) -> tuple[Path, Owner] | None:
    """The valid lock: the file itself, or the last claim to it of a process that was killed while taking over."""
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
    """A new lock of this process in a draft file, which is removed at the end."""
    mine = Owner(
        token=secrets.token_hex(8),
        host=socket.gethostname(),
        process=Process.of(os.getpid()),
        launcher=launcher,
        title=title[:LONGEST_TITLE],
        since=timestamp(),
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
    """Creates `path` with the draft's content in one step; False if it exists."""
    try:
        os.link(draft, path)
    except FileExistsError:
        # A request repeated after a timeout finds the link that the first one made.
        with contextlib.suppress(FileNotFoundError):
            return path.samefile(draft)
        return False
    except FileNotFoundError:
        return False  # the lock's holder has removed our draft
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _create_without_links(draft, path)
    return True


def _create_without_links(draft: Path, path: Path) -> bool:
    """The same without hard links. A kill in between leaves an empty lock, which expires only by its silence."""
    try:
        with open(draft, "rb") as source, open(path, "xb") as file:
            file.write(source.read())
    except (FileExistsError, FileNotFoundError):
        return False
    return True


def _remove_leftovers(folder: Path) -> None:
    """Removes unfinished files of killed processes; only the lock's holder may do that."""
    for left in [*folder.glob("*.partial"), *folder.glob(f"{LOCK_NAME}.*")]:
        left.unlink(missing_ok=True)


def _modified(path: Path) -> int | None:
    """The modification time in nanoseconds; the file is opened because NFS clients cache attributes until then."""
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return None


def _text(owner: Owner) -> bytes:
    return (json.dumps(asdict(owner)).ljust(_SIZE - 1) + "\n").encode()


def _birth_and_state(pid: int) -> tuple[str | None, str | None]:
    """The start time and the state letter of a process, from Linux's /proc; (None, None) elsewhere."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, None
    fields = stat.rpartition(")")[2].split()  # the process name before it may contain spaces and brackets
    return fields[19], fields[0]


def _machine() -> str:
    """The scope in which a pid is unique: host, boot and container, as far as they are known."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)
