"""Benchmark of epochs by task and arm (training and scoring on dev): glove against library heads, ELMo against glove.

It uses one thread, like a run. With a cold store, ELMo's epoch is the first of a run: all sentences are embedded
before it.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from elmo.common.progress import Reporter
from tasks.data.datasets import DataSource
from tasks.features.token_features import StoreConfig
from tasks.running.config import typed_config
from tasks.training.trainer import Trainer
from tests.benchmarks.heads import from_libraries
from tests.benchmarks.measuring.rows import Measurement
from tests.benchmarks.measuring.timing import in_turn, second, seconds, show_status, single_precision
from tests.tasks.making import model_of

TASKS = ("ner", "sst5", "snli", "squad")
WARM_UP = 16  # examples
BUDGET = 1.5  # seconds for further rounds
LIBRARIES = "torch's RNNs, pytorch-crf"
GLOVE, COLD, WARM, NONE = "glove", "elmo, cold store", "elmo, warm store", "elmo, no store"
NER_SECONDS = 2.0  # the aim for all of CoNLL-2003 on an H200
TOLERANCE = 1e-4  # relative, of the loss of a batch


class Arm:
    """One arm of a task, ready for its first epoch; `like` is another arm with the same examples."""

    def __init__(
        self,
        task: str,
        data: str,
        features: str,
        limit: int,
        device: torch.device,
        store: Path | None = None,
        like: "Arm | None" = None,
    ):
        settings = [f"task={task}", f"data={data}", f"features={features}", f"limit={limit or 'null'}"]
        config = typed_config(settings)
        source = DataSource(config.data, config.data_dir, config.limit)
        self.train, self.dev = (
            (like.train, like.dev) if like else (source.load(config.task, split).examples for split in ("train", "dev"))
        )
        kept = StoreConfig(path=str(store) if store else None)
        self.model = model_of(config, self.train, store=kept).to(device)
        self.texts = list(chain.from_iterable(map(config.task.texts, [*self.train, *self.dev])))
        recipe = replace(config.trainer, epochs=1)
        self.trainer = Trainer(config.task, recipe, 1, device, Reporter("", quiet=True))
        self.device = device

    def prepare(self) -> None:
        """Work before the first epoch: with ELMo, the layers of all sentences are embedded or looked up."""
        self.model.features.meet(self.texts)

    def epoch(self) -> None:
        self.trainer.fit(self.model, self.train, self.dev)

    def warm_up(self) -> None:
        """A part of an epoch on a CPU; a whole one on a GPU, which compiles for each shape."""
        few = WARM_UP if self.device.type == "cpu" else None
        self.trainer.fit(self.model, self.train[:few], self.dev[:few])

    @torch.no_grad()
    def loss(self, examples: Sequence[Any]) -> float:
        """The loss of a few examples, without dropout."""
        self.model.eval()
        return float(self.model.loss(self.trainer.task.collate(examples).to(self.device)))


def rows(
    tasks: Sequence[tuple[str, str]], limit: int, device: torch.device, rounds: int, without_store: bool
) -> Iterator[Measurement]:
    """The rows of all tasks, given as pairs of task and data names."""
    for task, data in tasks:
        with tempfile.TemporaryDirectory() as folder:
            yield from task_rows(task, data, limit, device, rounds, without_store, Path(folder))


def task_rows(
    task: str, data: str, limit: int, device: torch.device, rounds: int, without_store: bool, folder: Path
) -> Iterator[Measurement]:
    """The rows of one task.

    Args:
        task: name of the task.
        data: name of its data.
        limit: examples of each split; 0 takes all.
        device: where it is trained.
        rounds: epochs of each arm.
        without_store: whether to measure ELMo without a store, too.
        folder: an empty folder.
    """
    show_status(f"an epoch of {task}: reads, builds and embeds")
    glove = Arm(task, data, "glove", limit, device)
    glove.prepare()
    alike(task, glove)
    arms, before = {GLOVE: glove}, {}
    for name in (COLD, WARM, NONE) if without_store else (COLD, WARM):
        arms[name] = Arm(task, data, "elmo", limit, device, None if name == NONE else folder, like=glove)
        before[name] = seconds(arms[name].prepare, device)

    def by_libraries() -> None:
        with from_libraries():
            glove.epoch()

    for arm in arms.values():
        arm.warm_up()
    with from_libraries():
        glove.warm_up()
    paths = {name: arm.epoch for name, arm in arms.items()}
    found = in_turn({LIBRARIES: by_libraries} | paths, device, f"an epoch of {task}", rounds, BUDGET)
    examples = f"{len(glove.train):,} + {len(glove.dev):,} examples"
    aim = NER_SECONDS if (task, data, limit, device.type) == ("ner", "paper", 0, "cuda") else None
    unit = second(device)
    for name in arms:
        what, own = f"epoch, {task} {data}, {name}", found.median(name)
        if name == GLOVE:
            ratio = found.ratio(GLOVE, LIBRARIES)
            yield Measurement(what, examples, unit, own, found.median(LIBRARIES), LIBRARIES, ratio, most=aim)
        elif name == WARM:
            shape, ratio = f"{examples}, looked up in {before[name]:.2f}", found.ratio(WARM, GLOVE)
            yield Measurement(what, shape, unit, own, found.median(GLOVE), GLOVE, ratio, most=aim)
        else:
            shape, theirs, own = f"{examples}, {before[name]:.2f} embedding", found.median(GLOVE), own + before[name]
            yield Measurement(what, shape, unit, own, theirs, GLOVE, theirs / own)


def alike(task: str, arm: Arm) -> None:
    """Ends the program unless our parts of a head and the libraries' give the same loss."""
    examples = arm.train[:WARM_UP]
    with single_precision():
        ours = arm.loss(examples)
        with from_libraries():
            theirs = arm.loss(examples)
    if not abs(ours - theirs) <= TOLERANCE * max(1.0, abs(theirs)):
        raise SystemExit(f"{task}: the loss is {ours} with our head, {theirs} with one of libraries'")
