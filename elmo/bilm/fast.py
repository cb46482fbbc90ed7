"""Selects the code of the biLM: compiled C on a CPU, Triton on a GPU, or torch, slower, if elmo/kernels is missing.

No other module imports elmo.kernels. The frozen biLM and the one in training (`elmo.bilm.recurrence`) use it.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from elmo.bilm import pointwise_in_torch

if TYPE_CHECKING:
    from elmo.kernels.cpu import EncoderPanels as EncoderPanels
    from elmo.kernels.cpu import Kernel as Kernel
    from elmo.kernels.cpu import LstmPanels as LstmPanels

_log = logging.getLogger(__name__)


def compiled(*tensors: Tensor) -> Kernel | None:
    """The compiled functions; None if torch must be used: for tensors other than float32 on a CPU, or without them."""
    if any(tensor.device.type != "cpu" or tensor.dtype != torch.float32 for tensor in tensors):
        return None
    cpu = _optional("elmo.kernels.cpu")
    functions: Kernel | None = None if cpu is None else cpu.kernel()
    return functions


def pointwise(device: torch.device) -> ModuleType:
    """The module with the fastest `forward` and `backward` of an LSTM step's pointwise part for this device."""
    in_triton = _optional("elmo.kernels.gpu.pointwise_in_triton") if device.type == "cuda" else None
    return in_triton or pointwise_in_torch


@cache
def _optional(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError as error:  # the folder or Triton is missing
        _log.warning("the biLM runs in torch alone, which is slower: %s", error)
        return None
