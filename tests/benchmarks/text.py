"""Synthetic text with realistic sentence lengths, word lengths and word frequencies."""

import random
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

ONSETS = ["", "b", "br", "c", "d", "f", "g", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "th", "v", "w"]
VOWELS = ["a", "e", "i", "o", "u", "ea", "ou"]
CODAS = ["", "", "", "n", "r", "s", "t", "l", "nd", "ng"]


def sentences(n: int, seed: int = 0) -> list[list[str]]:
    """Sentences of 5 to 60 words, 24.5 on average.

    Distinct words, in % of all, next to those of English sentences (5 to 60 words, drawn at random): of 64 sentences 55
    (news 51, encyclopedia 51 to 53), of 400 35 (34; 36 to 37), of 1,280 26 (24; 25 to 26), of 19,200 9 (7; 8 to 9).
    """
    draw = np.random.default_rng(seed)
    vocabulary = _vocabulary(60_000)
    shares = (np.arange(len(vocabulary)) + 4.0) ** -1.1  # Zipf and Mandelbrot
    shares /= shares.sum()
    lengths = (5 + 55 * draw.random(n) ** 1.8).round().astype(int)
    return [[vocabulary[i] for i in draw.choice(len(vocabulary), size=length, p=shares)] for length in lengths]


def words(sentences: Iterable[Sequence[str]]) -> list[str]:
    """Distinct words, in order of appearance."""
    return list(dict.fromkeys(word for sentence in sentences for word in sentence))


@cache
def _vocabulary(n: int) -> list[str]:
    """Distinct pronounceable words, the frequent ones shorter."""
    draw, letters = np.random.default_rng(1), random.Random(1)
    words: dict[str, None] = dict.fromkeys([",", ".", "'s", '"'])
    while len(words) < n:
        syllables = 1 + draw.poisson(min(1.1, len(words) / 500))
        words["".join(letters.choice(part) for _ in range(syllables) for part in (ONSETS, VOWELS, CODAS))] = None
    return list(words)
