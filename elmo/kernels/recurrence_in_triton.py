"""The loop over the steps of a recurrence in Triton, as one kernel; the plain form is in torch.

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

from elmo.kernels.in_c import PackedSteps, Saved

# mypy: disable-error-code="misc,no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,import-untyped"
# ruff: noqa: ANN001, ANN202, N803

ROWS = tl.constexpr(16)  # the fewest that a matrix unit multiplies; 32 are slower, with one program and with a full GPU
DEPTH = tl.constexpr(16)  # rows of the weights multiplied at once
# Tiles in flight: with four gates of 128 columns 68 kB, with five 85 kB; every GPU with asynchronous copies has 99.
STAGES = tl.constexpr(3)
WIDEST_BLOCK = 128  # columns of a product computed at once
SIZES = ["n_steps", "packed", "batch"]  # differ between batches; Triton would compile another kernel if 16 divides one


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


@triton.jit(do_not_specialize=SIZES)
def _forward(
    gates,  # (ways, packed, ROW): o, i, f, g of an LSTM, r, z, n of a GRU, projection, r, o, i, f, g of a highway LSTM
    by_state,  # (ways, HIDDEN, GATES * HIDDEN)
    bias,  # of a GRU, (ways, GATES * HIDDEN)
    carried,  # what a step takes over from the one before: cells of an LSTM, states of a GRU, (ways, packed, HIDDEN)
    kept,  # for the backward pass: tanh of the cells, or the state's part of the candidate, (ways, packed, HIDDEN)
    states,
    mask,  # of a highway LSTM, (ways, batch, HIDDEN)
    steps,
    n_steps,
    packed,
    batch,
    GATES: tl.constexpr,
    HIDDEN: tl.constexpr,
    PROJECTION: tl.constexpr,  # HIDDEN for a highway LSTM, else 0
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block, direction = tl.program_id(0), tl.program_id(1)
    WIDTH: tl.constexpr = GATES * HIDDEN
    ROW: tl.constexpr = WIDTH + PROJECTION
    gates += direction * packed * ROW
    rows = gates + 2 * PROJECTION  # all but the projection and r of a highway LSTM
    by_state += direction * HIDDEN * WIDTH
    own_by_state = by_state + PROJECTION
    bias += direction * WIDTH
    carried += direction * packed * HIDDEN
    kept += direction * packed * HIDDEN
    states += direction * packed * HIDDEN
    mask += direction * batch * HIDDEN
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
                # The gates before their nonlinearity; `last` is g, or the state's part of n, which r will scale.
                one = _rows(rows, now, at, ROW, inside)
                two = _rows(rows + HIDDEN, now, at, ROW, inside)
                three = _rows(rows + 2 * HIDDEN, now, at, ROW, inside)
                if GATES >= 4:
                    last = _rows(rows + 3 * HIDDEN, now, at, ROW, inside)
                else:
                    one += tl.load(bias + at, within, other=0.0)[None, :]
                    two += tl.load(bias + HIDDEN + at, within, other=0.0)[None, :]
                    last = tl.zeros_like(three) + tl.load(bias + 2 * HIDDEN + at, within, other=0.0)[None, :]
                if PROJECTION > 0:
                    highway = _rows(gates + HIDDEN, now, at, ROW, inside)
                before = tl.zeros_like(one)
                if step > 0:
                    before = _rows(carried, past, at, HIDDEN, inside)
                    for deep in tl.range(0, HIDDEN, DEPTH, num_stages=STAGES):
                        k = deep + tl.arange(0, DEPTH)
                        a = _rows(states, past, k, HIDDEN, live[:, None] & (k < HIDDEN)[None, :])
                        one = _plus(one, a, own_by_state, k, HIDDEN, at, WIDTH, HIDDEN, PRECISION)
                        two = _plus(two, a, own_by_state + HIDDEN, k, HIDDEN, at, WIDTH, HIDDEN, PRECISION)
                        if GATES >= 4:
                            three = _plus(three, a, own_by_state + 2 * HIDDEN, k, HIDDEN, at, WIDTH, HIDDEN, PRECISION)
                        if PROJECTION > 0:
                            highway = _plus(highway, a, by_state, k, HIDDEN, at, WIDTH, HIDDEN, PRECISION)
                        last = _plus(last, a, by_state + WIDTH - HIDDEN, k, HIDDEN, at, WIDTH, HIDDEN, PRECISION)
                one, two = tl.sigmoid(one), tl.sigmoid(two)
                if GATES >= 4:
                    three, last = tl.sigmoid(three), _tanh(last)
                    cell = three * before + two * last
                    flat = _tanh(cell)
                    _put(carried, now, at, HIDDEN, inside, cell)
                    _put(kept, now, at, HIDDEN, inside, flat)
                    if PROJECTION > 0:
                        highway = tl.sigmoid(highway)
                        state = highway * (one * flat) + (1 - highway) * _rows(gates, now, at, ROW, inside)
                        state *= _rows(mask, ranks, at, HIDDEN, inside)
                        _put(gates + HIDDEN, now, at, ROW, inside, highway)
                        _put(states, now, at, HIDDEN, inside, state)
                    else:
                        _put(states, now, at, HIDDEN, inside, one * flat)
                    _put(rows + 3 * HIDDEN, now, at, ROW, inside, last)
                else:
                    three = _tanh(three + one * last)
                    _put(kept, now, at, HIDDEN, inside, last)
                    _put(states, now, at, HIDDEN, inside, three + two * (before - three))
                _put(rows, now, at, ROW, inside, one)
                _put(rows + HIDDEN, now, at, ROW, inside, two)
                _put(rows + 2 * HIDDEN, now, at, ROW, inside, three)
            tl.debug_barrier()
        earlier = start


@triton.jit(do_not_specialize=SIZES)
def _backward(
    grad,  # of the states; of a GRU it becomes the sum over all that reads a state
    gates,
    carried,
    kept,
    weight,  # (ways, GATES * HIDDEN, HIDDEN)
    grad_gates,
    grad_cells,  # of an LSTM
    mask,
    steps,
    n_steps,
    packed,
    batch,
    GATES: tl.constexpr,
    HIDDEN: tl.constexpr,
    PROJECTION: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block, direction = tl.program_id(0), tl.program_id(1)
    WIDTH: tl.constexpr = GATES * HIDDEN
    ROW: tl.constexpr = WIDTH + PROJECTION
    grad += direction * packed * HIDDEN
    gates += direction * packed * ROW
    rows = gates + 2 * PROJECTION
    carried += direction * packed * HIDDEN
    kept += direction * packed * HIDDEN
    weight += direction * WIDTH * HIDDEN
    grad_gates += direction * packed * ROW
    grad_recurrent = grad_gates + PROJECTION
    grad_own = grad_gates + 2 * PROJECTION
    grad_cells += direction * packed * HIDDEN
    mask += direction * batch * HIDDEN
    ranks = block * ROWS + tl.arange(0, ROWS)
    later, later_size = 0, 0
    for back in range(n_steps):
        step = n_steps - 1 - back
        start, size = _step(steps, n_steps, step)
        if block * ROWS < size:
            live = ranks < size
            continues = ranks < later_size
            now, after = start + ranks, later + ranks
            past = _step(steps, n_steps, tl.maximum(step - 1, 0))[0] + ranks
            for first in range(0, HIDDEN, BLOCK):
                at = first + tl.arange(0, BLOCK)
                inside = live[:, None] & (at < HIDDEN)[None, :]
                follows = continues[:, None] & (at < HIDDEN)[None, :]
                state = _rows(grad, now, at, HIDDEN, inside)
                if GATES == 3:
                    state += _rows(grad, after, at, HIDDEN, follows) * _rows(gates + HIDDEN, after, at, ROW, follows)
                if block * ROWS < later_size:
                    for deep in tl.range(0, WIDTH, DEPTH, num_stages=STAGES):
                        k = deep + tl.arange(0, DEPTH)
                        a = _rows(grad_recurrent, after, k, ROW, continues[:, None] & (k < WIDTH)[None, :])
                        state = _plus(state, a, weight, k, WIDTH, at, HIDDEN, HIDDEN, PRECISION)
                one = _rows(rows, now, at, ROW, inside)
                two = _rows(rows + HIDDEN, now, at, ROW, inside)
                three = _rows(rows + 2 * HIDDEN, now, at, ROW, inside)
                before = _rows(carried, past, at, HIDDEN, inside & (step > 0))
                held = _rows(kept, now, at, HIDDEN, inside)
                if GATES >= 4:
                    last = _rows(rows + 3 * HIDDEN, now, at, ROW, inside)
                    next_f = _rows(rows + 2 * HIDDEN, after, at, ROW, follows)
                    if PROJECTION > 0:
                        highway = _rows(gates + HIDDEN, now, at, ROW, inside)
                        away = one * held - _rows(gates, now, at, ROW, inside)
                        state *= _rows(mask, ranks, at, HIDDEN, inside)
                        _put(grad_gates, now, at, ROW, inside, state * (1 - highway))
                        state *= highway
                        _put(grad_gates + HIDDEN, now, at, ROW, inside, state * (1 - highway) * away)
                    cell = state * one * (1 - held * held) + _rows(grad_cells, after, at, HIDDEN, follows) * next_f
                    _put(grad_cells, now, at, HIDDEN, inside, cell)
                    _put(grad_own, now, at, ROW, inside, state * held * one * (1 - one))
                    _put(grad_own + HIDDEN, now, at, ROW, inside, cell * last * two * (1 - two))
                    _put(grad_own + 2 * HIDDEN, now, at, ROW, inside, cell * before * three * (1 - three))
                    _put(grad_own + 3 * HIDDEN, now, at, ROW, inside, cell * two * (1 - last * last))
                else:
                    to_n = state * (1 - two) * (1 - three * three)
                    _put(grad, now, at, HIDDEN, inside, state)
                    _put(grad_own, now, at, ROW, inside, to_n * held * one * (1 - one))
                    _put(grad_own + HIDDEN, now, at, ROW, inside, state * (before - three) * two * (1 - two))
                    _put(grad_own + 2 * HIDDEN, now, at, ROW, inside, to_n * one)
            tl.debug_barrier()
        later, later_size = start, size


def forward(
    gates: Tensor, weight: Tensor, bias: Tensor | None, packing: PackedSteps, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The last states, all states, and the tensors for the backward pass; overwrites `gates`."""
    states = gates.new_empty(len(gates), gates.shape[1], weight.shape[2])
    carried, kept = torch.empty_like(states) if bias is None else states, torch.empty_like(states)
    by_state = weight.transpose(1, 2).contiguous()
    unused = by_state  # an LSTM adds no bias here
    _walk(_forward, (gates, by_state, unused if bias is None else bias, carried, kept, states), mask, weight, packing)
    return carried, states, kept


def backward(
    grad: Tensor, gates: Tensor, saved: Saved, weight: Tensor, packing: PackedSteps, mask: Tensor | None = None
) -> Tensor:
    """The gradients of the gates; overwrites `grad`."""
    grad_gates, grad_cells = torch.empty_like(gates), torch.empty_like(saved[0])
    _walk(_backward, (grad, gates, *saved, weight, grad_gates, grad_cells), mask, weight, packing)
    return grad_gates


def _walk(kernel, tensors: tuple[Tensor, ...], mask: Tensor | None, weight: Tensor, packing: PackedSteps) -> None:
    (ways, _, hidden), packed, batch = weight.shape, tensors[0].shape[1], packing.sizes[0]
    kernel[(triton.cdiv(batch, ROWS.value), ways)](
        *tensors,
        weight if mask is None else mask,  # unused without one
        packing.steps,
        packing.steps.shape[1],
        packed,
        batch,
        GATES=weight.shape[1] // hidden,
        HIDDEN=hidden,
        PROJECTION=0 if mask is None else hidden,
        BLOCK=max(16, min(triton.next_power_of_2(hidden), WIDEST_BLOCK)),
        # The same setting as for cuDNN's recurrences, which use TF32 by default.
        PRECISION="tf32" if torch.backends.cudnn.allow_tf32 else "ieee",
        num_warps=8,
        num_stages=1,  # of the loop over steps: each step depends on the previous one
    )
