"""Optimisers by name, and the learning-rate schedule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(torch.optim.Adam, fused=True),  # one kernel on a GPU, half the time on a CPU
    # TensorFlow's constants, with which the paper's SQuAD models were trained. With torch's defaults (0.9, 1e-6) steps
    # stay large where gradients are small: the loss of SQuAD hardly fell after the third epoch.
    "adadelta": partial(torch.optim.Adadelta, rho=0.95, eps=1e-8),
}


def plateau_schedule(optimizer: torch.optim.Optimizer, factor: float | None, patience: int) -> ReduceLROnPlateau | None:
    """Multiplies the learning rate by `factor` after `patience` epochs without a better score; None for no factor."""
    if factor is None:
        return None
    return ReduceLROnPlateau(optimizer, mode="max", factor=factor, patience=patience)
