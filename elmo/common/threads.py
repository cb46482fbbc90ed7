"""Parallel work: independent parts of a computation in threads, with the same bits as one after the other.

More threads inside one matrix product may change the order of its sums; whole products in parallel never do. So a run
that gives torch one thread still uses two cores while it computes the biLM.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

from elmo.common.processes import available_cores

LEAST_AT_ONCE = 2  # a biLM has two directions

Result = TypeVar("Result")


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
    """The results of all jobs, `at_once()` of which run at a time; the first exception among them is raised."""
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
