"""Choice of the pointwise part of an LSTM step: a fused Triton kernel on a GPU if possible, otherwise plain torch.

The frozen biLM (`elmo.bilm.lstm_on_gpu`) and the one in training (`elmo.pretrain.model.recurrence`) share it.
"""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType

import torch

from elmo.bilm import pointwise_in_torch

_log = logging.getLogger(__name__)


def pointwise(device: torch.device) -> ModuleType:
    """The module with the fastest `forward` and `backward` for this device."""
    return (_fused() if device.type == "cuda" else None) or pointwise_in_torch


@cache
def _fused() -> ModuleType | None:
    try:
        from elmo.kernels.gpu import pointwise_in_triton  # Triton may be missing
    except ImportError as error:
        _log.warning("LSTM steps run in torch alone, which is slower on a GPU: %s", error)
        return None
    return pointwise_in_triton
