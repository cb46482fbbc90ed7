"""Between the products of an LSTM step: one fused kernel on a GPU, plain torch elsewhere and where Triton is missing.

The frozen biLM (`elmo.bilm.lstm_on_gpu`) and the one that learns (`elmo.pretrain.model.recurrence`) share it.
"""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType

import torch

from elmo.bilm import pointwise_in_torch

_log = logging.getLogger(__name__)


def pointwise(device: torch.device) -> ModuleType:
    """The module whose `forward` and `backward` work on this device: in Triton on a GPU, or else in torch."""
    return (_fused() if device.type == "cuda" else None) or pointwise_in_torch


@cache
def _fused() -> ModuleType | None:
    try:
        from elmo.kernels.gpu import pointwise_in_triton  # Triton is installed only where there is a GPU
    except ImportError as error:
        _log.warning("LSTM steps run in torch alone, which is slower on a GPU: %s", error)
        return None
    return pointwise_in_triton
