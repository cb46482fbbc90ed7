"""Triton kernels of recurrences and of the CRF, compared with the loops in plain torch.

On a GPU: python -m pytest -m gpu tests/tasks/kernels/test_triton.py. Where Triton is installed without one, its
interpreter runs them, slowly: TRITON_INTERPRET=1 python -m pytest -m gpu tests/tasks/kernels/test_triton.py.
"""

import os

import pytest
import torch

import tasks.modules.crf_in_torch
import tasks.modules.recurrence_in_torch
from tasks.modules.recurrence import Packing
from tests.tasks.kernels import extreme_gates

pytest.importorskip("triton", reason="Triton comes with builds of torch for a GPU")
pytest.importorskip("tasks.kernels.crf_in_triton", reason="tasks/kernels is not there")
import tasks.kernels.crf_in_triton
import tasks.kernels.recurrence_in_triton

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a GPU or TRITON_INTERPRET=1"),
]
# Wider than one block of columns, more sentences than one block of rows, sentences that end at different steps,
# states as wide as those of SST-5 and SNLI with three blocks of rows.
SIZES = [(5, [4, 1, 7, 7, 2]), (20, [3] * 17 + [1]), (90, [5, 2]), (150, [2, 3]), (260, [2] * 33 + [3, 1])]


@pytest.fixture(autouse=True)
def _single_precision(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("hidden", "lengths"), SIZES)
def test_a_recurrence_equals_the_one_in_torch(kind, hidden, lengths):
    packing = Packing.of(torch.tensor(lengths), max(lengths), DEVICE)
    width, tokens = hidden * (4 if kind == "lstm" else 3), sum(lengths)
    weight, bias = draw(2, width, hidden) / hidden**0.5, None if kind == "lstm" else draw(2, width)
    found = []
    for loops in (tasks.modules.recurrence_in_torch, tasks.kernels.recurrence_in_triton):
        gates, grad = draw(2, tokens, width), draw(2, tokens, hidden)
        carried, states, kept = loops.forward(gates, weight, bias, packing)
        back = loops.backward(grad, gates, carried, kept, weight, packing)
        found.append([gates, carried, states, kept, back, *([grad] if kind == "gru" else [])])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_extreme_gates(kind):
    assert extreme_gates.largest_error(tasks.kernels.recurrence_in_triton, kind, DEVICE) < extreme_gates.LIMIT


@pytest.mark.parametrize("n_tags", [3, 17, 40])
@pytest.mark.parametrize("lengths", [[7, 1, 4, 10, 2], [1], [3, 3]], ids=str)
def test_the_crf_equals_the_one_in_torch(n_tags, lengths):
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).to(DEVICE)
    emissions, starts, between, ends, weight = (
        draw(*shape)
        for shape in ((len(lengths), max(lengths), n_tags), (n_tags,), (n_tags, n_tags), (n_tags,), (len(lengths),))
    )
    tags = torch.randint(n_tags, mask.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    found = []
    for walks in (tasks.modules.crf_in_torch, tasks.kernels.crf_in_triton):
        value, kept = walks.likelihood(emissions, between, starts, ends, tags, mask)
        gradients = walks.gradients(weight.double(), kept, between, ends, tags, mask)
        paths = walks.best_paths(emissions, between, starts, ends, mask).long().masked_fill(~mask, 0)
        found.append([value, *gradients, paths])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
