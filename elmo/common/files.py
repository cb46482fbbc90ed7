"""Files that appear whole or not at all, whatever happens while they are written; how paths and JSON are read."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from elmo.common.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to that takes the place of `path` at the end, and vanishes if anything goes wrong, Ctrl-C too.

    It lies in the same folder, since a rename is atomic only within one file system. A device is refused: a rename
    would put a file in the place of /dev/null for everybody, where the user may do that.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # a folder refuses by itself
        raise InputError(f"{path}: expected the path of a file to write, found a device or pipe. Name a file")
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        # A rename may reach the disk before the content does: after a loss of power the file would be there, and empty.
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with suppress(OSError):  # it may never have come into being; the first error is the one to tell
            partial.unlink()
        raise


def expanded(path: str | Path, setting: str) -> Path:
    """The path with ~ and ~user written out; `setting` is what an error calls it."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(f"{setting}={path}: expected a home folder, but {str(path).split('/')[0]} has none") from error


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401 (any JSON value)
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise json.JSONDecodeError("brackets are nested too deeply", "", 0) from error


def read_json(path: Path) -> Any:  # noqa: ANN401 (any JSON value)
    """The value in a JSON file that this package wrote."""
    try:
        return parse_json(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{path}: expected JSON, found: {error}. Delete its folder, and it is made again") from error


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Lets one process after the other into the block; the lock goes with its owner, however that ends.

    Args:
        path: a file for the lock alone; it is made, and stays, since removing it would let two in.
        waiting: called once if somebody else is inside.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Lets Ctrl-C take effect at the end of the block, for blocks that call h5py.

    Python raises KeyboardInterrupt wherever it happens to be. In h5py that is often a callback of a weak reference,
    where exceptions are printed and dropped: Ctrl-C would be lost.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()  # the only one that may set handlers
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed.is_set():
        raise KeyboardInterrupt


def require_space(folder: Path, need: float, purpose: str, remedy: str) -> None:
    """Raises an InputError if the disk of a folder has fewer than `need` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < need:
        raise InputError(f"{folder}: {purpose} needs about {need / 1e9:.2f} GB, {free / 1e9:.2f} GB are free; {remedy}")


@contextmanager
def explain_full_disk(message: str) -> Iterator[None]:
    """Raises an InputError with this message where the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InputError(message) from error
