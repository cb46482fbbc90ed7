"""Timing on shared machines: paths run in turn, and their ratios are compared.

On a CPU the unit is CPU seconds of all threads, which other work on the machine disturbs least; on a GPU it is seconds
until the device is done.
"""

import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks import STARTED

ARM_CORES = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd4f": "Neoverse-V2"}  # part numbers


def second(device: torch.device) -> str:
    """The unit of `seconds`."""
    return "CPU s" if device.type == "cpu" else "s"


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds that the work takes, in the unit of the device."""
    if device.type == "cpu":
        start = time.process_time()
        work()
        return time.process_time() - start
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    work()
    torch.cuda.synchronize(device)
    return time.perf_counter() - start


@dataclass(frozen=True)
class Rounds:
    """Seconds of each path, round by round."""

    seconds: Mapping[str, list[float]]

    def median(self, path: str) -> float:
        return statistics.median(self.seconds[path])

    def ratio(self, path: str, anchor: str) -> float:
        """How many times as fast as the anchor a path is: the median over rounds."""
        both = zip(self.seconds[anchor], self.seconds[path], strict=True)
        return statistics.median(theirs / ours for theirs, ours in both)


def in_turn(
    paths: Mapping[str, Callable[[], Any]], device: torch.device, what: str, rounds: int, budget: float = 0.0
) -> Rounds:
    """Runs each path once per round, for at least `rounds` rounds and until `budget` seconds have passed."""
    found: dict[str, list[float]] = {name: [] for name in paths}
    show_status(what)
    start, done = time.perf_counter(), 0
    while done < rounds or time.perf_counter() - start < budget:
        for name, work in paths.items():
            found[name].append(seconds(work, device))
        done += 1
    return Rounds(found)


def show_status(text: str) -> None:
    """Shows the current step on stderr, on a terminal in one line that changes; "" removes it."""
    line = f"{time.perf_counter() - STARTED:4.0f} s  {text}" if text else ""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line[:100]}", end="", file=sys.stderr, flush=True)
    elif text:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def single_precision() -> Iterator[None]:
    """In the block, a GPU does not use TF32, which is the default for recurrences and convolutions."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


@cache
def processor(device: torch.device) -> str:
    """Name of the processor, such as "Neoverse-N1" or "NVIDIA H200"."""
    if device.type != "cpu":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return said.get("model name") or ARM_CORES.get(said.get("CPU part", ""), platform.machine())
