"""Batches of a training run: a function of seed and step, so a resumed run gets the same batches.

Every sentence starts from a zero state, so a batch can hold any sentences. It holds sentences of similar length, as
many as fill a number of tokens. Lengths are rounded up to a few values, so that a GPU sees few shapes, each of which
can be captured once and replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from elmo.pretrain.corpus.token_store import END, START, UNKNOWN, Sentences
from elmo.pretrain.model.spelling import Profile, Spelling, counts_above, fits, longest_first, padded, profile_of

IGNORED = -1
"""Target of a position without a token."""

Array = NDArray[np.int64]


@dataclass(frozen=True)
class TokenBatch:
    """A step's input: direction 0 reads <S> w1 .. wn and predicts w1 .. wn </S>, 1 does so from the other end.

    Attributes:
        types: the distinct words read, long spellings first, (types,).
        profile: groups of `types` of similar length.
        inputs: indices into `types`, (2, steps, sentences).
        targets: word number of the next word, or IGNORED, (2, steps, sentences).
        tokens: predictions in each direction, over all processes of a parallel run.
    """

    types: Array
    profile: Profile
    inputs: Array
    targets: Array
    tokens: int


def rounded(lengths: Array) -> Array:
    """Lengths rounded up to multiples of four, longer ones by about a sixteenth, so that little is padding."""
    unit: Array = np.maximum(4, 2 ** np.ceil(np.log2(np.maximum(lengths, 1)) - 4).clip(min=0).astype(np.int64))
    whole: Array = -(-lengths // unit) * unit
    return whole


@dataclass
class BatchPlan:
    """The batches of every epoch over some sentences.

    Attributes:
        sentences: to read.
        tokens: positions in a batch, padding included; a longer sentence gets a batch to itself.
        seed: of the order; None keeps sentences in order of length, for evaluation.
    """

    sentences: Sentences
    tokens: int
    seed: int | None
    _epoch: tuple[int, Array, Array] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._steps = rounded(np.diff(self.sentences.offsets) + 1)  # plus one for the mark before the words
        self._shapes, counts = np.unique(self._steps, return_counts=True)
        self._cuts: list[tuple[int, int, int]] = []  # (shape, first, last) in sentences sorted by shape
        rows = {int(shape): max(1, self.tokens // int(shape)) for shape in self._shapes}
        start, rest = 0, []
        for shape, count in zip(self._shapes.tolist(), counts.tolist(), strict=True):
            full = count // rows[shape] * rows[shape]
            self._cuts += [(shape, start + i, start + i + rows[shape]) for i in range(0, full, rows[shape])]
            rest += [(shape, position) for position in range(start + full, start + count)]
            start += count
        self._rest = rest[::-1]  # sentences that do not fill a batch of their length are joined, longest first
        self._rest_cuts: list[tuple[int, int, int]] = []
        i = 0
        while i < len(self._rest):
            shape = self._rest[i][0]
            self._rest_cuts.append((shape, i, min(i + rows[shape], len(self._rest))))
            i += rows[shape]

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self._cuts) + len(self._rest_cuts)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(steps, sentences) of every kind of batch, the most frequent first."""
        kinds, counts = np.unique([shape for shape, _, _ in self._cuts + self._rest_cuts], return_counts=True)
        return [(int(kind), max(1, self.tokens // int(kind))) for kind in kinds[np.argsort(-counts, kind="stable")]]

    def batch(self, step: int) -> tuple[int, int, Array]:
        """The batch of a step: its time steps, its capacity in sentences, and the numbers of its sentences."""
        epoch, index = divmod(step, len(self))
        by_shape, order = self._order(epoch)
        index = int(order[index])
        if index < len(self._cuts):
            steps, first, last = self._cuts[index]
            chosen = by_shape[first:last]
        else:
            steps, first, last = self._rest_cuts[index - len(self._cuts)]
            chosen = by_shape[[position for _, position in self._rest[first:last]]]
        return steps, max(1, self.tokens // steps), chosen

    def _order(self, epoch: int) -> tuple[Array, Array]:
        """Sentences sorted by shape and shuffled within each shape, and the order of an epoch's batches."""
        current = self._epoch  # read once: other threads may replace it
        if current is None or current[0] != epoch:
            if self.seed is None:
                shuffled, order = np.arange(len(self.sentences)), np.arange(len(self))
            else:
                generator = np.random.default_rng((self.seed, epoch))
                shuffled, order = generator.permutation(len(self.sentences)), generator.permutation(len(self))
            by_shape = shuffled[np.argsort(self._steps[shuffled], kind="stable")]
            self._epoch = current = (epoch, by_shape, order)
        return current[1], current[2]


@dataclass(frozen=True)
class Batcher:
    """Makes the batches of a plan.

    Attributes:
        plan: chooses the sentences.
        spelling: of every word.
        n_targets: words of the vocabulary; higher ids are <UNK> as a target.
        rank: of this process in a parallel run; each takes every `world`-th sentence of a step.
        world: processes of the run.
        profile: fixed sizes for a step's words, so that a captured step can be replayed; None fits each batch closely.
    """

    plan: BatchPlan
    spelling: Spelling
    n_targets: int
    rank: int = 0
    world: int = 1
    profile: Profile | None = None

    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""
        steps, rows, chosen = self.plan.batch(step)
        sentences = self.plan.sentences
        starts, ends = sentences.offsets[chosen], sentences.offsets[chosen + 1]
        tokens = int((ends - starts).sum()) + len(chosen)
        mine = slice(self.rank, None, self.world)
        starts, lengths = starts[mine], (ends - starts)[mine]
        rows = -(-rows // self.world)
        # (steps, sentences) each; a row without a sentence has length -1, so that </S> is not predicted there either.
        at = np.arange(steps)[:, None]
        starts = np.concatenate([starts, np.zeros(rows - len(starts), dtype=np.int64)])
        lengths = np.concatenate([lengths, np.full(rows - len(lengths), -1)])
        inside, end = at < lengths, at == lengths
        forward = np.where(inside, starts + at, 0)
        backward = np.where(inside, starts + lengths - 1 - at, 0)
        words = sentences.tokens[np.stack([forward, backward])].astype(np.int64)  # (2, steps, sentences)
        targets = np.where(words < self.n_targets, words, UNKNOWN)
        targets = np.where(inside, targets, np.where(end, END, IGNORED))
        first = np.broadcast_to(np.array([START, END])[:, None, None], (2, 1, rows))
        read = np.concatenate([first, np.where(inside, words, END)[:, :-1]], axis=1)
        types, inputs = np.unique(read, return_inverse=True)
        order = longest_first(types, self.spelling)
        types, place = types[order], np.argsort(order)
        inputs = place[inputs.reshape(read.shape)]
        lengths_of_types = self.spelling.lengths[types]
        profile = self.profile
        if profile is not None and fits(lengths_of_types, profile):
            types = padded(types, profile)
        else:
            profile = profile_of(
                counts_above(lengths_of_types, self.spelling.max_characters), self.spelling.max_characters
            )
        return TokenBatch(types, profile, inputs, targets, tokens)

    def common_profile(self, batches: int = 48) -> Profile:
        """A profile that fits the words of nearly every batch, from a sample of the first epoch."""
        most = np.zeros(1, dtype=np.int64)
        for step in np.unique(np.linspace(0, len(self.plan) - 1, batches).astype(np.int64)).tolist():
            lengths = self.spelling.lengths[self(step).types]
            most = np.maximum(most, counts_above(lengths, self.spelling.max_characters))
        padded_counts = (most + most // 16 + 16 + 15) // 16 * 16
        return profile_of(np.maximum.accumulate(padded_counts), self.spelling.max_characters)
