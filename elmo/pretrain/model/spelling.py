"""Spelling table: character ids of all words, and how a batch's words are grouped for the character encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.bilm.characters import PADDING, WORD_END, WORD_START, character_ids, spell
from elmo.pretrain.corpus.token_store import END, SPECIALS, offsets_of

# Bounds of the groups, in ids per word (two boundary marks included). The cost of a group depends on its longest word.
GROUPS = (6, 8, 10, 12, 16, 24)

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
