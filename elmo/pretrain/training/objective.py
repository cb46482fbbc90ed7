"""Objectives of pretraining: a biLM predicts the next word in both directions, a masked LM predicts hidden words.

An objective has a model, its batches, and a measure on held-out text. The rest of a run is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from elmo.bilm.options import BilmOptions
from elmo.common.progress import Meter
from elmo.masked.options import MaskedOptions
from elmo.pretrain.model.language_model import LanguageModel
from elmo.pretrain.model.masked_model import MaskedLanguageModel
from elmo.pretrain.training.batches import Batcher, BatchPlan, Text
from elmo.pretrain.training.masked_batches import MARKS, MaskedBatcher
from elmo.pretrain.training.masked_loss import MaskedLoss, masked_loss
from elmo.pretrain.training.parallel import Workers
from elmo.pretrain.training.perplexity import Perplexity, perplexity
from elmo.pretrain.training.settings import Settings

TrainedModel = LanguageModel | MaskedLanguageModel


class Measured(Protocol):
    """What was measured on a text: a dataclass whose text, str(...), contains all of it."""

    kind: ClassVar[str]  # its name in messages and, with _ for blanks, in finished.json
    columns: ClassVar[tuple[str, ...]]  # its attributes in the learning curve

    @property
    def mean(self) -> float:
        """One number, which must be finite."""

    @property
    def short(self) -> str:
        """The value in a few words."""


@dataclass(frozen=True)
class Objective:
    """What a run trains.

    Attributes:
        title: of the model, for cards and messages.
        model: its class.
        options: of a new model, from the settings of the run and the vocabulary.
        batcher: the batches of a text for one of the workers.
        measured: the class of what is measured on held-out text.
        measure: (model, text, dtype, meter) -> measured.
    """

    title: str
    model: type[LanguageModel] | type[MaskedLanguageModel]
    options: Callable[[Settings, list[str]], BilmOptions | MaskedOptions]
    batcher: Callable[[Text, Settings, Workers], Batcher]
    measured: type[Perplexity] | type[MaskedLoss]
    measure: Callable[[Any, Text, torch.dtype, Meter | None], Measured]

    def random(self, settings: Settings, vocabulary: list[str]) -> TrainedModel:
        """An untrained model; equal for equal seeds."""
        options: Any = self.options(settings, vocabulary)
        return self.model.random(options, len(vocabulary), settings.seed)


def _bilm_options(settings: Settings, vocabulary: list[str]) -> BilmOptions:
    return settings.model.options(settings.input, vocabulary)


def _bilm_batcher(text: Text, settings: Settings, workers: Workers) -> Batcher:
    plan = BatchPlan(text.sentences, settings.training.batch_tokens * workers.world, settings.seed)
    return Batcher(plan, text.spelling, text.n_targets, workers.rank, workers.world)


def _masked_options(settings: Settings, vocabulary: list[str]) -> MaskedOptions:
    return settings.masked.options(_bilm_options(settings, vocabulary), settings.max_tokens)


def _masked_batcher(text: Text, settings: Settings, workers: Workers) -> Batcher:
    plan = BatchPlan(text.sentences, settings.training.batch_tokens * workers.world, settings.seed, MARKS)
    of_run = text.spelling, text.n_targets, workers.rank, workers.world
    return MaskedBatcher(plan, *of_run, seed=settings.seed, chosen=settings.masked.chosen)


BILM = Objective("biLM", LanguageModel, _bilm_options, _bilm_batcher, Perplexity, perplexity)
MASKED = Objective("masked LM", MaskedLanguageModel, _masked_options, _masked_batcher, MaskedLoss, masked_loss)
OBJECTIVES = {"bilm": BILM, "masked": MASKED}
