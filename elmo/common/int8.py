"""Weights in int8, and their products with rounded rows: sums of integers have the same bits in any order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LEVELS = 127  # of int8, on either side of zero
NOT_NEGATIVE = 255
FINE = 16319  # 15 bits: 128 times one int8 plus another
_SMALLEST = torch.finfo(torch.float32).tiny  # a row of zeros has a step, too


@torch.no_grad()
def in_steps(weight: Tensor, axes: Sequence[int] = (1,)) -> tuple[Tensor, Tensor]:
    """A weight in integer steps from -127 to 127, and the size of the steps: the largest value along the axes / 127."""
    step = (weight.float().abs().amax(tuple(axes), keepdim=True) / LEVELS).clamp(min=_SMALLEST)
    return (weight / step).round().clamp(-LEVELS, LEVELS).to(torch.int8), step


@torch.no_grad()
def product(x: Tensor, weight: Tensor, step: Tensor, levels: int = LEVELS) -> Tensor:
    """The product of rows, each rounded to its own steps, with int8 weights; the same bits as in compiled code.

    Args:
        x: (rows, inputs).
        weight: integers, (inputs, columns).
        step: of each column, (columns, 1).
        levels: steps of a row's largest value: 127, 255 for rows without negative values, or `FINE`.
    """
    of_row = (x.abs().amax(dim=1, keepdim=True) / levels).clamp(min=_SMALLEST)  # NaN if a value is
    whole = (x * (1 / of_row)).round().nan_to_num()
    high = ((whole + 64) / 128).floor()
    parts = [high, whole - 128 * high] if levels == FINE else [whole]
    sums = [(part.double() @ weight.double()).float() for part in parts]  # exact before they are rounded
    return (128 * sums[0] + sums[1] if levels == FINE else sums[0]) * (of_row * step.t())
