"""A recurrence whose gates are drawn from -300 to 300, and the same in float64 by autograd: for tests of its forms."""

import torch

from tasks.modules.recurrence import Packing

HIDDEN, STEPS, SENTENCES = 37, 6, 20
LIMIT = 2e-5


def largest_error(loops, kind, device):
    """The largest error of states and gate gradients, relative to the exact value where that is above 1."""
    generator = torch.Generator().manual_seed(1)
    width = HIDDEN * (4 if kind == "lstm" else 3)
    gates = torch.empty(2, STEPS * SENTENCES, width).uniform_(-300, 300, generator=generator)
    grad = torch.randn(2, STEPS * SENTENCES, HIDDEN, generator=generator)
    exact = _exact(kind, gates, grad)
    packing = Packing.of(torch.full((SENTENCES,), STEPS), STEPS, device)
    weight, bias = torch.zeros(2, width, HIDDEN, device=device), torch.zeros(2, width, device=device)
    gates, grad = gates.to(device), grad.to(device)
    carried, states, kept = loops.forward(gates, weight, None if kind == "lstm" else bias, packing)
    gradients = loops.backward(grad, gates, carried, kept.contiguous(), weight, packing)
    # With no recurrent weights, the reset gate of a GRU and its gradient have no part in the result.
    found = states, gradients if kind == "lstm" else gradients[..., HIDDEN : 2 * HIDDEN]
    return max(
        ((ours.double().cpu() - right).abs() / right.abs().clamp_min(1)).max().item()
        for ours, right in zip(found, exact, strict=True)
    )


def _exact(kind, gates, grad):
    """States and gate gradients in float64; of a GRU those of the update gate."""
    leaf = gates.double().requires_grad_()
    steps = leaf.view(2, STEPS, SENTENCES, -1)
    state = cell = torch.zeros(2, SENTENCES, HIDDEN, dtype=torch.float64)
    states = []
    for step in range(STEPS):
        parts = steps[:, step].split(HIDDEN, dim=-1)
        if kind == "lstm":
            o, i, f, g = *(part.sigmoid() for part in parts[:3]), parts[3].tanh()
            cell = f * cell + i * g
            state = o * cell.tanh()
        else:
            z, candidate = parts[1].sigmoid(), parts[2].tanh()
            state = (1 - z) * candidate + z * state
        states.append(state)
    packed = torch.stack(states, dim=1).flatten(1, 2)  # (2, steps * sentences, hidden)
    (packed * grad.double()).sum().backward()
    return packed.detach(), leaf.grad if kind == "lstm" else leaf.grad[..., HIDDEN : 2 * HIDDEN]
