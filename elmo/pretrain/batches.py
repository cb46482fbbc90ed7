"""Numbered text, from a token store or lists of words, and its batches.

A batch is a function of seed and step, so a resumed run gets the same batches.

Every sentence starts from a zero state, so a batch can hold any sentences. It holds sentences of similar length, as
many as fill a number of tokens. Lengths are rounded up to a few values, so that there are few shapes, and a GPU can
capture the step of each once and replay it.

A `Batcher` decides what is read and what is predicted. That of a biLM predicts the next word in both directions. That
of a masked LM hides words: 15 % of the words of a batch are chosen, again in every epoch. Of these, 80 % are read as
the mask, 10 % as another word of the vocabulary and 10 % as themselves (as in BERT): so the model also learns to read
words that are not masked, as in all sentences whose layers it computes later.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from elmo.bilm.sentences import PADDING, WORD_END, WORD_START, character_ids, spell
from elmo.pretrain.corpus.token_store import END, SPECIALS, START, UNKNOWN, Sentences, TokenStore, offsets_of

IGNORED = -1
"""Target of a position without a token."""
SAMPLED = 48  # batches that decide a profile for all
MASK, NOTHING = -1, -2  # read instead of a word: the mask, padding
MASKED, REPLACED = 0.8, 0.1  # shares of the chosen words
MASKED_STRIDE = 7  # every seventh word of a sentence is masked when it is measured, about as many as in training

# Bounds of the groups, in ids per word (two boundary marks included). The cost of a group depends on its longest word.
GROUPS = (6, 8, 10, 12, 16, 24)

Array = NDArray[np.int64]
Profile = tuple[tuple[int, int], ...]
"""(words, longest spelling) of each group of a batch's words, the longest words first."""


@dataclass(frozen=True)
class Spelling:
    """Character ids of all words.

    Attributes:
        ids: character ids, padded, (words, max_characters).
        lengths: ids of each word without padding, (words,).
    """

    ids: NDArray[np.int16]
    lengths: NDArray[np.int16]

    @classmethod
    def of_bytes(cls, text: NDArray[np.uint8], offsets: NDArray[np.int64], max_characters: int) -> Spelling:
        """The spelling of words given as UTF-8, word i from offsets[i] to offsets[i + 1], special words first."""
        n_words = len(offsets) - 1
        lengths = np.minimum(np.diff(offsets), max_characters - 2)
        ids = np.full((n_words, max_characters), PADDING, dtype=np.int16)
        ids[:, 0] = WORD_START
        # Row and column of every byte take 16 bytes each, so a million words at a time.
        for start in range(0, n_words, 1_000_000):
            kept = lengths[start : start + 1_000_000]
            rows = np.repeat(np.arange(len(kept)), kept)
            columns = np.arange(len(rows)) - np.repeat(np.cumsum(kept) - kept, kept)
            ids[start + rows, 1 + columns] = text[offsets[start + rows] + columns]
        ids[np.arange(n_words), 1 + lengths] = WORD_END
        ids[: len(SPECIALS)] = character_ids(SPECIALS, max_characters)
        counts = (lengths + 2).astype(np.int16)
        counts[: len(SPECIALS)] = [len(spell(mark, max_characters)) for mark in SPECIALS]
        return cls(ids, counts)

    @classmethod
    def of_words(cls, words: Sequence[str], max_characters: int) -> Spelling:
        """The spelling of a list of words that begins with the special ones."""
        encoded = [word.encode("utf-8", "ignore") for word in words]
        text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return cls.of_bytes(text, offsets_of([len(word) for word in encoded]), max_characters)

    @property
    def max_characters(self) -> int:
        """The width that the encoder reads."""
        return int(self.ids.shape[1])


def counts_above(lengths: NDArray[np.int16], max_characters: int) -> NDArray[np.int64]:
    """Counts the words longer than the lower bound of each group, longest group first, (groups,)."""
    return np.array([(lengths > bound).sum() for bound in (*_bounds(max_characters), 0)], dtype=np.int64)


def profile_of(above: NDArray[np.int64], max_characters: int) -> Profile:
    """The groups that hold words with these `counts_above`."""
    longest = (max_characters, *_bounds(max_characters))
    sizes = np.diff(above, prepend=0).tolist()
    return tuple((size, width) for size, width in zip(sizes, longest, strict=True) if size > 0)


def _bounds(max_characters: int) -> list[int]:
    return [bound for bound in reversed(GROUPS) if bound < max_characters]


def padded(types: NDArray[np.int64], lengths: NDArray[np.int16], profile: Profile) -> NDArray[np.int64] | None:
    """The words, followed by copies of a short one that fill the profile; None if they do not fit.

    Args:
        types: words, longest first.
        lengths: of their spellings.
        profile: to fill.
    """
    start = 0
    for size, longest in profile:
        if (lengths[start : start + 1] > longest).any():
            return None
        start += size
    return np.pad(types, (0, start - len(types)), constant_values=END) if len(types) <= start else None


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
    listed = list(sentences)
    tokens = [number_of.setdefault(word, len(number_of)) for sentence in listed for word in sentence]
    numbered = Sentences(np.array(tokens, dtype=np.uint32), offsets_of([len(sentence) for sentence in listed]))
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
    types = text_of_words([store.words(range(len(store)))], vocabulary, max_characters)
    train, heldout = (
        Text(Sentences(types.sentences.tokens[part.tokens], part.offsets), types.spelling, types.n_targets)
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
class Batcher(ABC):
    """Makes the batches of a plan: what is read and what is predicted.

    Attributes:
        plan: chooses the sentences.
        spelling: of every word.
        n_targets: words of the vocabulary; higher ids are <UNK> as a target.
        rank: of this process in a parallel run; each takes every `world`-th sentence of a step.
        world: processes of the run.
        profile: fixed sizes for a step's words, so that a captured step can be replayed; None fits each batch closely.
        seed: of random choices; a batch is a function of seed, step and rank.
        chosen: share of the words that are predicted, if not all are.
    """

    marks: ClassVar[int]  # positions of a sentence in addition to its words

    plan: BatchPlan
    spelling: Spelling
    n_targets: int
    rank: int = 0
    world: int = 1
    profile: Profile | None = None
    seed: int = 0
    chosen: float = 0.15

    @abstractmethod
    def most_predictions(self, positions: int) -> int:
        """The most targets of a batch of this many positions."""

    @abstractmethod
    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""

    @abstractmethod
    def measured(self, step: int) -> Iterator[TokenBatch]:
        """The batches of a step that predict all there is to predict once, without rows that have no sentence."""

    def share(self, step: int, filled: bool = False) -> Share:
        """The sentences of a step that this process reads; `filled` leaves out rows without a sentence."""
        steps, rows, chosen = self.plan.batch(step)
        offsets = self.plan.sentences.offsets
        starts, lengths = offsets[chosen], offsets[chosen + 1] - offsets[chosen]
        read = slice(self.rank, None, self.world)
        missing = (0, 0 if filled else -(-rows // self.world) - len(starts[read]))
        return Share(steps, np.pad(starts[read], missing), np.pad(lengths[read], missing, constant_values=-1), lengths)

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


class JoinedBatcher(Batcher):
    """The batches of a biLM, with inputs and targets of the shape (2, steps, sentences).

    Direction 0 reads <S> w1 .. wn and predicts w1 .. wn </S>, direction 1 does so from the other end.
    """

    marks = 1

    def most_predictions(self, positions: int) -> int:
        """The most targets of a batch of this many positions."""
        return 2 * positions

    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""
        return self._batch(self.share(step))

    def measured(self, step: int) -> Iterator[TokenBatch]:
        """The sentences of a step; every word is predicted in both directions."""
        yield self._batch(self.share(step, filled=True))

    def _batch(self, share: Share) -> TokenBatch:
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


class MaskedBatcher(Batcher):
    """The batches of a masked LM.

    Inputs have the shape (sentences, steps): <S> w1 .. wn </S>, then padding. A row without a sentence has both marks.
    Targets are the chosen words, filled up with IGNORED to a number that depends on the shape alone.
    """

    marks = 2

    def most_predictions(self, positions: int) -> int:
        """The most targets of a batch of this many positions."""
        return math.ceil(self.chosen * positions)

    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""
        share = self.share(step)
        read, inside = self._read(share)
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

    def measured(self, step: int) -> Iterator[TokenBatch]:
        """The sentences of a step again and again, each time with every seventh word masked and nothing else."""
        share = self.share(step, filled=True)
        for first in range(MASKED_STRIDE):
            read, inside = self._read(share)
            places = np.flatnonzero(inside & ((np.arange(share.steps) - 1) % MASKED_STRIDE == first))
            targets = self.targets_of(read.flat[places])
            read.flat[places] = MASK
            tokens = share.tokens if first == 0 else 0
            yield TokenBatch(*self.numbered(read), targets, places, tokens, len(places))

    def _count(self, words: int) -> int:
        """How many of these words are chosen: at least one."""
        return min(words, max(1, round(self.chosen * words)))

    def _read(self, share: Share) -> tuple[Array, NDArray[np.bool_]]:
        """The words and marks of a share, (sentences, steps), and where the words are."""
        at, lengths = np.arange(share.steps), share.lengths.clip(min=0)[:, None]
        inside = (at > 0) & (at <= lengths)
        words = self.words_at(np.where(inside, share.starts[:, None] + at - 1, 0))
        marks = np.where(at == 0, START, np.where(at == lengths + 1, END, NOTHING))
        read: Array = np.where(inside, words, marks)
        return read, inside
