"""The work of `python -m tasks.run`: Hydra, one run or a sweep, and why something failed, in a line."""

import argparse
import atexit
import errno
import gc
import os
import sys
import traceback
from dataclasses import replace

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from elmo.common.config_errors import CONFIG_ERRORS, explain_plain
from elmo.common.device import is_out_of_memory
from elmo.common.errors import InputError, ending_with_reader, interrupts_kept, shortened
from elmo.common.files import CONF
from elmo.common.processes import end_with_parent
from tasks.command_line import add_config_dir
from tasks.running.config import run_config
from tasks.running.experiment import Ended, run
from tasks.running.schema import explain, use_config_dir
from tasks.sweeps import sweeper
from tasks.sweeps.launchers import Terminated, end_children, explain_launcher, explain_stop, sigterm_as_interrupt
from tasks.sweeps.sweeper import SuiteSweeper
from tasks.training.trainer import NonFiniteLoss, OutOfMemory

# Errors with a message that is meant for the user.
EXPLAINED = (InputError, NonFiniteLoss, OutOfMemory, OSError)
sweeper.register()

_said: set[str] = set()  # why runs of this command failed, as printed by this process


@hydra.main(config_path=f"pkg://{CONF}", config_name="config", version_base="1.3")
def _hydra_main(tree: DictConfig) -> Ended:
    settings = HydraConfig.get()
    in_sweep = settings.mode is RunMode.MULTIRUN
    side_by_side = in_sweep and not settings.launcher._target_.endswith(".BasicLauncher")
    end_with_parent()
    try:
        with interrupts_kept():
            if not in_sweep and settings.sweeper.get("experiment"):
                raise InputError(
                    f"{' '.join(settings.overrides.task)}: expected -m, because an experiment has many runs. Use "
                    "python -m tasks.run -m and the same words; --plan adds what they need, and runs nothing"
                )
            ended = run(run_config(tree), in_sweep, side_by_side)
    except Exception as error:  # noqa: BLE001 (a failed run must not end the other runs of a sweep)
        reason = _explain_failure(error)
        if reason is None:
            traceback.print_exc()
        elif in_sweep and reason in _said:  # without data, all of its runs fail alike
            print(f"tasks.run: {' '.join(settings.overrides.task)}: failed with the same error", file=sys.stderr)
        else:
            print(f"tasks.run: {shortened(reason)}", file=sys.stderr)
            _said.add(reason)
        ended = Ended("failed", f"{type(error).__name__}: {error}")
    if ended.failed and not in_sweep:
        sys.exit(1)
    return replace(ended, model=None)  # launchers send it from process to process


def _explain_failure(error: Exception) -> str | None:
    """Why a run failed, in one or two lines; None for an error that needs its traceback."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error}. Free space, or use another disk: runs_dir=DIR for results, store.path=DIR for frozen layers"
    if isinstance(error, EXPLAINED):
        return str(error)
    if isinstance(error, CONFIG_ERRORS):  # of an interpolation, which is resolved late
        return explain(error)
    if is_out_of_memory(error):
        reason = str(error).partition("DefaultCPUAllocator: ")[2].splitlines()
        return f"{' '.join(reason[:1]) or 'out of memory'} Make the model smaller"
    return None


def run_command() -> None:
    """Runs the command; the exit status is 1 if a run failed, now or before."""
    _said.clear()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # let exceptions pass; they are explained here
    options = _hand_to_hydra()
    SuiteSweeper.plan, SuiteSweeper.keep_going, SuiteSweeper.launching = options.plan, options.keep_going, ""
    atexit.register(gc.freeze)  # Python would search all of torch for cycles at the end: 0.4 s
    try:
        with sigterm_as_interrupt(), ending_with_reader(), interrupts_kept():
            use_config_dir(options.config_dir)
            _hydra_main()
    except KeyboardInterrupt as stop:
        end_children()
        print(f"tasks.run: {explain_stop(SuiteSweeper.launching)}", file=sys.stderr)
        sys.exit(143 if isinstance(stop, Terminated) else 130)  # as shells do
    except Exception as error:
        explained = _explain_outside_runs(error)
        if explained is None:
            raise
        sys.exit(f"tasks.run: {shortened(explained)}")


def _explain_outside_runs(error: Exception) -> str | None:
    """Why the command failed outside of its runs; None for an error that needs its traceback."""
    if explained := explain_launcher(error):
        return explained
    if isinstance(error, CONFIG_ERRORS):
        return explain(error, typed=sys.argv[1:])
    if isinstance(error, InputError):  # in the file of an experiment, or the choice of cells
        return str(error)
    if isinstance(error, OSError):  # in the sweep's own folder
        return f"{error}. If the folder for results is not writable, use another runs_dir=DIR"
    return explain_plain(error, sys.argv[1:])


def _hand_to_hydra() -> argparse.Namespace:
    """Reads our own options, and -m, wherever they are; leaves the rest to Hydra's parser.

    A plan is that of a sweep, also of one run.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in (("--plan",), ("--keep-going",), ("--multirun", "-m")):
        parser.add_argument(*option, action="store_true")
    add_config_dir(parser)
    options, others = parser.parse_known_args(sys.argv[1:])
    sys.argv[1:] = ["--multirun"] * (options.multirun or options.plan) + others
    return options
