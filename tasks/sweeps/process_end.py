"""Early end of the processes of a sweep: SIGTERM, and workers that are left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM as an exception: handled like Ctrl-C, so that locks are released and workers end."""


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raises Terminated for SIGTERM in the block, unless another handler, such as a cluster's, is set."""
    in_main_thread = threading.current_thread() is threading.main_thread()  # only this thread may set handlers
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
    """Kills the worker processes that are left, and waits until they have ended."""
    for child in multiprocessing.active_children():
        if child.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)  # joblib's processes have no working kill()
        child.join()
