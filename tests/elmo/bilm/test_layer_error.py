"""Tests that all implementations are within 2e-5 of float64: layers of the shipped biLM, steps with extreme gates."""

import copy
import shutil

import pytest
import torch

from elmo import load_bilm
from elmo.bilm import fast
from elmo.bilm.lstm import LstmPair, ProjectedLstm, ReadingOrder
from tests.elmo.bilm.layer_error import LONG_LINE, exact_layers, layer_errors, sentences

LIMIT = 2e-5
CELLS = 64
UNREACHED = 1e4  # a clip that has no effect: without one a GPU uses cuDNN instead of our kernel


def extreme_lstm():
    """An LSTM whose gates are its inputs, drawn from -300 to 300, which saturates all nonlinearities."""
    lstm = ProjectedLstm(4 * CELLS, CELLS, CELLS, (UNREACHED, UNREACHED)).requires_grad_(False)
    lstm.weight.zero_()
    lstm.weight[:, : 4 * CELLS] = torch.eye(4 * CELLS)
    lstm.bias.zero_()
    lstm.projection.copy_(torch.eye(CELLS))
    return lstm


def step_errors(device, steps, sentences=400):
    """Largest error of outputs and cells, relative to values above 1."""
    lstm = extreme_lstm()
    sizes = ReadingOrder.of([steps] * sentences).step_sizes
    gates = torch.empty(2, steps * sentences, 4 * CELLS).uniform_(-300, 300, generator=torch.Generator().manual_seed(1))
    found = []
    for dtype, where in ((torch.float64, torch.device("cpu")), (torch.float32, device)):
        pair = [copy.deepcopy(lstm).to(where, dtype) for _ in range(2)]
        ends = [torch.zeros(2, sentences, CELLS, dtype=dtype, device=where) for _ in range(2)]
        x = gates.to(where, dtype)
        if where.type == "cuda":
            outputs = LstmPair(*pair)(x, sizes, *ends)
        else:
            outputs = torch.stack([pair[i](x[i], sizes, ends[0][i], ends[1][i]) for i in range(2)])
        found.append([value.double().cpu() for value in (outputs, ends[1])])
    return max(
        ((ours - exact).abs() / exact.abs().clamp_min(1)).max().item() for exact, ours in zip(*found, strict=True)
    )


@pytest.fixture(params=["compiled", "torch", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    if request.param == "compiled":
        pytest.importorskip("elmo.kernels.in_c", reason="elmo/kernels is not there")
    if request.param == "compiled" and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("needs a C compiler")
    monkeypatch.setenv("ELMO_KERNEL", "0" if request.param == "torch" else "1")
    assert (fast.compiled() is None) == (request.param == "torch")
    return torch.device("cuda" if request.param == "cuda" else "cpu")


@pytest.mark.parametrize("steps", [1, 30])
def test_extreme_gates(device, steps):
    assert step_errors(device, steps) < LIMIT


@pytest.fixture(scope="module")
def shipped():
    """The shipped biLM, text that ends with the long line, and its layers in float64, which take the most time."""
    bilm, text = load_bilm("small"), sentences()[-10:]
    return bilm, text, exact_layers(bilm, text)


def test_layers_of_the_shipped_bilm(device, shipped):
    bilm, text, exact = shipped
    errors = layer_errors(bilm, device, text, exact)
    assert len(text[-1]) == LONG_LINE
    assert errors.amax(dim=1).max() < LIMIT
