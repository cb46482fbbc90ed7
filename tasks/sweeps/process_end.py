"""How the processes of a sweep end: SIGTERM and Ctrl-C, workers still running, workers of an earlier sweep."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from contextlib import AbstractContextManager, suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from types import FrameType

from elmo.common.processes import handling, interrupts_blocked


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


def start_workers_quietly() -> None:
    """Makes joblib start its processes with Ctrl-C blocked, and end them without a traceback: it has no settings.

    Where joblib cannot list the children of a worker, it prints why and calls kill(), which its class lacks.
    """
    from joblib.externals.loky.backend.process import LokyProcess  # comes with the launcher

    resource_tracker.ensure_running()  # otherwise the first start does that, which unblocks Ctrl-C

    def start(process: BaseProcess) -> None:
        with interrupts_blocked():
            BaseProcess.start(process)

    def kill(process: BaseProcess) -> None:
        if process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    LokyProcess.start, LokyProcess.kill = start, kill
    warnings.filterwarnings("ignore", message="Failed to kill subprocesses on this platform")


def end_kept_workers() -> None:
    """Ends the processes that joblib keeps for its next use in this process.

    They have the folder and the environment in which they started, so a sweep must not use those of another one.
    """
    from joblib.externals.loky import get_reusable_executor  # comes with the launcher

    get_reusable_executor(reuse=True).shutdown(wait=True)
