"""Character features: a CNN over the bytes of each word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from elmo.bilm.characters import character_ids
from elmo.bilm.options import N_CHARACTERS
from elmo.common import checks
from elmo.common.errors import InputError
from tasks.features.parts import FeaturePart, LocatedText
from tasks.features.word_index import LONGEST_WORD, WordNumbers


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
