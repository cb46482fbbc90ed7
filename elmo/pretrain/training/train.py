"""Training loop: `train(...)` trains a model to the end of its budget, from the last checkpoint of the run's folder.

The batch of a step, its negatives and its dropout are functions of the seed and the step, so a killed and resumed run
takes the same steps as an uninterrupted one. On a CPU, with a budget in steps or tokens, the weights are bit-equal. A
GPU may sum in another order, and a budget in minutes depends on the clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, TaskProgressColumn

from elmo.common.errors import InputError
from elmo.common.processes import ahead
from elmo.common.progress import print_line, progress_bar
from elmo.pretrain.corpus.token_store import Sentences
from elmo.pretrain.training.batches import Batcher, Text
from elmo.pretrain.training.checkpoint import CurveRow, Position, RunFolder
from elmo.pretrain.training.objective import OBJECTIVES, Measured, TrainedModel
from elmo.pretrain.training.parallel import ALONE, Workers
from elmo.pretrain.training.settings import Budget, Settings, Training
from elmo.pretrain.training.step import Stepper, Upload

PREPARED = 16  # steps prepared ahead
PREPARERS = 3  # threads that prepare them
CORE_PRODUCTS = 3e10  # floating-point operations per second of a fast CPU core, to warn before a slow first step
REMEDY = "Try a lower training.learning_rate or clip_norm, or a longer training.warmup, in another out=DIR"


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


def optimiser_of(model: TrainedModel, training: Training) -> torch.optim.Optimizer:
    """Adam over all parameters."""
    fused = model.core.device.type == "cuda"
    return torch.optim.Adam(model.parameters(), lr=training.learning_rate, betas=(0.9, training.beta2), fused=fused)


def train(
    model: TrainedModel,
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
    batcher = objective.batcher(train_text, settings, workers)
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

    one_pass, start = train_text.predictions, replace(position)
    foreseen = _foreseen(budget, model, one_pass / len(batcher.plan))
    warning = budget.short(foreseen, one_pass) if foreseen is not None else ""
    _warn(console, warning)
    speed_checked = budget.minutes is None or bool(warning)
    if captures and spent() < 1:
        _warm_up(stepper, batcher, console)
    sample = _sample(heldout, training.evaluate_sentences) if heldout and len(heldout.sentences) else None
    losses = torch.zeros(training.log_every, device=device)
    intervals = training.log_every, training.evaluate_every, training.checkpoint_every
    began, logged = time.monotonic() - position.seconds, replace(position)
    progress = spent()
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
            elapsed = position.seconds - start.seconds
            # Wait a little, since the first steps are slow.
            if budget.minutes is not None and not speed_checked and elapsed >= min(20.0, 6 * budget.minutes):
                speed_checked = True
                speed = (position.tokens - start.tokens) / elapsed
                _warn(console, budget.short(60 * budget.minutes * speed, one_pass))
            if progress >= 1 or any(_due(every, position.step) for every in intervals):
                workers.sum(losses)
                n = position.step - logged.step
                recent = losses.roll(-(position.step % training.log_every))[-n:].tolist()  # waits for the device
                losses.zero_()
                position.seconds = time.monotonic() - began
                progress = spent()
                last = progress >= 1
                _check(recent, position, rate)
                evaluates = last or _due(training.evaluate_every, position.step)
                found = objective.measure(model, sample, dtype, None) if sample is not None and evaluates else None
                check_finite(found, f"held-out text at step {position.step}")
                saves = last or _due(training.checkpoint_every, position.step)
                if saves:
                    _check_weights(model, position)
                if workers.first:
                    speed = (position.tokens - logged.tokens) / max(position.seconds - logged.seconds, 1e-9)
                    columns = objective.measured.columns
                    heldout_row = {name: getattr(found, name) if found else None for name in columns}
                    loss = sum(recent) / n
                    row = CurveRow(position.step, position.tokens, position.seconds, loss, rate, speed, heldout_row)
                    folder.log(row)
                    _show(console, bar, row, found, progress)
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


def _foreseen(budget: Budget, model: TrainedModel, step_tokens: float) -> float | None:
    """Words and ends of sentences that a budget allows; an upper bound for minutes on a CPU, None on a GPU."""
    if budget.minutes is None:
        return budget.tokens or (budget.steps or 0) * step_tokens
    if model.core.device.type != "cpu":
        return None
    products = 6 * sum(item.numel() for item in model.core.parameters())  # forward and backward, per token
    return 60 * budget.minutes * CORE_PRODUCTS * torch.get_num_threads() / products


def _warn(console: Console, text: str) -> None:
    if text:
        print_line(console, text, style="yellow")


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


def _check_weights(model: TrainedModel, position: Position) -> None:
    """Rejects NaN and infinite weights: a step can produce them although its loss is finite."""
    bad = next((name for name, item in model.named_parameters() if not item.isfinite().all()), None)
    if bad is not None:
        raise InputError(
            f"{bad} has NaN or infinite values after step {position.step}; no checkpoint of them is written. {REMEDY}"
        )


def check_finite(found: Measured | None, of: str) -> None:
    """Rejects a held-out value that is NaN or infinite."""
    if found is not None and not math.isfinite(found.mean):
        raise InputError(f"the {found.kind} of {of} is {found.mean}. {REMEDY}")


def _show(console: Console, bar: Progress, row: CurveRow, found: Measured | None, progress: float) -> None:
    """Updates the bar of a terminal; prints a line for every held-out value, and at the end."""
    state = f"step {row.step:,}  loss {row.loss:.3f}  {row.tokens_per_second:,.0f} tokens/s"
    bar.update(bar.task_ids[0], completed=progress, description=state)
    held = f"  held-out {found.short}" if found else ""
    if held or progress >= 1:
        print_line(console, f"{100 * min(progress, 1):5.1f} %  {state}  {row.seconds:,.0f} s{held}")
