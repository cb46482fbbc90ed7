"""python -m tests.benchmarks: tokens per second of the biLM and of elmo.embed, beside an anchor, in two minutes.

Machines are shared and clocks drift, so every round runs both paths one after the other, and the ratio of CPU seconds
is the figure to trust. BENCH_FORMAT=json prints JSON instead of a table.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from elmo import Bilm, random_bilm, save_bilm
from elmo.kernel import SWITCH, kernel
from tests.benchmarks import anchor, text

ROUNDS = {"small": 2, "original": 1}
STREAM = 20  # batches, with a memory of words that starts empty
EMBEDDED_SENTENCES = {"small": 384, "original": 96}
TOLERANCE = 5e-5  # what single precision allows at these sizes

Row = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """CPU seconds of all threads, and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def row(what: str, size: str, tokens: int, cpu: float, wall: float, **more: Any) -> Row:
    return {
        "what": what,
        "size": size,
        "tokens": tokens,
        "cpu_seconds": round(cpu, 3),
        "tokens_per_cpu_second": round(tokens / cpu, 1),
        "wall_seconds": round(wall, 3),
        "tokens_per_wall_second": round(tokens / wall, 1),
        **more,
    }


@contextmanager
def in_torch() -> Iterator[None]:
    """Switches the compiled kernel off."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "0"
    try:
        yield
    finally:
        del os.environ[SWITCH]
        if before is not None:
            os.environ[SWITCH] = before


def bilm_rows(size: str) -> list[Row]:
    """Batches of 64 sentences through our biLM, compiled and in torch, and through the anchor, alternately."""
    batch = text.sentences(64)
    tokens = sum(map(len, batch))
    bilm = random_bilm(size, seed=1)

    def torch_alone(sentences: list[list[str]]) -> Tensor:
        with in_torch():
            return bilm.layers(sentences)

    paths: dict[str, Callable[[list[list[str]]], Tensor]] = {
        "biLM, compiled": bilm.layers,
        "biLM, in torch": torch_alone,
        "biLM, anchor": lambda sentences: anchor.layers(bilm, sentences),
    }
    if kernel() is None:
        del paths["biLM, compiled"]
    warm_up = {name: work(batch[:4]) for name, work in paths.items()}
    difference = max(float((found - warm_up["biLM, anchor"]).abs().max()) for found in warm_up.values())
    if difference > TOLERANCE:
        sys.exit(f"the paths disagree by {difference:.1e} at size {size}: a speed of something else means nothing")
    rounds = [{name: timed(partial(work, batch)) for name, work in paths.items()} for _ in range(ROUNDS[size])]
    rows = []
    for name in paths:
        cpu, wall = (statistics.median(once[name][i] for once in rounds) for i in (0, 1))
        ratio = statistics.median(once["biLM, anchor"][0] / once[name][0] for once in rounds)
        rows.append(row(name, size, tokens, cpu, wall, ratio=round(ratio, 2)))
    if size == "small":
        # The anchor remembers nothing between batches, so its speed on a batch is its speed on a stream.
        rows.append(stream_row(bilm, rows[-1]["tokens_per_cpu_second"]))
    return rows


def stream_row(bilm: Bilm, anchor_speed: float) -> Row:
    """A stream of batches, each distinct word of which is encoded once."""
    batches = [text.sentences(64, seed) for seed in range(STREAM)]
    tokens = sum(len(sentence) for batch in batches for sentence in batch)
    bilm.remember_words()

    def read() -> None:
        for batch in batches:
            bilm.layers(batch)

    cpu, wall = timed(read)
    ratio = tokens / cpu / anchor_speed
    name = "in torch" if kernel() is None else "compiled"
    return row(f"biLM, {name}, {STREAM} batches", "small", tokens, cpu, wall, ratio=round(ratio, 2))


def embed_row(size: str) -> Row:
    """python -m elmo.embed as a user runs it; what one line costs is start-up, and is taken off."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_bilm(random_bilm(size, seed=1), folder / "weights.safetensors")
        measured = []
        for count in (1, EMBEDDED_SENTENCES[size]):
            lines = text.sentences(count)
            (folder / "in.txt").write_text("\n".join(map(" ".join, lines)) + "\n", encoding="utf-8")
            command = [sys.executable, "-m", "elmo.embed", "in.txt", "out.hdf5", "--weights", ".", "--device", "cpu"]
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
            subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
            after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            measured.append((sum(map(len, lines)), cpu, wall))
    startup, whole = measured
    tokens, cpu, wall = (b - a for a, b in zip(startup, whole, strict=True))
    return row("elmo.embed", size, tokens, cpu, wall, startup_wall_seconds=round(startup[2], 2))


def main() -> None:
    """Measures and prints."""
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, torch {torch.__version__}"
    )
    rows = [row for size in ROUNDS for row in bilm_rows(size)] + [embed_row(size) for size in EMBEDDED_SENTENCES]
    if os.environ.get("BENCH_FORMAT") == "json":
        print(json.dumps({"machine": machine, "load": os.getloadavg()[0], "rows": rows}, indent=2))
        return
    table = Table(title=f"CPU: {machine}; load {os.getloadavg()[0]:.1f}", title_justify="left")
    columns = {
        "what": "",
        "size": "size",
        "tokens": "tokens",
        "cpu_seconds": "CPU s",
        "tokens_per_cpu_second": "tokens / CPU s",
        "wall_seconds": "wall s",
        "tokens_per_wall_second": "tokens / s",
        "ratio": "ratio",
    }
    for heading in columns.values():
        table.add_column(heading, justify="left" if heading in ("", "size") else "right")
    for entry in rows:
        table.add_row(*(str(entry.get(key, "")) for key in columns))
    Console(highlight=False, width=None if sys.stdout.isatty() else 110).print(table)
    print("ratio: CPU seconds of the anchor by ours, median of alternating rounds; elmo.embed without its start")


if __name__ == "__main__":
    main()
