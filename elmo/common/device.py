"""Devices and their threads: the choice of a device, copies to it, full precision on it, peak memory, parallel work."""

import os
import platform
import resource
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from elmo.common.checks import DEVICES
from elmo.common.errors import InputError
from elmo.common.processes import available_cores

PROCESS = Path("/proc/self")  # Linux only
LEAST_AT_ONCE = 2  # a biLM has two directions

Result = TypeVar("Result")


def choose_device(name: str) -> torch.device:
    """The torch device for auto, cpu or cuda; auto chooses a GPU if there is one.

    Raises:
        InputError: an unknown name, or cuda on a machine without a usable GPU.
    """
    if name not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}, found {name!r}")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        if os.environ.get("CUDA_VISIBLE_DEVICES") != "":
            raise InputError("device=cuda: torch finds no usable GPU here; use cpu or auto")
        remedy = "request one with hydra.launcher.ray.remote.num_gpus=1, or hydra.launcher.gpus_per_node=1 for slurm"
        raise InputError(f"device=cuda: CUDA_VISIBLE_DEVICES is empty; {remedy}")  # as Ray and SLURM set it
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether there was too little memory of a device or of the machine, for which torch has no type."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def own_device(name: str) -> torch.device:
    """Like `choose_device`, but with several GPUs each process gets another one, if there are enough.

    SLURM and Ray show each worker one GPU. Workers of joblib and runs that were started by hand see all of them, and
    torch would put every process on the first.
    """
    device = choose_device(name)
    if device.type != "cuda" or torch.cuda.device_count() < 2:
        return device
    device = torch.device("cuda", _held_place()[0] % torch.cuda.device_count())
    torch.cuda.set_device(device)  # for code that uses "cuda" without a number
    return device


def upload(numbers: npt.NDArray[np.integer[Any]] | Tensor, device: torch.device) -> Tensor:
    """Copies numbers to a device; the host does not wait for a GPU."""
    tensor = numbers if isinstance(numbers, Tensor) else torch.from_numpy(np.ascontiguousarray(numbers))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


@contextmanager
def frozen_arithmetic(device: torch.device) -> Iterator[None]:
    """Turns off gradients in the block, and the caller's autocast and inference mode, which would change values.

    In inference mode, other threads could not write to a tensor, and a cache could not be used outside it.
    """
    with torch.inference_mode(mode=False), torch.no_grad(), torch.autocast(device.type, enabled=False):
        yield


def processor() -> list[str]:
    """The model and instruction sets of the processor: machines of different kinds may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [platform.processor()]
    wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
    return sorted({line for line in lines if line.startswith(wanted)})


@cache
def _held_place() -> tuple[int, FileLock]:
    """The lowest number that no other process of this user on this machine holds; held until this process ends.

    A worker keeps its GPU for all its runs, since a process that has used one occupies memory there until it ends.
    """
    for place in count():
        lock = FileLock(Path(tempfile.gettempdir()) / f"elmo-suite-{os.getuid()}-gpu-{place}.lock", mode=0o600)
        with suppress(Timeout):
            lock.acquire(blocking=False)
            return place, lock
    raise AssertionError("numbers do not end")


def forget_peak(device: torch.device) -> None:
    """Resets the peak of the memory to the current use: in a sweep one process does several runs."""
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # if it fails, the peak is that of the process since its start
        (PROCESS / "clear_refs").write_text("5")


def peak_mb(device: torch.device) -> float:
    """The peak of the memory since `forget_peak` in megabytes: of a GPU, else of the process."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    with suppress(OSError, KeyError):
        status = dict(line.split(":", 1) for line in (PROCESS / "status").read_text().splitlines())
        return round(int(status["VmHWM"].split()[0]) / 2**10, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux kilobytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Sets the number of torch's threads in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(jobs: Iterable[Callable[[], Result]]) -> list[Result]:
    """The results of all jobs, `at_once()` of which run at a time; the first exception among them is raised.

    More threads inside one matrix product may change the order of its sums; whole products in parallel never do. So a
    run that gives torch one thread still uses two cores while it computes the biLM.
    """
    jobs, workers = list(jobs), at_once()
    pool = _pool(os.getpid(), workers) if len(jobs) > 1 and workers > 1 else None
    if pool is None:
        return [job() for job in jobs]
    # Each gets a share of torch's threads: with more threads than cores they would wait for each other.
    threads, grad = max(1, torch.get_num_threads() // min(len(jobs), workers)), torch.is_grad_enabled()

    def in_thread(job: Callable[[], Result]) -> Result:
        # Both are set per thread, and a new thread starts with the defaults.
        torch.set_num_threads(threads)
        with torch.set_grad_enabled(grad):
            return job()

    return [future.result() for future in [pool.submit(in_thread, job) for job in jobs]]


def at_once() -> int:
    """Number of parallel jobs: torch's number of threads, at least two, at most the number of cores."""
    return min(available_cores(), max(LEAST_AT_ONCE, torch.get_num_threads()))


@cache
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    """One pool for each process: a forked process inherits its parent's pool without the threads."""
    return ThreadPoolExecutor(size, thread_name_prefix=f"elmo-{process}")
