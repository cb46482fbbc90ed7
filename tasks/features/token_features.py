"""Token features: word, character and ELMo vectors of each token, for the input and the output of a head.

An arm of the benchmark is a choice of these features. Heads only see the widths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import cast

import torch
from torch import Tensor, nn

from elmo.bilm.characters import character_ids
from elmo.common import checks
from elmo.common.device import upload_together
from elmo.common.errors import InputError
from elmo.common.progress import Reporter
from elmo.store.cached_layers import CachedLayers, Held, Located
from tasks.features.characters import CharacterCnn, CharactersConfig
from tasks.features.frozen_layers import ElmoConfig, StoreConfig, bilm_fingerprint, build_elmo
from tasks.features.word_index import LONGEST_WORD, WordNumbers
from tasks.features.words import NO_VECTOR, WordRows, WordsConfig
from tasks.interface import PLACES, FeatureBatch, Sentence
from tasks.modules.seeding import initialise


@dataclass
class FeaturesConfig:
    """The parts of x_k; any of them may be null. `dropout` is applied to the joined vector, `title` is for people."""

    name: str = "???"
    title: str = ""
    words: WordsConfig | None = field(default_factory=WordsConfig)
    characters: CharactersConfig | None = field(default_factory=CharactersConfig)
    elmo: ElmoConfig | None = None
    dropout: float = 0.0

    def check(self) -> None:
        """Raises an InputError for a value out of range."""
        for part in (self.words, self.characters, self.elmo):
            if part is not None:
                part.check()
        if not (self.words or self.characters or (self.elmo and "input" in self.elmo.places)):
            raise InputError("features: every part is null; keep at least one of words, characters, elmo at the input")
        checks.dropout("features.dropout", self.dropout)

    def places(self) -> dict[str, list[str]]:
        """The places that the parts ask for, by key in the config; words and characters are at the input."""
        return {} if self.elmo is None else {"features.elmo": self.elmo.places}


def features_fingerprint(config: FeaturesConfig) -> dict[str, str | None]:
    """The hashes of the features' sources: `vectors` and, of a biLM, `weights`."""
    vectors = config.words.open_vectors() if config.words is not None else None
    return {
        "vectors": vectors.fingerprint() if vectors is not None else None,
        "weights": bilm_fingerprint(config.elmo) if config.elmo is not None else None,
    }


def features_recipes(config: FeaturesConfig) -> dict[str, int]:
    """The recipe number of each part that the features have."""
    parts = {"words": config.words, "characters": config.characters, "elmo": config.elmo}
    return {name: part.recipe for name, part in parts.items() if part is not None}


@dataclass(frozen=True)
class LocatedText:
    """One kind of text of a batch, as numbers on the device: its words, and the place of its frozen layers.

    Some of these numbers would make a training step wait for the device, so all are computed on the CPU before it.

    Attributes:
        lengths: tokens of each sentence, on the CPU, (batch,).
        longest: characters of the longest word.
        words: the number of each word, 0 for padding, (batch, tokens).
        distinct: the numbers that occur, (distinct words,).
        places: the index of each word in `distinct`, (batch, tokens).
        layers: where the frozen layers are, if the features have any.
    """

    lengths: Tensor
    longest: int
    words: Tensor
    distinct: Tensor
    places: Tensor
    layers: Located | None

    def tensors(self) -> list[Tensor]:
        """The tensors to copy to the device."""
        rows = self.layers.rows if self.layers is not None else None
        return [self.words, self.distinct, self.places, *([] if rows is None else [rows])]

    def moved(self, tensors: Iterator[Tensor]) -> LocatedText:
        """The same text with copies of its `tensors`."""
        words, distinct, places = islice(tensors, 3)
        layers = self.layers
        if layers is not None and layers.rows is not None:
            layers = replace(layers, rows=next(tensors))
        return LocatedText(self.lengths, self.longest, words, distinct, places, layers)


class TokenFeatures(nn.Module):
    """Vectors for the tokens of sentences.

    Each part draws its initial values from a separate generator, so that the parts that two arms share start equal.
    `meet` gives each word a number, so that batches need no Python work per token.

    Args:
        config: the parts.
        training: the sentences trained on; their words get trainable vectors.
        seed: the run's seed.
        store: where the layers of ELMo are stored; None keeps them in memory.
    """

    def __init__(
        self, config: FeaturesConfig, training: Iterable[Sentence], seed: int, store: StoreConfig | None = None
    ) -> None:
        super().__init__()
        config.check()
        self.config = config
        self._numbers = WordNumbers()
        self.register_buffer("_rows", torch.full((1,), NO_VECTOR), persistent=False)
        self.register_buffer("_spelling", torch.zeros(1, LONGEST_WORD, dtype=torch.long), persistent=False)
        self.register_buffer("_spelled", torch.zeros(1, dtype=torch.long), persistent=False)
        self._rows: Tensor
        self._spelling: Tensor
        self._spelled: Tensor
        self._word_rows = WordRows(config.words, training) if config.words is not None else None
        words_dim = 0
        if self._word_rows is not None:
            words_dim = self._word_rows.dim
            self.words = nn.Parameter(
                self._word_rows.initial_table(seed), requires_grad=self._word_rows.config.trainable
            )
            # The pretrained vectors of words that are not training words.
            self.register_buffer("_more_words", torch.zeros(0, words_dim), persistent=False)
            self._more_words: Tensor
        self.characters = CharacterCnn(config.characters) if config.characters else None
        self.elmo = build_elmo(config.elmo, store or StoreConfig()) if config.elmo else None
        self.dropout = nn.Dropout(config.dropout)
        if self.characters is not None:
            initialise(self.characters, seed, "characters")
        places = self.elmo.mixes if self.elmo is not None else ()
        elmo_dim = self.elmo.dim if self.elmo is not None else 0
        self.widths = {place: elmo_dim * (place in places) for place in PLACES}
        self.widths["input"] += words_dim + (self.characters.dim if self.characters else 0)

    @property
    def training_words(self) -> tuple[str, ...]:
        """The words of the trained table, in order. Features built from this one sentence get the same table."""
        return self._word_rows.training_words if self._word_rows is not None else ()

    def coverage(self, sentences: Iterable[Sentence]) -> dict[str, int] | None:
        """Distinct words of sentences that were met, and how many have a pretrained vector; see `WordRows`."""
        return self._word_rows.coverage(sentences) if self._word_rows is not None else None

    def meet(self, sentences: Iterable[Sentence], reporter: Reporter | None = None) -> int:
        """Prepares sentences before they are used: numbers their words and computes their frozen layers.

        Words that are not training words get their pretrained vector, or zeros.

        Args:
            sentences: all that will be used.
            reporter: reports the progress of the embedding.

        Returns:
            The number of sentences whose layers do not fit in the cache. They are computed each time.
        """
        sentences = list(sentences)
        self._number(sentences)
        return self._layers.prepare(sentences, reporter) if self._layers is not None else 0

    @property
    def _layers(self) -> CachedLayers | None:
        return cast(CachedLayers, self.elmo.source) if self.elmo is not None else None

    def _number(self, sentences: Iterable[Sentence]) -> None:
        """Gives every word of these sentences a number, the index of its spelling and of its row."""
        new = self._numbers.meet(sentences)
        if new:
            device = self._spelling.device
            self._spelling = torch.cat([self._spelling, torch.from_numpy(character_ids(new, LONGEST_WORD)).to(device)])
            self._spelled = torch.from_numpy(self._numbers.characters).to(device)
            self._rows = torch.cat([self._rows, self._new_rows(new).to(device)])

    def _new_rows(self, new: Sequence[str]) -> Tensor:
        """The row of each word; those after the trained table are rows of `_more_words`."""
        if self._word_rows is None:
            return torch.full((len(new),), NO_VECTOR)
        rows, vectors = self._word_rows.add(new)
        self._more_words = torch.cat([self._more_words, vectors.to(self._more_words.device)])
        return torch.tensor(rows)

    def find(self, texts: Sequence[Sequence[Sentence]]) -> list[LocatedText]:
        """Each kind of text of a batch as numbers. A store starts to read the layers that it has.

        May be called for the next batch while the device still computes the current one.
        """
        self._number(chain.from_iterable(texts))
        found = [self._find(text) for text in texts]
        there = iter(upload_together(list(chain.from_iterable(text.tensors() for text in found)), self._rows.device))
        return [text.moved(there) for text in found]

    def _find(self, sentences: Sequence[Sentence]) -> LocatedText:
        """One text as numbers, on the CPU."""
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
        """The vectors of texts from `find`; a sentence that occurs several times is embedded once."""
        held = self._layers.embed([text.layers for text in found if text.layers]) if self._layers is not None else None
        return [self._vectors(text, held) for text in found]

    def _vectors(self, text: LocatedText, held: Held | None) -> FeatureBatch:
        mask = text.words > 0  # (batch, tokens)
        parts = []
        if self._word_rows is not None:
            parts.append(self._word_vectors(self._rows[text.words]))
        if self.characters is not None:
            spelling = self._spelling[text.distinct, : max(text.longest, self.characters.width)]
            by_word = self.characters(spelling, self._spelled[text.distinct])
            parts.append(nn.functional.embedding(text.places, by_word))
        places: dict[str, Tensor] = {}
        if self.elmo is not None and self._layers is not None and text.layers is not None:
            places = self.elmo.mixed(self._layers.layers_at(text.layers, held), mask)
            if "input" in places:
                parts.append(places["input"])
        nothing = torch.zeros(*mask.shape, 0, device=mask.device)
        hidden, output = places.get("hidden", nothing), places.get("output", nothing)
        return FeatureBatch(self.dropout(torch.cat(parts, dim=-1)), hidden, output, mask, text.lengths)

    def _word_vectors(self, rows: Tensor) -> Tensor:
        """The vectors of word rows, zero where there is none: (batch, tokens) -> (batch, tokens, words_dim)."""
        trained = len(self.words)
        vectors = nn.functional.embedding(rows.clamp(0, trained - 1), self.words)
        if not self.training and len(self._more_words):  # training batches have only training words
            further = self._more_words[(rows - trained).clamp(min=0)]
            vectors = torch.where((rows >= trained).unsqueeze(-1), further, vectors)
        return vectors * (rows >= 0).unsqueeze(-1)

    def penalty(self) -> Tensor:
        """The term that the features add to the loss: the L2 penalty of ELMo's mix weights, or zero."""
        return self.elmo.penalty() if self.elmo is not None else torch.zeros((), device=self._rows.device)
