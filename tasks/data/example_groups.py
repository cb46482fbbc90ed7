"""Kinds of test examples: by a number, such as the length, and by casing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from results.records.metric import Grouping

CASINGS = ("prose", "ALL CAPS", "table or dateline", "no lower-case word")


def by_number(numbers: Sequence[float], edges: Sequence[int], unit: str) -> Grouping:
    """Examples by a number, without what follows its decimal point.

    Args:
        numbers: of each example.
        edges: the least number of every kind but the first, ascending.
        unit: what is counted, for labels.
    """
    between = [f"{low} to {high - 1} {unit}" for low, high in pairwise(edges)]
    labels = [f"under {edges[0]} {unit}", *between, f"{edges[-1]} {unit} or more"]
    return Grouping(labels, [sum(number >= edge for edge in edges) for number in numbers])


def by_casing(sentences: Sequence[Sequence[str]]) -> Grouping:
    """Sentences by their `casing`."""
    return Grouping(CASINGS, [CASINGS.index(casing(words)) for words in sentences])


def casing(words: Sequence[str]) -> str:
    """One of CASINGS.

    Prose has a lower-case word of two letters or more. Of the other lines, ALL CAPS have no lower-case letter and more
    than two words for each number; the rest with a number are rows of tables, and datelines of news.
    """
    if any(len(word) > 1 and word.isalpha() and word.islower() for word in words):
        return CASINGS[0]
    numbers = sum(any(character.isdigit() for character in word) for word in words)
    if " ".join(words).isupper() and sum(word.isalpha() for word in words) > 2 * numbers:
        return CASINGS[1]
    return CASINGS[2] if numbers else CASINGS[3]
