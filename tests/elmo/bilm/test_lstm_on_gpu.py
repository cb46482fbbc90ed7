"""Tests that both directions in parallel equal two single LSTMs: in torch here, in Triton on a GPU."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch

from elmo import BilmOptions, CarriedState, random_bilm
from elmo.bilm import lstm as lstm_on_gpu
from elmo.bilm.lstm import LstmPair, ProjectedLstm, ReadingOrder, in_parts
from elmo.bilm.model import Bilm

INPUT, CELL, PROJECTION = 5, 11, 4
LENGTHS = [2, 9, 1, 6, 9, 1, 1]
CLIPS = [(3.0, 3.0), (0.5, None), (None, 0.5), (None, None)]
SENTENCES = [["The", "cat", "sat"], [], ["Yes"], ["a"] * 12, ["and", "/", "or", "Zürich"], [], ["no", "no", "no"]]


def made_lstms(cell_clip, projection_clip, dtype=torch.float64):
    """Two LSTMs whose cells and states reach clips of 0.5."""
    generator = torch.Generator().manual_seed(0)
    lstms = [ProjectedLstm(INPUT, CELL, PROJECTION, (cell_clip, projection_clip)).to(dtype) for _ in range(2)]
    for lstm in lstms:
        for parameter in lstm.parameters():
            parameter.requires_grad_(False).normal_(0.0, 1.5, generator=generator)
    return lstms


def drawn(*shape, seed, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def compare(clips, dtype, tolerance):
    """Compares a pair with its two LSTMs."""
    lstms = made_lstms(*clips, dtype)
    sizes = ReadingOrder.of(LENGTHS).step_sizes
    x, n = drawn(2, sum(LENGTHS), INPUT, seed=1, dtype=dtype), len(LENGTHS)
    ends = [drawn(2, n, PROJECTION, seed=2, dtype=dtype), drawn(2, n, CELL, seed=3, dtype=dtype)]
    expected_ends = [end.clone() for end in ends]

    found = LstmPair(*lstms)(x, sizes, *ends)

    for direction, lstm in enumerate(lstms):
        expected = lstm(x[direction], sizes, *(end[direction] for end in expected_ends))
        torch.testing.assert_close(found[direction], expected, rtol=0, atol=tolerance)
    for end, expected in zip(ends, expected_ends, strict=True):
        torch.testing.assert_close(end, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("clips", CLIPS)
@pytest.mark.parametrize("gates_ahead", [1, 8 * CELL * 10, 2**28])
def test_a_pair_equals_two_lstms(clips, gates_ahead, monkeypatch):
    monkeypatch.setattr(lstm_on_gpu, "GATES_AHEAD_ON_GPU", gates_ahead)
    compare(clips, torch.float64, 1e-10)


INTERPRETED = """
import torch
from elmo.bilm import lstm as lstm_pair
from elmo.kernels import pointwise_in_triton as in_triton

in_triton.CELLS_AT_ONCE = 8  # two programs for a sentence
lstm_pair.pointwise = lambda device: in_triton
for clips in CLIPS:
    compare(clips, torch.float32, 5e-4)  # these weights amplify rounding: in torch, float32 is 1e-4 from float64
"""


@pytest.mark.integration
def test_the_triton_kernel_in_the_interpreter_equals_two_lstms():
    pytest.importorskip("triton")
    pytest.importorskip("elmo.kernels", reason="elmo/kernels is not there")
    subprocess.run([sys.executable, "-c", INTERPRETED], env=os.environ | {"TRITON_INTERPRET": "1"}, check=True)


def test_clips_bind_in_these_tests():
    outputs = []
    for clips in CLIPS:
        zeros = [torch.zeros(2, len(LENGTHS), n, dtype=torch.float64) for n in (PROJECTION, CELL)]
        pair = LstmPair(*made_lstms(*clips))
        outputs.append(pair(drawn(2, sum(LENGTHS), INPUT, seed=1), ReadingOrder.of(LENGTHS).step_sizes, *zeros))
    assert all((outputs[-1] - clipped).abs().max() > 0.1 for clipped in outputs[:-1])


@pytest.mark.parametrize("tokens", [1, 3, 4, 7, 100])
def test_parts_hold_every_step_once_and_no_more_tokens_than_allowed(tokens):
    sizes = [5, 5, 4, 2, 2, 1, 1, 1]
    parts = list(in_parts(sizes, tokens))
    assert [size for _, part in parts for size in part] == sizes
    assert [rows.start for rows, _ in parts] == np.cumsum([0, *(sum(part) for _, part in parts[:-1])]).tolist()
    assert all(rows.stop - rows.start == sum(part) for rows, part in parts)
    assert all(sum(part) <= tokens or len(part) == 1 for _, part in parts)
    assert all(sum(part) + after[0] > tokens for (_, part), (_, after) in pairwise(parts))
    assert list(in_parts([], tokens)) == []


def test_changed_weights_are_noticed():
    lstms = made_lstms(None, None)
    pair = LstmPair(*lstms)
    x, zeros = drawn(2, 1, INPUT, seed=1), [torch.zeros(2, 1, n, dtype=torch.float64) for n in (PROJECTION, CELL)]
    before = pair(x, [1], *(end.clone() for end in zeros))
    with torch.no_grad():
        lstms[1].bias += 1.0
    after = pair(x, [1], *(end.clone() for end in zeros))
    assert torch.equal(before[0], after[0])
    assert not torch.allclose(before[1], after[1])


def bilm_of(clip, size=24, gain=2.0):
    """A biLM with layers of the scale of a trained one, so that a clip of 0.2 binds."""
    options = BilmOptions(cell_dim=size, projection_dim=size // 3, cell_clip=clip, projection_clip=clip)
    bilm = random_bilm(options, seed=5)
    with torch.no_grad():
        for name, parameter in bilm.named_parameters():
            if name.startswith("directions"):
                parameter *= gain
    return bilm


def read_together(bilm, text, *arguments):
    """Reads both directions in parallel, as on a GPU."""
    bilm._read([0, 1], text, *arguments)


@pytest.mark.parametrize("clip", [0.2, None])
def test_the_bilm_has_the_same_layers_either_way(clip, monkeypatch):
    bilm = bilm_of(clip)
    batches = [SENTENCES, SENTENCES[3:], SENTENCES[::-1]]
    expected_state, state = CarriedState(), CarriedState()
    expected = [bilm.token_layers(SENTENCES), *(bilm.token_layers(batch, expected_state) for batch in batches)]
    monkeypatch.setattr(Bilm, "_read_all", read_together)
    found = [bilm.token_layers(SENTENCES), *(bilm.token_layers(batch, state) for batch in batches)]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert (expected[1] - expected[3].flip(1)).abs().max() > 1e-3  # states were carried


@pytest.mark.gpu
@pytest.mark.parametrize("gates_ahead", [2**15, 2**28])
@pytest.mark.parametrize(
    ("clip", "size", "gain"),  # more gain at a large size without clips would amplify rounding errors
    [(0.2, 24, 2.0), (None, 24, 2.0), (3.0, 1536, 1.2), (None, 1536, 1.2), (0.2, 1500, 2.0)],
)
def test_gpu_and_cpu_agree(clip, size, gain, gates_ahead, monkeypatch):
    monkeypatch.setattr(lstm_on_gpu, "GATES_AHEAD_ON_GPU", gates_ahead)
    bilm = bilm_of(clip, size, gain)
    batches = [SENTENCES, SENTENCES[3:], [[]], [["one"]], SENTENCES[::-1]]
    states = CarriedState(), CarriedState()
    expected = [f(batch) for batch in batches for f in (bilm.token_layers, bilm.layers)]
    expected += [bilm.token_layers(batch, states[0]) for batch in batches]
    bilm.cuda()
    found = [f(batch) for batch in batches for f in (bilm.token_layers, bilm.layers)]
    found += [bilm.token_layers(batch, states[1]) for batch in batches]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=0, atol=5e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("weights", ["small", "original"])
def test_gpu_and_cpu_agree_at_real_sizes(weights):
    bilm = random_bilm(weights, seed=1)
    draw = np.random.default_rng(0)
    words = ["".join(draw.choice(list("abcdefgh"), size=n)) for n in draw.integers(1, 12, size=200)]
    sentences = [draw.choice(words, size=n).tolist() for n in draw.integers(0, 40, size=50)]
    expected = bilm.token_layers(sentences)
    bilm.cuda().remember_words()
    for _ in range(2):  # words from the encoder, then from memory
        torch.testing.assert_close(bilm.token_layers(sentences).cpu(), expected, rtol=0, atol=5e-5)
