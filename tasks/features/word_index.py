"""Word index: a number for each word, so that batches need no Python work per token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from elmo.bilm.characters import spell
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
        found = np.flatnonzero(occurs)
        self._place_of[found] = np.arange(len(found))
        return found, self._place_of[words]
