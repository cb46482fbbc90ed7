"""How processes of a sweep end before their work is done: when asked to, and when the one that started them is gone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LOOKS_EVERY = 0.5  # seconds


class Terminated(KeyboardInterrupt):
    """SIGTERM: everything on the way treats it as Ctrl-C, so that locks are given back and other processes end too."""


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raises Terminated for SIGTERM in the block, unless somebody else, such as a cluster's agent, waits for it."""
    in_main_thread = threading.current_thread() is threading.main_thread()  # the only one that may set handlers
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_children() -> None:
    """Ends the worker processes of this one that are left, and waits until they are gone."""
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


def launcher_pid() -> int | None:
    """The process that this one is a worker of, on the same machine; None for one that stands alone."""
    parent = multiprocessing.parent_process()
    return None if parent is None else parent.pid


def end_with_launcher() -> None:
    """Sees to it that a worker does not outlive the process that started it, which kill -9 leaves no time to say so.

    It would train on for hours, unseen, with nobody to take its result. What it leaves is what a kill leaves. One that
    has not got its first run yet does not know of this, does nothing, and ends after joblib's five minutes.
    """
    launcher = launcher_pid()
    watching = any(thread.name == "launcher watch" for thread in threading.enumerate())
    if launcher is None or watching:
        return

    def end_if_alone() -> None:
        if os.getppid() != launcher:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch() -> None:
        while True:
            end_if_alone()
            time.sleep(LOOKS_EVERY)

    end_if_alone()  # before it begins with anything
    threading.Thread(target=watch, name="launcher watch", daemon=True).start()
