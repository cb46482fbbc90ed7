"""Without elmo/kernels every module works, in plain torch."""

import shutil
import sys

import pytest
import torch
from torch import nn

from elmo.bilm.fast import kernel_module
from tasks.modules import recurrence_in_torch
from tasks.modules.layers import AlternatingHighwayLstm, BiRnn, kernels_for, loops_for


@pytest.fixture
def _without_kernels(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("elmo.kernels")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "elmo.kernels", None)  # importing it raises ImportError
    kernel_module.cache_clear()
    yield
    kernel_module.cache_clear()


@pytest.mark.usefixtures("_without_kernels")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, AlternatingHighwayLstm])
def test_a_layer_without_the_folder_equals_one_in_double_precision(kind, caplog):
    torch.manual_seed(1)
    layer = AlternatingHighwayLstm(5, 7, 2) if kind is AlternatingHighwayLstm else BiRnn(5, 7, 2, cell=kind)
    x, lengths = torch.randn(3, 6, 5), torch.tensor([6, 2, 4])
    states = layer(x, lengths)
    assert loops_for(x) is recurrence_in_torch
    torch.testing.assert_close(states.double(), layer.double()(x.double(), lengths), atol=1e-5, rtol=1e-4)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "torch is used, which is slower" in caplog.text


@pytest.mark.usefixtures("_without_kernels")
def test_on_a_gpu_without_the_folder_torch_is_used():
    class OnGpu:
        device = torch.device("cuda")

    assert loops_for(OnGpu()) is recurrence_in_torch


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler")
@pytest.mark.parametrize(("switch", "expected"), [("0", "torch"), ("1", "C")])
def test_the_kernels_of_a_cpu_are_named(monkeypatch, switch, expected):
    pytest.importorskip("elmo.kernels")
    monkeypatch.setenv("ELMO_KERNEL", switch)
    assert kernels_for(torch.device("cpu")) == expected
