"""Numbered text, from a token store or lists of words, and its batches.

A batch is a function of seed and step, so a resumed run gets the same batches.

Every sentence starts from a zero state, so a batch can hold any sentences. It holds sentences of similar length, as
many as fill a number of tokens. Lengths are rounded up to a few values, so that there are few shapes, and a GPU can
capture the step of each once and replay it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from elmo.pretrain.corpus.token_store import END, START, UNKNOWN, Sentences, TokenStore
from elmo.pretrain.model.spelling import Profile, Spelling, counts_above, padded, profile_of

IGNORED = -1
"""Target of a position without a token."""
SAMPLED = 48  # batches that decide a profile for all

Array = NDArray[np.int64]


@dataclass(frozen=True)
class Text:
    """Sentences of word numbers; words of the vocabulary have the lowest numbers.

    Attributes:
        sentences: word numbers.
        spelling: of every word.
        n_targets: words of the vocabulary, the special ones included; higher numbers are <UNK> as a target.
    """

    sentences: Sentences
    spelling: Spelling
    n_targets: int

    @property
    def predictions(self) -> int:
        """Predictions in each direction: words and ends of sentences."""
        return len(self.sentences.tokens) + len(self.sentences)

    @property
    def unknown_rate(self) -> float:
        """Share of words (without </S>) that are <UNK> as a target."""
        tokens = self.sentences.tokens
        return float(((tokens >= self.n_targets) | (tokens == UNKNOWN)).mean()) if len(tokens) else 0.0


def text_of_words(sentences: Iterable[Sequence[str]], vocabulary: Sequence[str], max_characters: int) -> Text:
    """Numbers the words of sentences by a vocabulary that begins with the special words."""
    number_of = {word: number for number, word in enumerate(vocabulary)}
    offsets, tokens = [0], []
    for sentence in sentences:
        tokens += [number_of.setdefault(word, len(number_of)) for word in sentence]
        offsets.append(len(tokens))
    numbered = Sentences(np.array(tokens, dtype=np.uint32), np.array(offsets, dtype=np.int64))
    return Text(numbered, Spelling.of_words(list(number_of), max_characters), len(vocabulary))


def texts_of_store(
    store: TokenStore, max_characters: int, vocabulary: Sequence[str] | None = None
) -> tuple[Text, Text]:
    """The training and the held-out text of a store.

    Args:
        store: to read from.
        max_characters: characters of a word that the encoder reads.
        vocabulary: words to number first, if they come from another store; None uses the store's own.
    """
    if vocabulary is None:
        spelling = Spelling.of_bytes(store.type_bytes, store.type_offsets, max_characters)
        n_targets = store.vocabulary_size
        return Text(store.train, spelling, n_targets), Text(store.heldout, spelling, n_targets)
    number_of = {word: number for number, word in enumerate(vocabulary)}
    renumbered = np.array(
        [number_of.setdefault(word, len(number_of)) for word in store.words(range(len(store)))], dtype=np.uint32
    )
    spelling = Spelling.of_words(list(number_of), max_characters)
    train, heldout = (
        Text(Sentences(renumbered[part.tokens], part.offsets), spelling, len(vocabulary))
        for part in (store.train, store.heldout)
    )
    return train, heldout


@dataclass(frozen=True)
class TokenBatch:
    """A step's input. A `Batcher` chooses what is read and predicted.

    Attributes:
        types: the distinct words read, long spellings first, (types,).
        profile: groups of `types` of similar length.
        inputs: indices into `types`, of the batcher's shape.
        targets: word numbers to predict, or IGNORED.
        places: where in the flat inputs each target is; empty if every input has one target, in the same order.
        tokens: words and ends of sentences read, over all processes of a parallel run.
        predictions: targets that count, over all processes.
    """

    types: Array
    profile: Profile
    inputs: Array
    targets: Array
    places: Array
    tokens: int
    predictions: int


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
        marks: positions of a sentence in addition to its words.
    """

    sentences: Sentences
    tokens: int
    seed: int | None
    marks: int = 1
    _epoch: tuple[int, Array, Array] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._steps = rounded(np.diff(self.sentences.offsets) + self.marks)
        # (steps, positions) of every batch, positions in the sentences sorted by steps
        self._batches: list[tuple[int, slice | list[int]]] = []
        start, left = 0, []
        for steps, count in np.stack(np.unique(self._steps, return_counts=True), axis=1).tolist():
            rows = self._rows(steps)
            whole = start + count // rows * rows
            self._batches += [(steps, slice(i, i + rows)) for i in range(start, whole, rows)]
            left += [(steps, position) for position in range(whole, start + count)]
            start += count
        left.reverse()  # sentences that do not fill a batch of their length are joined, longest first
        while left:
            rows = self._rows(left[0][0])
            self._batches.append((left[0][0], [position for _, position in left[:rows]]))
            del left[:rows]

    def _rows(self, steps: int) -> int:
        return max(1, self.tokens // steps)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self._batches)

    @property
    def steps(self) -> list[int]:
        """Time steps of every kind of batch, the most frequent first."""
        kinds, counts = np.unique([steps for steps, _ in self._batches], return_counts=True)
        return [int(kind) for kind in kinds[np.argsort(-counts, kind="stable")]]

    def batch(self, step: int) -> tuple[int, int, Array]:
        """The batch of a step: its time steps, its capacity in sentences, and the numbers of its sentences."""
        epoch, index = divmod(step, len(self))
        by_steps, order = self._order(epoch)
        steps, positions = self._batches[order[index]]
        return steps, self._rows(steps), by_steps[positions]

    def _order(self, epoch: int) -> tuple[Array, Array]:
        """Sentences sorted by steps, shuffled among equal ones, and the order of an epoch's batches."""
        current = self._epoch  # read once: other threads may replace it
        if current is None or current[0] != epoch:
            if self.seed is None:
                shuffled, order = np.arange(len(self.sentences)), np.arange(len(self))
            else:
                generator = np.random.default_rng((self.seed, epoch))
                shuffled, order = generator.permutation(len(self.sentences)), generator.permutation(len(self))
            by_steps = shuffled[np.argsort(self._steps[shuffled], kind="stable")]
            self._epoch = current = (epoch, by_steps, order)
        return current[1], current[2]


@dataclass(frozen=True)
class Share:
    """The sentences of a step that one process reads.

    Attributes:
        steps: positions of each, padding included.
        starts: where their words begin, 0 for a row without a sentence, (rows,).
        lengths: their words, -1 for a row without a sentence, (rows,).
        all_lengths: words of each sentence of the step, in all processes.
    """

    steps: int
    starts: Array
    lengths: Array
    all_lengths: Array

    @property
    def tokens(self) -> int:
        """Words and ends of sentences, in all processes."""
        return int(self.all_lengths.sum()) + len(self.all_lengths)


@dataclass(frozen=True)
class Batcher:
    """Makes the batches of a plan for a biLM, with inputs and targets of the shape (2, steps, sentences).

    Direction 0 reads <S> w1 .. wn and predicts w1 .. wn </S>, direction 1 does so from the other end.

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

    def most_predictions(self, positions: int) -> int:
        """The most targets of a batch of this many positions."""
        return 2 * positions

    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""
        share = self.share(step)
        lengths = share.lengths
        at = np.arange(share.steps)[:, None]
        inside, end = at < lengths, at == lengths  # (steps, sentences) each
        forward = np.where(inside, share.starts + at, 0)
        backward = np.where(inside, share.starts + lengths - 1 - at, 0)
        words = self.words_at(np.stack([forward, backward]))  # (2, steps, sentences)
        targets = np.where(inside, self.targets_of(words), np.where(end, END, IGNORED))
        first = np.broadcast_to(np.array([START, END])[:, None, None], (2, 1, len(lengths)))
        read = np.concatenate([first, np.where(inside, words, END)[:, :-1]], axis=1)
        every = np.zeros(0, dtype=np.int64)
        return TokenBatch(*self.numbered(read), targets, every, share.tokens, 2 * share.tokens)

    def share(self, step: int) -> Share:
        """The sentences of a step that this process reads."""
        steps, rows, chosen = self.plan.batch(step)
        offsets = self.plan.sentences.offsets
        starts, lengths = offsets[chosen], offsets[chosen + 1] - offsets[chosen]
        missing = -(-rows // self.world) - len(starts[self.rank :: self.world])
        return Share(
            steps,
            np.concatenate([starts[self.rank :: self.world], np.zeros(missing, dtype=np.int64)]),
            np.concatenate([lengths[self.rank :: self.world], np.full(missing, -1)]),
            lengths,
        )

    def words_at(self, positions: Array) -> Array:
        """The word numbers at these positions of the text, of the same shape."""
        return self.plan.sentences.tokens[positions].astype(np.int64)

    def targets_of(self, words: Array) -> Array:
        """The targets of words: <UNK> for those outside the vocabulary."""
        return np.where(words < self.n_targets, words, UNKNOWN)

    def numbered(self, read: Array) -> tuple[Array, Profile, Array]:
        """The types of the words read, their profile, and the words as indices into the types.

        Args:
            read: word numbers; -1, -2 and so on are no words, their indices follow those of the types.
        """
        is_word = read >= 0
        types, places = np.unique(read[is_word], return_inverse=True)
        order = np.argsort(-self.spelling.lengths[types], kind="stable")  # long spellings first
        types, place = types[order], np.argsort(order)
        lengths, most = self.spelling.lengths[types], self.spelling.max_characters
        filled = padded(types, lengths, self.profile) if self.profile else None
        if filled is not None and self.profile:
            profile, found = self.profile, filled
        else:
            profile, found = profile_of(counts_above(lengths, most), most), types
        inputs = len(found) - 1 - read
        inputs[is_word] = place[places]
        return found, profile, inputs

    def common_profile(self) -> Profile:
        """A profile that fits the words of nearly every batch, from a sample of the first epoch."""
        most = np.zeros(1, dtype=np.int64)
        for step in np.unique(np.linspace(0, len(self.plan) - 1, SAMPLED).astype(np.int64)).tolist():
            lengths = self.spelling.lengths[self(step).types]
            most = np.maximum(most, counts_above(lengths, self.spelling.max_characters))
        padded_counts = (most + most // 16 + 16 + 15) // 16 * 16
        return profile_of(np.maximum.accumulate(padded_counts), self.spelling.max_characters)
