"""Numbered text, from a token store or lists of words, and its batches.

A batch is a function of seed and step, so a resumed run gets the same batches.

Every sentence starts from a zero state, so a batch can hold any sentences. It holds sentences of similar length, as
many as fill a number of tokens.

A subclass of `Batches` decides what is read and what is predicted. That of a biLM predicts the next word in both
directions, that of a forward LM in one. That of a masked LM hides words: 15 % of the words of a batch are chosen, again
in every epoch. Of these, 80 % are read as the mask, 10 % as another word of the vocabulary and 10 % as themselves (as
in BERT): so the model also learns to read words that are not masked, as in all sentences whose layers it computes
later.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from elmo.bilm.sentences import PADDING, character_ids
from elmo.pretrain.corpus.token_store import END, SPECIALS, START, UNKNOWN, Sentences, TokenStore, offsets_of

# Target of a position without a token.
IGNORED = -1
MASK, NOTHING = -1, -2  # read instead of a word: the mask, padding
MASKED, REPLACED = 0.8, 0.1  # shares of the chosen words
MASKED_STRIDE = 7  # every seventh word of a sentence is masked when it is measured, about as many as in training

# Bounds of the groups, in ids per word (two boundary marks included). The cost of a group depends on its longest word.
GROUPS = (6, 8, 10, 12, 16, 24)

Array = NDArray[np.int64]
# (words, longest spelling) of each group of a batch's words, the longest words first.
Groups = tuple[tuple[int, int], ...]


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
    def of_words(cls, words: Sequence[str], max_characters: int) -> "Spelling":
        """The spelling of a list of words."""
        parts = [words[start : start + 100_000] for start in range(0, len(words), 100_000)]  # bounds the memory
        ids = np.concatenate([character_ids(part, max_characters).astype(np.int16) for part in parts])
        return cls(ids, (ids != PADDING).sum(axis=1, dtype=np.int16))

    def groups(self, words: Array) -> Groups:
        """Groups of similar length of these words, which are sorted by falling length."""
        longest = self.ids.shape[1]
        bounds = [longest, *(bound for bound in reversed(GROUPS) if bound < longest), 0]
        above = np.searchsorted(-self.lengths[words], -np.array(bounds[1:]))  # words longer than each bound
        sizes = np.diff(above, prepend=0).tolist()
        return tuple((size, width) for size, width in zip(sizes, bounds, strict=False) if size)


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
        """Words and ends of sentences: predictions of a biLM in each direction."""
        return len(self.sentences.tokens) + len(self.sentences)

    @property
    def unknown_rate(self) -> float:
        """Share of the words that are <UNK> as a target."""
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
        spelling = Spelling.of_words(store.words(), max_characters)
        n_targets = store.vocabulary_size
        return Text(store.train, spelling, n_targets), Text(store.heldout, spelling, n_targets)
    types = text_of_words([store.words()], vocabulary, max_characters)
    train, heldout = (
        Text(Sentences(types.sentences.tokens[part.tokens], part.offsets), types.spelling, types.n_targets)
        for part in (store.train, store.heldout)
    )
    return train, heldout


@dataclass(frozen=True)
class TokenBatch:
    """A step's input.

    Attributes:
        types: the distinct words read, long spellings first, (types,).
        groups: of `types`, by length.
        inputs: indices into `types`, of a shape that the network defines.
        targets: word numbers to predict, or IGNORED.
        places: where in the flat inputs each target is; empty if every input has one target, in the same order.
        tokens: words and ends of sentences read.
        predictions: targets that count.
    """

    types: Array
    groups: Groups
    inputs: Array
    targets: Array
    places: Array
    tokens: int
    predictions: int


def rounded(lengths: Array) -> Array:
    """Lengths rounded up to multiples of four, longer ones by about a sixteenth, so that little is padding."""
    unit: Array = np.maximum(4, 2 ** np.ceil(np.log2(np.maximum(lengths, 1)) - 4).clip(min=0).astype(np.int64))
    return -(-lengths // unit) * unit


class Batches(ABC):
    """The batches of every epoch over a text. Subclasses decide what is read and what is predicted.

    Args:
        text: to read.
        tokens: positions in a batch, padding included; a longer sentence gets a batch to itself.
        seed: of the order and of all choices; None keeps sentences in order of length, for evaluation.
        chosen: share of the words that are predicted, if not all are.
    """

    marks: ClassVar[int]  # positions of a sentence in addition to its words

    def __init__(self, text: Text, tokens: int, seed: int | None, chosen: float = 0.15) -> None:
        self.text, self.tokens, self.seed, self.chosen = text, tokens, seed, chosen
        self._epoch: tuple[int, Array, Array] | None = None
        self._steps = rounded(np.diff(text.sentences.offsets) + self.marks)
        # (steps, positions) of every batch, positions in the sentences sorted by steps
        self._batches: list[tuple[int, slice | list[int]]] = []
        start, left = 0, []
        for steps, count in np.stack(np.unique(self._steps, return_counts=True), axis=1).tolist():
            rows = max(1, tokens // steps)
            whole = start + count // rows * rows
            self._batches += [(steps, slice(i, i + rows)) for i in range(start, whole, rows)]
            left += [(steps, position) for position in range(whole, start + count)]
            start += count
        left.reverse()  # sentences that do not fill a batch of their length are joined, longest first
        while left:
            rows = max(1, tokens // left[0][0])
            self._batches.append((left[0][0], [position for _, position in left[:rows]]))
            del left[:rows]

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self._batches)

    @abstractmethod
    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""

    def measured(self, step: int) -> Iterator[TokenBatch]:
        """The batches of a step that predict all there is to predict once."""
        yield self(step)

    def sentences(self, step: int) -> tuple[int, Array]:
        """The positions of each sentence of a step, padding included, and the numbers of its sentences."""
        epoch, index = divmod(step, len(self))
        by_steps, order = self._order(epoch)
        steps, positions = self._batches[order[index]]
        return steps, by_steps[positions]

    def _order(self, epoch: int) -> tuple[Array, Array]:
        """Sentences sorted by steps, shuffled among equal ones, and the order of an epoch's batches."""
        current = self._epoch  # read once: other threads may replace it
        if current is None or current[0] != epoch:
            n_sentences = len(self.text.sentences)
            if self.seed is None:
                shuffled, order = np.arange(n_sentences), np.arange(len(self))
            else:
                generator = np.random.default_rng((self.seed, epoch))
                shuffled, order = generator.permutation(n_sentences), generator.permutation(len(self))
            by_steps = shuffled[np.argsort(self._steps[shuffled], kind="stable")]
            self._epoch = current = (epoch, by_steps, order)
        return current[1], current[2]

    def _bounds(self, step: int) -> tuple[int, Array, Array]:
        """The positions of each sentence of a step, where its words begin, and how many they are."""
        steps, chosen = self.sentences(step)
        starts = self.text.sentences.offsets[chosen]
        return steps, starts, self.text.sentences.offsets[chosen + 1] - starts

    def _words_at(self, positions: Array) -> Array:
        """The word numbers at these positions of the text, of the same shape."""
        return self.text.sentences.tokens[positions].astype(np.int64)

    def _targets_of(self, words: Array) -> Array:
        """The targets of words: <UNK> for those outside the vocabulary."""
        return np.where(words < self.text.n_targets, words, UNKNOWN)

    def _numbered(self, read: Array) -> tuple[Array, Groups, Array]:
        """The types of the words read, their groups, and the words as indices into the types.

        Args:
            read: word numbers; -1, -2 and so on are no words, their indices follow those of the types.
        """
        is_word = read >= 0
        types, places = np.unique(read[is_word], return_inverse=True)
        order = np.argsort(-self.text.spelling.lengths[types], kind="stable")  # long spellings first
        inputs = len(types) - 1 - read
        inputs[is_word] = np.argsort(order)[places]
        return types[order], self.text.spelling.groups(types[order]), inputs


class JoinedBatches(Batches):
    """The batches of a biLM, with inputs and targets of the shape (directions, steps, sentences).

    Direction 0 reads <S> w1 .. wn and predicts w1 .. wn </S>, direction 1 does so from the other end.
    """

    marks = 1
    directions: ClassVar[int] = 2

    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""
        steps, starts, lengths = self._bounds(step)
        at = np.arange(steps)[:, None]
        inside, end = at < lengths, at == lengths  # (steps, sentences) each
        forward = np.where(inside, starts + at, 0)
        backward = np.where(inside, starts + lengths - 1 - at, 0)
        words = self._words_at(np.stack([forward, backward][: self.directions]))  # (directions, steps, sentences)
        targets = np.where(inside, self._targets_of(words), np.where(end, END, IGNORED))
        first = np.array([START, END])[: self.directions, None, None].repeat(len(lengths), axis=2)
        read = np.concatenate([first, np.where(inside, words, END)[:, :-1]], axis=1)
        tokens, every = int(lengths.sum()) + len(lengths), np.zeros(0, dtype=np.int64)
        return TokenBatch(*self._numbered(read), targets, every, tokens, self.directions * tokens)


class ForwardBatches(JoinedBatches):
    """Direction 0 alone."""

    directions = 1


class MaskedBatches(Batches):
    """The batches of a masked LM: inputs have the shape (sentences, steps), <S> w1 .. wn </S>, then padding."""

    marks = 2

    def __call__(self, step: int) -> TokenBatch:
        """The batch of a step."""
        read, inside, tokens = self._read(step)
        words = np.flatnonzero(inside)
        draw = np.random.default_rng((self.seed or 0, 3, step, 0))
        places = draw.permutation(words)[: max(1, round(self.chosen * len(words)))]
        targets = self._targets_of(read.flat[places])
        masked = round(MASKED * len(places))
        replaced = places[masked : masked + round(REPLACED * len(places))]
        read.flat[places[:masked]] = MASK
        first, last = min(len(SPECIALS), self.text.n_targets - 1), self.text.n_targets
        read.flat[replaced] = draw.integers(first, last, len(replaced))
        return TokenBatch(*self._numbered(read), targets, places, tokens, len(places))

    def measured(self, step: int) -> Iterator[TokenBatch]:
        """The sentences of a step again and again, each time with every seventh word masked and nothing else."""
        for first in range(MASKED_STRIDE):
            read, inside, tokens = self._read(step)
            places = np.flatnonzero(inside & ((np.arange(read.shape[1]) - 1) % MASKED_STRIDE == first))
            targets = self._targets_of(read.flat[places])
            read.flat[places] = MASK
            yield TokenBatch(*self._numbered(read), targets, places, tokens if first == 0 else 0, len(places))

    def _read(self, step: int) -> tuple[Array, NDArray[np.bool_], int]:
        """The words and marks of a step, (sentences, steps), where the words are, and how many with ends."""
        steps, starts, lengths = self._bounds(step)
        at, long = np.arange(steps), lengths[:, None]
        inside = (at > 0) & (at <= long)
        words = self._words_at(np.where(inside, starts[:, None] + at - 1, 0))
        marks = np.where(at == 0, START, np.where(at == long + 1, END, NOTHING))
        return np.where(inside, words, marks), inside, int(lengths.sum()) + len(lengths)
