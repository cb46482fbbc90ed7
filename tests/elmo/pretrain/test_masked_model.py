"""The trainable masked LM compared with the frozen one, and its gradient with the definition in double precision."""

import copy

import pytest
import torch

from elmo.pretrain import batches
from elmo.pretrain.batches import MaskedBatches, text_of_words
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.language_model import LanguageModel, TrainingLoss, word_vectors
from tests.elmo.sources.naive_masked import OPTIONS, naive_layers

SENTENCES = [
    sentence.split()
    for sentence in (
        "the cat sat on the mat",
        "one",
        "a word of " + "x" * 60 + " letters",
        "包袱 很 好笑 包袱 很 好笑 包袱 很 好笑",
        "a b c d e f g h",
    )
]
VOCABULARY = [*SPECIALS, "the", "cat", "a", "on", "包袱"]


def batcher_of(sentences, tokens, **settings):
    text = text_of_words(sentences, VOCABULARY, 50)
    return text, MaskedBatches(text, tokens, 1, **settings)


@pytest.fixture
def model():
    return LanguageModel.random(OPTIONS, len(VOCABULARY), seed=1)


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


def gradient(loss, model):
    return flat(torch.autograd.grad(loss, list(model.parameters())))


def naive_loss(model, batch, text):
    """The mean loss of a batch: row by row without padding, all words in the softmax."""
    exact = copy.deepcopy(model).double()
    vectors = exact.core.encoder(torch.from_numpy(text.spelling.ids[batch.types]).long())
    table = [*vectors, exact.core.mask]
    total, count = 0.0, 0
    for row, indices in enumerate(batch.inputs.tolist()):
        read = [index for index in indices if index < len(table)]  # the next index is padding
        hidden = exact.core.head(naive_layers(exact.core, torch.stack([table[index] for index in read]))[-1])
        for place, target in zip(batch.places.tolist(), batch.targets.tolist(), strict=True):
            if place // batch.inputs.shape[1] == row:
                scores = exact.output.weight @ hidden[place % batch.inputs.shape[1]] + exact.output.bias
                total = total - torch.log_softmax(scores, 0)[target]
                count += 1
    assert count == batch.predictions
    return total / count, list(exact.parameters())


def test_loss_and_gradient_of_a_padded_step_equal_the_definition(model):
    text, batcher = batcher_of(SENTENCES, 64, chosen=0.5)
    assert len(batcher) == 1
    batch = batcher(0)
    found = TrainingLoss(model, text.spelling, len(VOCABULARY), 0.0, torch.float32)(batch, 0.4)
    loss, parameters = naive_loss(model, batch, text)
    assert float(found.detach()) == pytest.approx(float(loss.detach()), rel=1e-5)
    wanted = flat(torch.autograd.grad(loss, parameters))
    torch.testing.assert_close(gradient(found, model).double(), wanted, atol=1e-6, rtol=1e-3)


def test_hidden_states_are_those_of_the_frozen_layers(model, monkeypatch):
    """Without masks; the training batch has padding, the frozen layers have none."""
    text, batcher = batcher_of(SENTENCES, 64)
    monkeypatch.setattr(batches, "MASKED_STRIDE", 99)
    *_, batch = batcher.measured(0)  # nothing is masked
    types = torch.from_numpy(batch.types)
    with torch.no_grad():
        spelled = torch.from_numpy(text.spelling.ids[batch.types])
        vectors = word_vectors(model.core, types, spelled, batch.groups, torch.float32)
        places = torch.arange(batch.inputs.size)
        hidden = model.core.hidden(vectors, torch.from_numpy(batch.inputs), places, 0.0).view(*batch.inputs.shape, -1)
    _, chosen = batcher.sentences(0)
    for row, number in enumerate(chosen.tolist()):
        top = model.core.token_layers([SENTENCES[number]])[-1]
        wanted = model.core.head(top)
        torch.testing.assert_close(hidden[row, 1 : len(top) + 1], wanted, atol=1e-5, rtol=0)


def test_products_have_the_precision_that_is_asked_for(model, monkeypatch):
    """In double precision, since bfloat16 is another library's on each CPU."""
    text, batcher = batcher_of(SENTENCES, 64, chosen=0.5)
    real, products = torch.nn.functional.linear, []

    def linear(x, weight, bias):
        products.append({x.dtype, weight.dtype, bias.dtype})
        return real(x, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    found = []
    for dtype in (torch.float32, torch.float64):
        loss = TrainingLoss(model, text.spelling, len(VOCABULARY), 0.0, dtype)(batcher(0), 0.4)
        found.append(gradient(loss, model))
    half = len(products) // 2
    assert products == [{torch.float32}] * half + [{torch.float64}] * half
    assert half >= 4 * OPTIONS.n_layers + 1
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-3)
    assert not torch.equal(*found)
