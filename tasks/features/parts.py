"""The parts of features: what each adds to which places of a head, and the located text that they read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from torch import Tensor, nn

from elmo.common.progress import Reporter
from elmo.store.cached_layers import Located
from tasks.batch import Sentence
from tasks.features.word_index import WordNumbers


@dataclass(frozen=True)
class LocatedText:
    """One kind of text of a batch, as numbers on the device: its words, and the places of its frozen layers.

    Some of these numbers would make a training step wait for the device, so all are computed on the CPU before it.

    Attributes:
        lengths: tokens of each sentence, on the CPU, (batch,).
        longest: characters of the longest word.
        words: the number of each word, 0 for padding, (batch, tokens).
        distinct: the numbers that occur, (distinct words,).
        places: the index of each word in `distinct`, (batch, tokens).
        layers: where the frozen layers of each part are, by the part's name.
    """

    lengths: Tensor
    longest: int
    words: Tensor
    distinct: Tensor
    places: Tensor
    layers: Mapping[str, Located]

    @cached_property
    def mask(self) -> Tensor:
        """True for tokens, false for padding, (batch, tokens)."""
        return self.words > 0

    def tensors(self) -> list[Tensor]:
        """The tensors to copy to the device."""
        rows = [located.rows for located in self.layers.values() if located.rows is not None]
        return [self.words, self.distinct, self.places, *rows]

    def moved(self, tensors: Iterator[Tensor]) -> LocatedText:
        """The same text with copies of its `tensors`."""
        words, distinct, places = islice(tensors, 3)
        layers = {
            name: located if located.rows is None else replace(located, rows=next(tensors))
            for name, located in self.layers.items()
        }
        return LocatedText(self.lengths, self.longest, words, distinct, places, layers)


class FeaturePart(nn.Module, ABC):
    """A part of the features. `TokenFeatures` joins the vectors of all parts at each place.

    Attributes:
        widths: the width that it adds to each of its places.
    """

    widths: Mapping[str, int]

    def add_words(self, new: Sequence[str], numbers: WordNumbers) -> None:
        """Adds new words; their numbers follow those of the earlier words."""

    def prepare(self, sentences: Iterable[Sentence], reporter: Reporter | None) -> int:
        """Computes ahead what it can; returns the number of sentences that it must compute each time."""
        return 0

    @abstractmethod
    def vectors(self, texts: Sequence[LocatedText]) -> Iterator[dict[str, Tensor]]:
        """For each text of a batch, one by one, the vectors by place, (batch, tokens, width)."""
