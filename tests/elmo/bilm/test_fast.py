"""Without elmo/kernels the biLM works, in plain torch."""

import sys

import pytest
import torch

from elmo import random_bilm
from elmo.bilm import fast, pointwise_in_torch


@pytest.fixture
def _without_kernels(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("elmo.kernels")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "elmo.kernels", None)  # importing it raises ImportError
    fast.kernel_module.cache_clear()
    yield
    fast.kernel_module.cache_clear()


@pytest.mark.usefixtures("_without_kernels")
def test_layers_without_the_folder_equal_those_in_double_precision(monkeypatch, caplog):
    monkeypatch.delenv("ELMO_KERNEL", raising=False)
    bilm, sentences = random_bilm("tiny", seed=2), [["Some", "words"], ["more", "of", "them"]]
    layers = bilm.token_layers(sentences)
    assert fast.compiled() is None
    torch.testing.assert_close(layers.double(), bilm.double().token_layers(sentences), atol=1e-5, rtol=1e-4)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "torch is used, which is slower" in caplog.text


@pytest.mark.usefixtures("_without_kernels")
def test_on_a_gpu_without_the_folder_torch_is_used():
    assert fast.pointwise(torch.device("cuda")) is pointwise_in_torch
