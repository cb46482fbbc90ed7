"""Batching: batches of similar lengths, or random ones, bounded by the number of examples and of padded tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence

BATCHES = ("length", "random")
LENGTH_NOISE = 0.1  # relative noise on lengths before sorting, so that batches differ between epochs


def plan_batches(
    sizes: Sequence[int], max_examples: int, max_tokens: int, shuffle_seed: int | None = None, by_length: bool = True
) -> list[list[int]]:
    """Batches of example numbers, with every example exactly once.

    Memory depends on the number of padded tokens, so `max_tokens` limits the memory of a batch of long texts. A longer
    example is a batch by itself; it is not dropped.

    Args:
        sizes: tokens of each example.
        max_examples: maximum number of examples in a batch.
        max_tokens: maximum of examples times the longest of them.
        shuffle_seed: determines the batches and their order; None sorts by length alone.
        by_length: false draws the examples of a batch at random, if there is a seed. As many batches, unless more
            padding reaches `max_tokens` earlier.
    """
    if max_examples < 1 or max_tokens < 1:
        raise ValueError(f"batches need room for at least one example and token, found {max_examples}, {max_tokens}")
    draw = random.Random(shuffle_seed)
    order = list(range(len(sizes)))
    if shuffle_seed is None:
        order.sort(key=sizes.__getitem__)
    elif not by_length:
        draw.shuffle(order)
    else:
        blurred = [size * draw.uniform(1 - LENGTH_NOISE, 1 + LENGTH_NOISE) for size in sizes]
        draw.shuffle(order)  # breaks ties at random
        order.sort(key=blurred.__getitem__)
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for example in order:
        longest = max(longest, sizes[example])
        if batch and (len(batch) == max_examples or longest * (len(batch) + 1) > max_tokens):
            batches.append(batch)
            batch, longest = [], sizes[example]
        batch.append(example)
    if batch:
        batches.append(batch)
    if shuffle_seed is not None:
        draw.shuffle(batches)
    return batches
