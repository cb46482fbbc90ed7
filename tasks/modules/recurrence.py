"""Bidirectional LSTMs and GRUs: the same results as torch, but faster (tests/benchmarks/heads.py).

At the sizes of task heads torch spends most of a step on overhead: the directions run one after the other, and the
backward pass has a dozen small operations per step. On a GPU cuDNN launches a few kernels for each step of sentences of
unequal length. Here all that does not depend on an earlier step is computed for all steps at once, and so are the
gradients of the weights. Only the loop over the steps remains, with an implementation for each device (`loops_for`).
Sentences are packed: step t has the sentences that are longer than t, longest first, so that padding costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tasks.modules import recurrence_in_torch
from tasks.modules.fast import Loops, fast_loops
from tasks.modules.packing import Packing


def loops_for(x: Tensor) -> Loops:
    """The implementation for a tensor's device and type."""
    return fast_loops(x) or recurrence_in_torch


def bidirectional(
    x: Tensor, packing: Packing, inner: Sequence[Tensor], outer: Sequence[Tensor], biases: Sequence[Tensor], lstm: bool
) -> Tensor:
    """The states of one layer, zeros at padding: (batch, tokens, input_dim) -> (batch, tokens, 2 * hidden).

    Args:
        x: padded sentences.
        packing: of their lengths.
        inner: the weights on the state (weight_hh) of both directions, torch's layout.
        outer: the weights on the input (weight_ih).
        biases: bias_ih of both directions, then bias_hh of both.
        lstm: an LSTM, or else a GRU.
    """
    states: Tensor = _Layer.apply(x, packing, lstm, *inner, *outer, *biases)  # type: ignore[no-untyped-call]
    return states


class _Layer(torch.autograd.Function):
    """See `bidirectional`. One node of the graph instead of thirty, whose overhead would exceed the loop itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packing: Packing, lstm: bool, *parameters: Tensor) -> Tensor:  # noqa: ANN401
        batch, tokens, width = x.shape
        inner, outer, of_input, of_state = (_side_by_side(parameters[i : i + 2], lstm) for i in (0, 2, 4, 6))
        hidden = inner.shape[2]
        outer = outer.flatten(0, 1)
        packed = x.reshape(-1, width).index_select(0, packing.places).to(inner.dtype)
        bias = of_input + of_state if lstm else of_input
        # Both directions in one product. Gates are narrower than inputs, so the gates are reordered.
        read = torch.addmm(bias.flatten(), packed, as_right_factor(outer)).to(inner.dtype)
        gates = read.view(-1, inner.shape[1]).index_select(0, packing.apart).view(2, -1, inner.shape[1])
        carried, states, kept = loops_for(gates).forward(gates, inner, None if lstm else of_state, packing)
        ctx.save_for_backward(packed, inner, outer, gates, carried, states, kept)
        ctx.about = packing, lstm, x.shape, x.dtype
        padded = states.new_zeros(batch * tokens * 2, hidden).index_copy_(0, packing.halves, states.flatten(0, 1))
        return padded.view(batch, tokens, 2 * hidden)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_padded: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        packed, inner, outer, gates, carried, states, kept = ctx.saved_tensors
        packing, lstm, shape, dtype = ctx.about
        hidden = inner.shape[2]
        grad = grad_padded.reshape(-1, hidden).index_select(0, packing.halves).view_as(states)
        at_state = at_input = loops_for(gates).backward(grad, gates, carried, kept, inner, packing)
        if not lstm:
            _, z, n = gates.chunk(3, dim=-1)
            at_input = torch.cat([at_state[..., : 2 * hidden], grad * (1 - z) * (1 - n * n)], dim=-1)
        by_inner = torch.bmm(at_state[:, packing.sizes[0] :].transpose(1, 2), states.index_select(1, packing.before))
        at_input = at_input.flatten(0, 1).index_select(0, packing.together).view(len(packed), -1)
        by_outer = (at_input.t() @ packed).view(2, -1, packed.shape[1])
        by_input = at_input.sum(dim=0).view(2, -1)
        by_state = by_input if lstm else at_state.sum(dim=1)
        grad_x = None
        if ctx.needs_input_grad[0]:
            rows = at_input @ outer
            grad_x = rows.new_zeros(shape[0] * shape[1], shape[2]).index_copy_(0, packing.places, rows)
            grad_x = grad_x.view(shape).to(dtype)
        parameters = [part for both in (by_inner, by_outer, by_input, by_state) for part in _apart(both, lstm)]
        return grad_x, None, None, *parameters


def _side_by_side(parameters: Sequence[Tensor], lstm: bool) -> Tensor:
    """A parameter of both directions, (2, gates * hidden, ...), in the loops' order of gates.

    torch's i, f, g, o become o, i, f, g: the gates with a sigmoid are adjacent, and so are those of the cell.
    """
    if lstm:
        last = len(parameters[0]) * 3 // 4
        pieces = [piece for parameter in parameters for piece in (parameter[last:], parameter[:last])]
    else:
        pieces = list(parameters)
    return torch.cat(pieces).view(2, *parameters[0].shape)


def _apart(gradient: Tensor, lstm: bool) -> Sequence[Tensor]:
    """The gradients of both directions' parameters, in torch's order of gates."""
    if lstm:
        gradient = gradient.view(2, 4, -1, *gradient.shape[2:]).roll(-1, dims=1).view_as(gradient)
    return gradient.unbind()


def as_right_factor(weights: Tensor) -> Tensor:
    """Weights as the right factor of a product; OpenBLAS is several times slower on a view."""
    transposed = weights.t()
    return transposed.contiguous() if weights.device.type == "cpu" else transposed
