"""Seconds that can be compared, although machines are shared and clocks drift: paths run in turn, and ratios count.

On a CPU they are CPU seconds of all threads, which other work on the machine disturbs least; on a GPU seconds until
the device is done.
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

ARM_CORES = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd4f": "Neoverse-V2"}  # numbers that Arm gave them


def second(device: torch.device) -> str:
    """The unit of `seconds`."""
    return "CPU s" if device.type == "cpu" else "s"


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds that the work takes, in the unit that counts on the device."""
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
        """How many times as fast as the anchor a path is: the median of what each round says."""
        both = zip(self.seconds[anchor], self.seconds[path], strict=True)
        return statistics.median(theirs / ours for theirs, ours in both)


def in_turn(
    paths: Mapping[str, Callable[[], Any]], device: torch.device, what: str, rounds: int = 1, budget: float = 0.0
) -> Rounds:
    """Each path once a round, for so many rounds at least, and as long as less than `budget` seconds have passed."""
    found: dict[str, list[float]] = {name: [] for name in paths}
    tell(what)
    start, done = time.perf_counter(), 0
    while done < rounds or time.perf_counter() - start < budget:
        for name, work in paths.items():
            found[name].append(seconds(work, device))
        done += 1
    return Rounds(found)


def tell(text: str) -> None:
    """Says on stderr what goes on: in one line that changes, where there is a terminal; "" takes it away."""
    line = f"{time.perf_counter() - STARTED:4.0f} s  {text}" if text else ""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line[:100]}", end="", file=sys.stderr, flush=True)
    elif text:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """While it lasts, torch has so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def single_precision() -> Iterator[None]:
    """While it lasts, a GPU multiplies float32 as float32: by default recurrences and convolutions are cut to TF32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


@cache
def processor(device: torch.device) -> str:
    """What computes: "Neoverse-N1", "NVIDIA H200", or whatever name the system has for it."""
    if device.type != "cpu":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return said.get("model name") or ARM_CORES.get(said.get("CPU part", ""), platform.machine())
