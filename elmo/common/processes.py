"""Processes: signals, file locks, the jobs of a pool, workers that end with their parent. Loads no torch."""

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
from typing import TypeVar

from filelock import FileLock, Timeout

from elmo.common.errors import InputError

POLL_SECONDS = 0.5
_THREAD_NAME = "parent watch"

Item = TypeVar("Item")
Result = TypeVar("Result")


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
def locked(path: Path, busy: str | Callable[[], None]) -> Iterator[None]:
    """Runs the block in one process at a time; a process that ends, however it ends, releases the lock.

    Args:
        path: a file for the lock alone. It is created and stays: removing it would let two processes in.
        busy: if another process is inside, called once before waiting for it; or the text of an InputError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        if isinstance(busy, str):
            raise InputError(busy) from error
        busy()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


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


def end_with_parent() -> None:
    """Makes a worker end by its parent alone; does nothing in a process that is not a worker.

    A worker ignores Ctrl-C, which the terminal sends to all processes: the parent ends its workers, and says so once.
    A parent that ends by kill -9 cannot end its workers, and they would compute for hours unseen, or wait forever: a
    worker kills itself as soon as its parent is gone.
    For workers that the parent starts directly: of one that is started by a fork server, that server is the parent.
    """
    parent = multiprocessing.parent_process()
    if parent is None or any(thread.name == _THREAD_NAME for thread in threading.enumerate()):
        return

    def watch() -> None:
        while os.getppid() == parent.pid:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, name=_THREAD_NAME, daemon=True).start()
