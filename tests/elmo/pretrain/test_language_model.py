"""The trainable biLM compared with the frozen one, and its parts compared with plain autograd."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from elmo import SIZES, BilmOptions
from elmo.bilm.encoder import CharacterEncoder
from elmo.bilm.recurrence import in_parallel
from elmo.pretrain.batches import IGNORED, JoinedBatches, Spelling, rounded, text_of_words
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.language_model import LanguageModel, word_vectors

SENTENCES = [
    sentence.split()
    for sentence in (
        "the cat sat on the mat",
        "one",
        "a word of " + "x" * 60 + " letters and one of " + "y" * 41 + " or " + "z" * 45,
        "包袱 很 好笑 " * 5,
        "a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5 6 7 8 9",
    )
]
VOCABULARY = [*SPECIALS, "the", "cat", "a", "on", "包袱"]
OPTIONS = {
    "plain": replace(SIZES["tiny"], cell_clip=None, projection_clip=None),
    "clipped": replace(SIZES["tiny"], cell_clip=0.05, projection_clip=0.02, n_highway=2),
    "no skip, tanh, three layers": replace(SIZES["tiny"], skip_connections=False, activation="tanh", n_layers=3),
    "seven filters": BilmOptions(cell_dim=12, projection_dim=8),
    "word": replace(SIZES["tiny"], words=tuple(VOCABULARY), word_dim=6, filters=()),
    "both": replace(SIZES["tiny"], words=tuple(VOCABULARY), word_dim=6, char_output_dim=5),
    "both without projection": replace(SIZES["tiny"], words=tuple(VOCABULARY), word_dim=3, char_output_dim=5),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_layers_equal_those_of_the_frozen_bilm(name):
    model = LanguageModel.random(OPTIONS[name], len(VOCABULARY), seed=1)
    text = text_of_words(SENTENCES, VOCABULARY, 50)
    batches = JoinedBatches(text, 64, seed=None)
    frozen = model.core.layers(SENTENCES)
    seen = []
    for step in range(len(batches)):
        batch, (_, chosen) = batches(step), batches.sentences(step)
        spelled = torch.from_numpy(text.spelling.ids[batch.types])
        types = torch.from_numpy(batch.types)
        with torch.no_grad():
            vectors = word_vectors(model.core, types, spelled, batch.groups, torch.float32)
            layers = model.core.lstm_layers(vectors, torch.from_numpy(batch.inputs))
        for row, sentence in enumerate(chosen):
            n = len(SENTENCES[sentence])
            seen.append(sentence)
            read = torch.from_numpy(batch.inputs[0, 1 : n + 1, row])
            # Sums over 2,048 filters, taken in two orders: each is off by up to 1e-6 from double precision.
            torch.testing.assert_close(vectors[read].repeat(1, 2), frozen[0, sentence, :n], atol=3e-6, rtol=0)
            for number, layer in enumerate(layers, start=1):
                both = torch.cat([layer[0, 1 : n + 1, row], layer[1, 1 : n + 1, row].flip(0)], dim=1)
                torch.testing.assert_close(both, frozen[number, sentence, :n], atol=1e-6, rtol=0)
    assert sorted(seen) == list(range(len(SENTENCES)))


def test_batches_read_and_predict_what_the_definition_says():
    text = text_of_words([["the", "new", "cat"], ["a"]], VOCABULARY, 50)
    batch = JoinedBatches(text, 8, seed=None)(0)
    words = [*VOCABULARY, "new"]
    read = [[words[batch.types[i]] for i in batch.inputs[d, :, 0]] for d in (0, 1)]
    assert read == [["<S>", "the", "new", "cat"], ["</S>", "cat", "new", "the"]]
    predicted = [[words[i] for i in batch.targets[d, :, 0]] for d in (0, 1)]
    assert predicted == [["the", "<UNK>", "cat", "</S>"], ["cat", "<UNK>", "the", "</S>"]]
    assert batch.targets[0, :, 1].tolist() == [VOCABULARY.index("a"), 0, IGNORED, IGNORED]
    assert batch.tokens == 6


def test_every_epoch_has_every_sentence_once_in_a_new_order():
    rng = np.random.default_rng(0)
    text = text_of_words([["w"] * int(n) for n in rng.integers(1, 90, 500)], [*SPECIALS, "w"], 50)
    plan = JoinedBatches(text, 256, seed=5)
    lengths = np.diff(text.sentences.offsets)
    epochs = []
    for epoch in range(2):
        batches = [plan.sentences(epoch * len(plan) + i) for i in range(len(plan))]
        for steps, chosen in batches:
            assert len(chosen) <= max(1, 256 // steps)
            assert (lengths[chosen] + 1 <= steps).all()
        epochs.append(np.concatenate([chosen for _, chosen in batches]))
        assert sorted(epochs[-1]) == list(range(500))
    assert (epochs[0] != epochs[1]).any()
    again = JoinedBatches(text, 256, seed=5)
    assert (again.sentences(len(plan) + 3)[1] == plan.sentences(len(plan) + 3)[1]).all()
    assert JoinedBatches(text, 256, seed=6).sentences(3)[1].tolist() != plan.sentences(3)[1].tolist()


def test_rounding_pads_little_and_gives_few_lengths():
    lengths = np.arange(1, 1000)
    found = rounded(lengths)
    assert (found >= lengths).all()
    assert ((found - lengths) <= np.maximum(3, lengths / 8)).all()
    assert len(np.unique(found)) < 60


def test_spelling_equals_the_frozen_encoders():
    words = [*SPECIALS, "a", "naïve", "包袱", "x" * 60, "é" * 30, ""]
    spelling = Spelling.of_words(words, 50)
    from elmo.bilm.sentences import character_ids, spell

    assert (spelling.ids == character_ids(words, 50)).all()
    assert spelling.lengths.tolist() == [len(spell(word)) for word in words]


def reference(x, weight, bias, projection, cell_clip, projection_clip):
    """The recurrence spelled out for autograd."""
    outputs = []
    for d in range(len(x)):
        state = x.new_zeros(x.shape[2], projection.shape[1])
        cell = x.new_zeros(x.shape[2], projection.shape[2])
        steps = []
        for t in range(x.shape[1]):
            i, f, g, o = (torch.cat([x[d, t], state], 1) @ weight[d].t() + bias[d]).chunk(4, 1)
            cell = cell * (f + 1).sigmoid() + i.sigmoid() * g.tanh()
            if cell_clip is not None:
                cell = cell.clamp(-cell_clip, cell_clip)
            state = (o.sigmoid() * cell.tanh()) @ projection[d].t()
            if projection_clip is not None:
                state = state.clamp(-projection_clip, projection_clip)
            steps.append(state)
        outputs.append(torch.stack(steps))
    return torch.stack(outputs)


@pytest.mark.parametrize(("directions", "clips"), [(2, (None, None)), (2, (0.3, 0.1)), (1, (None, None))])
def test_gradients_of_the_recurrence_equal_autograds(directions, clips):
    torch.manual_seed(0)
    steps, rows, input_dim, projection_dim, cell_dim = 6, 3, 5, 4, 7
    arguments = [
        torch.randn(directions, steps, rows, input_dim),
        torch.randn(directions, 4 * cell_dim, input_dim + projection_dim) * 0.5,
        torch.randn(directions, 4 * cell_dim) * 0.3,
        torch.randn(directions, projection_dim, cell_dim) * 0.5,
    ]
    for argument in arguments:
        argument.requires_grad_()
    found, wanted = in_parallel(*arguments, clips), reference(*arguments, *clips)
    torch.testing.assert_close(found, wanted)
    upstream = torch.randn_like(found)
    for ours, theirs in zip(
        torch.autograd.grad(found, arguments, upstream), torch.autograd.grad(wanted, arguments, upstream), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_the_recurrence_without_clipping_is_torchs_lstm():
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(5, 7, proj_size=4)
    with torch.no_grad():
        weight = torch.cat([lstm.weight_ih_l0, lstm.weight_hh_l0], dim=1)
        bias = lstm.bias_ih_l0 + lstm.bias_hh_l0
        bias[7:14] -= 1.0
        x = torch.randn(6, 3, 5)
        found = in_parallel(*(item.expand(2, *item.shape) for item in (x, weight, bias, lstm.weight_hr_l0)))
        torch.testing.assert_close(found[1], lstm(x)[0])


def test_gradients_of_the_encoder_equal_those_of_the_frozen_one():
    model = LanguageModel.random(BilmOptions(cell_dim=12, projection_dim=8), len(VOCABULARY), seed=2)
    encoder = model.core.encoder
    assert isinstance(encoder, CharacterEncoder)
    text = text_of_words(SENTENCES, VOCABULARY, 50)
    batch = JoinedBatches(text, 512, seed=None)(0)
    spelled = torch.from_numpy(text.spelling.ids[batch.types])
    weights = torch.randn(len(batch.types), 8)
    ours = word_vectors(model.core, torch.from_numpy(batch.types), spelled, batch.groups, torch.float32)
    theirs = encoder(spelled.long())
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)
    parameters = list(encoder.parameters())
    for one, other in zip(
        torch.autograd.grad((ours * weights).sum(), parameters),
        torch.autograd.grad((theirs * weights).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


TRITON = """
import torch
from elmo.bilm import pointwise_in_torch as in_torch
from elmo.kernels import pointwise_in_triton as in_triton

in_triton.CELLS_AT_ONCE = 4  # two programs for a sentence

torch.manual_seed(0)
for clip in (None, 0.4):
    gates, bias = torch.randn(2, 7, 3, 24), torch.randn(2, 24)
    cells, hidden = torch.randn(2, 8, 3, 6), torch.zeros(2, 7, 3, 6)
    found = []
    for module in (in_torch, in_triton):
        g, c, h = gates.clone(), cells.clone(), hidden.clone()
        module.forward(g[:, 2], bias, c[:, 2], c[:, 3], h[:, 2], clip)
        there = g.clone(), c.clone(), h.clone()
        back = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(1))
        module.backward(g[:, 2], c[:, 2], c[:, 3], back * 2, back, clip)
        found.append((*there, g, back))
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
"""


@pytest.mark.integration
def test_the_gpu_kernels_in_tritons_interpreter_equal_plain_torch():
    pytest.importorskip("triton")
    pytest.importorskip("elmo.kernels", reason="elmo/kernels is not there")
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", TRITON], env=environment, check=False)
    assert done.returncode == 0  # it compares by itself
