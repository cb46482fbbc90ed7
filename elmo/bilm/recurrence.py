"""One LSTM layer of a language model with gradients, for pretraining and tuning; `elmo.bilm.lstm` has those without.

A step of all directions takes three kernel launches forward and three backward: one product reads input and state
together, and the work between the products is one kernel on a GPU. Nothing waits for the host, so a GPU can capture it.
torch's LSTM with `proj_size` computes the same without clipping, but runs one direction after the other, in half
precision with a short range, and bilm-tf's files have no place for its two biases.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from elmo.bilm.fast import pointwise

# Bounds of the cell and of the projected state, None for no bound; no gradient passes where one was reached.
Clips = tuple[float | None, float | None]


def in_parallel(x: Tensor, weight: Tensor, bias: Tensor, projection: Tensor, clips: Clips = (None, None)) -> Tensor:
    """The outputs of one LSTM layer from a zero state, (directions, steps, sentences, projection_dim).

    Args:
        x: inputs, (directions, steps, sentences, input_dim); each direction in its own order of reading.
        weight: reads [input; state], gates i, f, g, o stacked, (directions, 4 * cell_dim,
            input_dim + projection_dim).
        bias: one is added to the forget gate's, as in TensorFlow, (directions, 4 * cell_dim).
        projection: (directions, projection_dim, cell_dim).
        clips: bounds.
    """
    return _InParallel.apply(x, weight, bias, projection, clips)  # type: ignore[no-untyped-call]


class _InParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, projection: Tensor, clips: Clips) -> Tensor:  # noqa: ANN401 (torch names no type for it)
        cell_clip, projection_clip = ctx.clips = clips
        directions, steps, sentences, input_dim = x.shape
        projection_dim, cell_dim = projection.shape[1:]
        between = pointwise(x.device)
        # read[:, t] is what step t reads: its input, then the state that step t - 1 left there.
        read = x.new_empty(directions, steps + 1, sentences, input_dim + projection_dim)
        read[:, :-1, :, :input_dim] = x
        read[:, -1, :, :input_dim] = 0
        read[:, 0, :, input_dim:] = 0
        gates = x.new_empty(directions, steps, sentences, 4 * cell_dim)
        hidden = x.new_empty(directions, steps, sentences, cell_dim)
        cells = x.new_zeros(directions, steps + 1, sentences, cell_dim, dtype=torch.float32)
        bias = bias.float().clone()
        bias[:, cell_dim : 2 * cell_dim] += 1.0
        by_gate, by_cell = weight.transpose(1, 2), projection.transpose(1, 2)
        for t in range(steps):
            torch.bmm(read[:, t], by_gate, out=gates[:, t])
            between.forward(gates[:, t], bias, cells[:, t], cells[:, t + 1], hidden[:, t], cell_clip)
            state = read[:, t + 1, :, input_dim:]
            torch.bmm(hidden[:, t], by_cell, out=state)
            if projection_clip is not None:
                state.clamp_(-projection_clip, projection_clip)
        ctx.save_for_backward(read, gates, hidden, cells, weight, projection)
        return read[:, 1:, :, input_dim:].contiguous()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        read, gates, hidden, cells, weight, projection = ctx.saved_tensors
        cell_clip, projection_clip = ctx.clips
        directions, steps, sentences, _ = grad.shape
        projection_dim, cell_dim = projection.shape[1:]
        input_dim = read.shape[-1] - projection_dim
        between = pointwise(grad.device)
        # Gradients in the layout of `read`: the gradient of a step's product is added to the one from above.
        back = torch.zeros_like(read)
        back[:, 1:, :, input_dim:] = grad
        grad_hidden = torch.empty_like(hidden[:, 0])
        grad_cell = torch.zeros_like(cells[:, 0])
        for t in reversed(range(steps)):  # gradients overwrite the gates, so backward runs only once
            state = back[:, t + 1, :, input_dim:]
            if projection_clip is not None:
                state.mul_(read[:, t + 1, :, input_dim:].abs() < projection_clip)
            torch.bmm(state, projection, out=grad_hidden)
            between.backward(gates[:, t], cells[:, t], cells[:, t + 1], grad_hidden, grad_cell, cell_clip)
            torch.baddbmm(back[:, t], gates[:, t], weight, out=back[:, t])
        # The weights' gradients of all steps in one product each.
        grad_gates = gates.view(directions, steps * sentences, 4 * cell_dim)
        grad_weight = torch.bmm(grad_gates.transpose(1, 2), read[:, :-1].view(directions, steps * sentences, -1))
        grad_bias = grad_gates.sum(dim=1, dtype=torch.float32)
        grad_states = back[:, 1:, :, input_dim:].flatten(1, 2)  # (directions, steps * sentences, projection_dim)
        grad_projection = torch.bmm(grad_states.transpose(1, 2), hidden.view(directions, steps * sentences, cell_dim))
        return back[:, :-1, :, :input_dim], grad_weight, grad_bias, grad_projection, None
