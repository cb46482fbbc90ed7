"""Layers of a source that is trained with the task: computed in every step, without cache or store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from torch import Tensor

from elmo.bilm.model import Bilm
from elmo.bilm.sentences import padded
from elmo.common.errors import InputError
from elmo.sources.bilm import TunedBilm
from elmo.sources.source import FrozenSource, TunableSource
from elmo.store.cached_layers import Located
from tasks.batch import Sentence
from tasks.features.frozen_layers import FrozenConfig, MixedLayers
from tasks.features.parts import LocatedText
from tasks.features.tuning import TunedGroup


class TunedLayers(MixedLayers):
    """Layers of a tuned source as a part, with one mix for each place.

    Args:
        name: of the part, for `LocatedText.layers`.
        config: the source, its mixes and how it is tuned.

    Raises:
        InputError: the source cannot be tuned.
    """

    source: TunableSource

    def __init__(self, name: str, config: FrozenConfig) -> None:
        super().__init__(name, config, tunable(name, config.open()))
        groups = self.source.parameter_groups()
        self.groups = [TunedGroup(own, len(groups) - 1 - i, config.tuning) for i, own in enumerate(groups)]

    def locate(self, sentences: Sequence[Sentence]) -> Located:
        """The sentences alone: `vectors` computes their layers."""
        return Located(list(map(tuple, sentences)))

    def vectors(self, texts: Sequence[LocatedText]) -> Iterator[dict[str, Tensor]]:
        """The mixed layers."""
        for text in texts:
            whole = text.layers[self.name].sentences
            read = list(chain.from_iterable(map(self.split, whole))) if self.by_sentence else whole
            tokens = self.source.token_layers(read)
            yield self.mixed(padded(tokens, whole), text.mask)


def tunable(name: str, source: FrozenSource) -> TunableSource:
    """The source with gradients; a biLM is computed as in pretraining."""
    if isinstance(source, Bilm):
        return TunedBilm(source)
    if not isinstance(source, TunableSource):
        raise InputError(
            f"features.{name}.tune: expected a biLM, a transformer, or a source with parameter_groups(), see "
            f"elmo.sources.source.TunableSource, found {type(source).__name__}. Leave tune out"
        )
    return source
