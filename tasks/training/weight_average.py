"""Copies of the weights, and their moving average, which often predicts better than the weights of the last step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


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
