"""Token features: [x_k; ELMo_k] at the input of a head, and ELMo_k for [h_k; ELMo_k] at its output.

An arm of the benchmark is a choice of what stands here; heads see widths and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.characters import character_ids
from elmo.bilm.options import N_CHARACTERS
from elmo.common import checks
from elmo.common.device import upload_together
from elmo.common.errors import InputError
from elmo.common.progress import Reporter
from elmo.store.cached_layers import CachedLayers, Held, Located
from elmo.word_vectors import Vectors, open_vectors
from tasks.features.frozen_layers import ElmoConfig, StoreConfig, bilm_fingerprint, build_elmo
from tasks.features.word_index import LONGEST_WORD, WordNumbers
from tasks.interface import FeatureBatch, Sentence
from tasks.modules.seeding import drawing_from, initialise


@dataclass
class WordsConfig:
    """Word vectors. `dim` counts where there are no pretrained ones (vectors: null).

    `recipe` of this and of every other part: raise it when a change of code or of a default alters scores.
    """

    recipe: ClassVar[int] = 1
    vectors: str | None = "glove-6b-50d"
    dim: int = 50
    lowercase: bool = True
    trainable: bool = True


@dataclass
class CharactersConfig:
    """A character CNN: embedding width, number of filters, their width."""

    recipe: ClassVar[int] = 1
    dim: int = 16
    filters: int = 128
    width: int = 3


@dataclass
class FeaturesConfig:
    """What x_k is made of; any part may be null. `dropout` is applied to the joined vector."""

    name: str = "???"
    words: WordsConfig | None = field(default_factory=WordsConfig)
    characters: CharactersConfig | None = field(default_factory=CharactersConfig)
    elmo: ElmoConfig | None = None
    dropout: float = 0.0

    def check(self) -> None:
        """Raises an InputError for a value that cannot be meant."""
        if self.words is not None:
            checks.width("features.words.dim", self.words.dim)
        if self.characters is not None:
            for name, value in vars(self.characters).items():
                checks.width(f"features.characters.{name}", value)
            if self.characters.width > LONGEST_WORD:
                raise InputError(
                    f"features.characters.width: expected at most the {LONGEST_WORD} characters that are read of a "
                    f"word, found {self.characters.width}"
                )
        if self.elmo is not None:
            self.elmo.check()
        if not (self.words or self.characters or (self.elmo and "input" in self.elmo.places)):
            raise InputError("features: every part is null; keep at least one of words, characters, elmo at the input")
        checks.dropout("features.dropout", self.dropout)


def features_fingerprint(config: FeaturesConfig) -> dict[str, str | None]:
    """The hashes of what the features are computed from: `vectors` and, of a biLM, `weights`."""
    words = config.words
    return {
        "vectors": open_vectors(words.vectors).fingerprint() if words is not None and words.vectors else None,
        "weights": bilm_fingerprint(config.elmo) if config.elmo is not None else None,
    }


def features_recipes(config: FeaturesConfig) -> dict[str, int]:
    """The recipe number of each part that the features have."""
    parts = {"words": config.words, "characters": config.characters, "elmo": config.elmo}
    return {name: part.recipe for name, part in parts.items() if part is not None}


class CharacterCnn(nn.Module):
    """A vector for the spelling of a word: convolution over its bytes, maximum over positions, ReLU."""

    def __init__(self, config: CharactersConfig) -> None:
        super().__init__()
        self.width = config.width
        self.dim = config.filters
        self.embedding = nn.Embedding(N_CHARACTERS, config.dim)
        self.convolution = nn.Conv1d(config.dim, config.filters, config.width)

    def forward(self, spelling: Tensor, lengths: Tensor) -> Tensor:
        """The vectors of some words: (words, characters), (words,) -> (words, filters).

        Windows that begin behind a word's last whole window are left out, so that a word's vector does not depend on
        how far its batch is padded.
        """
        read = self.embedding(spelling).unfold(1, self.width, 1).flatten(2)  # (words, windows, dim * width)
        # A product over the windows is a convolution, in a third of the time that torch takes for one on a CPU.
        by_window = self.convolution.weight.flatten(1).t().contiguous()  # (dim * width, filters)
        windows = read @ by_window + cast(Tensor, self.convolution.bias)  # (words, windows, filters)
        last = (lengths - self.width).clamp(min=0)
        outside = torch.arange(windows.shape[1], device=windows.device) > last[:, None]  # (words, windows)
        return torch.relu(windows.masked_fill(outside.unsqueeze(-1), float("-inf")).amax(dim=1))


@dataclass(frozen=True)
class LocatedText:
    """One kind of text of a batch by numbers, on the device, under which the features know its words and layers.

    A step could learn some of this only by waiting for the device, so all of it is found beforehand, on the CPU.

    Attributes:
        lengths: tokens of each sentence, on the CPU, (batch,).
        longest: characters of its longest word.
        words: the number of each word, 0 for padding, (batch, tokens).
        distinct: the numbers that occur, (distinct words,).
        places: which of these each word is, (batch, tokens).
        layers: where its frozen layers are, if the features have any.
    """

    lengths: Tensor
    longest: int
    words: Tensor
    distinct: Tensor
    places: Tensor
    layers: Located | None

    def tensors(self) -> list[Tensor]:
        """Those that go to the device."""
        rows = self.layers.rows if self.layers is not None else None
        return [self.words, self.distinct, self.places, *([] if rows is None else [rows])]

    def moved(self, tensors: Iterator[Tensor]) -> LocatedText:
        """The same with its `tensors` taken from these."""
        words, distinct, places = islice(tensors, 3)
        layers = self.layers
        if layers is not None and layers.rows is not None:
            layers = replace(layers, rows=next(tensors))
        return LocatedText(self.lengths, self.longest, words, distinct, places, layers)


class TokenFeatures(nn.Module):
    """Vectors for the tokens of sentences.

    Each part draws its starting values from its own generator, so that the parts two arms share start equal. Words are
    known by number from the moment they are met (`meet`), so that a batch costs nothing per token in Python.

    Args:
        config: what the vectors are made of.
        training: the sentences trained on; their words get trainable vectors.
        seed: the run's seed.
        store: where the layers of ELMo are kept; None keeps them in memory.
    """

    def __init__(
        self, config: FeaturesConfig, training: Iterable[Sentence], seed: int, store: StoreConfig | None = None
    ) -> None:
        super().__init__()
        config.check()
        self.config = config
        self._numbers = WordNumbers()
        self._training_words: list[str] = []
        self._pretrained: set[str] = set()
        self.register_buffer("_rows", torch.full((1,), -1), persistent=False)
        self.register_buffer("_spelling", torch.zeros(1, LONGEST_WORD, dtype=torch.long), persistent=False)
        self.register_buffer("_spelled", torch.zeros(1, dtype=torch.long), persistent=False)
        self._rows: Tensor
        self._spelling: Tensor
        self._spelled: Tensor
        self.vectors: Vectors | None = None
        words_dim = 0
        if config.words is not None:
            self.vectors = open_vectors(config.words.vectors) if config.words.vectors else None
            words_dim = self.vectors.dim if self.vectors else config.words.dim
            self.words = self._word_table(training, words_dim, seed)
            # Vectors of words that were not trained on: pretrained where there is one, else absent.
            self.register_buffer("_more_words", torch.zeros(0, words_dim), persistent=False)
            self._more_words: Tensor
            self._more_rows: dict[str, int] = {}
        self.characters = CharacterCnn(config.characters) if config.characters else None
        self.elmo = build_elmo(config.elmo, store or StoreConfig()) if config.elmo else None
        self.dropout = nn.Dropout(config.dropout)
        if self.characters is not None:
            initialise(self.characters, seed, "characters")
        places = self.elmo.mixes if self.elmo is not None else ()
        elmo_dim = self.elmo.dim if self.elmo is not None else 0
        self.input_dim = words_dim + (self.characters.dim if self.characters else 0) + elmo_dim * ("input" in places)
        self.output_dim = elmo_dim * ("output" in places)

    def _word_table(self, training: Iterable[Sentence], dim: int, seed: int) -> nn.Parameter:
        """The vectors of the training words: pretrained, or drawn with the pretrained ones' mean and spread."""
        self._training_words = list(dict.fromkeys(map(self._form, chain.from_iterable(training))))
        found = self.vectors.pick(self._training_words) if self.vectors else {}
        words = cast(WordsConfig, self.config.words)
        if self.vectors and self._training_words and not found:
            raise InputError(
                f"features.words.vectors={words.vectors}: expected vectors for some of the "
                f"{len(self._training_words):,} training words, found none. Check its language, and "
                f"features.words.lowercase={str(words.lowercase).lower()}"
            )
        self._pretrained.update(found)
        known = torch.from_numpy(np.stack(list(found.values()))) if found else torch.zeros(0, dim)
        with drawing_from(seed, "words"):
            table = torch.randn(len(self._training_words), dim)
        table = table * known.std() + known.mean() if len(known) > 1 else table * 0.1
        for row, word in enumerate(self._training_words):
            if word in found:
                table[row] = torch.from_numpy(found[word])
        self._row_of = {word: row for row, word in enumerate(self._training_words)}
        return nn.Parameter(table, requires_grad=words.trainable)

    @property
    def training_words(self) -> tuple[str, ...]:
        """The words that have rows of the table; features given them as their one sentence get the same table."""
        return tuple(self._training_words)

    def coverage(self, sentences: Iterable[Sentence]) -> dict[str, int] | None:
        """How many different words sentences that were met have, and how many of those have a pretrained vector.

        None where there are no pretrained vectors.
        """
        if self.vectors is None:
            return None
        words = set(map(self._form, chain.from_iterable(sentences)))
        return {"words": len(words), "with_vector": len(words & self._pretrained)}

    def _form(self, word: str) -> str:
        return word.lower() if self.config.words is not None and self.config.words.lowercase else word

    def meet(self, sentences: Iterable[Sentence], reporter: Reporter | None = None) -> int:
        """Makes sentences known before they are used: numbers for their words, frozen layers at hand.

        Words that were not trained on get their pretrained vector, or zeros.

        Args:
            sentences: what will come.
            reporter: reports the progress of the embedding.

        Returns:
            The number of sentences whose layers found no room, and are computed each time.
        """
        sentences = list(sentences)
        self._number(sentences)
        return self._layers.prepare(sentences, reporter) if self._layers is not None else 0

    @property
    def _layers(self) -> CachedLayers | None:
        return cast(CachedLayers, self.elmo.source) if self.elmo is not None else None

    def _number(self, sentences: Iterable[Sentence]) -> None:
        """Gives every word of these sentences a number, by which a batch finds all that is known of it."""
        new = self._numbers.meet(sentences)
        if new:
            device = self._spelling.device
            self._spelling = torch.cat([self._spelling, torch.from_numpy(character_ids(new, LONGEST_WORD)).to(device)])
            self._spelled = torch.from_numpy(self._numbers.characters).to(device)
            self._rows = torch.cat([self._rows, torch.tensor(self._new_rows(new), device=device)])

    def _new_rows(self, new: Sequence[str]) -> list[int]:
        """For each word its row: of the trained table, behind it in the table of further words, or -1 for no vector."""
        if self.config.words is None:
            return [-1] * len(new)
        unseen = {self._form(word) for word in new} - self._row_of.keys() - self._more_rows.keys()
        found = self.vectors.pick(unseen) if self.vectors and unseen else {}
        if found:
            self._pretrained.update(found)
            self._more_rows.update({word: len(self._more_rows) + i for i, word in enumerate(found)})
            added = torch.from_numpy(np.stack(list(found.values()))).to(self._more_words.device)
            self._more_words = torch.cat([self._more_words, added])
        behind = {word: len(self._row_of) + row for word, row in self._more_rows.items()}
        return [self._row_of.get(form, behind.get(form, -1)) for form in map(self._form, new)]

    def find(self, texts: Sequence[Sequence[Sentence]]) -> list[LocatedText]:
        """Each kind of text of a batch by numbers; what a store has of its layers begins to be read.

        The next batch may be found while the device still computes this one.
        """
        self._number(chain.from_iterable(texts))
        found = [self._find(text) for text in texts]
        there = iter(upload_together(list(chain.from_iterable(text.tensors() for text in found)), self._rows.device))
        return [text.moved(there) for text in found]

    def _find(self, sentences: Sequence[Sentence]) -> LocatedText:
        """A text by numbers, on the CPU."""
        words, lengths = self._numbers.padded(sentences)
        distinct, places = self._numbers.distinct(words)
        return LocatedText(
            torch.from_numpy(lengths),
            int(self._numbers.characters[distinct].max(initial=0)),
            torch.from_numpy(words),
            torch.from_numpy(distinct),
            torch.from_numpy(places),
            self._layers.locate(sentences) if self._layers is not None else None,
        )

    def of_texts(self, texts: Sequence[Sequence[Sentence]]) -> list[FeatureBatch]:
        """The vectors of each kind of text of a batch."""
        return self.vectors_of(self.find(texts))

    def forward(self, sentences: Sequence[Sentence]) -> FeatureBatch:
        """The vectors of a batch of sentences."""
        return self.of_texts([sentences])[0]

    def vectors_of(self, found: Sequence[LocatedText]) -> list[FeatureBatch]:
        """The vectors of texts that were found; a sentence is embedded once, however often they have it."""
        held = self._layers.embed([text.layers for text in found if text.layers]) if self._layers is not None else None
        return [self._vectors(text, held) for text in found]

    def _vectors(self, text: LocatedText, held: Held | None) -> FeatureBatch:
        mask = text.words > 0  # (batch, tokens)
        parts = []
        if self.config.words is not None:
            parts.append(self._word_vectors(self._rows[text.words]))
        if self.characters is not None:
            spelling = self._spelling[text.distinct, : max(text.longest, self.characters.width)]
            by_word = self.characters(spelling, self._spelled[text.distinct])
            parts.append(nn.functional.embedding(text.places, by_word))
        output = torch.zeros(*mask.shape, 0, device=mask.device)
        if self.elmo is not None and self._layers is not None and text.layers is not None:
            places = self.elmo.mixed(self._layers.layers_at(text.layers, held), mask)
            if "input" in places:
                parts.append(places["input"])
            output = places.get("output", output)
        return FeatureBatch(self.dropout(torch.cat(parts, dim=-1)), output, mask, text.lengths)

    def _word_vectors(self, rows: Tensor) -> Tensor:
        """The vectors of word rows, zero where there is none: (batch, tokens) -> (batch, tokens, words_dim)."""
        trained = len(self.words)
        vectors = nn.functional.embedding(rows.clamp(0, trained - 1), self.words)
        if not self.training and len(self._more_words):  # while training, every word is a training word
            further = self._more_words[(rows - trained).clamp(min=0)]
            vectors = torch.where((rows >= trained).unsqueeze(-1), further, vectors)
        return vectors * (rows >= 0).unsqueeze(-1)

    def penalty(self) -> Tensor:
        """What the features add to the loss: the L2 term of ELMo's mixes, or nothing."""
        return self.elmo.penalty() if self.elmo is not None else torch.zeros((), device=self._rows.device)
