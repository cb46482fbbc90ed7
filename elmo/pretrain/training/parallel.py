"""The processes of a parallel run under torchrun: each computes its share of a step's gradients, all add them up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed


@dataclass(frozen=True)
class Workers:
    """This process among `world`."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def sum(self, tensor: torch.Tensor) -> None:
        """Adds up a tensor over all processes, in place in each."""
        if self.world > 1:
            distributed.all_reduce(tensor)

    def agree(self, value: float) -> float:
        """The first process's value: clocks differ, and all must stop at the same step."""
        if self.world == 1:
            return value
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        shared = torch.tensor([value], dtype=torch.float64, device=device)
        distributed.broadcast(shared, src=0)
        return float(shared)

    def wait(self) -> None:
        """Returns when all processes are here."""
        if self.world > 1:
            distributed.barrier()


ALONE = Workers()


@contextmanager
def started(cuda: bool) -> Iterator[Workers]:
    """The processes that torchrun started, or one that is alone."""
    if "LOCAL_RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        yield Workers(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()
