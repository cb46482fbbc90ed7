"""The command `python -m tasks.run`: trains and tests a model, or a sweep of models, and writes their records."""

import argparse
import atexit
import errno
import gc
import os
import sys
import textwrap
import traceback
from dataclasses import replace

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from elmo.common.config_errors import CONFIG_ERRORS, explain_plain
from elmo.common.device import is_out_of_memory
from elmo.common.errors import InputError, ending_with_reader, interrupts_kept, shortened
from elmo.common.files import CONF, print_lines
from elmo.common.processes import end_with_parent
from results.experiments import experiment_names
from results.records.record import RecordConflict, RecordUnreadable
from tasks.running.config import run_config
from tasks.running.experiment import Ended, run
from tasks.running.schema import add_config_dir, explain, group_options, use_config_dir
from tasks.sweeps import sweeper
from tasks.sweeps.launchers import Terminated, end_children, explain_launcher, explain_stop, sigterm_as_interrupt
from tasks.sweeps.sweeper import SuiteSweeper
from tasks.training.trainer import NonFiniteLoss, OutOfMemory

# Errors with a message that is meant for the user.
EXPLAINED = (InputError, RecordConflict, RecordUnreadable, NonFiniteLoss, OutOfMemory, OSError)
sweeper.register()

_said: set[str] = set()  # why runs of this command failed, as printed by this process

HELP = """\
python -m tasks.run [KEY=VALUE ...]      one run: train, select on dev, test once, write a record
python -m tasks.run -m KEY=A,B,C ...     one run for each combination (-m may be anywhere)
python -m tasks.run -m experiment=NAME   the runs of a table, or of your own PATH.toml:
{experiments}
                                         task=ner seed=1 selects some of them, other keys apply to all
                                         (python -m results.table --experiment NAME shows it)

  task={tasks}
  features=glove|elmo|elmo_random        the arm: baseline, baseline + ELMo, baseline + untrained biLM
           elmo_layer0|elmo_shuffled     more controls: no context; trained weights, permuted
           elmo_matched                  permuted weights, vectors of ELMo's length: only what was learned is missing
           elmo_isolated|elmo_window1|elmo_window3|elmo_permuted
                                         the context ladder: each word alone, with neighbours, in a permuted sentence
           static|elmo_static            baseline + vectors of the biLM's text (python -m tasks.word2vec); + ELMo
           word2vec|static_elmo          these vectors instead of GloVe; the same + ELMo
           bag_of_words                  below the baseline: logistic regression on words, no vectors
           drawn                         below the baseline: word vectors drawn at random
           flair|flair_elmo              baseline + states of character LMs; the same + ELMo
           lm|masked                     baseline + a language model of ours, any or masked (python -m elmo.pretrain)
           cove                          GloVe 840B + the encoder of a translation model
           taglm                         baseline + top layer of the biLM, between the layers of a tagger: task=ner
           transformer                   baseline + a frozen transformer: features.transformer.model=NAME|PATH
           features.elmo.tune=true       also train the biLM (for a transformer: features.transformer.tune=true)
  data=mini|paper|NAME                   shipped data, official files under data_dir, conf/data/NAME.yaml, or the task's
  data=PATH.yaml                         a dataset from a file; only the keys of a dataset, so it cannot run code
  seed=N  train_fraction=0.1             a share of the training examples, drawn by the seed
  fold=N                                 one fold of a dataset with folds; for all ten: -m 'fold=range(10)'
  limit=N                                the first N examples of each split, for a quick test
  device=auto|cpu|cuda  threads=N        where to run; CPU threads of torch
  keep_weights=true                      save the model, for python -m tasks.predict
  also=[btc,wnut17]  confidences=true    score it on further test sets, too; keep the probabilities of its predictions
  runs_dir=DIR  data_dir=DIR             where records go, where official files are (default: $ELMO_DATA or ./data)
  store.path=DIR  store.limit_gb=N       where frozen layers are stored (python -m elmo.store info)
  logger=wandb  logger.mode=offline      send curves to Weights & Biases, or to files for `wandb sync`
  logger=tensorboard                     the same for `tensorboard --logdir RUNS_DIR/.tensorboard`
  trainer.epochs=N  task.hidden=N  features.elmo.weights=NAME|PATH ...   any setting; --cfg job prints them all
  --plan                                 print runs, time, disk, downloads and what is missing; run nothing
  --keep-going                           start a sweep although some of its runs lack data or weights
  --config-dir DIR                       a folder with your configs, trusted like code: its YAML may call functions

Finished runs are skipped, killed runs continue from their last epoch, failed runs need retry=failed to run again.
Progress: python -m results.status. Results: python -m results.table
"""


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
            config = run_config(tree)
            ended = run(config, in_sweep, side_by_side)
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


def main() -> None:
    """Runs the command; the exit status is 1 if a run failed, now or before."""
    if any(argument in ("--help", "-h") for argument in sys.argv[1:]):
        experiments = textwrap.indent(textwrap.fill(", ".join(experiment_names()), 78), 41 * " ")
        with ending_with_reader():
            print_lines([HELP.format(tasks="|".join(group_options("task")), experiments=experiments)])
        return
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


if __name__ == "__main__":
    # Launchers send functions to other processes by module name, so the module must not be __main__.
    from tasks.run import main as imported_main

    imported_main()
