"""The parts of features: what each adds to which places of a head, and the numbered words that they read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from elmo.bilm.sentences import spell
from elmo.common.device import upload
from elmo.common.progress import Reporter
from elmo.store.cached_layers import Located
from tasks.batch import Sentence

LONGEST_WORD = 50  # characters of a word that the character CNN reads, including the boundary marks

Numbers = npt.NDArray[np.int64]


class WordNumbers:
    """The words and sentences seen so far. Words are numbered from 1; 0 is padding.

    Attributes:
        characters: the number of characters of each word, including the boundary marks.
    """

    def __init__(self) -> None:
        self.characters: Numbers = np.zeros(1, dtype=np.int64)
        self._numbers: dict[str, int] = {}
        self._known: dict[Sentence, Numbers] = {}
        self._place_of: Numbers = np.zeros(1, dtype=np.int64)  # see `distinct`

    def meet(self, sentences: Iterable[Sentence]) -> list[str]:
        """Numbers the new words of these sentences and returns them in the order of their numbers."""
        sentences = list(dict.fromkeys(sentence for sentence in sentences if sentence not in self._known))
        new = [word for word in dict.fromkeys(chain.from_iterable(sentences)) if word not in self._numbers]
        if new:
            self._numbers.update({word: number for number, word in enumerate(new, start=len(self._numbers) + 1)})
            lengths = [len(spell(word, LONGEST_WORD)) for word in new]
            self.characters = np.concatenate([self.characters, np.array(lengths, dtype=np.int64)])
            self._place_of = np.zeros_like(self.characters)
        for sentence in sentences:
            self._known[sentence] = np.array([self._numbers[word] for word in sentence], dtype=np.int64)
        return new

    def padded(self, sentences: Sequence[Sentence]) -> tuple[Numbers, Numbers]:
        """The numbers of a batch's words, 0 for padding, (batch, tokens), and the sentences' lengths, (batch,)."""
        numbers = [self._known[sentence] for sentence in sentences]
        lengths = np.array([len(row) for row in numbers], dtype=np.int64)
        inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
        words = np.zeros(inside.shape, dtype=np.int64)
        words[inside] = np.concatenate([*numbers, np.zeros(0, dtype=np.int64)])  # there may be no sentence
        return words, lengths

    def distinct(self, words: Numbers) -> tuple[Numbers, Numbers]:
        """The numbers that occur, and the place of each word among them: as np.unique, without sorting."""
        occurs = np.zeros(len(self._place_of), dtype=bool)
        occurs[words] = True
        distinct = np.flatnonzero(occurs)
        self._place_of[distinct] = np.arange(len(distinct))
        return distinct, self._place_of[words]


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

    def to(self, device: torch.device) -> LocatedText:
        """The same text with its numbers on a device."""
        layers = {
            name: located if located.rows is None else replace(located, rows=upload(located.rows, device))
            for name, located in self.layers.items()
        }
        words, distinct, places = (upload(numbers, device) for numbers in (self.words, self.distinct, self.places))
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
