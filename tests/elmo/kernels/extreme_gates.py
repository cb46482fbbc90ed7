"""A recurrence whose gates are drawn from -300 to 300, and the same in float64 by autograd: for tests of its forms."""

import torch

from tasks.modules.recurrence_in_torch import Packing

HIDDEN, STEPS, SENTENCES = 37, 6, 20
LIMIT = 2e-5
# Blocks of HIDDEN values that an input gives to a step, and those that its state adds to.
BLOCKS = {"lstm": (4, 4), "gru": (3, 3), "highway": (6, 5)}


def largest_error(loops, kind, device):
    """The largest error of states and gate gradients, relative to the exact value where that is above 1."""
    generator = torch.Generator().manual_seed(1)
    blocks, recurrent = BLOCKS[kind]
    gates = torch.empty(2, STEPS * SENTENCES, blocks * HIDDEN).uniform_(-300, 300, generator=generator)
    if kind == "highway":
        gates[..., :HIDDEN] /= 300  # the projection, which is no gate
    grad = torch.randn(2, STEPS * SENTENCES, HIDDEN, generator=generator)
    exact = _exact(kind, gates, grad)
    packing = Packing.of(torch.full((SENTENCES,), STEPS), STEPS, device)
    weight = torch.zeros(2, recurrent * HIDDEN, HIDDEN, device=device)
    bias = torch.zeros(2, recurrent * HIDDEN, device=device) if kind == "gru" else None
    mask = torch.ones(2, SENTENCES, HIDDEN, device=device) if kind == "highway" else None
    gates, grad = gates.to(device), grad.to(device)
    carried, states, kept = loops.forward(gates, weight, bias, packing, mask)
    gradients = loops.backward(grad, gates, (carried, kept.contiguous()), weight, packing, mask)
    # With no recurrent weights, the reset gate of a GRU and its gradient have no part in the result.
    found = states, gradients[..., HIDDEN : 2 * HIDDEN] if kind == "gru" else gradients
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
        if kind == "gru":
            z, candidate = parts[1].sigmoid(), parts[2].tanh()
            state = (1 - z) * candidate + z * state
        else:
            *highway, o, i, f, g = *parts[:-4], *(part.sigmoid() for part in parts[-4:-1]), parts[-1].tanh()
            cell = f * cell + i * g
            state = o * cell.tanh()
            if highway:
                projection, r = highway[0], highway[1].sigmoid()
                state = r * state + (1 - r) * projection
        states.append(state)
    packed = torch.stack(states, dim=1).flatten(1, 2)  # (2, steps * sentences, hidden)
    (packed * grad.double()).sum().backward()
    return packed.detach(), leaf.grad[..., HIDDEN : 2 * HIDDEN] if kind == "gru" else leaf.grad
