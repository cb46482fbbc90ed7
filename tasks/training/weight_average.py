"""A moving average of the weights, with which a model predicts better than with those of its last step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class WeightAverage:
    """A moving average of parameters: with each step, decay * average + (1 - decay) * parameters.

    In the first steps the decay is (1 + steps) / (10 + steps) where that is less, as in TensorFlow's, so that the start
    does not linger. torch.optim.swa_utils would copy the whole model, with the frozen biLM and its cache.

    Args:
        decay: the share of the average that a step leaves; None keeps no average, and `applied` changes nothing.
        parameters: what to average, by name; the average starts as a copy.
    """

    def __init__(self, decay: float | None, parameters: Mapping[str, Tensor]) -> None:
        self.decay = decay
        self.steps = 0
        self._parameters = dict(parameters) if decay is not None else {}
        self.values = {name: value.detach().clone() for name, value in self._parameters.items()}

    def update(self) -> None:
        """Takes in what the parameters are now."""
        if self.decay is None:
            return
        self.steps += 1
        weight = 1 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.values.values()), list(self._parameters.values()), weight)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While it lasts, the parameters are the average; afterwards they are what they were, to the last bit."""
        current = {name: value.detach().clone() for name, value in self._parameters.items()}
        self._set(self.values)
        try:
            yield
        finally:
            self._set(current)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to hold."""
        return {"steps": self.steps, "values": self.values}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Goes on from what a checkpoint held."""
        self.steps = saved["steps"]
        self.values = {name: value.clone() for name, value in saved["values"].items()}

    def _set(self, values: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(values[name])
