"""Early end of the processes of a sweep: SIGTERM, and workers that are left."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
