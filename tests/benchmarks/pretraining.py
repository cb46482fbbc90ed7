"""Benchmark of pretraining on a GPU, in tokens a second by batch size: `python -m tests.benchmarks.pretraining`.

It takes 100 seconds. It runs the training loop of the command, on made-up text with the lengths
and frequencies of running text, or on a token store (--store DIR, such as a run's OUT/store). The steady speed is the
median of the curve's rows from the third on; a token is a prediction in each direction.
"""

import argparse
import csv
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from elmo import SIZES
from elmo.common.device import choose_device
from elmo.pretrain.batches import Spelling, Text, texts_of_store
from elmo.pretrain.corpus.token_store import SPECIALS, Sentences, TokenStore
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.run import RunFolder, train
from elmo.pretrain.settings import Budget, Settings, Training

WORDS = 100_000
LINE_EVERY = 10  # steps between lines of the curve


def made_up(tokens: int) -> Text:
    """Sentences of 5 to 60 words, 24.5 on average, of a vocabulary in which a word's share is one over its rank."""
    draw = np.random.default_rng(0)
    sizes = 1 + draw.poisson(np.minimum(7, np.log2(np.arange(WORDS) + 2)))
    letters = draw.integers(97, 123, size=sizes.sum(), dtype=np.uint8).tobytes().decode("ascii")
    ends = np.cumsum(sizes).tolist()
    words = [*SPECIALS, *(letters[end - size : end] for size, end in zip(sizes.tolist(), ends, strict=True))]
    lengths = (5 + 55 * draw.random(tokens // 24) ** 1.8).round().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shares = np.cumsum(1 / (np.arange(WORDS) + 5.0))
    numbers = len(SPECIALS) + np.searchsorted(shares, shares[-1] * draw.random(offsets[-1]))
    return Text(Sentences(numbers.astype(np.uint32), offsets), Spelling.of_words(words, 50), len(words))


def measure(size: str, text: Text, batch_tokens: int, steps: int, device: torch.device) -> None:
    """Prints one line."""
    options = replace(SIZES[size], cell_clip=None, projection_clip=None)  # as conf/pretrain has it
    model = LanguageModel.random(options, text.n_targets, seed=1).to(device)
    never = steps + 1
    training = Training(batch_tokens=batch_tokens, log_every=LINE_EVERY, evaluate_every=0, checkpoint_every=never)
    start = time.perf_counter()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as name:
        folder = RunFolder(Path(name) / "run", {})
        console = Console(quiet=True)
        settings = Settings(training=training, budget=Budget(steps=steps))
        end = train(model, text, None, settings, folder, console)
        with (folder.path / "curve.csv").open(encoding="utf-8", newline="") as file:
            curve = [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]
    whole = time.perf_counter() - start
    speed = statistics.median(row["tokens_per_second"] for row in curve[2:])
    step_ms = 1e3 * end.tokens / end.step / speed
    peak = torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else 0.0
    print(
        f"{size}, {batch_tokens:,} positions a step: {speed:,.0f} tokens/s steady, {step_ms:.1f} ms a step, "
        f"peak {peak:.1f} GB, loss {curve[0]['loss']:.2f} to {curve[-1]['loss']:.2f}, {whole:.0f} s",
        flush=True,
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pretraining", description=__doc__)
    parser.add_argument("--size", default="original", choices=list(SIZES))
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=[32_768, 65_536], metavar="N")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--store", type=Path, metavar="DIR", help="a token store, instead of made-up text")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = choose_device(options.device)
    text = texts_of_store(TokenStore.open(options.store), 50)[0] if options.store else None
    for batch_tokens in options.batch_tokens:
        measure(options.size, text or made_up(60 * batch_tokens), batch_tokens, options.steps, device)


if __name__ == "__main__":
    main()
