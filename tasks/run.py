"""python -m tasks.run: one run of the benchmark, from a config to a record: build, fit, test once, write it down."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from elmo.common.device import own_device
from elmo.common.errors import InputError
from elmo.common.processes import end_with_parent, parent_pid
from elmo.common.progress import Reporter
from results.records.record import (
    EXAMPLES_NAME,
    Mix,
    RecordConflict,
    RecordUnreadable,
    RunError,
    RunRecord,
    decide,
    describe_environment,
    prepare_folder,
    read_record,
    timestamp,
    write_examples,
    write_record,
)
from results.records.run_lock import Lock, Owner, Process, take
from tasks.data.datasets import Loaded
from tasks.features.frozen_layers import StoreUnusable
from tasks.features.token_features import TokenFeatures
from tasks.interface import ScorersDisagree, Scores, Split
from tasks.modules.seeding import initialise
from tasks.running.config import RunConfig, explain, group_options, run_config
from tasks.running.loggers import make_logger
from tasks.running.plan import Plan
from tasks.running.saved_model import save_weights
from tasks.sweeps.callback import Ended, RunFailed, Sweep
from tasks.sweeps.launcher_errors import explain_launcher, explain_stop
from tasks.sweeps.process_end import Terminated, end_children, sigterm_as_interrupt
from tasks.training.peak_memory import forget_peak, peak_mb
from tasks.training.trainer import FitState, NonFiniteLoss, OutOfMemory, TaskModel, Trainer

WEIGHTS_NAME = "weights.pt"
LEAST_COVERAGE = 0.5  # share of a split's words with a pretrained vector, below which a run warns
MOST_BREAKS = 3  # how often in a row a sweep goes on after a killed process before any of its runs has ended

HELP = """\
python -m tasks.run [KEY=VALUE ...]      one run: train, select on dev, test once, write a record
python -m tasks.run -m KEY=A,B,C ...     one run for each combination

  task={tasks}
  features=glove|elmo|elmo_random        the arm: baseline, baseline + ELMo, baseline + untrained biLM
           word2vec                      baseline with vectors of the biLM's own text (python -m tasks.word2vec)
  data=mini|paper|NAME                   shipped data, official files under data_dir, or a conf/data/NAME.yaml
  data=PATH.yaml                         a dataset from a file; only the keys of a dataset, so it cannot run code
  seed=N  train_fraction=0.1             a share of the training examples, drawn by the seed
  limit=N                                the first N examples of each split, for a quick look
  device=auto|cpu|cuda  threads=N        keep_weights=true keeps the best weights beside the record
  runs_dir=DIR  data_dir=DIR             where records go, where official files are (default: $ELMO_DATA or ./data)
  store.path=DIR  store.limit_gb=N       where frozen layers are kept between runs (python -m elmo.store info)
  logger=wandb  logger.mode=offline      streams curves to Weights & Biases, or to files for `wandb sync`
  trainer.epochs=N  task.hidden=N  features.elmo.weights=NAME|PATH ...   any setting; --cfg job prints them all
  --config-dir DIR                       a folder of your own configs, trusted like code: what its YAML names is run

A finished run is skipped, a killed one goes on from its last epoch, one that failed is run again with retry=failed.
Meanwhile: python -m results.status. Then: python -m results.table
"""


@dataclass
class Outcome:
    """What a run has found out so far; whatever is here when it fails still goes into its record."""

    data: dict[str, Any] = field(default_factory=dict)
    fit: FitState = field(default_factory=FitState)
    epochs_here: set[int] = field(default_factory=set)  # the others were trained by processes that were stopped
    dev: Scores = field(default_factory=Scores)
    test: Scores = field(default_factory=Scores)
    mixes: dict[str, Mix] = field(default_factory=dict)
    coverage: dict[str, dict[str, int]] = field(default_factory=dict)


def run(config: RunConfig, in_sweep: bool = False, side_by_side: bool = False) -> Ended:
    """Does one run and writes its record; what comes out says how it ended.

    Args:
        config: the run.
        in_sweep: leave the line on how it ended to the sweep, and print none but warnings before.
        side_by_side: other runs may be printing too.

    Raises:
        RunFailed: it failed before under the same settings, and `retry` does not ask for another try.
    """
    torch.set_num_threads(config.threads)
    device = own_device(config.device)
    plan = Plan.of(config)
    reporter = Reporter(plan.title, brief=in_sweep, bars=not side_by_side)
    done = decide(plan.path, plan.hashed)
    if (done == "skip" and not plan.left_behind) or (done == "failed" and not config.retry_failed):
        return _ended_before(plan, done, reporter)
    prepare_folder(plan.path)
    launcher = parent_pid()
    lock = take(plan.path.parent, plan.title, None if launcher is None else Process.of(launcher))
    if isinstance(lock, Owner):
        if done == "skip":  # it is just about to end
            return _ended_before(plan, done, reporter)
        reporter.warn(f"is running elsewhere: {lock}")
        return Ended("elsewhere", plan.title, "")
    with lock:
        done = decide(plan.path, plan.hashed)  # somebody may have done it between the first look and the lock
        if done == "skip" or (done == "failed" and not config.retry_failed):
            plan.checkpoint.unlink(missing_ok=True)  # of a process that was killed when all was written
            return _ended_before(plan, done, reporter)
        return _carry_out(plan, lock, device, reporter)


def _ended_before(plan: Plan, done: Literal["run", "skip", "failed"], reporter: Reporter) -> Ended:
    """Says that the run was done by an earlier command, or raises RunFailed where that has failed."""
    if done == "skip":
        if plan.config.keep_weights and not plan.path.with_name(WEIGHTS_NAME).exists():
            reporter.warn(
                f"is done already, and kept no weights: {plan.path}. To have them, run it again with another "
                f"runs_dir=DIR, or delete {plan.path.parent} first"
            )
        else:
            reporter.say(f"is done already: {plan.path}")
        return Ended("skipped", plan.title, "")
    error = read_record(plan.path).error
    reporter.warn(f"failed before, and runs again with retry=failed: {error.last_line if error else ''}  {plan.path}")
    raise RunFailed(before=True)


def _carry_out(plan: Plan, lock: Lock, device: torch.device, reporter: Reporter) -> Ended:
    """Trains, tests and writes the record, of a failure too."""
    config, path, task = plan.config, plan.path, plan.config.task
    outcome = Outcome()
    forget_peak(device)
    started_at, started = timestamp(), time.perf_counter()

    def record(error: Exception | None = None) -> RunRecord:
        before = sum(epoch["seconds"] for epoch in outcome.fit.curve if epoch["epoch"] not in outcome.epochs_here)
        return RunRecord(
            status="failed" if error else "finished",
            identity=plan.identity,
            fingerprinted=plan.parts,
            config=config.resolved,
            metric=task.metric,
            scores={"dev": outcome.dev.values, "test": outcome.test.values},
            details=outcome.test.details,
            data=outcome.data,
            weights=_weights_note(config, plan.parts),
            coverage=outcome.coverage or None,
            mixes=outcome.mixes,
            epochs=outcome.fit.curve,
            seconds=round(before + time.perf_counter() - started, 3),
            peak_memory_mb=peak_mb(device),
            environment=describe_environment(_device_name(device), config.threads),
            started_at=started_at,
            finished_at=timestamp(),
            error=RunError.of(error) if error else None,
        )

    def on_epoch(state: FitState) -> None:
        outcome.epochs_here.add(state.epoch)
        lock.progress(state.epoch, config.trainer.epochs)
        logger.epoch(state.curve[-1])

    lock.progress(0, config.trainer.epochs)
    with make_logger(config.logger, plan.logged, reporter) as logger:
        try:
            model = experiment(plan, device, reporter, outcome, on_epoch)
            if config.keep_weights:
                save_weights(path.with_name(WEIGHTS_NAME), model, config)
            write_examples(path.with_name(EXAMPLES_NAME), plan.fingerprint, outcome.test.examples)
        except StoreUnusable:
            raise  # no failed record: the same run would succeed with another store
        except Exception as error:
            failed = record(error)
            write_record(path, failed)  # whatever it was, the table shows it
            reporter.warn(f"failed, see {path}")
            logger.final(failed.summary())
            raise
        finished = record()
        write_record(path, finished)
        plan.checkpoint.unlink(missing_ok=True)
        logger.final(finished.summary())
    dev, test = finished.scores["dev"][task.metric], finished.scores["test"][task.metric]
    text = f"{task.metric}: dev {dev:.2f}, test {test:.2f}  {finished.seconds:.0f} s"
    reporter.say(f"{text}  {path}")
    return Ended("finished", plan.title, text)


def experiment(
    plan: Plan, device: torch.device, reporter: Reporter, outcome: Outcome, on_epoch: Callable[[FitState], None]
) -> TaskModel:
    """The experiment itself, on one screen: the trained model; `outcome` is filled in as things become known."""
    config, task = plan.config, plan.config.task

    def load(split: Split) -> Loaded[Any]:
        loaded = plan.source.load(task, split)
        outcome.data[split] = {**loaded.counts, **task.notes(loaded.examples), "warnings": loaded.warnings}
        for warning in loaded.warnings:
            reporter.warn(f"warning: {warning}")
        return loaded

    def sentences(examples: list[Any]) -> list[tuple[str, ...]]:
        return list(chain.from_iterable(map(task.texts, examples)))

    train, dev = load("train").examples, load("dev").examples
    task.learn_labels(train)
    features = TokenFeatures(config.features, sentences(train), config.seed, config.store)
    head = task.build_head(features.input_dim, features.output_dim)
    initialise(head, config.seed, "head")
    model = TaskModel(features, head).to(device)
    trained = sum(parameter.numel() for parameter in model.trained().values())
    frozen = sum(parameter.numel() for parameter in model.parameters()) - trained
    reporter.say(
        f"{len(train):,} + {len(dev):,} examples; {trained:,} parameters to train, {frozen:,} frozen; {device}"
    )

    def meet(splits: dict[str, list[Any]]) -> None:
        texts = {split: sentences(examples) for split, examples in splits.items()}
        left_out = features.meet(chain.from_iterable(texts.values()), reporter)
        if left_out:
            reporter.warn(f"{left_out:,} sentences find no room; their layers are computed in every epoch")
        for split, text in texts.items():
            if covered := features.coverage(text):
                outcome.coverage[split] = covered
                if covered["with_vector"] < LEAST_COVERAGE * covered["words"]:
                    share = "of {words:,} words {with_vector:,} have a pretrained vector".format(**covered)
                    reporter.warn(f"warning: {split}: {share}; are these vectors of the data's language?")

    meet({"train": train, "dev": dev})
    trainer = Trainer(task, config.trainer, config.seed, device, reporter)
    trainer.fit(model, train, dev, plan.checkpoint, plan.fingerprint, outcome.fit, on_epoch)
    outcome.dev = Scores(outcome.fit.best_values)
    if features.elmo is not None:
        outcome.mixes = {place: Mix(mix["layers"], mix["gamma"]) for place, mix in features.elmo.weights().items()}  # type: ignore[arg-type]

    test = load("test").examples  # read once, when nothing is left to choose
    meet({"test": test})
    outcome.test = trainer.test(model, test)
    return model


def _weights_note(config: RunConfig, parts: dict[str, Any]) -> dict[str, object] | None:
    elmo = config.features.elmo
    if elmo is None:
        return None
    name = config.resolved["features"]["elmo"]["weights"]
    return {"name": name, "untrained": elmo.untrained, "sha256": parts["weights"], "state": "zero"}


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


@hydra.main(config_path="pkg://conf", config_name="config", version_base="1.3")
def _hydra_main(tree: DictConfig) -> Ended:
    settings = HydraConfig.get()
    in_sweep = settings.mode is RunMode.MULTIRUN
    side_by_side = in_sweep and not settings.launcher._target_.endswith(".BasicLauncher")
    end_with_parent()
    try:
        return run(run_config(tree), in_sweep, side_by_side)
    except (
        InputError,
        RecordConflict,
        RecordUnreadable,
        NonFiniteLoss,
        OutOfMemory,
        ScorersDisagree,
        OSError,
    ) as error:
        print(f"tasks.run: {error}", file=sys.stderr)
        raise RunFailed from error
    except (HydraException, OmegaConfBaseException) as error:  # of an interpolation, which is resolved only now
        print(f"tasks.run: {explain(error)}", file=sys.stderr)
        raise RunFailed from error
    except RunFailed:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):  # torch has no type for the latter
            reason = str(error).partition("DefaultCPUAllocator: ")[2].splitlines()
            print(f"tasks.run: {' '.join(reason[:1]) or 'out of memory'} Make the model smaller", file=sys.stderr)
            raise RunFailed from error
        # Told here: not every exception survives the way to the process that started a sweep, and one that does not
        # would end the other runs.
        traceback.print_exc()
        raise RunFailed from error


def main() -> None:
    """Runs the command; the exit status is 1 if anything failed, now or before."""
    if any(argument in ("--help", "-h") for argument in sys.argv[1:]):
        print(HELP.format(tasks="|".join(group_options("task"))))
        return
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # exceptions as they are; they are explained here
    try:
        with sigterm_as_interrupt():
            _until_unbroken()
    except RunFailed:
        sys.exit(1)
    except KeyboardInterrupt as stop:
        end_children()
        print(f"tasks.run: {explain_stop(Sweep.latest.launcher if Sweep.latest else '')}", file=sys.stderr)
        sys.exit(143 if isinstance(stop, Terminated) else 130)  # as a shell would say it
    except (HydraException, OmegaConfBaseException) as error:
        sys.exit(f"tasks.run: {explain_launcher(error) or explain(error)}")
    except AssertionError as error:
        if "Unexpected type for root: NoneType" not in str(error):  # Hydra's, for a key below one that is null
            raise
        sys.exit("tasks.run: a setting reaches into a part that is null here, as features.elmo.* with features=glove")
    except Exception as error:
        explained = explain_launcher(error)
        if explained is None and "Config group override must be" in str(error):  # Hydra's, for task=null
            explained = "a group of settings cannot be null, as in task=null; name one of its choices, as in task=ner"
        if explained is None and isinstance(error, OSError):  # of the sweep's own folder; a run tells its own
            explained = f"{error}. If the folder for results is not writable, use another runs_dir=DIR"
        if explained is None:
            raise
        sys.exit(f"tasks.run: {explained}")


def _until_unbroken() -> None:
    """Runs the command, and again with what is left of it when one of its processes was killed from outside.

    Joblib gives up the whole pool when that happens. Its runs go on from their checkpoints.
    """
    breaks = 0
    while True:
        try:
            _hydra_main()
            return
        except BrokenProcessPool:
            end_children()  # before they can be taken for somebody who is at work on a run
            breaks = 1 if Sweep.latest is not None and Sweep.latest.runs_ended() else breaks + 1
            if breaks >= MOST_BREAKS:
                raise
            print("tasks.run: a process was killed in the middle of its run; the sweep goes on", file=sys.stderr)


if __name__ == "__main__":
    # Launchers send functions to other processes by the name of their module, which __main__ is not.
    from tasks.run import main as imported_main

    imported_main()
