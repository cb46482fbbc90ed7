"""Packed batches, and the loop over the steps of a recurrence in plain torch, one or two directions at once.

It defines what the forms in elmo.kernels compute, with the same `forward` and `backward`; `tasks.modules.layers`
chooses. H is the width of the state. An LSTM has four gates, o, i, f, g; a GRU three, r, z, n, and a bias of its own
for the state. A highway LSTM has a gate r before those of an LSTM, and before r a projection of the input, to which
the state adds nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from elmo.common.device import upload

# The tensors that `backward` reads of `forward`: those that steps take over, and `kept`.
Saved = tuple[Tensor, Tensor]


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
    def of(cls, lengths: Tensor, tokens: int, device: torch.device) -> "Packing":
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
    return Packing(sizes.tolist(), starts.tolist(), *(upload(part, device) for part in parts))


def forward(
    gates: Tensor, weight: Tensor, bias: Tensor | None, packing: Packing, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Three tensors, (ways, packed, H) each: what a step takes over from the one before, the states, and `kept`.

    A step takes over the cells of an LSTM, the states of a GRU. `kept` is the tanh of the cells, or the previous
    state's part of the candidate, before r is applied.

    Args:
        gates: the inputs' part of the gates, (ways, packed, gates * H); overwritten by the gates' values. Those of a
            highway LSTM have the projection before them.
        weight: from the previous state to the gates, (ways, gates * H, H).
        bias: of that product, (ways, gates * H); None for an LSTM.
        packing: the rows of each step.
        mask: factors of the states of each sentence, longest first, (ways, batch, H), of a highway LSTM; else None.
    """
    return _lstm_forward(gates, weight, packing, mask) if bias is None else _gru_forward(gates, weight, bias, packing)


def backward(
    grad: Tensor, gates: Tensor, saved: Saved, weight: Tensor, packing: Packing, mask: Tensor | None = None
) -> Tensor:
    """The gradients of the gates before their nonlinearity, of n in a GRU that of the state's part; as `gates`.

    `grad`, of the states, is overwritten; of a GRU it becomes the sum over all that reads a state.
    """
    if weight.shape[1] == 3 * weight.shape[2]:
        return _gru_backward(grad, gates, *saved, weight, packing)
    return _lstm_backward(grad, gates, *saved, weight, packing, mask)


def _lstm_forward(
    gates: Tensor, weight: Tensor, packing: Packing, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    hidden = weight.shape[2]
    recurrent = gates[..., -weight.shape[1] :]
    # In this order one call computes the sigmoids of o, i and f, and of a highway LSTM's r before them.
    sigmoids, candidates = recurrent[..., :-hidden], recurrent[..., -hidden:]
    o, i, f = sigmoids[..., -3 * hidden :].chunk(3, dim=-1)
    cells = gates.new_empty(len(gates), gates.shape[1], hidden)
    squashed, states = torch.empty_like(cells), torch.empty_like(cells)
    by_state = weight.transpose(1, 2).contiguous()  # OpenBLAS is several times slower on the view
    earlier = 0
    for step, (start, size) in enumerate(zip(packing.starts, packing.sizes, strict=True)):
        now, past = slice(start, start + size), slice(earlier, earlier + size)
        if step:
            recurrent[:, now].baddbmm_(states[:, past], by_state)
        sigmoids[:, now].sigmoid_()
        candidates[:, now].tanh_()
        cell = cells[:, now]
        torch.mul(i[:, now], candidates[:, now], out=cell)
        if step:
            cell.addcmul_(f[:, now], cells[:, past])
        torch.tanh(cell, out=squashed[:, now])
        torch.mul(o[:, now], squashed[:, now], out=states[:, now])
        if mask is not None:
            projection, r = gates[:, now, :hidden], sigmoids[:, now, :hidden]
            states[:, now] = torch.lerp(projection, states[:, now], r).mul_(mask[:, :size])
        earlier = start
    return cells, states, squashed


def _lstm_backward(
    grad: Tensor, gates: Tensor, cells: Tensor, squashed: Tensor, weight: Tensor, packing: Packing, mask: Tensor | None
) -> Tensor:
    hidden = weight.shape[2]
    *highway, o, i, f, g = gates.chunk(gates.shape[2] // hidden, dim=-1)
    before = torch.zeros_like(cells)
    before[:, packing.sizes[0] :] = cells[:, packing.before]
    to_cell = o * (1 - squashed * squashed)
    # The factors from the gradient of the state to those of the gates that it reads, o and in a highway LSTM the
    # projection and r; and from the gradient of the cell to those of i, f, g.
    of_state, of_cell = [squashed * o * (1 - o)], [g * i * (1 - i), before * f * (1 - f), i * (1 - g * g)]
    if mask is not None:
        projection, r = highway
        masks = torch.cat([mask[:, :size] for size in packing.sizes], dim=1)
        through = masks * r
        to_cell = through * to_cell
        of_r = through * (1 - r) * (o * squashed - projection)
        of_state = [masks * (1 - r), of_r, through * of_state[0]]
    from_state, from_cell = torch.stack(of_state, dim=2), torch.stack(of_cell, dim=2)
    grad_gates = torch.empty_like(gates)
    at_gates = grad_gates.view(*gates.shape[:2], -1, hidden)
    at_recurrent = grad_gates[..., -weight.shape[1] :]
    starts, sizes = packing.starts, packing.sizes
    carried: Tensor | None = None  # the cell's gradient from the next step
    for step in reversed(range(len(starts))):
        now = slice(starts[step], starts[step] + sizes[step])
        cell = grad[:, now] * to_cell[:, now]
        if carried is not None:
            cell[:, : carried.shape[1]] += carried
        torch.mul(grad[:, now].unsqueeze(2), from_state[:, now], out=at_gates[:, now, :-3])
        torch.mul(cell.unsqueeze(2), from_cell[:, now], out=at_gates[:, now, -3:])
        if step:
            carried = cell * f[:, now]
            grad[:, starts[step - 1] : starts[step - 1] + sizes[step]].baddbmm_(at_recurrent[:, now], weight)
    return grad_gates


def _gru_forward(gates: Tensor, weight: Tensor, bias: Tensor, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
    hidden = weight.shape[2]
    sigmoids, candidates = gates[..., : 2 * hidden], gates[..., 2 * hidden :]
    r, z = sigmoids.chunk(2, dim=-1)
    recurrent = bias[:, None].repeat(1, gates.shape[1], 1)  # the previous state's part, (ways, packed, 3 * hidden)
    states = gates.new_empty(len(gates), gates.shape[1], hidden)
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
    return states, states, recurrent[..., 2 * hidden :]


def _gru_backward(
    grad: Tensor, gates: Tensor, states: Tensor, added: Tensor, weight: Tensor, packing: Packing
) -> Tensor:
    r, z, n = gates.chunk(3, dim=-1)
    before = torch.zeros_like(states)
    before[:, packing.sizes[0] :] = states[:, packing.before]
    to_n = (1 - z) * (1 - n * n)
    to_z = (before - n) * z * (1 - z)
    to_r = to_n * added * r * (1 - r)
    factors = torch.stack([to_r, to_z, to_n * r], dim=2)  # (ways, packed, 3, hidden)
    grad_recurrent = torch.empty_like(gates)
    at_gates = grad_recurrent.view(len(gates), -1, 3, weight.shape[2])
    starts, sizes = packing.starts, packing.sizes
    for step in reversed(range(len(starts))):
        now = slice(starts[step], starts[step] + sizes[step])
        torch.mul(grad[:, now].unsqueeze(2), factors[:, now], out=at_gates[:, now])
        if step:
            past = grad[:, starts[step - 1] : starts[step - 1] + sizes[step]]
            past.addcmul_(grad[:, now], z[:, now]).baddbmm_(grad_recurrent[:, now], weight)
    return grad_recurrent
