"""Pointwise part of an LSTM step in plain torch: for CPUs, and the reference for the Triton kernel."""

from __future__ import annotations

import torch
from torch import Tensor


def forward(
    gates: Tensor,
    bias: Tensor,
    before: Tensor,
    after: Tensor,
    hidden: Tensor,
    clip: float | None,
    keep_gates: bool = True,
) -> None:
    """Writes a step's cell to `after`, its unprojected output to `hidden`, and overwrites `gates` with activated ones.

    Args:
        gates: i, f, g, o without bias, (directions, sentences, 4 * cell_dim).
        bias: of the gates, (directions, 4 * cell_dim).
        before: the cell before the step, (directions, sentences, cell_dim).
        after: receives the cell after the step; may be `before`.
        hidden: receives the output before projection.
        clip: bound of the cell, or None.
        keep_gates: whether `backward` will read the activated gates; if false, the content of `gates` is undefined.
    """
    gates += bias[:, None, :]
    i, f, g, o = gates.chunk(4, dim=-1)  # (directions, sentences, cell_dim) each, views
    i.sigmoid_(), f.sigmoid_(), g.tanh_(), o.sigmoid_()
    torch.mul(before, f, out=after)
    after.addcmul_(i, g)
    if clip is not None:
        after.clamp_(-clip, clip)
    torch.mul(o, after.tanh(), out=hidden)


def backward(
    gates: Tensor, before: Tensor, after: Tensor, grad_hidden: Tensor, grad_cell: Tensor, clip: float | None
) -> None:
    """Overwrites activated `gates` with their gradients, and `grad_cell` with the gradient of the cell before.

    Args:
        gates: activated i, f, g, o, (directions, sentences, 4 * cell_dim).
        before: the cell before the step, (directions, sentences, cell_dim).
        after: the cell after the step.
        grad_hidden: gradient of the output before projection.
        grad_cell: gradient of `after` from later steps.
        clip: as in `forward`.
    """
    i, f, g, o = gates.chunk(4, dim=-1)
    squashed = after.tanh()
    total = grad_cell + grad_hidden * o * (1 - squashed * squashed)
    if clip is not None:
        total = total * (after.abs() < clip)
    grad_o = grad_hidden * squashed * o * (1 - o)
    grad_i, grad_g = total * g * i * (1 - i), total * i * (1 - g * g)
    grad_f = total * before * f * (1 - f)
    torch.mul(total, f, out=grad_cell)
    torch.cat([grad_i, grad_f, grad_g, grad_o], dim=-1, out=gates)
