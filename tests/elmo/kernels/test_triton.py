"""Triton kernels of recurrences, compared with the loops in plain torch.

On a GPU: python -m pytest -m gpu tests/elmo/kernels/test_triton.py. Where Triton is installed without one, its
interpreter runs them, slowly: TRITON_INTERPRET=1 python -m pytest -m gpu tests/elmo/kernels/test_triton.py.
"""

import os

import pytest
import torch

import tasks.modules.recurrence_in_torch
from tasks.modules.layers import AlternatingHighwayLstm
from tasks.modules.recurrence_in_torch import Packing
from tests.elmo.kernels import extreme_gates

pytest.importorskip("triton", reason="Triton comes with builds of torch for a GPU")
pytest.importorskip("elmo.kernels.recurrence_in_triton", reason="elmo/kernels is not there")
import elmo.kernels.recurrence_in_triton

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a GPU or TRITON_INTERPRET=1"),
]
# Wider than one block of columns, more sentences than one block of rows, sentences that end at different steps,
# states as wide as those of SST-5 and SNLI with three blocks of rows.
SIZES = [(5, [4, 1, 7, 7, 2]), (20, [3] * 17 + [1]), (90, [5, 2]), (150, [2, 3]), (260, [2] * 33 + [3, 1])]
KINDS = list(extreme_gates.BLOCKS)


@pytest.fixture(autouse=True)
def _single_precision(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hidden", "lengths"), SIZES)
@pytest.mark.parametrize("ways", [1, 2])
def test_a_recurrence_equals_the_one_in_torch(kind, hidden, lengths, ways):
    packing = Packing.of(torch.tensor(lengths), max(lengths), DEVICE)
    tokens, (width, recurrent) = sum(lengths), (hidden * blocks for blocks in extreme_gates.BLOCKS[kind])
    weight = draw(ways, recurrent, hidden) / hidden**0.5
    bias = draw(ways, recurrent) if kind == "gru" else None
    mask = draw(ways, len(lengths), hidden) if kind == "highway" else None
    found = []
    for loops in (tasks.modules.recurrence_in_torch, elmo.kernels.recurrence_in_triton):
        gates, grad = draw(ways, tokens, width), draw(ways, tokens, hidden)
        carried, states, kept = loops.forward(gates, weight, bias, packing, mask)
        back = loops.backward(grad, gates, (carried, kept.contiguous()), weight, packing, mask)
        found.append([gates, carried, states, kept, back, *([grad] if kind == "gru" else [])])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.skipif(INTERPRETED, reason="on a CPU the layers use C")
def test_values_and_gradients_of_a_highway_lstm_are_those_of_the_cpu_in_double_precision():
    """At the size of SRL: hidden 300, 80 sentences."""
    torch.manual_seed(1)
    lstm = AlternatingHighwayLstm(200, 300, 3)
    lengths = torch.arange(80) % 37 + 1
    x = torch.randn(80, 38, 200)
    upstream = torch.randn(80, 38, 300)
    found = []
    for device, dtype in ((torch.device("cpu"), torch.float64), (DEVICE, torch.float32)):
        lstm = lstm.to(device, dtype)
        lstm.zero_grad()
        leaf = x.to(device, dtype, copy=True).requires_grad_()
        states = lstm(leaf, lengths)
        (states * upstream.to(states)).sum().backward()
        parts = [states, leaf.grad, *(parameter.grad for parameter in lstm.parameters())]
        found.append([part.detach().double().cpu() for part in parts])
    for right, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, right, atol=1e-5 * max(1.0, right.abs().max().item()), rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_gates(kind):
    assert extreme_gates.largest_error(elmo.kernels.recurrence_in_triton, kind, DEVICE) < extreme_gates.LIMIT
