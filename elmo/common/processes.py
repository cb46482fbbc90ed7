"""Processes: signals, file locks between them, the jobs of a pool, and workers that end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from filelock import FileLock, Timeout

from elmo.common.errors import InputError

POLL_SECONDS = 0.5
_THREAD_NAME = "parent watch"

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Delays Ctrl-C to the end of the block, for blocks that call h5py.

    Python raises KeyboardInterrupt wherever it happens to be. In h5py that is often a callback of a weak reference,
    where exceptions are printed and dropped: Ctrl-C would be lost.
    """
    pressed = threading.Event()
    with handling(signal.SIGINT, lambda *_: pressed.set(), signal.default_int_handler):
        yield
    if pressed.is_set():
        raise KeyboardInterrupt


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Blocks Ctrl-C while the block starts a worker, which inherits that; here it takes effect after the block.

    A worker loads packages before `end_with_parent` can make it ignore Ctrl-C, and would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def handling(
    number: signal.Signals,
    handler: Callable[[int, FrameType | None], object],
    default: Callable[[int, FrameType | None], object] | signal.Handlers,
) -> Iterator[None]:
    """Handles a signal in the block, unless the caller has replaced the default, or this is not the main thread."""
    in_main_thread = threading.current_thread() is threading.main_thread()  # the only one that may set handlers
    if not in_main_thread or signal.getsignal(number) is not default:
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, default)


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Runs the block in one process at a time; a process that ends, however it ends, releases the lock.

    Args:
        path: a file for the lock alone. It is created and stays: removing it would let two processes in.
        waiting: called once if another process is inside; it may raise instead of waiting.
    """
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def alone(path: Path, message: str) -> Iterator[None]:
    """Like `locked`, but raises an InputError with this message if another process is inside."""

    def refuse() -> None:
        raise InputError(message)

    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, refuse):
        yield


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ahead(pool: Executor, job: Callable[[Item], Result], items: Iterable[Item], most: int) -> Iterator[Result]:
    """Yields the job's result for each item, in order, with at most `most` jobs in flight."""
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            with interrupts_blocked():  # it may start a process
                waiting.append(pool.submit(job, item))
            if len(waiting) == most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def parent_pid() -> int | None:
    """The process that started this worker, on the same machine; None if this process is not a worker."""
    parent = multiprocessing.parent_process()
    return None if parent is None else parent.pid


def end_with_parent() -> None:
    """Makes a worker end by its parent alone; does nothing in a process that is not a worker.

    A worker ignores Ctrl-C, which the terminal sends to all processes: the parent ends its workers, and says so once.
    A parent that ends by kill -9 cannot end its workers, and they would compute for hours unseen, or wait forever: a
    worker kills itself as soon as its parent is gone.
    For workers that the parent starts directly: of one that is started by a fork server, that server is the parent.
    """
    parent = parent_pid()
    if parent is None or any(thread.name == _THREAD_NAME for thread in threading.enumerate()):
        return

    def end_if_orphan() -> None:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch() -> None:
        while True:
            end_if_orphan()
            time.sleep(POLL_SECONDS)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_if_orphan()  # before any work starts
    threading.Thread(target=watch, name=_THREAD_NAME, daemon=True).start()
