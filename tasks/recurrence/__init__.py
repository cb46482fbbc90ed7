"""Bidirectional LSTMs and GRUs: what torch computes, faster (tests/benchmarks/heads.py).

At the sizes of task heads torch spends most of a step on overhead: the directions run one after the other, and going
back walks through a dozen small operations a step; on a GPU, cuDNN launches a few kernels for each step of sentences of
unequal length. Here what needs no earlier step is computed for all steps at once, and so are the gradients of the
weights; only the walk through the steps is left, and that has a form for each device (`loops_for`). Sentences are
packed: step t holds the sentences that are longer than t, longest first, so that nothing is computed for padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from tasks.recurrence import in_torch
from tasks.recurrence.compiled import compiled_loops
from tasks.recurrence.packing import Packing

__all__ = ["Loops", "Packing", "bidirectional", "loops_for"]


class Loops(Protocol):
    """The walk through the steps. H is the width of the state; both directions walk side by side."""

    def lstm_forward(self, gates: Tensor, weight: Tensor, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
        """Cells, their tanh, and states, (2, packed, H) each.

        Args:
            gates: what the inputs give to the gates o, i, f, g, (2, packed, 4 * H); overwritten by the gates' values.
            weight: what the state before gives to them, (2, 4 * H, H).
            packing: which rows make up a step.
        """

    def lstm_backward(
        self, grad: Tensor, gates: Tensor, cells: Tensor, squashed: Tensor, weight: Tensor, packing: Packing
    ) -> Tensor:
        """The gradients of the gates before their nonlinearity, (2, packed, 4 * H); `grad` may be overwritten."""

    def gru_forward(self, gates: Tensor, weight: Tensor, bias: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """What the state before adds to the candidate, before r is applied, and the states, (2, packed, H) each.

        Args:
            gates: what the inputs give to r, z, n, (2, packed, 3 * H); overwritten by the gates' values.
            weight: what the state before gives to them, (2, 3 * H, H).
            bias: likewise, (2, 3 * H).
            packing: which rows make up a step.
        """

    def gru_backward(
        self, grad: Tensor, gates: Tensor, added: Tensor, states: Tensor, weight: Tensor, packing: Packing
    ) -> Tensor:
        """The gradients of what the state adds to r, z, n, (2, packed, 3 * H); `grad` becomes the states' own."""


def loops_for(x: Tensor) -> Loops:
    """The walk for a tensor's device."""
    if x.device.type == "cuda":
        from tasks.recurrence import in_triton  # Triton is installed only where there is a GPU

        return in_triton
    return compiled_loops(x) or in_torch


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
    batch, tokens, width = x.shape
    hidden = inner[0].shape[1]
    packed = x.reshape(batch * tokens, width).index_select(0, packing.places.flatten()).view(2, -1, width)
    read, state = torch.stack(tuple(outer)), torch.stack(tuple(inner))  # (2, gates * hidden, ...)
    of_input, of_state = torch.stack(tuple(biases[:2])), torch.stack(tuple(biases[2:]))
    if lstm:
        # torch's i, f, g, o become o, i, f, g: those with a sigmoid side by side, those that read the cell too.
        def ordered(weights: Tensor) -> Tensor:
            return weights.view(2, 4, hidden, *weights.shape[2:]).roll(1, dims=1).flatten(1, 2)

        gates = torch.baddbmm(ordered(of_input + of_state)[:, None], packed, ordered(read).transpose(1, 2).contiguous())
        states: Tensor = _Lstm.apply(gates.to(state.dtype), ordered(state), packing)  # type: ignore[no-untyped-call]
    else:
        gates = torch.baddbmm(of_input[:, None], packed, read.transpose(1, 2).contiguous())
        states = _Gru.apply(gates.to(state.dtype), state, of_state, packing)  # type: ignore[no-untyped-call]
    # Two tensors side by side rather than one written twice: each direction has its own order of rows.
    padded = [
        states.new_zeros(batch * tokens, hidden).index_copy(0, place, part)
        for place, part in zip(packing.places, states, strict=True)
    ]
    return torch.cat(padded, dim=1).view(batch, tokens, 2 * hidden)


class _Lstm(torch.autograd.Function):
    """Gates of the inputs, (2, packed, 4 * hidden) in the order o, i, f, g, to states, (2, packed, hidden)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, packing: Packing) -> Tensor:  # noqa: ANN401
        gates, weight = inputs.clone(), weight.contiguous()
        cells, squashed, states = loops_for(gates).lstm_forward(gates, weight, packing)
        ctx.save_for_backward(gates, cells, squashed, states, weight)
        ctx.packing = packing
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        gates, cells, squashed, states, weight = ctx.saved_tensors
        packing: Packing = ctx.packing
        grad = grad.clone(memory_format=torch.contiguous_format)
        grad_gates = loops_for(gates).lstm_backward(grad, gates, cells, squashed, weight, packing)
        grad_weight = torch.bmm(grad_gates[:, packing.sizes[0] :].transpose(1, 2), states[:, packing.before])
        return grad_gates, grad_weight, None


class _Gru(torch.autograd.Function):
    """Gates of the inputs, (2, packed, 3 * hidden) in torch's order r, z, n, to states, (2, packed, hidden)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, packing: Packing) -> Tensor:  # noqa: ANN401
        gates, weight = inputs.clone(), weight.contiguous()
        added, states = loops_for(gates).gru_forward(gates, weight, bias.contiguous(), packing)
        ctx.save_for_backward(gates, added, states, weight)
        ctx.packing = packing
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        gates, added, states, weight = ctx.saved_tensors
        packing: Packing = ctx.packing
        hidden = weight.shape[2]
        grad = grad.clone(memory_format=torch.contiguous_format)
        grad_recurrent = loops_for(gates).gru_backward(grad, gates, added, states, weight, packing)
        _, z, n = gates.chunk(3, dim=-1)
        grad_gates = torch.cat([grad_recurrent[..., : 2 * hidden], grad * (1 - z) * (1 - n * n)], dim=-1)
        grad_weight = torch.bmm(grad_recurrent[:, packing.sizes[0] :].transpose(1, 2), states[:, packing.before])
        return grad_gates, grad_weight, grad_recurrent.sum(dim=1), None
