"""Random decisions about training sentences, drawn by seed: how often one occurs, and in which case."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo.pretrain.corpus.token_store import SPECIALS

AS_IS, UPPER, TITLE = range(3)
_UPPER_SHARE: Final = 2 / 3  # of the recased sentences; headlines and datelines of news wire are upper-cased
_COPIES, _CASES = 1 << 62, 1 << 61  # keep these draws independent of each other and of held-out text and order


def splitmix(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return `numbers` hashed to 64 bits with `seed` (splitmix64, one to one).

    It does not use numpy's generator, whose streams may change between versions; a store must not change.
    """
    x = numbers + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def uniform(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return hashes as numbers from 0 to 1."""
    return (hashes >> np.uint64(11)).astype(np.float64) / (1 << 53)


def copies(weights: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """Return how often each sentence occurs: its weight, rounded up or down at random so that the mean is right."""
    whole = np.floor(weights)
    more = uniform(splitmix(np.arange(len(weights), dtype=np.uint64), seed ^ _COPIES)) < weights - whole
    return whole.astype(np.int64) + more


def cases(sentences: int, share: float, seed: int) -> NDArray[np.uint8]:
    """Return AS_IS, UPPER or TITLE for each sentence; `share` of them are recased."""
    drawn = uniform(splitmix(np.arange(sentences, dtype=np.uint64), seed ^ _CASES))
    bounds = np.array([share * _UPPER_SHARE, share])
    return np.array([UPPER, TITLE, AS_IS], np.uint8)[np.searchsorted(bounds, drawn, side="right")]


def recased(
    words: list[bytes], tokens: NDArray[np.uint32], case: NDArray[np.uint8]
) -> tuple[list[bytes], NDArray[np.uint32]]:
    """Return tokens in their cases, and the words with the recased ones that occur after them (some may be equal).

    Args:
        words: spelling of each number.
        tokens: numbers of words, (tokens,).
        case: of each token, (tokens,).
    """
    spelled, changed = list(words), tokens.copy()
    for which, respell in ((UPPER, str.upper), (TITLE, _title)):
        chosen = case == which
        used, places = np.unique(tokens[chosen], return_inverse=True)
        changed[chosen] = len(spelled) + places
        spelled += [_kept(words[number], respell(words[number].decode()).encode()) for number in used]
    return spelled, changed


def _title(word: str) -> str:
    """Return a word with a capital first letter; 's, n't and numbers stay as they are, and so do later capitals."""
    return word if word == "n't" else word[0].upper() + word[1:]


def _kept(word: bytes, changed: bytes) -> bytes:
    """Return the changed word unless it reads as a special one: <unk> must not become <UNK>."""
    return word if changed.decode() in SPECIALS else changed
