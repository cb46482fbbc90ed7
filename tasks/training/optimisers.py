"""Optimisers by name, and the learning rates of the head and of tuned sources."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from tasks.features.frozen_layers import TunedGroup


def _without_compiler(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """The same optimiser without torch's wrappers, which import its compiler: 1.5 CPU seconds that no run needs.

    Where a version of torch wraps methods in another way, they stay as they are.
    """
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(inspect.unwrap(kind.step))})


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(_without_compiler(torch.optim.Adam), fused=True),  # one kernel on a GPU, half the time on a CPU
    # TensorFlow's constants, with which the paper's SQuAD models were trained. With torch's defaults (0.9, 1e-6) steps
    # stay large where gradients are small: the loss of SQuAD stayed almost constant after the third epoch.
    "adadelta": partial(_without_compiler(torch.optim.Adadelta), rho=0.95, eps=1e-8),
}


def plateau_schedule(optimizer: torch.optim.Optimizer, factor: float | None, patience: int) -> ReduceLROnPlateau | None:
    """Multiplies the learning rate by `factor` after more than `patience` epochs without a better score, if any."""
    if factor is None:
        return None
    return ReduceLROnPlateau(optimizer, mode="max", factor=factor, patience=patience, threshold=0)


def parameter_groups(parameters: Iterable[torch.nn.Parameter], tuned: Sequence[TunedGroup]) -> list[dict[str, Any]]:
    """The groups of an optimizer: all that has the trainer's rate, then the layers of tuned sources."""
    apart = {id(parameter) for group in tuned for parameter in group.parameters}
    own = [parameter for parameter in parameters if id(parameter) not in apart]
    return [{"params": own}, *({"params": list(group.parameters)} for group in tuned)]


def tune(optimizer: torch.optim.Optimizer, tuned: Sequence[TunedGroup], epoch: int, progress: float) -> None:
    """Sets the rates of tuned layers for a step, and drops the gradients of those that are still frozen.

    Args:
        optimizer: made from `parameter_groups`.
        tuned: the same groups.
        epoch: the current one, from 1.
        progress: the share of the run that is done.
    """
    for settings, group in zip(optimizer.param_groups[1:], tuned, strict=True):
        settings["lr"] = group.rate(progress)
        if group.frozen_in(epoch):
            for parameter in group.parameters:
                parameter.grad = None
