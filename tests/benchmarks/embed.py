"""Benchmark of `python -m elmo.embed`: tokens a second without the start-up, compared with AllenNLP's method."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from elmo import random_bilm, save_bilm
from tests.benchmarks import text
from tests.benchmarks.measuring import anchor
from tests.benchmarks.measuring.rows import Measurement
from tests.benchmarks.measuring.timing import processor, second, seconds, show_status

SENTENCES = {"small": 384, "original": 96}
ANCHORED = 64  # sentences of the anchor's batch


def rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """A row for each size."""
    for size, sentences in SENTENCES.items():
        yield embed_row(size, sentences, device)


def embed_row(size: str, sentences: int, device: torch.device) -> Measurement:
    """The row of one size; the time for one line is start-up and is subtracted."""
    show_status(f"elmo.embed, {size}")
    bilm = random_bilm(size, seed=1)
    batch = text.sentences(ANCHORED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_bilm(bilm, folder / "weights.safetensors")
        startup = embedding(folder, text.sentences(1), device)
        whole = embedding(folder, text.sentences(sentences), device)
    tokens, ours = sum(map(len, text.sentences(sentences))), whole - startup
    theirs = seconds(partial(anchor.layers, bilm.to(device), batch), device)
    speed, anchored = tokens / ours, sum(map(len, batch)) / theirs
    row = Measurement(
        "elmo.embed",
        f"{size}, {sentences} sentences, less {startup:.1f} of start",
        f"tokens/{second(device)}",
        speed,
        anchored,
        anchor.NAME,
        speed / anchored,
    )
    return row.doubted(anchor.doubt(anchored, processor(device))) if size == "small" else row


def embedding(folder: Path, sentences: list[list[str]], device: torch.device) -> float:
    """Seconds of the command: CPU time on a CPU, wall-clock time on a GPU."""
    (folder / "in.txt").write_text("\n".join(map(" ".join, sentences)) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "elmo.embed", "in.txt", "out.hdf5", "--weights", ".", "--device", str(device)]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu if device.type == "cpu" else wall
