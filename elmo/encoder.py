"""One vector a word: from its characters (convolutions, maximum, highways, projection), from a table, or both.

Either encoder has `encode_words(words) -> (words, projection_dim)`; `encoder_of(options)` gives the one that options
ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from elmo.characters import character_ids
from elmo.options import N_CHARACTERS, UNKNOWN_WORD, BilmOptions

WORDS_AT_ONCE = 512  # bounds the memory of the convolutions: 512 words x 2048 filters x 50 positions are 200 MB


class Highway(nn.Module):
    """g * relu(Wx) + (1 - g) * x with g = sigmoid(carry): bilm-tf's gate sense, AllenNLP's is the opposite."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """The gated mixture, of the input's shape (words, dim)."""
        gate = torch.sigmoid(self.carry(x))
        return torch.lerp(x, torch.relu(self.transform(x)), gate)


class CharacterEncoder(nn.Module):
    """Maps spelled words to vectors, (words, projection_dim).

    A word's vector depends on its spelling alone, so callers encode each distinct word once (`encode_words`).
    """

    def __init__(self, options: BilmOptions) -> None:
        super().__init__()
        self.options = options
        self.characters = nn.Embedding(N_CHARACTERS, options.char_dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(options.char_dim, n, width) for width, n in options.filters)
        self.highways = nn.ModuleList(Highway(options.n_filters) for _ in range(options.n_highway))
        projection = nn.Linear(options.n_filters, options.projection_dim)
        self.projection = projection if options.has_projection else nn.Identity()

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors of spelled words: (words, characters) -> (words, projection_dim)."""
        x = self.characters(ids).transpose(1, 2)  # (words, char_dim, characters)
        # Both activations rise, so they may wait until the maximum has left one position in fifty.
        x = torch.cat([conv(x).amax(dim=2) for conv in self.convolutions], dim=1)  # (words, n_filters)
        x = torch.relu(x) if self.options.activation == "relu" else torch.tanh(x)
        for highway in self.highways:
            x = highway(x)
        projected: Tensor = self.projection(x)  # (words, projection_dim)
        return projected

    def encode_words(self, words: Sequence[str]) -> Tensor:
        """The vectors of distinct words, (words, projection_dim), the short ones without the cost of the long.

        Words are sorted by length and encoded in groups, each with its windows cut behind its longest word. The cut is
        exact: every window starting later covers padding alone, and one such window is kept for each filter.
        """
        options = self.options
        device = self.characters.weight.device
        vectors = torch.empty(len(words), options.projection_dim, device=device, dtype=self.characters.weight.dtype)
        widest = max(width for width, _ in options.filters)
        by_length = sorted(range(len(words)), key=lambda i: len(words[i].encode("utf-8", "ignore")))
        for start in range(0, len(words), WORDS_AT_ONCE):
            rows = by_length[start : start + WORDS_AT_ONCE]
            ids = character_ids([words[i] for i in rows], options.max_characters, room=widest)
            vectors[rows] = self(torch.from_numpy(ids).to(device))
        return vectors


class WordEncoder(nn.Module):
    """Maps words of a vocabulary to vectors, (words, projection_dim); all other words share the vector of <UNK>.

    With characters, each word's own are read beside its row of the table, so that unknown words still differ.
    """

    def __init__(self, options: BilmOptions) -> None:
        super().__init__()
        self.options = options
        self.words = nn.Embedding(len(options.words), options.word_dim)
        self.characters: nn.Module = nn.Identity()
        width = options.word_dim
        if options.filters:
            spelled = replace(options, projection_dim=options.char_output_dim, words=(), word_dim=0, char_output_dim=0)
            self.characters = CharacterEncoder(spelled)
            width += options.char_output_dim
        projection = nn.Linear(width, options.projection_dim)
        self.projection = projection if width != options.projection_dim else nn.Identity()
        self._row_of = {word: row for row, word in enumerate(options.words)}

    def encode_words(self, words: Sequence[str]) -> Tensor:
        """The vectors of distinct words, (words, projection_dim)."""
        unknown = self._row_of[UNKNOWN_WORD]
        rows = torch.tensor([self._row_of.get(word, unknown) for word in words], device=self.words.weight.device)
        parts = [self.words(rows)]  # (words, word_dim)
        if isinstance(self.characters, CharacterEncoder):
            parts.append(self.characters.encode_words(words))  # (words, char_output_dim)
        projected: Tensor = self.projection(torch.cat(parts, dim=1))
        return projected


def encoder_of(options: BilmOptions) -> CharacterEncoder | WordEncoder:
    """The encoder that options ask for: words where they list any, characters otherwise."""
    return WordEncoder(options) if options.words else CharacterEncoder(options)
