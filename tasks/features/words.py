"""The parts of features: numbered words, and their vectors, pretrained or drawn or from a CNN over characters."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Annotated, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.options import N_CHARACTERS
from elmo.bilm.sentences import Numbers, character_ids, padded_numbers, spell
from elmo.common.checks import Dropout, Width, count, one_of
from elmo.common.device import upload
from elmo.common.errors import InputError
from elmo.common.progress import Reporter
from elmo.store.cached_layers import Located
from elmo.word_vectors import FileVectors, open_vectors
from tasks.modules.seeding import drawing_from
from tasks.task import Sentence

LONGEST_WORD = 50  # characters of a word that the character CNN reads, including the boundary marks
NO_VECTOR = -1
UNKNOWN = ("drawn", "zero")
N_SHAPES = 6  # of `shape_of`


class WordNumbers:
    """The words and sentences seen so far. Words are numbered from 1; 0 is padding.

    Attributes:
        characters: the number of characters of each word, including the boundary marks.
    """

    def __init__(self) -> None:
        self.characters: Numbers = np.zeros(1, dtype=np.int64)
        self._numbers: dict[str, int] = {}
        self._known: dict[Sentence, Numbers] = {}

    def meet(self, sentences: Iterable[Sentence]) -> list[str]:
        """Numbers the new words of these sentences and returns them in the order of their numbers."""
        sentences = list(dict.fromkeys(sentence for sentence in sentences if sentence not in self._known))
        new = [word for word in dict.fromkeys(chain.from_iterable(sentences)) if word not in self._numbers]
        if new:
            self._numbers.update({word: number for number, word in enumerate(new, start=len(self._numbers) + 1)})
            lengths = [len(spell(word, LONGEST_WORD)) for word in new]
            self.characters = np.concatenate([self.characters, np.array(lengths, dtype=np.int64)])
        for sentence in sentences:
            self._known[sentence] = np.array([self._numbers[word] for word in sentence], dtype=np.int64)
        return new

    def padded(self, sentences: Sequence[Sentence]) -> tuple[Numbers, Numbers]:
        """The numbers of a batch's words, 0 for padding, (batch, tokens), and the sentences' lengths, (batch,)."""
        numbers = [self._known[sentence] for sentence in sentences]
        lengths = np.array([len(row) for row in numbers], dtype=np.int64)
        # There may be no sentence.
        return padded_numbers(np.concatenate([*numbers, np.zeros(0, dtype=np.int64)]), lengths), lengths


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

    def to(self, device: torch.device) -> "LocatedText":
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


@dataclass
class WordsConfig:
    """Word vectors. `dim` is used where there are no pretrained ones (vectors: null).

    `recipe` of this and of every other part: raise it when a change of code or of a default alters scores.

    Attributes:
        unknown: training words without a pretrained vector: drawn gives each a vector at random, zero gives them zeros,
            as all other words without a vector have.
        casing: whether a one-hot vector of the word's shape (capitals, digits) follows the word vector.
        dropout: dropout of these vectors alone.
        enabled: false leaves word vectors out and ignores the other keys: probes read frozen layers alone.
    """

    recipe: ClassVar[int] = 1
    vectors: str | None = "glove-6b-50d"
    dim: Width = 50
    lowercase: bool = True
    trainable: bool = True
    unknown: Annotated[str, partial(one_of, UNKNOWN)] = "drawn"
    casing: bool = False
    dropout: Dropout = 0.0
    enabled: bool = True

    def check(self, key: str) -> None:
        """Raises an InputError for zeros in place of vectors that are not there."""
        if self.unknown == "zero" and not self.vectors:
            raise InputError(f"{key}.unknown=zero: expected pretrained vectors, found {key}.vectors=null")

    def open_vectors(self) -> FileVectors | None:
        """The pretrained vectors, if the config names any."""
        return open_vectors(self.vectors, "features.words.vectors") if self.vectors else None


def shape_of(word: str) -> int:
    """The shape of a word: 0 lower case, 1 a first capital, 2 all capitals, 3 mixed, 4 digits alone, 5 no letter."""
    letters = [letter for letter in word if letter.isalpha()]
    if not letters:
        return 4 if any(map(str.isdigit, word)) else 5
    if not any(map(str.isupper, letters)):
        return 0
    if not any(map(str.isupper, letters[1:])):
        return 1
    return 2 if not any(map(str.islower, letters)) else 3


class WordVectors(FeaturePart):
    """The vectors of words: a table of the training words, and the pretrained vectors of others.

    Args:
        config: which vectors.
        training: the sentences trained on; their words get trainable vectors.
        seed: the run's seed.

    Attributes:
        pretrained: the file of vectors, if the config names one.
        training_words: those of the table, in its order.
    """

    def __init__(self, config: WordsConfig, training: Iterable[Sentence], seed: int) -> None:
        super().__init__()
        self.config = config
        self.pretrained = config.open_vectors()
        self.dim = self.pretrained.dim if self.pretrained else config.dim
        words = tuple(dict.fromkeys(map(self._form, chain.from_iterable(training))))
        if config.unknown == "zero" and self.pretrained:
            words = tuple(self.pretrained.pick(words)) or words  # all of them for the error of `_initial_table`
        self.training_words = words
        self._row_of = {word: row for row, word in enumerate(words)}
        self._with_vector: set[str] = set()
        self.widths = {"input": self.dim + config.casing * N_SHAPES}
        self.dropout = nn.Dropout(config.dropout)
        self.table = nn.Parameter(self._initial_table(seed), requires_grad=config.trainable)
        self.register_buffer("_rows", torch.full((1,), NO_VECTOR), persistent=False)
        self.register_buffer("_more", torch.zeros(0, self.dim), persistent=False)
        self._rows: Tensor  # of each word by its number; those after the table are rows of `_more`
        self._more: Tensor  # the pretrained vectors of words that are not training words
        self.register_buffer("_shapes", torch.zeros(1, N_SHAPES) if config.casing else None, persistent=False)
        self._shapes: Tensor | None  # the one-hot shape of each word by its number, zeros for padding

    def _form(self, word: str) -> str:
        return word.lower() if self.config.lowercase else word

    def _pick(self, words: Collection[str]) -> tuple[list[str], Tensor]:
        """Those of these words that have a pretrained vector, and the vectors, (words, dim)."""
        picked = self.pretrained.pick(words) if self.pretrained and words else {}
        self._with_vector.update(picked)
        return list(picked), torch.from_numpy(np.stack(list(picked.values()))) if picked else torch.zeros(0, self.dim)

    def _initial_table(self, seed: int) -> Tensor:
        """The vectors of the training words: pretrained, or drawn with the mean and spread of the pretrained ones."""
        known, vectors = self._pick(self.training_words)
        if self.pretrained and self.training_words and not known:
            raise InputError(
                f"features.words.vectors={self.config.vectors}: expected vectors for some of the "
                f"{len(self.training_words):,} training words, found none. Check its language, and "
                f"features.words.lowercase={str(self.config.lowercase).lower()}"
            )
        with drawing_from(seed, "words"):
            table = torch.randn(len(self.training_words), self.dim)
        table = table * vectors.std() + vectors.mean() if len(known) > 1 else table * 0.1
        table[[self._row_of[word] for word in known]] = vectors
        return table

    def coverage(self, sentences: Iterable[Sentence]) -> dict[str, int] | None:
        """The number of distinct words of these sentences, and of those with a pretrained vector.

        Counts words that were added before; None where there are no pretrained vectors.
        """
        if self.pretrained is None:
            return None
        words = set(map(self._form, chain.from_iterable(sentences)))
        return {"words": len(words), "with_vector": len(words & self._with_vector)}

    def add_words(self, new: Sequence[str], numbers: WordNumbers) -> None:
        """Gives each word its row. Words that are not training words get their pretrained vector, or zeros."""
        forms = [self._form(word) for word in new]
        known, vectors = self._pick(set(forms) - self._row_of.keys())
        for word in known:
            self._row_of[word] = len(self._row_of)
        rows = [self._row_of.get(form, NO_VECTOR) for form in forms]
        self._more = torch.cat([self._more, vectors.to(self._more.device)])
        self._rows = torch.cat([self._rows, torch.tensor(rows).to(self._rows.device)])
        if self._shapes is not None:
            shapes = nn.functional.one_hot(torch.tensor([shape_of(word) for word in new]), N_SHAPES)
            self._shapes = torch.cat([self._shapes, shapes.to(self._shapes)])

    def vectors(self, texts: Sequence[LocatedText]) -> Iterator[dict[str, Tensor]]:
        """The vectors of words, zero where there is none, and their shapes."""
        for text in texts:
            vectors = self._vectors(self._rows[text.words])
            if self._shapes is not None:
                vectors = torch.cat([vectors, self._shapes[text.words]], dim=-1)
            yield {"input": self.dropout(vectors)}

    def _vectors(self, rows: Tensor) -> Tensor:
        """The vectors of word rows: (batch, tokens) -> (batch, tokens, dim)."""
        trained = len(self.table)
        vectors = nn.functional.embedding(rows.clamp(0, trained - 1), self.table)
        if not self.training and len(self._more):  # training batches have only training words
            vectors = torch.where((rows >= trained).unsqueeze(-1), self._more[(rows - trained).clamp(min=0)], vectors)
        return vectors * (rows >= 0).unsqueeze(-1)


@dataclass
class CharactersConfig:
    """A character CNN: embedding width, number of filters, their width, and the dropout of its vectors."""

    recipe: ClassVar[int] = 1
    dim: Width = 16
    filters: Width = 128
    width: Annotated[int, partial(count, LONGEST_WORD)] = 3
    dropout: Dropout = 0.0


class CharacterCnn(FeaturePart):
    """A vector for the spelling of a word: convolution over its bytes, maximum over positions, ReLU."""

    def __init__(self, config: CharactersConfig) -> None:
        super().__init__()
        self.width = config.width
        self.widths = {"input": config.filters}
        self.embedding = nn.Embedding(N_CHARACTERS, config.dim)
        self.convolution = nn.Conv1d(config.dim, config.filters, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("_spelling", torch.zeros(1, LONGEST_WORD, dtype=torch.long), persistent=False)
        self.register_buffer("_spelled", torch.zeros(1, dtype=torch.long), persistent=False)
        self._spelling: Tensor  # of each word by its number, (words, characters)
        self._spelled: Tensor  # how many characters it has, (words,)

    def add_words(self, new: Sequence[str], numbers: WordNumbers) -> None:
        """Spells each word."""
        device = self._spelling.device
        self._spelling = torch.cat([self._spelling, torch.from_numpy(character_ids(new, LONGEST_WORD)).to(device)])
        self._spelled = torch.from_numpy(numbers.characters).to(device)

    def vectors(self, texts: Sequence[LocatedText]) -> Iterator[dict[str, Tensor]]:
        """The vectors of words; each distinct word of a text is computed once."""
        for text in texts:
            spelling = self._spelling[text.distinct, : max(text.longest, self.width)]
            by_word = self(spelling, self._spelled[text.distinct])
            yield {"input": self.dropout(nn.functional.embedding(text.places, by_word))}

    def forward(self, spelling: Tensor, lengths: Tensor) -> Tensor:
        """The vectors of some words: (words, characters), (words,) -> (words, filters).

        Windows after the last complete window of a word are left out, so that a word's vector does not depend on the
        padding of its batch.
        """
        characters = self.embedding(spelling)
        count = characters.shape[1] - self.width + 1  # of windows
        # Not unfold, whose backward pass takes three times as long on a CPU; the values are the same to the bit.
        read = torch.stack([characters[:, first : first + count] for first in range(self.width)], dim=-1).flatten(2)
        # On a CPU this product takes a third of the time of torch's convolution.
        windows = read @ self.convolution.weight.flatten(1).t().contiguous() + cast(Tensor, self.convolution.bias)
        outside = torch.arange(count, device=windows.device) > (lengths - self.width).clamp(min=0)[:, None]
        return torch.relu(windows.masked_fill(outside.unsqueeze(-1), float("-inf")).amax(dim=1))
