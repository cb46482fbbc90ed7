"""The loop over the steps of a recurrence in Triton, as one kernel; see `tasks.modules.recurrence.Loops`.

A program processes ROWS sentences of one direction from their first token to their last, so a layer is one launch, and
the host can prepare the next one. Sentences are independent, so programs do not wait for each other. In a program, a
barrier after each step makes the states visible to all threads for the next step. The weights are read again from the
cache at each step, the next tiles while one is multiplied: at the widths of task heads this takes less time than a
launch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmo.common.packing import Packing

# mypy: disable-error-code="misc,no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,import-untyped"
# ruff: noqa: ANN001, ANN202, N803

ROWS = 16  # the fewest that a matrix unit multiplies; 32 are slower, with one program and with a full GPU
SIZES = ["n_steps", "packed"]  # differ between batches; Triton would compile another kernel if 16 divides one
WIDEST_BLOCK = 128  # columns of a product computed at once
DEPTH = 16  # rows of the weights multiplied at once
STAGES = 3  # tiles in flight; with four gates of 128 columns 68 kB, which every GPU with asynchronous copies has


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _step(steps, n_steps, step):
    """The first packed row of a step, and its number of sentences."""
    return tl.load(steps + step), tl.load(steps + n_steps + step)


@triton.jit
def _rows(values, rows, columns, width, inside):
    """Some columns of some rows of a matrix of this width; zeros outside."""
    return tl.load(values + rows[:, None] * width + columns[None, :], mask=inside, other=0.0)


@triton.jit
def _put(values, rows, columns, width, inside, what):
    tl.store(values + rows[:, None] * width + columns[None, :], what, mask=inside)


@triton.jit
def _plus(total, left, right, k, depth, columns, width, HIDDEN: tl.constexpr, PRECISION: tl.constexpr):
    """`total` plus the product of `left` and the rows `k` and some of the HIDDEN columns of `right`."""
    right = _rows(right, k, columns, width, (k < depth)[:, None] & (columns < HIDDEN)[None, :])
    return tl.dot(left, right, total, input_precision=PRECISION)


@triton.jit
def _product(
    total,
    left,
    rows,
    live,
    depth,
    right,
    columns,
    HIDDEN: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """`total` plus the product of some rows of `left`, `depth` wide, and some of the HIDDEN columns of `right`."""
    for first in tl.range(0, depth, DEPTH, num_stages=STAGES):
        k = first + tl.arange(0, DEPTH)
        a = _rows(left, rows, k, depth, live[:, None] & (k < depth)[None, :])
        total = _plus(total, a, right, k, depth, columns, HIDDEN, HIDDEN, PRECISION)
    return total


@triton.jit(do_not_specialize=SIZES)
def _lstm_forward(
    gates,
    by_state,
    cells,
    squashed,
    states,
    steps,
    n_steps,
    packed,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block, direction = tl.program_id(0), tl.program_id(1)
    gates += direction * packed * 4 * HIDDEN
    by_state += direction * HIDDEN * 4 * HIDDEN
    cells += direction * packed * HIDDEN
    squashed += direction * packed * HIDDEN
    states += direction * packed * HIDDEN
    ranks = block * ROWS + tl.arange(0, ROWS)
    earlier = 0
    for step in range(n_steps):
        start, size = _step(steps, n_steps, step)
        if block * ROWS < size:
            live = ranks < size
            now, past = start + ranks, earlier + ranks
            for first in range(0, HIDDEN, BLOCK):
                at = first + tl.arange(0, BLOCK)
                inside = live[:, None] & (at < HIDDEN)[None, :]
                o = _rows(gates, now, at, 4 * HIDDEN, inside)
                i = _rows(gates + HIDDEN, now, at, 4 * HIDDEN, inside)
                f = _rows(gates + 2 * HIDDEN, now, at, 4 * HIDDEN, inside)
                g = _rows(gates + 3 * HIDDEN, now, at, 4 * HIDDEN, inside)
                before = tl.zeros_like(o)
                if step > 0:
                    before = _rows(cells, past, at, HIDDEN, inside)
                    for deep in tl.range(0, HIDDEN, DEPTH, num_stages=STAGES):
                        k = deep + tl.arange(0, DEPTH)
                        a = _rows(states, past, k, HIDDEN, live[:, None] & (k < HIDDEN)[None, :])
                        o = _plus(o, a, by_state, k, HIDDEN, at, 4 * HIDDEN, HIDDEN, PRECISION)
                        i = _plus(i, a, by_state + HIDDEN, k, HIDDEN, at, 4 * HIDDEN, HIDDEN, PRECISION)
                        f = _plus(f, a, by_state + 2 * HIDDEN, k, HIDDEN, at, 4 * HIDDEN, HIDDEN, PRECISION)
                        g = _plus(g, a, by_state + 3 * HIDDEN, k, HIDDEN, at, 4 * HIDDEN, HIDDEN, PRECISION)
                o, i, f, g = tl.sigmoid(o), tl.sigmoid(i), tl.sigmoid(f), _tanh(g)
                cell = f * before + i * g
                flat = _tanh(cell)
                _put(cells, now, at, HIDDEN, inside, cell)
                _put(squashed, now, at, HIDDEN, inside, flat)
                _put(states, now, at, HIDDEN, inside, o * flat)
                _put(gates, now, at, 4 * HIDDEN, inside, o)
                _put(gates + HIDDEN, now, at, 4 * HIDDEN, inside, i)
                _put(gates + 2 * HIDDEN, now, at, 4 * HIDDEN, inside, f)
                _put(gates + 3 * HIDDEN, now, at, 4 * HIDDEN, inside, g)
            tl.debug_barrier()
        earlier = start


@triton.jit(do_not_specialize=SIZES)
def _lstm_backward(
    grad,
    gates,
    cells,
    squashed,
    weight,
    grad_gates,
    grad_cells,
    steps,
    n_steps,
    packed,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block, direction = tl.program_id(0), tl.program_id(1)
    grad += direction * packed * HIDDEN
    gates += direction * packed * 4 * HIDDEN
    cells += direction * packed * HIDDEN
    squashed += direction * packed * HIDDEN
    weight += direction * 4 * HIDDEN * HIDDEN
    grad_gates += direction * packed * 4 * HIDDEN
    grad_cells += direction * packed * HIDDEN
    ranks = block * ROWS + tl.arange(0, ROWS)
    later, later_size = 0, 0
    for back in range(n_steps):
        step = n_steps - 1 - back
        start, size = _step(steps, n_steps, step)
        if block * ROWS < size:
            live = ranks < size
            goes_on = ranks < later_size
            now, after = start + ranks, later + ranks
            past = _step(steps, n_steps, tl.maximum(step - 1, 0))[0] + ranks
            for first in range(0, HIDDEN, BLOCK):
                at = first + tl.arange(0, BLOCK)
                inside = live[:, None] & (at < HIDDEN)[None, :]
                follows = goes_on[:, None] & (at < HIDDEN)[None, :]
                state = _rows(grad, now, at, HIDDEN, inside)
                if block * ROWS < later_size:
                    state = _product(
                        state, grad_gates, after, goes_on, 4 * HIDDEN, weight, at, HIDDEN, DEPTH, STAGES, PRECISION
                    )
                o = _rows(gates, now, at, 4 * HIDDEN, inside)
                i = _rows(gates + HIDDEN, now, at, 4 * HIDDEN, inside)
                f = _rows(gates + 2 * HIDDEN, now, at, 4 * HIDDEN, inside)
                g = _rows(gates + 3 * HIDDEN, now, at, 4 * HIDDEN, inside)
                flat = _rows(squashed, now, at, HIDDEN, inside)
                carried = _rows(grad_cells, after, at, HIDDEN, follows) * _rows(
                    gates + 2 * HIDDEN, after, at, 4 * HIDDEN, follows
                )
                before = _rows(cells, past, at, HIDDEN, inside & (step > 0))
                cell = state * o * (1 - flat * flat) + carried
                _put(grad_cells, now, at, HIDDEN, inside, cell)
                _put(grad_gates, now, at, 4 * HIDDEN, inside, state * flat * o * (1 - o))
                _put(grad_gates + HIDDEN, now, at, 4 * HIDDEN, inside, cell * g * i * (1 - i))
                _put(grad_gates + 2 * HIDDEN, now, at, 4 * HIDDEN, inside, cell * before * f * (1 - f))
                _put(grad_gates + 3 * HIDDEN, now, at, 4 * HIDDEN, inside, cell * i * (1 - g * g))
            tl.debug_barrier()
        later, later_size = start, size


@triton.jit(do_not_specialize=SIZES)
def _gru_forward(
    gates,
    by_state,
    bias,
    added,
    states,
    steps,
    n_steps,
    packed,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block, direction = tl.program_id(0), tl.program_id(1)
    gates += direction * packed * 3 * HIDDEN
    by_state += direction * HIDDEN * 3 * HIDDEN
    bias += direction * 3 * HIDDEN
    added += direction * packed * HIDDEN
    states += direction * packed * HIDDEN
    ranks = block * ROWS + tl.arange(0, ROWS)
    earlier = 0
    for step in range(n_steps):
        start, size = _step(steps, n_steps, step)
        if block * ROWS < size:
            live = ranks < size
            now, past = start + ranks, earlier + ranks
            for first in range(0, HIDDEN, BLOCK):
                at = first + tl.arange(0, BLOCK)
                within = at < HIDDEN
                inside = live[:, None] & within[None, :]
                r = _rows(gates, now, at, 3 * HIDDEN, inside) + tl.load(bias + at, within, other=0.0)[None, :]
                z = (
                    _rows(gates + HIDDEN, now, at, 3 * HIDDEN, inside)
                    + tl.load(bias + HIDDEN + at, within, other=0.0)[None, :]
                )
                n = _rows(gates + 2 * HIDDEN, now, at, 3 * HIDDEN, inside)
                more = tl.zeros_like(n) + tl.load(bias + 2 * HIDDEN + at, within, other=0.0)[None, :]
                before = tl.zeros_like(n)
                if step > 0:
                    before = _rows(states, past, at, HIDDEN, inside)
                    for deep in tl.range(0, HIDDEN, DEPTH, num_stages=STAGES):
                        k = deep + tl.arange(0, DEPTH)
                        a = _rows(states, past, k, HIDDEN, live[:, None] & (k < HIDDEN)[None, :])
                        r = _plus(r, a, by_state, k, HIDDEN, at, 3 * HIDDEN, HIDDEN, PRECISION)
                        z = _plus(z, a, by_state + HIDDEN, k, HIDDEN, at, 3 * HIDDEN, HIDDEN, PRECISION)
                        more = _plus(more, a, by_state + 2 * HIDDEN, k, HIDDEN, at, 3 * HIDDEN, HIDDEN, PRECISION)
                r, z = tl.sigmoid(r), tl.sigmoid(z)
                n = _tanh(n + r * more)
                _put(added, now, at, HIDDEN, inside, more)
                _put(states, now, at, HIDDEN, inside, n + z * (before - n))
                _put(gates, now, at, 3 * HIDDEN, inside, r)
                _put(gates + HIDDEN, now, at, 3 * HIDDEN, inside, z)
                _put(gates + 2 * HIDDEN, now, at, 3 * HIDDEN, inside, n)
            tl.debug_barrier()
        earlier = start


@triton.jit(do_not_specialize=SIZES)
def _gru_backward(
    grad,
    gates,
    added,
    states,
    weight,
    grad_recurrent,
    steps,
    n_steps,
    packed,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block, direction = tl.program_id(0), tl.program_id(1)
    grad += direction * packed * HIDDEN
    gates += direction * packed * 3 * HIDDEN
    added += direction * packed * HIDDEN
    states += direction * packed * HIDDEN
    weight += direction * 3 * HIDDEN * HIDDEN
    grad_recurrent += direction * packed * 3 * HIDDEN
    ranks = block * ROWS + tl.arange(0, ROWS)
    later, later_size = 0, 0
    for back in range(n_steps):
        step = n_steps - 1 - back
        start, size = _step(steps, n_steps, step)
        if block * ROWS < size:
            live = ranks < size
            goes_on = ranks < later_size
            now, after = start + ranks, later + ranks
            past = _step(steps, n_steps, tl.maximum(step - 1, 0))[0] + ranks
            for first in range(0, HIDDEN, BLOCK):
                at = first + tl.arange(0, BLOCK)
                inside = live[:, None] & (at < HIDDEN)[None, :]
                follows = goes_on[:, None] & (at < HIDDEN)[None, :]
                state = _rows(grad, now, at, HIDDEN, inside)
                state += _rows(grad, after, at, HIDDEN, follows) * _rows(gates + HIDDEN, after, at, 3 * HIDDEN, follows)
                if block * ROWS < later_size:
                    state = _product(
                        state, grad_recurrent, after, goes_on, 3 * HIDDEN, weight, at, HIDDEN, DEPTH, STAGES, PRECISION
                    )
                r = _rows(gates, now, at, 3 * HIDDEN, inside)
                z = _rows(gates + HIDDEN, now, at, 3 * HIDDEN, inside)
                n = _rows(gates + 2 * HIDDEN, now, at, 3 * HIDDEN, inside)
                before = _rows(states, past, at, HIDDEN, inside & (step > 0))
                to_n = state * (1 - z) * (1 - n * n)
                _put(grad, now, at, HIDDEN, inside, state)
                _put(
                    grad_recurrent,
                    now,
                    at,
                    3 * HIDDEN,
                    inside,
                    to_n * _rows(added, now, at, HIDDEN, inside) * r * (1 - r),
                )
                _put(grad_recurrent + HIDDEN, now, at, 3 * HIDDEN, inside, state * (before - n) * z * (1 - z))
                _put(grad_recurrent + 2 * HIDDEN, now, at, 3 * HIDDEN, inside, to_n * r)
            tl.debug_barrier()
        later, later_size = start, size


def lstm_forward(gates: Tensor, weight: Tensor, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
    """Cells, their tanh, and states; overwrites `gates` with their values."""
    cells = gates.new_empty(2, gates.shape[1], weight.shape[2])
    squashed, states = torch.empty_like(cells), torch.empty_like(cells)
    by_state = weight.transpose(1, 2).contiguous()
    _walk(_lstm_forward, (gates, by_state, cells, squashed, states), weight, packing)
    return cells, squashed, states


def lstm_backward(
    grad: Tensor, gates: Tensor, cells: Tensor, squashed: Tensor, weight: Tensor, packing: Packing
) -> Tensor:
    """The gradients of the gates before their nonlinearity."""
    grad_gates, grad_cells = torch.empty_like(gates), torch.empty_like(cells)
    _walk(_lstm_backward, (grad, gates, cells, squashed, weight, grad_gates, grad_cells), weight, packing)
    return grad_gates


def gru_forward(gates: Tensor, weight: Tensor, bias: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """The previous state's part of the candidate, and the states; overwrites `gates` with their values."""
    added = gates.new_empty(2, gates.shape[1], weight.shape[2])
    states = torch.empty_like(added)
    _walk(_gru_forward, (gates, weight.transpose(1, 2).contiguous(), bias, added, states), weight, packing)
    return added, states


def gru_backward(
    grad: Tensor, gates: Tensor, added: Tensor, states: Tensor, weight: Tensor, packing: Packing
) -> Tensor:
    """The gradients of the state's part of the gates; `grad` becomes the gradients of the states."""
    grad_recurrent = torch.empty_like(gates)
    _walk(_gru_backward, (grad, gates, added, states, weight, grad_recurrent), weight, packing)
    return grad_recurrent


def _walk(kernel, tensors: tuple[Tensor, ...], weight: Tensor, packing: Packing) -> None:
    hidden, packed = weight.shape[2], tensors[0].shape[1]
    kernel[(triton.cdiv(packing.sizes[0], ROWS), 2)](
        *tensors,
        packing.steps,
        packing.steps.shape[1],
        packed,
        HIDDEN=hidden,
        BLOCK=max(16, min(triton.next_power_of_2(hidden), WIDEST_BLOCK)),
        ROWS=ROWS,
        DEPTH=DEPTH,
        STAGES=STAGES,
        # The same setting as for cuDNN's recurrences, which use TF32 by default.
        PRECISION="tf32" if torch.backends.cudnn.allow_tf32 else "ieee",
        num_warps=8,
        num_stages=1,  # of the loop over steps: each step depends on the previous one
    )
