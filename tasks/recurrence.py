"""Bidirectional LSTMs and GRUs on a CPU: what torch computes, 1.2 to 2.5 times as fast (tests/benchmarks/heads.py).

At the sizes of task heads torch spends most of a step on overhead: the directions run one after the other, and going
back walks through a dozen small operations a step. Here a step of both directions is one batched product and a few
operations on their joint gates; what needs no earlier step is computed for all steps at once, and so are the gradients
of the weights. Sentences are packed: step t holds the sentences that are longer than t, longest first, so that nothing
is computed for padding. A GPU is better served by cuDNN; see `tasks.layers.BiRnn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """Where the tokens of a batch lie when they are sorted by step, and within a step by their sentence's length.

    Attributes:
        sizes: sentences in each step.
        places: of each packed token, its row among the flattened (batch * tokens), for each direction, (2, packed).
        before: of each packed token but those of the first step, the packed row of its sentence one step earlier.
    """

    sizes: Sequence[int]
    places: Tensor
    before: Tensor

    @classmethod
    def of(cls, lengths: Tensor, tokens: int) -> Packing:
        """The packing of sentences of these lengths, padded to `tokens`."""
        descending, order = torch.sort(lengths, descending=True, stable=True)
        steps = torch.arange(int(descending[0]))
        inside = steps[:, None] < descending  # (steps, batch)
        sizes = inside.sum(dim=1)
        step, rank = inside.nonzero(as_tuple=True)
        first = order[rank] * tokens
        places = torch.stack([first + step, first + descending[rank] - 1 - step])
        starts = torch.cumsum(sizes, 0) - sizes
        later = step > 0
        return cls(sizes.tolist(), places, starts[step[later] - 1] + rank[later])

    @property
    def starts(self) -> list[int]:
        """The packed row at which each step begins."""
        starts, row = [], 0
        for size in self.sizes:
            starts.append(row)
            row += size
        return starts


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
    packed = x.reshape(batch * tokens, width)[packing.places]  # (2, packed, input_dim)
    read, state = torch.stack(tuple(outer)), torch.stack(tuple(inner))  # (2, gates * hidden, ...)
    of_input, of_state = torch.stack(tuple(biases[:2])), torch.stack(tuple(biases[2:]))
    if lstm:
        # One nonlinearity for o, i and f, and one factor for what goes back into i, f and g: hence this order.
        order = torch.tensor([3, 0, 1, 2])

        def ordered(weights: Tensor) -> Tensor:
            return weights.view(2, 4, hidden, *weights.shape[2:])[:, order].flatten(1, 2)

        gates = torch.baddbmm(ordered(of_input + of_state)[:, None], packed, ordered(read).transpose(1, 2).contiguous())
        states: Tensor = _Lstm.apply(gates, ordered(state), packing)  # type: ignore[no-untyped-call]
    else:
        gates = torch.baddbmm(of_input[:, None], packed, read.transpose(1, 2).contiguous())
        states = _Gru.apply(gates, state, of_state, packing)  # type: ignore[no-untyped-call]
    # Two tensors side by side rather than one written twice: each direction has its own order of rows.
    padded = [
        x.new_zeros(batch * tokens, hidden).index_copy(0, place, part)
        for place, part in zip(packing.places, states, strict=True)
    ]
    return torch.cat(padded, dim=1).view(batch, tokens, 2 * hidden)


class _Lstm(torch.autograd.Function):
    """Gates of the inputs, (2, packed, 4 * hidden) in the order o, i, f, g, to states, (2, packed, hidden)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, packing: Packing) -> Tensor:  # noqa: ANN401
        hidden = weight.shape[2]
        gates = inputs.clone()
        sigmoids, candidates = gates[..., : 3 * hidden], gates[..., 3 * hidden :]
        o, i, f = sigmoids.chunk(3, dim=-1)
        cells = gates.new_empty(2, gates.shape[1], hidden)
        squashed, states = torch.empty_like(cells), torch.empty_like(cells)
        by_state = weight.transpose(1, 2).contiguous()  # OpenBLAS is several times slower on the view
        earlier = 0
        for step, (start, size) in enumerate(zip(packing.starts, packing.sizes, strict=True)):
            now, past = slice(start, start + size), slice(earlier, earlier + size)
            if step:
                gates[:, now].baddbmm_(states[:, past], by_state)
            sigmoids[:, now].sigmoid_()
            candidates[:, now].tanh_()
            cell = cells[:, now]
            torch.mul(i[:, now], candidates[:, now], out=cell)
            if step:
                cell.addcmul_(f[:, now], cells[:, past])
            torch.tanh(cell, out=squashed[:, now])
            torch.mul(o[:, now], squashed[:, now], out=states[:, now])
            earlier = start
        ctx.save_for_backward(gates, cells, squashed, states, weight)
        ctx.packing = packing
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        gates, cells, squashed, states, weight = ctx.saved_tensors
        packing: Packing = ctx.packing
        hidden = weight.shape[2]
        first = packing.sizes[0]
        o, i, f, g = gates.chunk(4, dim=-1)
        before = torch.zeros_like(cells)
        before[:, first:] = cells[:, packing.before]
        to_cell = o * (1 - squashed * squashed)
        factors = torch.cat(
            [squashed * o * (1 - o), g * i * (1 - i), before * f * (1 - f), i * (1 - g * g)], dim=-1
        )  # what a gradient of the state (o) or of the cell (i, f, g) becomes at the gates
        packed = gates.shape[1]
        of_output, of_cell = factors[..., :hidden], factors[..., hidden:].view(2, packed, 3, hidden)
        grad_gates = torch.empty_like(gates)
        at_output, at_cell = grad_gates[..., :hidden], grad_gates[..., hidden:].view(2, packed, 3, hidden)
        grad = grad.clone()
        starts = packing.starts
        carried: Tensor | None = None  # the cell's gradient from the step after
        for step in reversed(range(len(starts))):
            now = slice(starts[step], starts[step] + packing.sizes[step])
            cell = grad[:, now] * to_cell[:, now]
            if carried is not None:
                cell[:, : carried.shape[1]] += carried
            torch.mul(grad[:, now], of_output[:, now], out=at_output[:, now])
            torch.mul(cell.unsqueeze(2), of_cell[:, now], out=at_cell[:, now])
            if step:
                carried = cell * f[:, now]
                grad[:, starts[step - 1] : starts[step - 1] + packing.sizes[step]].baddbmm_(grad_gates[:, now], weight)
        grad_weight = torch.bmm(grad_gates[:, first:].transpose(1, 2), states[:, packing.before])
        return grad_gates, grad_weight, None


class _Gru(torch.autograd.Function):
    """Gates of the inputs, (2, packed, 3 * hidden) in torch's order r, z, n, to states, (2, packed, hidden)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, packing: Packing) -> Tensor:  # noqa: ANN401
        hidden = weight.shape[2]
        gates = inputs.clone()
        sigmoids, candidates = gates[..., : 2 * hidden], gates[..., 2 * hidden :]
        r, z = sigmoids.chunk(2, dim=-1)
        recurrent = bias[:, None].repeat(1, gates.shape[1], 1)  # what the state before adds, (2, packed, 3 * hidden)
        states = gates.new_empty(2, gates.shape[1], hidden)
        by_state = weight.transpose(1, 2).contiguous()  # OpenBLAS is several times slower on the view
        earlier = 0
        for step, (start, size) in enumerate(zip(packing.starts, packing.sizes, strict=True)):
            now, past = slice(start, start + size), slice(earlier, earlier + size)
            added = recurrent[:, now]
            if step:
                added.baddbmm_(states[:, past], by_state)
            sigmoids[:, now].add_(added[..., : 2 * hidden]).sigmoid_()
            candidate = candidates[:, now].addcmul_(r[:, now], added[..., 2 * hidden :]).tanh_()
            if step:
                torch.lerp(candidate, states[:, past], z[:, now], out=states[:, now])
            else:
                torch.mul(candidate, 1 - z[:, now], out=states[:, now])
            earlier = start
        ctx.save_for_backward(gates, recurrent, states, weight)
        ctx.packing = packing
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        gates, recurrent, states, weight = ctx.saved_tensors
        packing: Packing = ctx.packing
        hidden = weight.shape[2]
        first = packing.sizes[0]
        r, z, n = gates.chunk(3, dim=-1)
        before = torch.zeros_like(states)
        before[:, first:] = states[:, packing.before]
        to_n = (1 - z) * (1 - n * n)
        to_z = (before - n) * z * (1 - z)
        to_r = to_n * recurrent[..., 2 * hidden :] * r * (1 - r)
        # What a gradient of the state becomes at the gates, on the side of the state.
        factors = torch.stack([to_r, to_z, to_n * r], dim=2)  # (2, packed, 3, hidden)
        grad_recurrent = torch.empty_like(gates)
        at_gates = grad_recurrent.view(2, -1, 3, hidden)
        grad = grad.clone()
        starts = packing.starts
        for step in reversed(range(len(starts))):
            now = slice(starts[step], starts[step] + packing.sizes[step])
            torch.mul(grad[:, now].unsqueeze(2), factors[:, now], out=at_gates[:, now])
            if step:
                past = grad[:, starts[step - 1] : starts[step - 1] + packing.sizes[step]]
                past.addcmul_(grad[:, now], z[:, now]).baddbmm_(grad_recurrent[:, now], weight)
        grad_gates = torch.cat([grad_recurrent[..., : 2 * hidden], grad * to_n], dim=-1)
        grad_weight = torch.bmm(grad_recurrent[:, first:].transpose(1, 2), states[:, packing.before])
        return grad_gates, grad_weight, grad_recurrent.sum(dim=1), None
