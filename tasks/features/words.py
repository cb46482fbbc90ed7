"""Features of words: vectors, pretrained or drawn, and a CNN over characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.options import N_CHARACTERS
from elmo.bilm.sentences import character_ids
from elmo.common import checks
from elmo.common.errors import InputError
from elmo.word_vectors import FileVectors, open_vectors
from tasks.batch import Sentence
from tasks.features.parts import LONGEST_WORD, FeaturePart, LocatedText, WordNumbers
from tasks.modules.seeding import drawing_from

NO_VECTOR = -1
UNKNOWN = ("drawn", "zero")
N_SHAPES = 6  # of `shape_of`


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
    dim: int = 50
    lowercase: bool = True
    trainable: bool = True
    unknown: str = "drawn"
    casing: bool = False
    dropout: float = 0.0
    enabled: bool = True

    def check(self) -> None:
        """Raises an InputError for a value out of range."""
        checks.width("features.words.dim", self.dim)
        checks.one_of(UNKNOWN, "features.words.unknown", self.unknown)
        checks.dropout("features.words.dropout", self.dropout)
        if self.unknown == "zero" and not self.vectors:
            raise InputError(
                "features.words.unknown=zero: expected pretrained vectors, found features.words.vectors=null"
            )

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


class WordRows:
    """The row of each word: first the training words, then other words that have a pretrained vector.

    Args:
        config: which vectors.
        training: the sentences trained on.
    """

    def __init__(self, config: WordsConfig, training: Iterable[Sentence]) -> None:
        self.config = config
        self.vectors = config.open_vectors()
        self.dim = self.vectors.dim if self.vectors else config.dim
        words = tuple(dict.fromkeys(map(self._form, chain.from_iterable(training))))
        if config.unknown == "zero" and self.vectors:
            words = tuple(self.vectors.pick(words)) or words  # all of them for the error of `initial_table`
        self.training_words = words
        self._row_of = {word: row for row, word in enumerate(self.training_words)}
        self._pretrained: set[str] = set()

    def _form(self, word: str) -> str:
        return word.lower() if self.config.lowercase else word

    def initial_table(self, seed: int) -> Tensor:
        """The vectors of the training words: pretrained, or drawn with the mean and spread of the pretrained ones."""
        found = self.vectors.pick(self.training_words) if self.vectors else {}
        if self.vectors and self.training_words and not found:
            raise InputError(
                f"features.words.vectors={self.config.vectors}: expected vectors for some of the "
                f"{len(self.training_words):,} training words, found none. Check its language, and "
                f"features.words.lowercase={str(self.config.lowercase).lower()}"
            )
        self._pretrained.update(found)
        known = torch.from_numpy(np.stack(list(found.values()))) if found else torch.zeros(0, self.dim)
        with drawing_from(seed, "words"):
            table = torch.randn(len(self.training_words), self.dim)
        table = table * known.std() + known.mean() if len(known) > 1 else table * 0.1
        for word, vector in found.items():
            table[self._row_of[word]] = torch.from_numpy(vector)
        return table

    def add(self, words: Sequence[str]) -> tuple[list[int], Tensor]:
        """The rows of some words, NO_VECTOR for those without one, and the vectors of rows that are new, (new, dim)."""
        forms = [self._form(word) for word in words]
        unseen = set(forms) - self._row_of.keys()
        found = self.vectors.pick(unseen) if self.vectors and unseen else {}
        self._pretrained.update(found)
        for word in found:
            self._row_of[word] = len(self._row_of)
        added = torch.from_numpy(np.stack(list(found.values()))) if found else torch.zeros(0, self.dim)
        return [self._row_of.get(form, NO_VECTOR) for form in forms], added

    def coverage(self, sentences: Iterable[Sentence]) -> dict[str, int] | None:
        """How many distinct words these sentences have, and how many of them have a pretrained vector.

        Counts words that were added before; None where there are no pretrained vectors.
        """
        if self.vectors is None:
            return None
        words = set(map(self._form, chain.from_iterable(sentences)))
        return {"words": len(words), "with_vector": len(words & self._pretrained)}


class WordVectors(FeaturePart):
    """The vectors of words: a table of the training words, and the pretrained vectors of others.

    Args:
        config: which vectors.
        training: the sentences trained on; their words get trainable vectors.
        seed: the run's seed.
    """

    def __init__(self, config: WordsConfig, training: Iterable[Sentence], seed: int) -> None:
        super().__init__()
        self.index = WordRows(config, training)
        self.widths = {"input": self.index.dim + config.casing * N_SHAPES}
        self.dropout = nn.Dropout(config.dropout)
        self.table = nn.Parameter(self.index.initial_table(seed), requires_grad=config.trainable)
        self.register_buffer("_rows", torch.full((1,), NO_VECTOR), persistent=False)
        self.register_buffer("_more", torch.zeros(0, self.index.dim), persistent=False)
        self._rows: Tensor  # of each word by its number; those after the table are rows of `_more`
        self._more: Tensor  # the pretrained vectors of words that are not training words
        self.register_buffer("_shapes", torch.zeros(1, N_SHAPES) if config.casing else None, persistent=False)
        self._shapes: Tensor | None  # the one-hot shape of each word by its number, zeros for padding

    def add_words(self, new: Sequence[str], numbers: WordNumbers) -> None:
        """Gives each word its row. Words that are not training words get their pretrained vector, or zeros."""
        rows, vectors = self.index.add(new)
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
            further = self._more[(rows - trained).clamp(min=0)]
            vectors = torch.where((rows >= trained).unsqueeze(-1), further, vectors)
        return vectors * (rows >= 0).unsqueeze(-1)


@dataclass
class CharactersConfig:
    """A character CNN: embedding width, number of filters, their width, and the dropout of its vectors."""

    recipe: ClassVar[int] = 1
    dim: int = 16
    filters: int = 128
    width: int = 3
    dropout: float = 0.0

    def check(self) -> None:
        """Raises an InputError for a value out of range."""
        for name in ("dim", "filters", "width"):
            checks.width(f"features.characters.{name}", getattr(self, name))
        checks.dropout("features.characters.dropout", self.dropout)
        if self.width > LONGEST_WORD:
            raise InputError(
                f"features.characters.width: expected at most the {LONGEST_WORD} characters that are read of a "
                f"word, found {self.width}"
            )


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
        read = self.embedding(spelling).unfold(1, self.width, 1).flatten(2)  # (words, windows, dim * width)
        # On a CPU this product takes a third of the time of torch's convolution.
        by_window = self.convolution.weight.flatten(1).t().contiguous()  # (dim * width, filters)
        windows = read @ by_window + cast(Tensor, self.convolution.bias)  # (words, windows, filters)
        last = (lengths - self.width).clamp(min=0)
        outside = torch.arange(windows.shape[1], device=windows.device) > last[:, None]  # (words, windows)
        return torch.relu(windows.masked_fill(outside.unsqueeze(-1), float("-inf")).amax(dim=1))
