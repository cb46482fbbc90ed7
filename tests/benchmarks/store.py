"""Benchmark of the layer store: `python -m tests.benchmarks.store [TASK=DATA ...] [--limit N] [--device cuda]`.

First the store alone: speed of filling and reading, and bytes on disk. Then, for each task, one epoch (training and
scoring on dev, one thread) of the baseline and of ELMo in turn, and the work before the first epoch of ELMo with a cold
store, a warm one, and none. Trust the ratio: of CPU seconds on a CPU, of seconds on a GPU.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import torch

from elmo import Bilm, load_bilm
from elmo.common.device import torch_threads
from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import LIMIT_GB, Shelf, open_shelf, shelves
from tests.benchmarks import bilm, epochs, text
from tests.benchmarks.measuring import anchor
from tests.benchmarks.measuring.rows import Measurement, show
from tests.benchmarks.measuring.timing import in_turn, processor, show_status, single_precision

BATCH = 32  # sentences that are read at once
AGAIN = "the biLM, computed again"
MOST_OFF = {"float16": 1e-2, "float32": 5e-5}  # error of a layer from rounding to the precision


@dataclass(frozen=True)
class Workload:
    """Amount of text that is stored and read.

    Attributes:
        sentences: that fill a store.
        anchored: sentences of the anchor's batch.
        read_again: batches that the biLM computes again.
        precisions: in which layers are kept.
        rounds: how often.
    """

    sentences: int
    anchored: int
    read_again: int
    precisions: tuple[str, ...]
    rounds: int


QUICK = Workload(400, 64, 4, ("float16",), 1)
FULL = Workload(2_000, 64, 16, ("float16", "float32"), 1)
QUICK_ON_A_GPU = Workload(20_000, 64, 16, ("float16",), 2)
FULL_ON_A_GPU = Workload(20_000, 64, 16, ("float16", "float32"), 3)


def rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """Fill and read rates of the shipped biLM, on sentences with the statistics of running text."""
    quick, thorough = (QUICK, FULL) if device.type == "cpu" else (QUICK_ON_A_GPU, FULL_ON_A_GPU)
    work = thorough if full else quick
    with tempfile.TemporaryDirectory() as folder:
        for precision in work.precisions:
            yield from precision_rows(work, precision, device, Path(folder) / precision)


def precision_rows(work: Workload, precision: str, device: torch.device, folder: Path) -> Iterator[Measurement]:
    """Filling against embedding as AllenNLP does, reading against computing again, and bytes on disk per token."""
    show_status(f"store, {precision}: builds and compares")
    source = load_bilm("small").to(device)
    kind = source.fingerprint(), source.widths, precision, LIMIT_GB
    sentences = sorted({tuple(sentence) for sentence in text.sentences(work.sentences)}, key=len)
    batch = text.sentences(work.anchored)
    fresh = (open_shelf(folder / str(number), *kind) for number in count())
    filled: list[Shelf] = []

    def fill() -> None:
        source.remember_words()  # forgets all words
        filled.append(next(fresh))
        cached(source, filled[-1], precision).prepare(sentences)

    if device.type != "cpu":
        fill()  # warms up
    words = text.words(sentences)
    paths = {"fill": fill, anchor.NAME: partial(anchor.layers, source, batch)}
    paths |= anchor.parts_with_cache(source, words, batch)
    rounds = in_turn(paths, device, f"store, {precision}: fills", work.rounds)
    tokens, anchored = sum(map(len, sentences)), sum(map(len, batch))
    shape = f"small, {precision}, {len(sentences):,} sentences"
    aim = None if device.type == "cpu" else bilm.OF_OWN_BATCHES
    row = bilm.rate(rounds, "fill", anchor.NAME, "store, fill", shape, tokens, anchored, device, aim)
    doubt = anchor.doubt(row.anchor or 0.0, processor(device))
    yield row.doubted(doubt)
    rounds = anchor.with_cache(rounds, len(words), tokens / anchored)
    row = bilm.rate(rounds, "fill", anchor.CACHED, "store, fill", shape, tokens, tokens, device, None)
    yield row.doubted(doubt)

    stored = cached(source, filled[-1], precision)
    stored.prepare(sentences)
    batches = [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]
    again = batches[:: max(1, len(batches) // work.read_again)][: work.read_again]
    agree(stored, source, again[0], precision)

    def read() -> None:
        for some in batches:
            layers_of(stored, some)

    def compute() -> None:
        for some in again:
            source.layers(some)

    read()
    compute()
    rounds = in_turn({"read": read, AGAIN: compute}, device, f"store, {precision}: reads", work.rounds, 0.5)
    computed = sum(len(sentence) for some in again for sentence in some)
    shape = f"small, {precision}, batches of {BATCH}"
    yield bilm.rate(rounds, "read", AGAIN, "store, read", shape, tokens, computed, device, None)
    plain = 4 * source.n_layers * source.dim
    size = shelves(filled[-1].store).total() / tokens
    yield Measurement("store, on disk", shape, "bytes/token", size, plain, "all layers in float32", plain / size)


def cached(source: Bilm, shelf: Shelf, precision: str) -> CachedLayers:
    return CachedLayers(source, shelf, precision).to(source.device)


def layers_of(stored: CachedLayers, sentences: list[tuple[str, ...]]) -> torch.Tensor:
    """The layers of a padded batch."""
    return next(stored.layers_at([stored.locate(sentences, [1] * len(sentences))]))


def agree(stored: CachedLayers, source: Bilm, sentences: list[tuple[str, ...]], precision: str) -> None:
    """Ends the program unless the layers that are read equal the biLM's up to rounding."""
    difference = float((layers_of(stored, sentences).float() - source.layers(sentences)).abs().max())
    if not difference <= MOST_OFF[precision]:
        raise SystemExit(f"what the store has differs by {difference:.1e} from the biLM's layers")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.store", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK=DATA", default=["ner=mini", "sst5=mini", "snli=mini"])
    parser.add_argument("--limit", type=int, default=200, help="examples of each split (default: 200; 0: all)")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu (default) or cuda")
    options = parser.parse_args()
    started = time.perf_counter()
    tasks = [tuple(pair.split("=", 1)) for pair in options.tasks]
    with torch_threads(1):
        with single_precision():
            found = list(rows(options.device, full=True))
        found += epochs.rows(tasks, options.limit, options.device, rounds=2, without_store=True)
        show(found, options.device, time.perf_counter() - started)


if __name__ == "__main__":
    main()
