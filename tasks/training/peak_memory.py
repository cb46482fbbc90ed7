"""Peak memory of a run: of the GPU if it runs on one, else of the process."""

from __future__ import annotations

import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

PROCESS = Path("/proc/self")  # Linux only


def forget_peak(device: torch.device) -> None:
    """Resets the peak to the current use: in a sweep one process does several runs."""
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # if it fails, the peak is that of the process since its start
        (PROCESS / "clear_refs").write_text("5")


def peak_mb(device: torch.device) -> float:
    """The peak since `forget_peak`, in megabytes."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    with suppress(OSError):
        held = re.search(r"^VmHWM:\s*(\d+) kB$", (PROCESS / "status").read_text(), re.MULTILINE)
        if held is not None:
            return round(int(held[1]) / 2**10, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux kilobytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
