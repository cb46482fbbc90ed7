"""Batches of a masked LM: words are chosen at random, mostly hidden, and predicted from the rest of their sentence.

15 % of the words of a batch are chosen, again in every epoch. Of these, 80 % are read as the mask, 10 % as another word
of the vocabulary and 10 % as themselves (as in BERT): so the model also learns to read words that are not masked, as in
all sentences whose layers it computes later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.pretrain.corpus.token_store import END, SPECIALS, START
from elmo.pretrain.training.batches import IGNORED, Array, Batcher, Share, TokenBatch

MASK, NOTHING = -1, -2  # read instead of a word: the mask, padding
MARKS = 2  # <S> and </S>
MASKED, REPLACED = 0.8, 0.1  # shares of the chosen words


@dataclass(frozen=True)
class MaskedBatcher(Batcher):
    """Makes the batches of a plan for a masked LM.

    Inputs have the shape (sentences, steps): <S> w1 .. wn </S>, then padding. A row without a sentence has both marks.
    Targets are the chosen words, filled up with IGNORED to a number that depends on the shape alone.

    Attributes:
        seed: of the choice; a batch is a function of seed, step and rank.
        chosen: share of the words that are predicted.
    """

    seed: int = 0
    chosen: float = 0.15

    def most_predictions(self, positions: int) -> int:
        """The most targets of a batch of this many positions."""
        return math.ceil(self.chosen * positions)

    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""
        share = self.share(step)
        read, inside = self.read(share)
        words = np.flatnonzero(inside)
        draw = np.random.default_rng((self.seed, 3, step, self.rank))
        places = draw.permutation(words)[: self._count(len(words))]
        targets = self.targets_of(read.flat[places])
        masked = round(MASKED * len(places))
        replaced = places[masked : masked + round(REPLACED * len(places))]
        read.flat[places[:masked]] = MASK
        read.flat[replaced] = draw.integers(min(len(SPECIALS), self.n_targets - 1), self.n_targets, len(replaced))
        missing = (0, self.most_predictions(read.size) - len(places))
        targets = np.pad(targets, missing, constant_values=IGNORED)
        counts = [self._count(int(share.all_lengths[rank :: self.world].sum())) for rank in range(self.world)]
        return TokenBatch(*self.numbered(read), targets, np.pad(places, missing), share.tokens, sum(counts))

    def _count(self, words: int) -> int:
        """How many of these words are chosen: at least one."""
        return min(words, max(1, round(self.chosen * words)))

    def read(self, share: Share) -> tuple[Array, NDArray[np.bool_]]:
        """The words and marks of a share, (sentences, steps), and where the words are."""
        at, lengths = np.arange(share.steps), share.lengths.clip(min=0)[:, None]
        inside = (at > 0) & (at <= lengths)
        words = self.words_at(np.where(inside, share.starts[:, None] + at - 1, 0))
        marks = np.where(at == 0, START, np.where(at == lengths + 1, END, NOTHING))
        read: Array = np.where(inside, words, marks)
        return read, inside

    def every(self, step: int, stride: int, first: int) -> TokenBatch:
        """The batch of a step in which every `stride`-th word of each sentence is masked, from its word `first` on."""
        share = self.share(step)
        read, inside = self.read(share)
        filled = share.lengths >= 0
        read, inside = read[filled], inside[filled]
        places = np.flatnonzero(inside & ((np.arange(share.steps) - 1) % stride == first))
        targets = self.targets_of(read.flat[places])
        read.flat[places] = MASK
        return TokenBatch(*self.numbered(read), targets, places, share.tokens, len(places))
