"""Data-parallel training under torchrun: each process computes a share of the gradients, and all are summed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed

LONGEST_WAIT = timedelta(days=7)  # the first process may build a store of a large text


@dataclass(frozen=True)
class Workers:
    """The rank of this process, the number of processes, and the group in which they wait for each other."""

    rank: int = 0
    world: int = 1
    waiting: distributed.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def sum(self, tensor: torch.Tensor) -> None:
        """Sums a tensor over all processes, in place."""
        if self.world > 1:
            distributed.all_reduce(tensor)

    def agree(self, value: float) -> float:
        """The value of the first process: clocks differ, and all must stop at the same step."""
        if self.world == 1:
            return value
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        shared = torch.tensor([value], dtype=torch.float64, device=device)
        distributed.broadcast(shared, src=0)
        return float(shared)

    def wait(self) -> None:
        """Waits for all processes, as long as it takes: torchrun ends them all when one of them fails."""
        if self.world > 1:
            distributed.barrier(self.waiting)


ALONE = Workers()


@contextmanager
def started(cuda: bool) -> Iterator[Workers]:
    """The processes that torchrun started, or a single one."""
    if "LOCAL_RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        # A group of its own: gradients keep torch's limit of minutes, after which a process that hangs is reported.
        waiting = distributed.new_group(timeout=LONGEST_WAIT, backend="gloo")
        yield Workers(distributed.get_rank(), distributed.get_world_size(), waiting)
    finally:
        distributed.destroy_process_group()
