"""The compiled loop over the steps, against torch's recurrences in double precision and the loop in torch."""

import logging
import shutil

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo.bilm import fast
from tasks.modules import recurrence_in_torch
from tasks.modules.layers import BiRnn, loops_for
from tasks.modules.recurrence_in_torch import Packing
from tests.elmo.kernels import extreme_gates

pytest.importorskip("elmo.kernels.in_c", reason="elmo/kernels is not there")
from elmo.kernels import in_c
from elmo.kernels.in_c import CompiledLoops
from elmo.kernels.in_c import loops as compiled_loops

pytestmark = pytest.mark.skipif(not any(map(shutil.which, in_c.COMPILERS)), reason="needs a C compiler")
CPU = torch.device("cpu")
LENGTHS = {
    "one token": [1],
    "one sentence": [9],
    "ties": [3, 3, 3],
    "unequal": [4, 1, 7, 7, 2],
    "one token each": [1] * 8,
    "seventy sentences": [1 + (7 * row) % 13 for row in range(70)],
}
HIDDEN = (1, 3, 4, 17, 32, 65, 130)  # about a vector, about a panel, and gates beyond one block of inputs
KINDS = list(extreme_gates.BLOCKS)


@pytest.fixture(autouse=True)
def _switched_on(monkeypatch):
    monkeypatch.delenv("ELMO_KERNEL", raising=False)


def walked(loops, kind, lengths, hidden):
    """All that the walks there and back give, for drawn inputs."""
    generator = torch.Generator().manual_seed(hidden)
    packing = Packing.of(torch.tensor(lengths), max(lengths), CPU)
    packed, (width, recurrent) = sum(lengths), (hidden * blocks for blocks in extreme_gates.BLOCKS[kind])
    gates, grad, weight, bias, mask = (
        torch.randn(2, *shape, generator=generator)
        for shape in ((packed, width), (packed, hidden), (recurrent, hidden), (recurrent,), (len(lengths), hidden))
    )
    weight = weight / hidden**0.5
    mask = mask if kind == "highway" else None
    carried, states, kept = loops.forward(gates, weight, bias if kind == "gru" else None, packing, mask)
    at_gates = loops.backward(grad, gates, (carried, kept.contiguous()), weight, packing, mask)
    return gates, carried, states, kept, at_gates, *([grad] if kind == "gru" else [])


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("kind", KINDS)
def test_all_results_equal_those_of_torch(kind, hidden, lengths):
    loops = compiled_loops(torch.zeros(1))
    assert loops is not None
    for found, right in zip(
        walked(loops, kind, lengths, hidden), walked(recurrence_in_torch, kind, lengths, hidden), strict=True
    ):
        torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("defines", [("-DLANES=4", "-DROWS=3"), ("-DLANES=8", "-DROWS=3"), ("-DLANES=16", "-DROWS=6")])
def test_with_the_vectors_of_other_processors(defines, tmp_path):
    loops = CompiledLoops(in_c.load_library(tmp_path, *defines))
    assert f"-DLANES={loops.lanes}" == defines[0]
    for kind in KINDS:
        for hidden in (3, 32, 70):
            args = kind, LENGTHS["seventy sentences"], hidden
            for found, right in zip(walked(loops, *args), walked(recurrence_in_torch, *args), strict=True):
                torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("hidden", [5, 32, 90])
def test_states_and_gradients_of_layers_are_those_of_torch(cell, hidden):
    torch.manual_seed(1)
    layer = BiRnn(13, hidden, 2, 0.0, cell)
    lengths = torch.tensor(LENGTHS["seventy sentences"])
    x = torch.randn(len(lengths), 15, 13)
    assert isinstance(loops_for(x), CompiledLoops)
    upstream = torch.randn(*x.shape[:2], 2 * hidden)
    found = []
    for dtype in (torch.float32, torch.float64):
        layer = layer.to(dtype)
        layer.zero_grad()
        leaf = x.to(dtype, copy=True).requires_grad_()
        if dtype == torch.float64:
            packed = pack_padded_sequence(leaf, lengths, batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(layer.rnn(packed)[0], batch_first=True, total_length=15)
        else:
            states = layer(leaf, lengths)
        (states * upstream).sum().backward()
        found.append([states.detach(), leaf.grad, *(item.grad.clone() for item in layer.parameters())])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-4 * theirs.abs().max().item())
    np.testing.assert_allclose(found[0][0].numpy(), found[1][0].numpy(), atol=1e-5)


@pytest.mark.parametrize("loops", ["compiled", "torch"])
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_gates(kind, loops):
    forms = compiled_loops(torch.zeros(1)) if loops == "compiled" else recurrence_in_torch
    assert extreme_gates.largest_error(forms, kind, CPU) < extreme_gates.LIMIT


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_has_the_same_bits_in_any_batch(kind):
    loops = compiled_loops(torch.zeros(1))
    torch.manual_seed(3)
    hidden, tokens, sentences = 37, 6, 20
    width, recurrent = (hidden * blocks for blocks in extreme_gates.BLOCKS[kind])
    gates, grad = torch.randn(2, tokens, sentences, width), torch.randn(2, tokens, sentences, hidden)
    weight = torch.randn(2, recurrent, hidden) / hidden**0.5
    bias = torch.randn(2, recurrent) if kind == "gru" else None
    masks = torch.randn(2, sentences, hidden) if kind == "highway" else None

    def states_and_gradients(chosen):
        packing = Packing.of(torch.full((len(chosen),), tokens), tokens, CPU)
        rows, upstream = (part[:, :, chosen].reshape(2, tokens * len(chosen), -1).clone() for part in (gates, grad))
        mask = None if masks is None else masks[:, chosen]
        carried, states, kept = loops.forward(rows, weight, bias, packing, mask)
        gradients = loops.backward(upstream, rows, (carried, kept), weight, packing, mask)
        return [part.view(2, tokens, len(chosen), -1) for part in (states, gradients)]

    together = states_and_gradients(list(range(sentences)))
    for count in range(1, 14):
        chosen = list(range(5, 5 + count))
        for alone, in_batch in zip(states_and_gradients(chosen), together, strict=True):
            assert torch.equal(alone, in_batch[:, :, chosen])


@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_infinity_stay_within_their_sentence(kind):
    loops = compiled_loops(torch.zeros(1))
    hidden, packing = 5, Packing.of(torch.tensor([3, 3, 2]), 3, CPU)
    width, recurrent = (hidden * blocks for blocks in extreme_gates.BLOCKS[kind])
    gates, weight = torch.randn(2, 8, width), torch.randn(2, recurrent, hidden)
    gates[:, 1] = float("nan")  # the first token of the second sentence
    bias = torch.zeros(2, recurrent) if kind == "gru" else None
    mask = torch.ones(2, 3, hidden) if kind == "highway" else None
    _, states, _ = loops.forward(gates, weight, bias, packing, mask)
    assert states[0].isnan().all(dim=1).tolist() == [False, True, False, False, True, False, False, True]
    assert states[0].isnan().any(dim=1).tolist() == states[0].isnan().all(dim=1).tolist()


@pytest.mark.parametrize(
    "wrong", [torch.zeros(2, 3, 8).double(), torch.zeros(2, 4, 8), torch.zeros(2, 8, 3).transpose(1, 2)]
)
def test_pointers_to_anything_else_are_refused(wrong):
    loops = compiled_loops(torch.zeros(1))
    packing = Packing.of(torch.tensor([2, 1]), 2, CPU)
    with pytest.raises(ValueError, match=r"expected contiguous float32 values of shape \(2, 3, 8\) on the CPU"):
        loops.forward(wrong, torch.zeros(2, 8, 2), None, packing)


def test_a_mask_for_other_sentences_is_refused():
    loops = compiled_loops(torch.zeros(1))
    packing = Packing.of(torch.tensor([2, 1]), 2, CPU)
    with pytest.raises(ValueError, match=r"of shape \(1, 2, 2\) on the CPU, found \(\(1, 1, 2\)"):
        loops.forward(torch.zeros(1, 3, 12), torch.zeros(1, 10, 2), None, packing, torch.ones(1, 1, 2))


class TestChoiceOfImplementation:
    def test_single_precision_is_compiled(self):
        assert isinstance(loops_for(torch.zeros(2, 3)), CompiledLoops)

    @pytest.mark.parametrize(
        "x",
        [torch.zeros(2, 3).double(), torch.zeros(2, 3).bfloat16(), torch.zeros(2, 3).t()],
        ids=["float64", "bfloat16", "not contiguous"],
    )
    def test_other_tensors_use_torch(self, x):
        assert loops_for(x) is recurrence_in_torch

    def test_switched_off(self, library_cache, monkeypatch, caplog):
        monkeypatch.setenv("ELMO_KERNEL", "0")
        assert loops_for(torch.zeros(1)) is recurrence_in_torch
        assert not library_cache.exists()
        assert not caplog.records

    def test_without_a_compiler_the_log_says_so_once_for_bilm_and_heads(self, library_cache, monkeypatch, caplog):
        monkeypatch.setenv("PATH", "")
        with caplog.at_level(logging.WARNING):
            assert fast.compiled() is None
            assert loops_for(torch.zeros(1)) is recurrence_in_torch
            layer = BiRnn(3, 2)
            assert layer(torch.randn(2, 6, 3), torch.tensor([6, 2])).shape == (2, 6, 4)
        assert len(caplog.records) == 1
        assert "torch is used, which is slower: no C compiler was found" in caplog.text
