"""Word encoders: one vector per word from its characters (convolutions, highways, projection), from a table, or both.

Both encoders have `encode_words(words) -> (words, projection_dim)`. `encoder_of(options)` makes the right one, and
`WordMemory` caches the vectors of either.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from elmo.bilm import fast
from elmo.bilm.fast import Prepared, in_blocks
from elmo.bilm.options import N_CHARACTERS, UNKNOWN_WORD, BilmOptions
from elmo.bilm.sentences import character_ids
from elmo.common.device import at_once, side_by_side, upload
from elmo.common.int8 import LEVELS, NOT_NEGATIVE, in_steps, product

WORDS_AT_ONCE = 512  # limits the memory of the convolutions: 512 words x 2048 filters x 50 positions are 200 MB
WORDS_IN_A_SHARE = 32  # of a thread, at least
REMEMBERED_WORDS = 200_000
_remembering = threading.Lock()  # of all memories: one that has its own could not be copied with its biLM


class Highway(nn.Module):
    """g * relu(Wx) + (1 - g) * x with g = sigmoid(carry), as in bilm-tf; AllenNLP's gate is 1 - g."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)

    def forward(self, x: Tensor, levels: int | None = None) -> Tensor:
        """The gated mixture, of the input's shape (words, dim); with levels, of products in int8."""
        carried, transformed = (
            linear(x) if levels is None else _int8_product(x, linear, levels) for linear in (self.carry, self.transform)
        )
        return torch.lerp(x, torch.relu(transformed), torch.sigmoid(carried))


def _int8_product(x: Tensor, linear: nn.Linear, levels: int) -> Tensor:
    weight, step = in_steps(linear.weight)
    return product(x, weight.t(), step, levels) + linear.bias


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
        # bilm-tf has none if the widths are equal.
        self.projection = projection if options.n_filters != options.projection_dim else nn.Identity()
        self.use_int8(False)

    def use_int8(self, int8: bool) -> None:
        """Whether the products of highways are in int8 from now on; see `elmo.bilm.model.Bilm.use_int8`."""
        self.int8 = int8
        self._panels: Prepared[fast.EncoderPanels] = Prepared()

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors of spelled words: (words, characters) -> (words, projection_dim)."""
        x = self.characters(ids)  # (words, characters, char_dim)
        # The activations are monotonic, so they can be applied after the maximum, to one position in fifty.
        convolutions = cast(Iterable[nn.Conv1d], self.convolutions)
        x = torch.cat([_max_over_windows(conv, x) for conv in convolutions], dim=1)  # (words, n_filters)
        x = torch.relu(x) if self.options.activation == "relu" else torch.tanh(x)
        levels = LEVELS if self.options.activation == "tanh" else NOT_NEGATIVE
        for highway in self.highways:
            x = highway(x, levels if self.int8 else None)
        return self.projection(x)  # (words, projection_dim)

    def encode_words(self, words: Sequence[str]) -> Tensor:
        """The vectors of distinct words, (words, projection_dim).

        Words are sorted by length and encoded in groups, each padded only as far as its longest word needs, so that
        short words cost less. This is exact: all later windows cover only padding, and one such window is kept for
        each filter.
        """
        options, device, dtype = self.options, self.characters.weight.device, self.characters.weight.dtype
        if not words:
            return torch.zeros(0, options.projection_dim, device=device, dtype=dtype)
        widest = max(width for width, _ in options.filters)
        by_length = np.argsort([len(word.encode("utf-8", "ignore")) for word in words], kind="stable")

        differentiable = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self.parameters())
        compiled = None if differentiable else fast.compiled(self.characters.weight)
        panels = compiled and self._panels.of(list(self.parameters()), partial(self._converted, compiled))

        def encode(rows: slice) -> Tensor:
            ids = character_ids([words[i] for i in by_length[rows].tolist()], options.max_characters, room=widest)
            if compiled and panels:
                return compiled.encode(torch.from_numpy(ids), panels)
            return in_blocks(self, upload(ids, device)).to(dtype)

        share = -(-len(words) // at_once()) if device.type == "cpu" else len(words)  # work for every thread
        size = min(WORDS_AT_ONCE, max(share, WORDS_IN_A_SHARE))
        jobs = [partial(encode, slice(start, start + size)) for start in range(0, len(words), size)]
        # With gradients one by one: from threads, torch sums them in an order that changes from call to call.
        in_threads = device.type == "cpu" and not differentiable
        vectors = torch.cat(side_by_side(jobs) if in_threads else [job() for job in jobs])
        return vectors.index_select(0, upload(np.argsort(by_length), device))

    def _converted(self, compiled: fast.CompiledBilm) -> fast.EncoderPanels:
        """The weights in the layout of the compiled functions."""
        convolutions = cast(Iterable[nn.Conv1d], self.convolutions)
        highways = [(one.carry, one.transform) for one in cast(Iterable[Highway], self.highways)]
        parts = self.characters.weight, convolutions, highways, self.projection, self.options.activation
        return compiled.encoder_panels(*parts, self.int8)


def _max_over_windows(convolution: nn.Conv1d, x: Tensor) -> Tensor:
    """Each filter's maximum over the windows of a word: (words, characters, char_dim) -> (words, filters)."""
    if x.device.type == "cpu":
        return cast(Tensor, convolution(x.transpose(1, 2))).amax(dim=2)
    # On a GPU as a product in single precision: cuDNN's convolutions use TF32 by default.
    windows = x.unfold(1, convolution.kernel_size[0], 1).flatten(2)  # (words, windows, char_dim * width)
    return nn.functional.linear(windows, convolution.weight.flatten(1), convolution.bias).amax(dim=1)


class WordEncoder(nn.Module):
    """Maps words of a vocabulary to vectors, (words, projection_dim); all other words share the vector of <UNK>.

    With character filters, the character encoder's vector is concatenated, so that unknown words still differ.
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
        rows = np.array([self._row_of.get(word, unknown) for word in words], dtype=np.int64)
        parts = [self.words(upload(rows, self.words.weight.device))]  # (words, word_dim)
        if isinstance(self.characters, CharacterEncoder):
            parts.append(self.characters.encode_words(words))  # (words, char_output_dim)
        return in_blocks(self.projection, torch.cat(parts, dim=1))


class WordMemory:
    """A cache of word vectors; several threads may use it.

    Args:
        encoder: computes new vectors; its weights must not change afterwards.
        limit: maximum number of cached words.
    """

    def __init__(self, encoder: CharacterEncoder | WordEncoder, limit: int = REMEMBERED_WORDS) -> None:
        self.encoder = encoder
        self.limit = limit
        self._row_of: dict[str, int] = {}
        self._used = 0  # rows: two for a word that two threads encode at once
        self._table = torch.empty(0, 0)  # (rows, projection_dim); grows by doubling

    def encode_words(self, words: Sequence[str]) -> Tensor:
        """The vectors of distinct words, (words, projection_dim)."""
        device = next(self.encoder.parameters()).device
        if self._table.device != device:  # the encoder has moved
            self._row_of, self._used, self._table = {}, 0, torch.empty(0, 0, device=device)
        rows = np.array([self._row_of.get(word, -1) for word in words], dtype=np.int64)
        new = np.flatnonzero(rows < 0)
        if not len(new):
            return self._table[upload(rows, device)]
        new_words = [words[i] for i in new.tolist()]
        vectors = self.encoder.encode_words(new_words)  # (new words, projection_dim)
        with _remembering:
            if self._used + len(new) <= self.limit:
                rows[new] = self._remember(new_words, vectors)
                return self._table[upload(rows, device)]
        known = np.flatnonzero(rows >= 0)
        kept = self._table[upload(rows[known], device)] if len(known) else vectors[:0]
        return torch.cat([kept, vectors])[upload(np.argsort(np.concatenate([known, new])), device)]

    def _remember(self, words: Sequence[str], vectors: Tensor) -> npt.NDArray[np.int64]:
        """Adds words to the cache, and returns their rows."""
        first, needed = self._used, self._used + len(words)
        if needed > len(self._table):
            table = vectors.new_empty(min(self.limit, max(needed, 2 * len(self._table))), vectors.shape[1])
            table[:first] = self._table[:first] if first else 0
            self._table = table
        self._table[first:needed] = vectors
        self._used = needed
        self._row_of.update(zip(words, range(first, needed), strict=True))
        return np.arange(first, needed)


def encoder_of(options: BilmOptions) -> CharacterEncoder | WordEncoder:
    """The encoder for these options: a `WordEncoder` if they list words, a `CharacterEncoder` otherwise."""
    return WordEncoder(options) if options.words else CharacterEncoder(options)
