"""The trainable masked LM compared with the frozen one, and its gradient with the definition in double precision."""

import copy
from dataclasses import replace

import pytest
import torch

from elmo.bilm.options import BilmOptions
from elmo.pretrain import batches
from elmo.pretrain.batches import IGNORED, BatchPlan, MaskedBatcher, text_of_words
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.language_model import LanguageModel, Stepper, Upload, word_vectors
from elmo.sources.masked import MaskedOptions
from tests.elmo.pretrain.test_language_model import captured_errors
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
    plan = BatchPlan(text.sentences, tokens, seed=1, marks=2)
    return text, MaskedBatcher(plan, text.spelling, text.n_targets, **settings)


@pytest.fixture
def model():
    return LanguageModel.random(OPTIONS, len(VOCABULARY), seed=1)


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
            if target != IGNORED and place // batch.inputs.shape[1] == row:
                scores = exact.output.weight @ hidden[place % batch.inputs.shape[1]] + exact.output.bias
                total = total - torch.log_softmax(scores, 0)[target]
                count += 1
    assert count == batch.predictions
    return total / count, list(exact.parameters())


def test_loss_and_gradient_of_a_padded_step_equal_the_definition(model):
    text, batcher = batcher_of(SENTENCES, 64, chosen=0.5)
    assert len(batcher.plan) == 1
    batch = batcher(0)
    assert IGNORED in batch.targets
    stepper = Stepper(model, text.spelling, len(VOCABULARY), 0.0, torch.float32)
    stepper(Upload.of(batch, 0.4, pin=False))
    loss, parameters = naive_loss(model, batch, text)
    assert float(stepper.loss) == pytest.approx(float(loss.detach()), rel=1e-5)
    wanted = torch.cat([item.flatten() for item in torch.autograd.grad(loss, parameters)])
    torch.testing.assert_close(stepper.gradient.double(), wanted, atol=1e-6, rtol=1e-3)


def test_hidden_states_are_those_of_the_frozen_layers(model, monkeypatch):
    """Without masks; the training batch has padding, the frozen layers have none."""
    text, batcher = batcher_of(SENTENCES, 64)
    monkeypatch.setattr(batches, "MASKED_STRIDE", 99)
    *_, batch = batcher.measured(0)  # nothing is masked
    types = torch.from_numpy(batch.types)
    with torch.no_grad():
        spelled = torch.from_numpy(text.spelling.ids[batch.types])
        vectors = word_vectors(model.core, types, spelled, batch.profile, torch.float32)
        places = torch.arange(batch.inputs.size)
        hidden = model.core.hidden(vectors, torch.from_numpy(batch.inputs), places, 0.0).view(*batch.inputs.shape, -1)
    _, _, chosen = batcher.plan.batch(0)
    for row, number in enumerate(chosen.tolist()):
        top = model.core.token_layers([SENTENCES[number]])[-1]
        wanted = model.core.head(top)
        torch.testing.assert_close(hidden[row, 1 : len(top) + 1], wanted, atol=1e-5, rtol=0)


def test_padding_for_a_captured_step_changes_no_gradient(model):
    text, batcher = batcher_of(SENTENCES * 4, 128)
    roomy = replace(batcher, profile=batcher.common_profile())
    stepper = Stepper(model, text.spelling, 5, 0.0, torch.float32)
    for step in range(len(batcher.plan)):
        gradients = []
        for batch in (batcher(step), roomy(step)):
            stepper(Upload.of(batch, 0.4, pin=False))
            gradients.append(stepper.gradient.clone())
        assert roomy(step).profile == roomy.profile
        torch.testing.assert_close(*gradients)


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
        stepper = Stepper(model, text.spelling, len(VOCABULARY), 0.0, dtype)
        stepper(Upload.of(batcher(0), 0.4, pin=False))
        found.append(stepper.gradient.clone())
    half = len(products) // 2
    assert products == [{torch.float32}] * half + [{torch.float64}] * half
    assert half >= 4 * OPTIONS.n_layers + 1
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-3)
    assert not torch.equal(*found)


@pytest.mark.gpu
@pytest.mark.filterwarnings("default")  # torch's compiler warns of itself and of TF32, in each version of other things
def test_a_captured_step_equals_an_eager_one_on_the_gpu():
    text, batcher = batcher_of(SENTENCES * 40, 512)
    shape = MaskedOptions(BilmOptions(1, 64), n_layers=2, n_heads=2, feedforward_dim=96, output_dim=16, longest=200)
    model = LanguageModel.random(shape, len(VOCABULARY), seed=1).cuda()
    exact, rounded = captured_errors(model, text, batcher, rows=600)
    assert exact < 1e-4
    assert rounded < 3e-2
