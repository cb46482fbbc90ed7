"""Row numbers of sentences in a table with one row per token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

NOWHERE = -1  # start of a sentence that is not in the table

Key = tuple[str, ...]
KeyBatch = list[Key]
Numbers = npt.NDArray[np.int64]
Numbering = Callable[[Sequence[int], Sequence[Key]], Numbers]


def starts_from(first: int, keys: Sequence[Key]) -> dict[Key, int]:
    """Where each sentence starts, when they follow each other from row `first` on."""
    return dict(zip(keys, accumulate(map(len, keys), initial=first), strict=False))


def padded_numbers(starts: Sequence[int], sentences: Sequence[Key]) -> Numbers:
    """Row numbers for a padded batch, (sentences, tokens): 0 for padding, and for sentences that start nowhere."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    first = np.array(starts, dtype=np.int64)[:, None]
    step = np.arange(lengths.max(initial=0))
    return np.where((step < lengths[:, None]) & (first != NOWHERE), first + step, 0)


def running_numbers(starts: Sequence[int], sentences: Sequence[Key]) -> Numbers:
    """Row numbers for sentences one after the other, (tokens,): 0 for those that start nowhere."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    first = np.repeat(np.array(starts, dtype=np.int64), lengths)
    return np.where(first == NOWHERE, 0, first + step)


def joined_numbers(starts: Sequence[int], sentences: Sequence[Key], counts: Sequence[int]) -> Numbers:
    """Row numbers for a padded batch of texts, (texts, tokens), each of the next `counts` sentences, one or more."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    firsts = np.cumsum(np.array(counts, dtype=np.int64)) - counts
    tokens = np.add.reduceat(lengths, firsts)[:, None]  # of each text
    inside = np.arange(tokens.max(initial=0)) < tokens
    numbers = np.zeros(inside.shape, dtype=np.int64)
    numbers[inside] = running_numbers(starts, sentences)
    return numbers


def first_within(tokens: int, keys: Sequence[Key]) -> list[Key]:
    """The longest prefix of the sentences with at most this many tokens in all."""
    ends = accumulate(map(len, keys))
    return [key for key, end in zip(keys, ends, strict=True) if end <= tokens]


def in_batches(most: int, by_length: Sequence[Key]) -> Iterator[KeyBatch]:
    """Batches of similar lengths with at most this many tokens, or one longer sentence."""
    batch: KeyBatch = []
    tokens = 0
    for sentence in by_length:
        if batch and tokens + len(sentence) > most:
            yield batch
            batch, tokens = [], 0
        batch.append(sentence)
        tokens += len(sentence)
    if batch:
        yield batch
