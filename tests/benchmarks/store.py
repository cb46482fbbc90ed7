"""python -m tests.benchmarks.store [TASK=DATA ...] [--limit N] [--device cuda]: what the layer store costs and saves.

First the store alone: tokens that are embedded and written, and tokens that are read, with bytes on disk. Then, for
each task, one epoch (training and scoring on dev, one thread) of the baseline and of ELMo in alternation, and what
comes before the first epoch of ELMo: with a cold store, a warm one, and none. The ratio is what to trust: of CPU
seconds on a CPU, of seconds on a GPU.
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


def store_alone(folder: Path, device: torch.device) -> None:
    """Fill and read rates of the shipped biLM, on sentences with the statistics of running text."""
    sentences = [tuple(sentence) for sentence in text.sentences(2000)]
    tokens = sum(map(len, set(sentences)))
    for precision in ("float16", "float32"):
        bilm = load_bilm("small").to(device)
        bilm.remember_words()
        shelf = open_shelf(folder, About(bilm.fingerprint(), bilm.widths, precision))
        cold = CachedLayers(bilm, shelf, precision).to(device)
        cpu, wall = timed(lambda cold=cold: cold.prepare(sentences))
        print(f"fill, {precision}: {tokens:,} tokens, {tokens / cpu:,.0f} a CPU second, {tokens / wall:,.0f} a second")
        size = disk_bytes(shelf.path)
        print(f"size, {precision}: {size / tokens:,.0f} bytes a token")
        warm = CachedLayers(bilm, shelf, precision).to(device)
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

    def __init__(self, task: str, data: str, features: str, limit: int, store: Path | None, device: torch.device):
        settings = [f"task={task}", f"data={data}", f"features={features}", f"limit={limit or 'null'}"]
        config = run_config(compose_config(settings))
        source = Source(config.data, config.data_dir, config.limit)
        self.train, self.dev = (source.load(config.task, split).examples for split in ("train", "dev"))
        config.task.learn_labels(self.train)
        texts = list(chain.from_iterable(map(config.task.texts, self.train)))
        kept = StoreConfig(path=str(store) if store else None)
        built = TokenFeatures(config.features, texts, 1, kept)
        head = config.task.build_head(built.input_dim, built.output_dim)
        initialise(head, 1, "head")
        self.model = TaskModel(built, head).to(device)
        self.texts = [*texts, *chain.from_iterable(map(config.task.texts, self.dev))]
        recipe = replace(config.trainer, epochs=1)
        self.trainer = Trainer(config.task, recipe, 1, device, Reporter("", quiet=True))

    def prepare(self) -> tuple[float, float]:
        return timed(lambda: self.model.features.meet(self.texts))

    def epoch(self) -> tuple[float, float]:
        return timed(lambda: self.trainer.fit(self.model, self.train, self.dev))


def epochs(task: str, data: str, limit: int, folder: Path, device: torch.device) -> None:
    """One task's lines."""
    store = folder / task
    arms = {
        "glove": Arm(task, data, "glove", limit, None, device),
        "elmo, cold store": Arm(task, data, "elmo", limit, store, device),
        "elmo, warm store": Arm(task, data, "elmo", limit, store, device),
        "elmo, no store": Arm(task, data, "elmo", limit, None, device),
    }
    before = {name: arm.prepare() for name, arm in arms.items()}
    for arm in arms.values():
        arm.epoch()  # warms up
    rounds = [{name: arm.epoch() for name, arm in arms.items()} for _ in range(ROUNDS)]
    trusted = 0 if device.type == "cpu" else 1
    for name in arms:
        cpu, wall = (statistics.median(once[name][i] for once in rounds) for i in (0, 1))
        ratio = statistics.median(once[name][trusted] / once["glove"][trusted] for once in rounds)
        title = f"{task} {data}" + f" limit={limit}" * bool(limit)
        print(
            f"{title}  {name}: before the first epoch {before[name][0]:.1f} CPU s, "
            f"{before[name][1]:.1f} s, an epoch {cpu:.1f} CPU s, {wall:.1f} s, {ratio:.2f} x the baseline's",
            flush=True,
        )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.store", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK=DATA", default=["ner=mini", "sst5=mini", "snli=mini"])
    parser.add_argument("--limit", type=int, default=200, help="examples of each split (default: 200; 0: all)")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu (default) or cuda")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(time.strftime("%Y-%m-%d"), f"torch {torch.__version__}, {options.device}, one thread")
    with tempfile.TemporaryDirectory() as name:
        store_alone(Path(name), options.device)
        for task, data in (pair.split("=") for pair in options.tasks):
            epochs(task, data, options.limit, Path(name), options.device)


if __name__ == "__main__":
    main()
