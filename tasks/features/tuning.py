"""Settings for tuning a source with a task, as in ULMFiT, and the learning rates that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from elmo.common import checks
from elmo.common.errors import InputError


@dataclass
class TuningConfig:
    """How a source is tuned. Its layers are groups of parameters; the head and the mixes keep the trainer's rate.

    Attributes:
        lr: the highest learning rate of the top layer; the default is for Adam, and too low for Adadelta.
        decay: the rate of a layer is that of the layer above it times this; 1 for equal rates.
        warmup: share of the run in which rates rise from zero; afterwards they fall, and reach zero with the last of
            trainer.epochs.
        unfreeze: epochs between the start of a layer and that of the one below it. The top layer starts at once; 0
            starts all.
    """

    lr: float = 1e-3
    decay: float = 0.4
    warmup: float = 0.1
    unfreeze: int = 1

    def check(self, key: str) -> None:
        """Raises an InputError for a value out of range; `key` is where these settings are in the config."""
        checks.positive(f"{key}.lr", self.lr)
        checks.at_least(0, f"{key}.unfreeze", self.unfreeze)
        if not 0 < self.decay <= 1:
            raise InputError(f"{key}.decay: expected more than 0 and at most 1, found {self.decay}")
        checks.dropout(f"{key}.warmup", self.warmup)


@dataclass(frozen=True)
class TunedGroup:
    """A layer of a tuned source.

    Attributes:
        parameters: of the layer.
        depth: the number of layers above it.
        config: how it is tuned.
    """

    parameters: Sequence[nn.Parameter]
    depth: int
    config: TuningConfig

    def frozen_in(self, epoch: int) -> bool:
        """Whether it is not trained yet in an epoch, counted from 1."""
        return epoch <= self.depth * self.config.unfreeze

    def rate(self, progress: float) -> float:
        """The learning rate after this share of the run, from 0 to 1."""
        config = self.config
        rising = progress < config.warmup
        share = progress / config.warmup if rising else (1 - progress) / (1 - config.warmup)
        return config.lr * config.decay**self.depth * share
