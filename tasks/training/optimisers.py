"""Optimisers by name, the learning rates of the head and of tuned sources, and a moving average of the weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from tasks.features.token_features import TunedGroup


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


def copied(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The current values of parameters by name."""
    return {name: value.detach().clone() for name, value in parameters.items()}


@torch.no_grad()
def overwrite(parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Sets parameters to the values of the same names."""
    for name, parameter in parameters.items():
        parameter.copy_(values[name])


class WeightAverage:
    """A moving average of parameters: with each step, decay * average + (1 - decay) * parameters.

    In the first steps the decay is (1 + steps) / (10 + steps) if that is less, as in TensorFlow, so that the initial
    weights fade quickly. torch.optim.swa_utils would copy the whole model, with the frozen biLM and its cache.

    Args:
        decay: the weight of the old average in a step; None keeps no average, and `applied` changes nothing.
        parameters: the parameters by name; the average starts as a copy.
    """

    def __init__(self, decay: float | None, parameters: Mapping[str, Tensor]) -> None:
        self.decay = decay
        self.steps = 0
        self._parameters = dict(parameters) if decay is not None else {}
        self.values = copied(self._parameters)

    def update(self) -> None:
        """Adds the current parameters to the average."""
        if self.decay is None:
            return
        self.steps += 1
        weight = 1 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.values.values()), list(self._parameters.values()), weight)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Sets the parameters to the average within the block, and restores them exactly after it."""
        current = copied(self._parameters)
        overwrite(self._parameters, self.values)
        try:
            yield
        finally:
            overwrite(self._parameters, current)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"steps": self.steps, "values": self.values}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.steps = saved["steps"]
        self.values = copied(saved["values"])
