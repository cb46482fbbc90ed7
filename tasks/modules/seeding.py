"""Seeding: each use of randomness has a named generator, so that draws do not affect each other."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn


def named_seed(seed: int, *names: str | int) -> int:
    """The seed for one use in a run, such as (1, "head") or (1, "epoch", 3); different names are independent."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, (seed, *names))).encode()).digest()[:7], "big")


@contextmanager
def drawing_from(seed: int, *names: str | int) -> Iterator[None]:
    """Within the block torch draws on the CPU from the named generator; its own state is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, *names))
        yield


def initialise(module: nn.Module, seed: int, name: str) -> None:
    """Draws the module's parameters again, each from the generator of its name.

    Two models that share a part then start with equal values in that part: adding ELMo changes the shape of the
    parameters that read it, and leaves the initial values of all others.
    """
    for path, part in module.named_modules(prefix=name):
        if isinstance(part, nn.RNNBase):
            # All layers are one module: drawn together, a wider input would change the draws of the upper layers.
            start = getattr(part, "start_parameter", None) or partial(_as_torch_does, part)
            for parameter_name, parameter in part.named_parameters():
                with drawing_from(seed, path, parameter_name):
                    start(parameter_name, parameter)
        elif hasattr(part, "reset_parameters"):
            with drawing_from(seed, path):
                part.reset_parameters()


def _as_torch_does(part: nn.RNNBase, name: str, parameter: Tensor) -> None:
    bound = part.hidden_size**-0.5
    nn.init.uniform_(parameter, -bound, bound)
