"""Launchers of other packages: how their processes start and end, and what their errors mean."""

import multiprocessing
import os
import re
import signal
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from types import FrameType

from elmo.common.processes import interrupts_blocked

# The extra that installs each launcher of another package, by Hydra's name for it.
LAUNCHER_EXTRAS = {"joblib": "joblib", "submitit_local": "slurm", "submitit_slurm": "slurm", "ray": "ray"}
CONTINUE = "Runs that have ended have their records; the same command continues with the others"

# conf/hydra/launcher/ray.yaml replaces the plugin's config of the same name, and Hydra warns about that.
warnings.filterwarnings("ignore", message=r"\s*'hydra/launcher/ray' is validated against ConfigStore schema")


class Terminated(KeyboardInterrupt):
    """SIGTERM as an exception: handled like Ctrl-C, so that locks are released and workers end."""


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raises Terminated for SIGTERM in the block, unless another handler, such as a cluster's, is set."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    in_main_thread = threading.current_thread() is threading.main_thread()  # the only one that may set handlers
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_children() -> None:
    """Kills the worker processes that are left, and waits until they have ended."""
    for child in multiprocessing.active_children():
        _kill(child)
        child.join()


def _kill(process: BaseProcess) -> None:
    """Ends a process; those of joblib have no working kill()."""
    if process.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def start_workers_quietly() -> None:
    """Makes joblib start its processes with Ctrl-C blocked, and end them without a traceback: it has no settings.

    Where joblib cannot list the children of a worker, it prints why and calls kill(), which its class lacks.
    """
    from joblib.externals.loky.backend.process import LokyProcess  # comes with the launcher

    resource_tracker.ensure_running()  # otherwise the first start does that, which unblocks Ctrl-C

    def start(process: BaseProcess) -> None:
        with interrupts_blocked():
            BaseProcess.start(process)

    LokyProcess.start, LokyProcess.kill = start, _kill
    warnings.filterwarnings("ignore", message="Failed to kill subprocesses on this platform")


def end_kept_workers() -> None:
    """Ends the processes that joblib keeps for its next use in this process.

    They have the folder and the environment in which they started, so a sweep must not use those of another one.
    """
    from joblib.externals.loky import get_reusable_executor  # comes with the launcher

    get_reusable_executor(reuse=True).shutdown(wait=True)


def explain_launcher(error: Exception) -> str | None:
    """The fault and the remedy; None for an error that has nothing to do with a launcher."""
    missing = _missing(error)
    if missing is not None:
        extra = LAUNCHER_EXTRAS[missing]
        pins = " -c constraints-ray.txt" if extra == "ray" else ""
        alone = ", in an environment of its own: that file explains why" if pins else ""
        return (
            f"the launcher {missing} is not installed: in the checkout, pip install{pins} -e "
            f"'.[{extra}]'{alone}. Without it, hydra/launcher=basic does one run after the other"
        )
    if isinstance(error, BrokenProcessPool):
        return (
            "processes were killed in the middle of their runs again and again, as happens when memory runs out. "
            "The same command continues with what is left; hydra.launcher.n_jobs=N sets how many run in parallel"
        )
    reason = f"{type(error).__name__}: {str(error).strip()}"
    package = type(error).__module__.partition(".")[0]
    if package == "submitit":
        return f"slurm: {reason}\n{CONTINUE}. squeue lists what is still queued or running"
    if package == "ray" or (isinstance(error, ConnectionError) and "Ray" in reason):
        return f"ray: {reason}\n{CONTINUE}"
    if isinstance(error, ValueError) and "n_jobs == 0" in reason:
        return "hydra.launcher.n_jobs: expected a number of runs at once, or -1 for one a core, found 0"
    if isinstance(error, RuntimeError) and "are you indeed on a slurm cluster" in reason:
        return "slurm: there is no srun on this machine. For parallel runs on one machine: hydra/launcher=cores"
    return None


def explain_stop(launcher: str) -> str:
    """A sentence on what Ctrl-C has stopped, by the class of the launcher, and what to do next."""
    if launcher.endswith(".SlurmLauncher"):
        return (
            "stopped waiting; SLURM still runs what is in its queue. python -m results.status shows them, "
            "scancel ends them, and the same command does what is then left"
        )
    return "stopped; the same command continues from here"


def _missing(error: Exception) -> str | None:
    """Hydra's name for the launcher that is not installed, if the error is about that."""
    group, _, launcher = (getattr(error, "missing_cfg_file", None) or "").rpartition("/")
    if group == "hydra/launcher" and launcher in LAUNCHER_EXTRAS:
        return launcher
    plugin = re.search(r"Unknown plugin class : 'hydra_plugins\.hydra_(\w+)_launcher\.", str(error))
    return plugin[1] if plugin and plugin[1] in LAUNCHER_EXTRAS else None
