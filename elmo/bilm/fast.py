"""Selects the code of the biLM: compiled C on a CPU, Triton on a GPU, or torch, slower, if elmo/kernels is missing.

No other module imports elmo.kernels. The frozen biLM, the one in training (`elmo.bilm.recurrence`) and the modules of
tasks use it.
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
    from elmo.kernels.in_c import CompiledBilm as CompiledBilm
    from elmo.kernels.in_c import EncoderPanels as EncoderPanels
    from elmo.kernels.in_c import LstmPanels as LstmPanels

_log = logging.getLogger(__name__)


def compiled(*tensors: Tensor) -> CompiledBilm | None:
    """The compiled functions; None if torch must be used: for tensors other than float32 on a CPU, or without them."""
    if any(tensor.device.type != "cpu" or tensor.dtype != torch.float32 for tensor in tensors):
        return None
    in_c = kernel_module("in_c")
    functions: CompiledBilm | None = None if in_c is None else in_c.bilm()
    return functions


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
