"""The most memory that a run has held: a GPU's where it computes on one, else the process's."""

from __future__ import annotations

import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

PROCESS = Path("/proc/self")  # of Linux; elsewhere it is not there


def forget_peak(device: torch.device) -> None:
    """Lets the peak begin anew at what is held now: in a sweep a process does one run after the other."""
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # where this cannot be done, the peak is that of the process since its start
        (PROCESS / "clear_refs").write_text("5")


def peak_mb(device: torch.device) -> float:
    """The peak since then, in megabytes."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    with suppress(OSError):
        held = re.search(r"^VmHWM:\s*(\d+) kB$", (PROCESS / "status").read_text(), re.MULTILINE)
        if held is not None:
            return round(int(held[1]) / 2**10, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux kilobytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
