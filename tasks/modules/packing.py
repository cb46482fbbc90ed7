"""Packed batches: where the tokens are when padding is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from elmo.common.device import upload_together


@dataclass(frozen=True)
class Packing:
    """The tokens of a batch, sorted by step and within a step by their sentence's length, longest first.

    Attributes:
        sizes: sentences in each step.
        starts: the packed row at which each step begins.
        places: of each packed token, its row among the flattened (batch * tokens).
        mirrored: of each packed token, its packed row when sentences are read from their last token to their first.
        apart: of the packed tokens of both directions, one after the other, their rows among what is computed of the
            packed tokens for both directions at once, flattened (packed * 2): one's first is the other's last.
        together: the inverse of `apart`.
        halves: of the packed tokens of both directions, one after the other, their rows among the states of both
            directions, flattened (batch * tokens * 2).
        before: of each packed token but those of the first step, the packed row of its sentence one step earlier.
        steps: starts and sizes on the device, for kernels that walk through the steps there, (2, steps), int32.
    """

    sizes: Sequence[int]
    starts: Sequence[int]
    places: Tensor
    mirrored: Tensor
    apart: Tensor
    together: Tensor
    halves: Tensor
    before: Tensor
    steps: Tensor

    @classmethod
    def of(cls, lengths: Tensor, tokens: int, device: torch.device) -> Packing:
        """The packing of sentences of these lengths, padded to `tokens`; cached: every layer needs the same."""
        return _packing(tuple(lengths.tolist()), tokens, device)


@lru_cache(maxsize=8)
def _packing(lengths: tuple[int, ...], tokens: int, device: torch.device) -> Packing:
    # In numpy: for these few numbers a call of torch costs several times as much.
    order = np.argsort(-np.array(lengths), kind="stable")
    descending = np.array(lengths)[order]
    inside = np.arange(descending[0])[:, None] < descending  # (steps, batch)
    sizes = inside.sum(axis=1)
    starts = np.cumsum(sizes) - sizes
    step, rank = inside.nonzero()
    mirrored = descending[rank] - 1 - step  # the step of the same token in the other direction
    first, packed, opposite = order[rank] * tokens, np.arange(len(step)), starts[mirrored] + rank
    later = step > 0
    parts = [  # in the order of the fields
        first + step,
        opposite,
        np.concatenate([2 * packed, 2 * opposite + 1]),
        np.stack([packed, len(packed) + opposite], axis=1).ravel(),
        np.concatenate([2 * (first + step), 2 * (first + mirrored) + 1]),
        starts[step[later] - 1] + rank[later],
        np.stack([starts, sizes]).astype(np.int32),
    ]
    uploaded = upload_together([torch.from_numpy(part) for part in parts], device)
    return Packing(sizes.tolist(), starts.tolist(), *uploaded)
