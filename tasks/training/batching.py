"""Which examples go together: batches of alike lengths, bounded by a number of examples and of padded tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence

LENGTH_NOISE = 0.1  # share by which lengths are blurred before sorting, so that batches differ from epoch to epoch


def plan_batches(
    sizes: Sequence[int], max_examples: int, max_tokens: int, shuffle_seed: int | None = None
) -> list[list[int]]:
    """Batches of example numbers that hold every example exactly once.

    Memory follows the padded token count, so `max_tokens` is what keeps a batch of long texts from running out of it;
    an example longer than that makes a batch of its own rather than being dropped.

    Args:
        sizes: tokens of each example.
        max_examples: examples in a batch at most.
        max_tokens: examples times the longest of them at most.
        shuffle_seed: draws other batches in another order for each seed; None sorts by length alone.
    """
    if max_examples < 1 or max_tokens < 1:
        raise ValueError(f"batches need room for at least one example and token, found {max_examples}, {max_tokens}")
    draw = random.Random(shuffle_seed)
    order = list(range(len(sizes)))
    if shuffle_seed is None:
        order.sort(key=sizes.__getitem__)
    else:
        blurred = [size * draw.uniform(1 - LENGTH_NOISE, 1 + LENGTH_NOISE) for size in sizes]
        draw.shuffle(order)  # ties fall anew each time
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
