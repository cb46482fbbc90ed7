"""Selects the code of the biLM: compiled C on a CPU, Triton on a GPU, or torch, slower, if elmo/kernels is missing.

No other module imports elmo.kernels. The frozen biLM, the one in training (`elmo.bilm.recurrence`) and the modules of
tasks use it. Also: `Prepared`, a cache of converted weights, and `in_blocks`, products whose rows do not
depend on each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmo.bilm import pointwise_in_torch
from elmo.common.device import torch_threads

if TYPE_CHECKING:
    from elmo.kernels.in_c import CompiledBilm as CompiledBilm
    from elmo.kernels.in_c import EncoderPanels as EncoderPanels
    from elmo.kernels.in_c import LstmPanels as LstmPanels

_log = logging.getLogger(__name__)


def compiled(*tensors: Tensor) -> CompiledBilm | None:
    """The compiled functions; None if torch must be used: for tensors other than float32 on a CPU, or without them."""
    if any(tensor.device.type != "cpu" or tensor.dtype != torch.float32 for tensor in tensors):
        return None
    in_c = kernel_module("in_c")
    return None if in_c is None else in_c.bilm()


def pointwise(device: torch.device) -> ModuleType:
    """The module with the fastest `forward` and `backward` of an LSTM step's pointwise part for this device."""
    in_triton = kernel_module("pointwise_in_triton") if device.type == "cuda" else None
    return in_triton or pointwise_in_torch


@cache
def kernel_module(name: str) -> ModuleType | None:
    """A module of elmo.kernels, or None, with one line in the log, if the folder or Triton is missing."""
    try:
        return import_module(f"elmo.kernels.{name}")
    except ImportError as error:
        _log.warning("elmo.kernels.%s is not available, torch is used, which is slower: %s", name, error)
        return None


Form = TypeVar("Form")


class Prepared(Generic[Form]):
    """Converted weights; converted again after the weights were changed, moved or replaced.

    Weights that are trained are converted in every call: torch does not count the steps of fused optimisers as changes,
    nor any changes of weights that were made in `torch.inference_mode`. Changes through `tensor.data` are not noticed.
    """

    def __init__(self) -> None:
        self._made: tuple[list[tuple[int, int]], Form] | None = None

    def of(self, weights: Sequence[Tensor], make: Callable[[], Form]) -> Form:
        """The converted weights, from the cache or from `make`."""
        if any(tensor.requires_grad or tensor.is_inference() for tensor in weights):
            return make()
        # torch counts changes in place in `_version`; another tensor has another address.
        state = [(tensor.data_ptr(), tensor._version) for tensor in weights]
        made = self._made
        if made is None or made[0] != state:
            made = self._made = state, make()
        return made[1]

    def __reduce__(self) -> tuple[type[Prepared[Form]], tuple[()]]:
        return Prepared, ()  # copies and pickles start without any


# Libraries multiply few rows in another order than many, and treat the rows after full vector instructions differently.
# MKL has another order from 190 rows on, if they have 1,024 numbers or more, and with several threads. So every product
# has a multiple of LEAST rows, at most MOST, and one thread. What is left: on AMD processors MKL rounds a row by its
# place if rows have 6 or 50 numbers, say (no multiple of 4), and results 2 to 8; no biLM has such sizes.
LEAST = 16
MOST = 128


def in_blocks(compute: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """The result of `compute` for each row; on a CPU block by block, the last one padded with zeros.

    Args:
        compute: a function that treats all rows alike: (rows, dim) -> (rows, other dim).
        rows: (rows, dim).
    """
    if rows.device.type != "cpu" or not len(rows):
        return compute(rows)
    padded = pad(rows, (0, 0, 0, -len(rows) % LEAST))
    with torch_threads(1):
        blocks = [compute(block) for block in torch.split(padded, MOST)]
    return (blocks[0] if len(blocks) == 1 else torch.cat(blocks))[: len(rows)]
