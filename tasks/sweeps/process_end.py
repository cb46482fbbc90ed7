"""Early end of the processes of a sweep: SIGTERM, and workers that are left."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import AbstractContextManager, suppress
from types import FrameType

from elmo.common.files import handling


class Terminated(KeyboardInterrupt):
    """SIGTERM as an exception: handled like Ctrl-C, so that locks are released and workers end."""


def sigterm_as_interrupt() -> AbstractContextManager[None]:
    """Raises Terminated for SIGTERM in the block, unless another handler, such as a cluster's, is set."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    return handling(signal.SIGTERM, stop, signal.SIG_DFL)


def end_children() -> None:
    """Kills the worker processes that are left, and waits until they have ended."""
    for child in multiprocessing.active_children():
        if child.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)  # joblib's processes have no working kill()
        child.join()
