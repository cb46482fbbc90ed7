"""The loop over the steps of a recurrence in plain torch; see `tasks.modules.recurrence.Loops`."""

from __future__ import annotations

import torch
from torch import Tensor

from tasks.modules.packing import Packing


def forward(gates: Tensor, weight: Tensor, bias: Tensor | None, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
    """What a step takes over, the states, and what the backward pass needs; overwrites `gates`."""
    return _lstm_forward(gates, weight, packing) if bias is None else _gru_forward(gates, weight, bias, packing)


def backward(grad: Tensor, gates: Tensor, carried: Tensor, kept: Tensor, weight: Tensor, packing: Packing) -> Tensor:
    """The gradients of the state's part of the gates; overwrites `grad`."""
    function = _lstm_backward if weight.shape[1] == 4 * weight.shape[2] else _gru_backward
    return function(grad, gates, carried, kept, weight, packing)


def _lstm_forward(gates: Tensor, weight: Tensor, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
    hidden = weight.shape[2]
    # In this order one call computes the sigmoids of o, i and f.
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
    return cells, states, squashed


def _lstm_backward(
    grad: Tensor, gates: Tensor, cells: Tensor, squashed: Tensor, weight: Tensor, packing: Packing
) -> Tensor:
    hidden, packed = weight.shape[2], gates.shape[1]
    o, i, f, g = gates.chunk(4, dim=-1)
    before = torch.zeros_like(cells)
    before[:, packing.sizes[0] :] = cells[:, packing.before]
    to_cell = o * (1 - squashed * squashed)
    # The factors from the gradient of the state (for o) and of the cell (for i, f, g) to those of the gates.
    factors = torch.cat([squashed * o * (1 - o), g * i * (1 - i), before * f * (1 - f), i * (1 - g * g)], dim=-1)
    of_output, of_cell = factors[..., :hidden], factors[..., hidden:].view(2, packed, 3, hidden)
    grad_gates = torch.empty_like(gates)
    at_output, at_cell = grad_gates[..., :hidden], grad_gates[..., hidden:].view(2, packed, 3, hidden)
    starts, sizes = packing.starts, packing.sizes
    carried: Tensor | None = None  # the cell's gradient from the next step
    for step in reversed(range(len(starts))):
        now = slice(starts[step], starts[step] + sizes[step])
        cell = grad[:, now] * to_cell[:, now]
        if carried is not None:
            cell[:, : carried.shape[1]] += carried
        torch.mul(grad[:, now], of_output[:, now], out=at_output[:, now])
        torch.mul(cell.unsqueeze(2), of_cell[:, now], out=at_cell[:, now])
        if step:
            carried = cell * f[:, now]
            grad[:, starts[step - 1] : starts[step - 1] + sizes[step]].baddbmm_(grad_gates[:, now], weight)
    return grad_gates


def _gru_forward(gates: Tensor, weight: Tensor, bias: Tensor, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
    hidden = weight.shape[2]
    sigmoids, candidates = gates[..., : 2 * hidden], gates[..., 2 * hidden :]
    r, z = sigmoids.chunk(2, dim=-1)
    recurrent = bias[:, None].repeat(1, gates.shape[1], 1)  # the previous state's part, (2, packed, 3 * hidden)
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
    factors = torch.stack([to_r, to_z, to_n * r], dim=2)  # (2, packed, 3, hidden)
    grad_recurrent = torch.empty_like(gates)
    at_gates = grad_recurrent.view(2, -1, 3, weight.shape[2])
    starts, sizes = packing.starts, packing.sizes
    for step in reversed(range(len(starts))):
        now = slice(starts[step], starts[step] + sizes[step])
        torch.mul(grad[:, now].unsqueeze(2), factors[:, now], out=at_gates[:, now])
        if step:
            past = grad[:, starts[step - 1] : starts[step - 1] + sizes[step]]
            past.addcmul_(grad[:, now], z[:, now]).baddbmm_(grad_recurrent[:, now], weight)
    return grad_recurrent
