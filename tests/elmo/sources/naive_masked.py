"""Language models of the grid by definition, one sentence and one head at a time, in the precision of what is given."""

from __future__ import annotations

import torch

from elmo.bilm.options import BilmOptions
from elmo.sources.grid import GridOptions

OPTIONS = GridOptions(
    BilmOptions.from_json(
        {
            "lstm": {"dim": 1, "projection_dim": 12},
            "char_cnn": {"filters": [[1, 4], [2, 8], [3, 8]], "embedding": {"dim": 4}, "n_highway": 1},
        }
    ),
    n_layers=3,
    n_heads=2,
    feedforward_dim=20,
    output_dim=5,
    longest=10,
)


def norm(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


def turned(x):
    """Rotates (value i, value i + half) of each position as a complex number; x: (positions, head_dim)."""
    half = x.shape[1] // 2
    values = torch.complex(x[:, :half], x[:, half:])
    angles = torch.tensor([[t / 10_000 ** (i / half) for i in range(half)] for t in range(len(x))], dtype=x.dtype)
    values = values * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([values.real, values.imag], dim=1)


def naive_layers(model, vectors, blocks=None, causal=False):
    """All layers of one sentence, marks included; vectors: (positions, dim). `blocks`: all, or those of a stack."""
    n_heads = model.options.n_heads
    x = read = norm(vectors)
    found = [x]
    for block in blocks or model.blocks:
        query, key, value = block.attention_in(read).chunk(3, dim=1)
        heads = []
        for q, k, v in zip(*(part.chunk(n_heads, dim=1) for part in (query, key, value)), strict=True):
            scores = turned(q) @ turned(k).t() / q.shape[1] ** 0.5
            unnormed = scores.exp().tril() if causal else scores.exp()
            weights = unnormed / unnormed.sum(dim=1, keepdim=True)
            heads.append(weights @ v)
        x = x + block.attention_out(torch.cat(heads, dim=1))
        inner = block.feed_in(norm(x))
        x = x + block.feed_out(inner * (1 + torch.erf(inner / 2**0.5)) / 2)
        read = norm(x)
        found.append(read)
    return found


def naive_lstm(lstm, vectors):
    """The outputs of one LSTM, step by step; vectors: (positions, dim)."""
    state, cell, outputs = vectors.new_zeros(lstm.projection_dim), vectors.new_zeros(lstm.cell_dim), []
    for vector in vectors:
        i, f, g, o = (lstm.weight @ torch.cat([vector, state]) + lstm.bias).chunk(4)
        cell = cell * (f + 1).sigmoid() + i.sigmoid() * g.tanh()
        state = lstm.projection @ (o.sigmoid() * cell.tanh())
        outputs.append(state)
    return torch.stack(outputs)


def naive_lstm_layers(model, vectors):
    """All layers of LSTMs of the grid, of a stack that reads forward or of two that read each other."""
    found, n_layers = [vectors], model.options.n_layers
    for layer in range(n_layers):
        outputs = [naive_lstm(model.blocks[layer], found[-1])]
        if len(model.blocks) > n_layers:
            outputs.append(naive_lstm(model.blocks[n_layers + layer], found[-1].flip(0)).flip(0))
        found.append(torch.cat(outputs, dim=1) + (found[-1] if layer else 0))
    return found
