"""Randomness with a name: every use draws from a generator of its own, so that no draw disturbs another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn


def named_seed(seed: int, *names: str | int) -> int:
    """A seed for one purpose of a run, such as (1, "head") or (1, "epoch", 3); independent for different names."""
    digest = hashlib.sha256("\0".join(map(str, (seed, *names))).encode()).digest()
    return int.from_bytes(digest[:7], "big")


@contextmanager
def drawing_from(seed: int, *names: str | int) -> Iterator[None]:
    """While it lasts, torch on the CPU draws from the named generator; afterwards all is as if nothing was drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, *names))
        yield


@runtime_checkable
class StartsByParameter(Protocol):
    """A recurrent module that has its own way to start, told for one parameter at a time."""

    def start_parameter(self, name: str, parameter: Tensor) -> None:
        """Draws one parameter again."""


def initialise(module: nn.Module, seed: int, name: str) -> None:
    """Draws the module's parameters again, each from the generator of its own name.

    Two models that share a part then start with that part equal, whatever else they hold: adding ELMo changes the shape
    of the parameters that read it, and the starting values of no others.
    """
    for path, part in module.named_modules(prefix=name):
        if isinstance(part, nn.RNNBase):
            # All its layers are one module; drawn in one go, a wider input would shift what the upper layers get.
            start = part.start_parameter if isinstance(part, StartsByParameter) else partial(_as_torch_does, part)
            for parameter_name, parameter in part.named_parameters():
                with drawing_from(seed, path, parameter_name):
                    start(parameter_name, parameter)
        elif hasattr(part, "reset_parameters"):
            with drawing_from(seed, path):
                part.reset_parameters()


def _as_torch_does(part: nn.RNNBase, name: str, parameter: Tensor) -> None:
    bound = part.hidden_size**-0.5
    nn.init.uniform_(parameter, -bound, bound)
