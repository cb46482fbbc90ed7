"""python -m tests.benchmarks.store [TASK=DATA ...] [--limit N]: what the layer store costs and saves, on a CPU.

First the store alone: tokens that are embedded and written, and tokens that are read, with bytes on disk. Then, for
each task, one epoch (training and scoring on dev, one thread) of the baseline and of ELMo in alternation, and what
comes before the first epoch of ELMo: with a cold store, a warm one, and none. The ratio of CPU seconds is what to
trust.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch

from elmo import load_bilm
from elmo.cache import CachedLayers
from elmo.store import About, disk_bytes, open_shelf
from tasks.console import Reporter
from tasks.features import StoreConfig, TokenFeatures
from tasks.schema import compose_config, run_config
from tasks.seed import initialise
from tasks.sources import Source
from tasks.trainer import TaskModel, Trainer
from tests.benchmarks import text
from tests.benchmarks.__main__ import timed

ROUNDS = 2
CPU = torch.device("cpu")


def store_alone(folder: Path) -> None:
    """Fill and read rates of the shipped biLM, on sentences with the statistics of running text."""
    sentences = [tuple(sentence) for sentence in text.sentences(2000)]
    tokens = sum(map(len, set(sentences)))
    for precision in ("float16", "float32"):
        bilm = load_bilm("small")
        bilm.remember_words()
        shelf = open_shelf(folder, About(bilm.fingerprint(), bilm.widths, precision))
        cold = CachedLayers(bilm, shelf, precision)
        cpu, wall = timed(lambda cold=cold: cold.prepare(sentences))
        print(f"fill, {precision}: {tokens:,} tokens, {tokens / cpu:,.0f} a CPU second, {tokens / wall:,.0f} a second")
        size = disk_bytes(shelf.path)
        print(f"size, {precision}: {size / tokens:,.0f} bytes a token")
        warm = CachedLayers(bilm, shelf, precision)
        cpu, wall = timed(lambda warm=warm: warm.prepare(sentences))
        print(f"look up, {precision}: {len(sentences) / cpu:,.0f} sentences a CPU second")
        by_length = sorted(sentences, key=len)
        batches = [by_length[i : i + 32] for i in range(0, len(by_length), 32)]

        def read(warm=warm, batches=batches):
            for batch in batches:
                warm.layers(batch)

        read()
        cpu, wall = timed(read)
        read_tokens = sum(map(len, sentences))
        print(
            f"read in batches of 32, {precision}: {read_tokens / cpu:,.0f} tokens a CPU second, "
            f"{read_tokens / wall:,.0f} a second"
        )


class Arm:
    """One arm of a task, ready for its first epoch."""

    def __init__(self, task: str, data: str, features: str, limit: int, store: Path | None):
        config = run_config(compose_config([f"task={task}", f"data={data}", f"features={features}", f"limit={limit}"]))
        source = Source(config.data, config.data_dir, config.limit)
        self.train, self.dev = (source.load(config.task, split).examples for split in ("train", "dev"))
        config.task.learn_labels(self.train)
        texts = list(chain.from_iterable(map(config.task.texts, self.train)))
        kept = StoreConfig(path=str(store) if store else None)
        built = TokenFeatures(config.features, texts, 1, kept)
        head = config.task.build_head(built.input_dim, built.output_dim)
        initialise(head, 1, "head")
        self.model = TaskModel(built, head)
        self.texts = [*texts, *chain.from_iterable(map(config.task.texts, self.dev))]
        recipe = replace(config.trainer, epochs=1)
        self.trainer = Trainer(config.task, recipe, 1, CPU, Reporter("", quiet=True))

    def prepare(self) -> tuple[float, float]:
        return timed(lambda: self.model.features.meet(self.texts))

    def epoch(self) -> tuple[float, float]:
        return timed(lambda: self.trainer.fit(self.model, self.train, self.dev))


def epochs(task: str, data: str, limit: int, folder: Path) -> None:
    """One task's lines."""
    store = folder / task
    arms = {
        "glove": Arm(task, data, "glove", limit, None),
        "elmo, cold store": Arm(task, data, "elmo", limit, store),
        "elmo, warm store": Arm(task, data, "elmo", limit, store),
        "elmo, no store": Arm(task, data, "elmo", limit, None),
    }
    before = {name: arm.prepare() for name, arm in arms.items()}
    for arm in arms.values():
        arm.epoch()  # warms up
    rounds = [{name: arm.epoch() for name, arm in arms.items()} for _ in range(ROUNDS)]
    for name in arms:
        cpu, wall = (statistics.median(once[name][i] for once in rounds) for i in (0, 1))
        ratio = statistics.median(once[name][0] / once["glove"][0] for once in rounds)
        print(
            f"{task} {data} limit={limit}  {name}: before the first epoch {before[name][0]:.1f} CPU s, an epoch "
            f"{cpu:.1f} CPU s, {wall:.1f} s, {ratio:.2f} x the baseline's",
            flush=True,
        )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.store", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK=DATA", default=["ner=mini", "sst5=mini", "snli=mini"])
    parser.add_argument("--limit", type=int, default=200, help="examples of each split (default: 200)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(time.strftime("%Y-%m-%d"), f"torch {torch.__version__}, one thread")
    with tempfile.TemporaryDirectory() as name:
        store_alone(Path(name))
        for task, data in (pair.split("=") for pair in options.tasks):
            epochs(task, data, options.limit, Path(name))


if __name__ == "__main__":
    main()
