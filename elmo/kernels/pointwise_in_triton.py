"""Pointwise part of an LSTM step as Triton kernels; `elmo.bilm.pointwise_in_torch` is the reference.

Gates and outputs may be in half precision. Cells and their gradients are in single precision, because a cell is a sum
over the whole sentence.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

# mypy: disable-error-code="misc,no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,import-untyped"
# ruff: noqa: ANN001, ANN202, N803

CELLS_AT_ONCE = 1024  # cells of a sentence in one program; more would not fit into registers


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _forward(
    gates,
    bias,
    before,
    after,
    hidden,
    gates_step,
    cell_step,
    hidden_step,
    clip,
    CELL: tl.constexpr,
    BLOCK: tl.constexpr,
    KEEP: tl.constexpr,
):
    sentence, direction = tl.program_id(0), tl.program_id(1)
    at = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = at < CELL
    gates += direction * gates_step + sentence * 4 * CELL + at
    bias += direction * 4 * CELL + at
    i = tl.sigmoid(tl.load(gates, inside).to(tl.float32) + tl.load(bias, inside))
    f = tl.sigmoid(tl.load(gates + CELL, inside).to(tl.float32) + tl.load(bias + CELL, inside))
    g = _tanh(tl.load(gates + 2 * CELL, inside).to(tl.float32) + tl.load(bias + 2 * CELL, inside))
    o = tl.sigmoid(tl.load(gates + 3 * CELL, inside).to(tl.float32) + tl.load(bias + 3 * CELL, inside))
    cell = tl.load(before + direction * cell_step + sentence * CELL + at, inside) * f + i * g
    cell = tl.minimum(tl.maximum(cell, -clip), clip)
    tl.store(after + direction * cell_step + sentence * CELL + at, cell, inside)
    tl.store(hidden + direction * hidden_step + sentence * CELL + at, o * _tanh(cell), inside)
    if KEEP:
        tl.store(gates, i, inside)
        tl.store(gates + CELL, f, inside)
        tl.store(gates + 2 * CELL, g, inside)
        tl.store(gates + 3 * CELL, o, inside)


@triton.jit
def _backward(
    gates,
    before,
    after,
    grad_hidden,
    grad_cell,
    gates_step,
    cell_step,
    grad_step,
    clip,
    CELL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    sentence, direction = tl.program_id(0), tl.program_id(1)
    at = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = at < CELL
    gates += direction * gates_step + sentence * 4 * CELL + at
    row = sentence * CELL + at
    i = tl.load(gates, inside).to(tl.float32)
    f = tl.load(gates + CELL, inside).to(tl.float32)
    g = tl.load(gates + 2 * CELL, inside).to(tl.float32)
    o = tl.load(gates + 3 * CELL, inside).to(tl.float32)
    old = tl.load(before + direction * cell_step + row, inside)
    new = tl.load(after + direction * cell_step + row, inside)
    from_hidden = tl.load(grad_hidden + direction * grad_step + row, inside).to(tl.float32)
    total = tl.load(grad_cell + direction * grad_step + row, inside)
    squashed = _tanh(new)
    total += from_hidden * o * (1 - squashed * squashed)
    total = tl.where(tl.abs(new) < clip, total, 0.0)
    tl.store(grad_cell + direction * grad_step + row, total * f, inside)
    tl.store(gates, total * g * i * (1 - i), inside)
    tl.store(gates + CELL, total * old * f * (1 - f), inside)
    tl.store(gates + 2 * CELL, total * i * (1 - g * g), inside)
    tl.store(gates + 3 * CELL, from_hidden * squashed * o * (1 - o), inside)


def forward(
    gates: Tensor,
    bias: Tensor,
    before: Tensor,
    after: Tensor,
    hidden: Tensor,
    clip: float | None,
    keep_gates: bool = True,
) -> None:
    """As `pointwise_in_torch.forward`; the rows of each direction are contiguous."""
    grid, cell_dim, block = _grid(before)
    steps = gates.stride(0), before.stride(0), hidden.stride(0)
    bound = float("inf") if clip is None else clip
    _forward[grid](gates, bias, before, after, hidden, *steps, bound, CELL=cell_dim, BLOCK=block, KEEP=keep_gates)


def backward(
    gates: Tensor, before: Tensor, after: Tensor, grad_hidden: Tensor, grad_cell: Tensor, clip: float | None
) -> None:
    """As `pointwise_in_torch.backward`; the rows of each direction are contiguous."""
    grid, cell_dim, block = _grid(before)
    steps = gates.stride(0), before.stride(0), grad_cell.stride(0)
    bound = float("inf") if clip is None else clip
    _backward[grid](gates, before, after, grad_hidden, grad_cell, *steps, bound, CELL=cell_dim, BLOCK=block)


def _grid(cells: Tensor) -> tuple[tuple[int, int, int], int, int]:
    """The grid (sentences, directions, blocks of cells), the cells of a sentence, and the cells of a block."""
    directions, sentences, cell_dim = cells.shape
    block = min(triton.next_power_of_2(cell_dim), CELLS_AT_ONCE)
    return (sentences, directions, triton.cdiv(cell_dim, block)), cell_dim, block
