"""Training loop: `train(...)` trains a model to the end of its budget, from the last checkpoint of the run's folder.

The batch of a step, its negatives and its dropout are functions of the seed and the step, so a killed and resumed run
takes the same steps as an uninterrupted one. On a CPU, with a budget in steps or tokens, the weights are bit-equal. A
GPU may sum in another order, and a budget in minutes depends on the clock.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import TaskProgressColumn
from torch import distributed

from elmo.common.errors import InputError
from elmo.common.files import read_own_json, replacing, require_space, write_json
from elmo.common.processes import ahead
from elmo.common.progress import print_line, progress_bar
from elmo.common.tensor_files import check_tensors, naming, read_tensors, write_tensors
from elmo.pretrain.batches import Batcher, BatchPlan, Text
from elmo.pretrain.corpus.token_store import Sentences, require
from elmo.pretrain.language_model import LanguageModel, Stepper, Upload
from elmo.pretrain.objective import OBJECTIVES, Measured, Objective
from elmo.pretrain.settings import Settings, Training

PREPARED = 16  # steps prepared ahead
PREPARERS = 3  # threads that prepare them
REMEDY = "Try a lower training.learning_rate or clip_norm, or a longer training.warmup, in another out=DIR"


LONGEST_WAIT = timedelta(days=7)  # the first process may build a store of a large text


@dataclass(frozen=True)
class Workers:
    """The rank of this process, the number of processes, and the group in which they wait for each other."""

    rank: int = 0
    world: int = 1
    waiting: distributed.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def sum(self, tensor: torch.Tensor) -> None:
        """Sums a tensor over all processes, in place."""
        if self.world > 1:
            distributed.all_reduce(tensor)

    def agree(self, value: float) -> float:
        """The value of the first process: clocks differ, and all must stop at the same step."""
        if self.world == 1:
            return value
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        shared = torch.tensor([value], dtype=torch.float64, device=device)
        distributed.broadcast(shared, src=0)
        return float(shared)

    def wait(self) -> None:
        """Waits for all processes, as long as it takes: torchrun ends them all when one of them fails."""
        if self.world > 1:
            distributed.barrier(self.waiting)


ALONE = Workers()


@contextmanager
def started(cuda: bool) -> Iterator[Workers]:
    """The processes that torchrun started, or a single one."""
    if "LOCAL_RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        # A group of its own: gradients keep torch's limit of minutes, after which a process that hangs is reported.
        waiting = distributed.new_group(timeout=LONGEST_WAIT, backend="gloo")
        yield Workers(distributed.get_rank(), distributed.get_world_size(), waiting)
    finally:
        distributed.destroy_process_group()


def learning_rate(training: Training, progress: float) -> float:
    """The learning rate at a fraction of the budget: it rises over the warm-up, then falls along a cosine."""
    if progress < training.warmup:
        return training.learning_rate * max(progress / training.warmup, 0.01)
    fall = min((progress - training.warmup) / (1 - training.warmup), 1.0)
    share = training.final_rate + (1 - training.final_rate) * (1 + math.cos(math.pi * fall)) / 2
    return training.learning_rate * share


def precision(name: str, device: torch.device) -> torch.dtype:
    """The type of all products: bfloat16 or float32; "auto" is the former on a GPU."""
    if name == "auto":
        name = "bfloat16" if device.type == "cuda" else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def optimiser_of(model: LanguageModel, training: Training) -> torch.optim.Optimizer:
    """Adam over all parameters."""
    fused = model.core.device.type == "cuda"
    return torch.optim.Adam(model.parameters(), lr=training.learning_rate, betas=(0.9, training.beta2), fused=fused)


def train(
    model: LanguageModel,
    train_text: Text,
    heldout: Text | None,
    settings: Settings,
    folder: RunFolder,
    console: Console,
    workers: Workers = ALONE,
    watch: Callable[[CurveRow], None] | None = None,
) -> Position:
    """Trains a model to the end of its budget and leaves a checkpoint of the end in the run's folder.

    Args:
        model: on its device; the folder's checkpoint, if any, replaces its weights.
        train_text: to train on.
        heldout: for the objective's measure during training; None or no sentence measures nothing.
        settings: of the run.
        folder: of the run.
        console: for progress.
        workers: the processes of a parallel run.
        watch: called with every row of the curve, on the first process.
    """
    training, budget, seed = settings.training, settings.budget, settings.seed
    objective = OBJECTIVES[settings.objective]
    device = model.core.device
    dtype = precision(training.precision, device)
    optimiser = optimiser_of(model, training)
    position = folder.load(model, optimiser)
    if workers.first:
        folder.keep_curve_until(position.step)
    plan = BatchPlan(train_text.sentences, training.batch_tokens * workers.world, seed, objective.batcher.marks)
    shared = plan, train_text.spelling, train_text.n_targets, workers.rank, workers.world
    batcher = objective.batcher(*shared, seed=seed, chosen=settings.masked.chosen)
    captures = training.compile and device.type == "cuda"
    if captures:
        batcher = replace(batcher, profile=batcher.common_profile())
    stepper = Stepper(
        model,
        train_text.spelling,
        training.negatives,
        training.dropout,
        dtype,
        captured=batcher.profile,
        # Shares of parallel processes are rounded up to whole sentences.
        rows=batcher.most_predictions(training.batch_tokens + 256 * (workers.world > 1)),
    )

    def spent() -> float:
        share = budget.progress(position.step, position.tokens, position.seconds)
        return share if budget.minutes is None else workers.agree(share)  # clocks differ

    progress = spent()
    if captures and progress < 1:
        _warm_up(stepper, batcher, console)
    sample = _sample(heldout, training.evaluate_sentences) if heldout and len(heldout.sentences) else None
    losses = torch.zeros(training.log_every, device=device)
    intervals = training.log_every, training.evaluate_every, training.checkpoint_every
    began, logged = time.monotonic() - position.seconds, replace(position)
    bar = progress_bar(console, TaskProgressColumn())
    bar.add_task("training", total=1.0)
    with closing(_prepared(batcher, seed, position.step, pin=device.type == "cuda")) as uploads, bar:
        while progress < 1:
            rate = learning_rate(training, progress)
            for group in optimiser.param_groups:
                group["lr"] = rate
            torch.manual_seed(_mixed(seed, position.step, workers.rank))
            upload = next(uploads)
            stepper(upload)
            workers.sum(stepper.gradient)
            _clip(stepper.gradient, training.clip_norm)
            optimiser.step()
            losses[position.step % training.log_every] = stepper.loss
            position.step += 1
            position.tokens += upload.tokens
            position.seconds = time.monotonic() - began
            progress = spent()
            if progress >= 1 or any(_due(every, position.step) for every in intervals):
                workers.sum(losses)
                n = position.step - logged.step
                recent = losses.roll(-(position.step % training.log_every))[-n:].tolist()  # waits for the device
                losses.zero_()
                position.seconds = time.monotonic() - began
                progress = spent()
                last = progress >= 1
                _check(recent, position, rate)
                evaluates = sample is not None and (last or _due(training.evaluate_every, position.step))
                measured = objective.measure(model, sample, dtype) if sample is not None and evaluates else None
                check_finite(objective, measured, f"held-out text at step {position.step}")
                saves = last or _due(training.checkpoint_every, position.step)
                if saves:
                    _check_weights(model, position)
                if workers.first:
                    row = {
                        "step": position.step,
                        "tokens": position.tokens,
                        "seconds": position.seconds,
                        "loss": sum(recent) / n,
                        "learning_rate": rate,
                        "tokens_per_second": (position.tokens - logged.tokens)
                        / max(position.seconds - logged.seconds, 1e-9),
                        **{name: measured[name] if measured else None for name in objective.columns},
                    }
                    folder.log(row)
                    state = f"step {row['step']:,}  loss {row['loss']:.3f}  {row['tokens_per_second']:,.0f} tokens/s"
                    bar.update(bar.task_ids[0], completed=progress, description=state)
                    if measured or last:
                        held = f"  held-out {objective.brief(measured)}" if measured else ""
                        done = f"{100 * min(progress, 1):5.1f} %  {state}  {position.seconds:,.0f} s{held}"
                        print_line(console, done)
                    if watch is not None:
                        watch(row)
                    if saves:
                        folder.save(model, optimiser, position)
                logged = replace(position)
    return position


def _prepared(batcher: Batcher, seed: int, first: int, pin: bool) -> Generator[Upload, None, None]:
    """Yields the batches from a step on, prepared ahead by threads."""

    def prepare(step: int) -> Upload:
        offset = float(np.random.default_rng((seed, 1, step)).random())
        return Upload.of(batcher(step), offset, pin)

    with ThreadPoolExecutor(PREPARERS) as pool:
        yield from ahead(pool, prepare, count(first), PREPARED)


def _warm_up(stepper: Stepper, batcher: Batcher, console: Console) -> None:
    """Compiles and captures frequent shapes before the clock starts; the weights do not change."""
    began = time.monotonic()
    wanted = set(batcher.plan.steps[:40])
    for step in range(min(len(batcher.plan), 400)):
        steps, _, _ = batcher.plan.batch(step)
        if steps in wanted:
            upload = Upload.of(batcher(step), 0.5, pin=False)
            if upload.profile == batcher.profile:
                stepper(upload)
                wanted.remove(steps)
    torch.cuda.synchronize()
    print_line(console, f"compiled and captured in {time.monotonic() - began:.0f} s")


def _mixed(seed: int, step: int, rank: int) -> int:
    """One random seed from all three."""
    return int(np.random.SeedSequence((seed, 2, step, rank)).generate_state(1, np.uint64)[0] >> 1)


def _clip(gradient: torch.Tensor, bound: float) -> None:
    """Scales a gradient down to a maximal norm without waiting for the device."""
    gradient.mul_((bound / (gradient.norm() + 1e-6)).clamp(max=1.0))


def _sample(text: Text, n: int) -> Text:
    """The first n sentences of a text."""
    offsets = text.sentences.offsets[: n + 1]
    return replace(text, sentences=Sentences(text.sentences.tokens[: offsets[-1]], offsets))


def _due(every: int, step: int) -> bool:
    return every > 0 and step % every == 0


def _check(losses: list[float], position: Position, rate: float) -> None:
    bad = next((i for i, loss in enumerate(losses) if not math.isfinite(loss)), None)
    if bad is not None:
        step = position.step - len(losses) + bad
        earlier = ", ".join(f"{loss:.3f}" for loss in losses[max(0, bad - 5) : bad]) or "none since the last check"
        raise InputError(
            f"the loss is {losses[bad]} at step {step} (learning rate {rate:.2g}; losses before it: {earlier}). "
            f"The last checkpoint is from before that step. {REMEDY}"
        )


def _check_weights(model: LanguageModel, position: Position) -> None:
    """Rejects NaN and infinite weights: a step can produce them although its loss is finite."""
    bad = next((name for name, item in model.named_parameters() if not item.isfinite().all()), None)
    if bad is not None:
        raise InputError(
            f"{bad} has NaN or infinite values after step {position.step}; no checkpoint of them is written. {REMEDY}"
        )


def check_finite(objective: Objective, measured: Measured | None, of: str) -> None:
    """Rejects a held-out value that is NaN or infinite."""
    for value in (measured[name] for name in objective.columns if measured):
        if not math.isfinite(value):
            raise InputError(f"the {objective.kind} of {of} is {value}. {REMEDY}")


CurveRow = Mapping[str, float | None]
"""A line of the learning curve: step, tokens (words and ends of sentences read), seconds of training over all
resumptions, loss (the mean since the previous line, in nats; with sampled negatives it is below a full softmax's),
learning_rate, tokens_per_second (since the previous line), and the objective's columns on held-out text, None if not
measured at this step."""


@dataclass
class Position:
    """Progress of a run."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Over the whole run, including held-out perplexity."""
        return self.tokens / max(self.seconds, 1e-9)


class RunFolder:
    """Files of one run."""

    def __init__(self, path: Path, identity: Mapping[str, Any], space: int) -> None:
        """Claims a folder for a run, or checks that it belongs to the same run.

        Args:
            path: the folder.
            identity: settings that decide the result; a folder with other ones is rejected.
            space: bytes that the run will need.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        claim = path / "run.json"
        if claim.exists():
            hashes = {key: value for key, value in identity.items() if key.endswith(".sha256")}
            require(path, "settings", hashes | read_own_json(claim), identity)  # older runs did not store them
        elif (path / "checkpoint.pt").exists() or (path / "curve.csv").exists():
            raise InputError(f"{path}: contains a run without its run.json; name another folder for this run")
        require_space(path, space, "this run", "make room or name a folder on another disk")
        write_json(claim, identity)

    def made_with(self) -> dict[str, Any] | None:
        """All settings of the run if it has ended and was exported; None otherwise."""
        path = self.path / "finished.json"
        return read_own_json(path).get("settings") if path.exists() else None

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Marks the run as finished."""
        write_json(self.path / "finished.json", summary)

    def save(self, model: LanguageModel, optimiser: torch.optim.Optimizer, position: Position) -> None:
        """Writes a checkpoint; the last one stays until the new one is complete."""
        content = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "position": asdict(position)}
        write_tensors(self.path / "checkpoint.pt", content)

    def load(self, model: LanguageModel, optimiser: torch.optim.Optimizer) -> Position:
        """Loads the last checkpoint into model and optimiser; without one, the position is the start of a run."""
        path = self.path / "checkpoint.pt"
        if not path.exists():
            return Position()
        remedy = "Delete it to train from the start, or name another out=DIR"
        content = read_tensors(path, {"model": dict, "optimiser": dict, "position": dict}, "cpu", remedy)
        with naming(path, remedy):
            check_tensors(content["model"], model.state_dict())
        model.load_state_dict(content["model"])
        optimiser.load_state_dict(content["optimiser"])
        return Position(**content["position"])

    def keep_curve_until(self, step: int) -> None:
        """Drops lines of the curve after a step: a killed run lost that work."""
        path = self.path / "curve.csv"
        if path.exists():
            lines = path.read_bytes().splitlines(keepends=True)
            header, *rows = [line for line in lines if line.endswith(b"\n")] or [b""]  # a full disk cuts the last one
            steps = [row.partition(b",")[0] for row in rows]
            kept = [row for row, at in zip(rows, steps, strict=True) if at.isdigit() and int(at) <= step]
            with replacing(path) as partial:
                partial.write_bytes(header + b"".join(kept))

    def log(self, row: CurveRow) -> None:
        """Adds a line to curve.csv."""
        shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()}
        with (self.path / "curve.csv").open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, shown)
            if not file.tell():
                writer.writeheader()
            writer.writerow(shown)
