import pytest
import torch
from torch import nn

from elmo import Elmo, InputError

SENTENCES = [["the", "cat"], ["a", "much", "longer", "sentence"], []]


class Counting:
    """Frozen layers that count how often they are computed."""

    def __init__(self, source):
        self.source = source
        self.widths, self.fingerprint = source.widths, source.fingerprint
        self.calls = 0

    def token_layers(self, sentences):
        self.calls += 1
        return self.source.token_layers(sentences)


def test_layers_are_computed_once_for_all_places(bilm):
    source = Counting(bilm)
    elmo = Elmo(source, places=("input", "output"), dropout=0.0)
    output = elmo(SENTENCES)
    assert source.calls == 1
    assert list(output.places) == ["input", "output"]
    expected = bilm.layers(SENTENCES).mean(dim=0)
    for vectors in output.places.values():
        torch.testing.assert_close(vectors, expected)
    assert output.mask.tolist() == [[True, True, False, False], [True] * 4, [False] * 4]
    assert elmo.dim == bilm.dim == 16


def test_places_learn_separately(bilm):
    elmo = Elmo(bilm, places=("input", "output"), dropout=0.0)
    with torch.no_grad():
        elmo.mixes["output"].scalars.copy_(torch.tensor([0.0, 0.0, 50.0]))
        elmo.mixes["output"].gamma.fill_(2.0)
    output = elmo(SENTENCES)
    layers = bilm.layers(SENTENCES)
    torch.testing.assert_close(output.places["input"], layers.mean(dim=0))
    torch.testing.assert_close(output.places["output"], 2.0 * layers[2])
    assert elmo.weights() == {
        "input": {"layers": pytest.approx([1 / 3] * 3), "gamma": 1.0},
        "output": {"layers": pytest.approx([0.0, 0.0, 1.0], abs=1e-6), "gamma": 2.0},
    }
    output.places["input"].sum().backward()
    assert elmo.mixes["input"].scalars.grad is not None
    assert elmo.mixes["output"].scalars.grad is None


def test_penalty_is_the_sum_over_places(bilm):
    elmo = Elmo(bilm, places=("input", "output"), l2=0.1)
    with torch.no_grad():
        elmo.mixes["input"].scalars.copy_(torch.tensor([1.0, 2.0, 0.0]))
        elmo.mixes["output"].scalars.copy_(torch.tensor([0.0, 0.0, 3.0]))
    assert elmo.penalty().item() == pytest.approx(0.1 * (1 + 4 + 9))
    assert Elmo(bilm, layers="last", l2=0.1).penalty().item() == 0.0


def test_dropout_only_in_training(bilm):
    elmo = Elmo(bilm, dropout=0.5)
    torch.manual_seed(0)
    plain = bilm.layers(SENTENCES).mean(dim=0)
    elmo.train()
    dropped = elmo(SENTENCES).places["input"]
    zeros = (dropped == 0) & (plain != 0)
    assert 0.3 < zeros.sum() / (plain != 0).sum() < 0.7
    torch.testing.assert_close(dropped[~zeros], 2.0 * plain[~zeros])  # the remaining values are scaled up
    elmo.eval()
    torch.testing.assert_close(elmo(SENTENCES).places["input"], plain)


def test_layer_choice_and_norm_reach_the_mix(bilm):
    layers = bilm.layers(SENTENCES)
    assert torch.equal(Elmo(bilm, layers="last", dropout=0.0)(SENTENCES).places["input"], layers[2])
    assert torch.equal(Elmo(bilm, layers=0, dropout=0.0)(SENTENCES).places["input"], layers[0])
    output = Elmo(bilm, layers=1, layer_norm=True, dropout=0.0)(SENTENCES)
    inside = output.places["input"][output.mask]
    assert inside.mean().item() == pytest.approx(0.0, abs=1e-6)
    assert inside.std(correction=0).item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("sentences", [[[], []], []])
def test_no_tokens(bilm, sentences):
    output = Elmo(bilm)(sentences)
    assert output.places["input"].shape == (len(sentences), 0, 16)
    assert output.mask.shape == (len(sentences), 0)


class Model(nn.Module):
    """A task model with ELMo; the biLM is a registered submodule."""

    def __init__(self, bilm):
        super().__init__()
        self.elmo = Elmo(bilm, places=("input", "output"), l2=0.01, dropout=0.1)
        self.head = nn.Linear(2 * bilm.dim, 3)

    def loss(self, sentences):
        output = self.elmo(sentences)
        x = torch.cat(list(output.places.values()), dim=-1)
        return self.head(x)[output.mask].square().sum() + self.elmo.penalty()


@pytest.mark.parametrize("unfreeze", [False, True])
def test_training_leaves_the_bilm_frozen(bilm, unfreeze):
    model = Model(bilm)
    if unfreeze:  # a careless `model.requires_grad_()` must not unfreeze it
        model.requires_grad_(True)
    fingerprint = bilm.fingerprint()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)  # all of them, as in elmo/README.md
    model.train()
    for _ in range(3):
        optimiser.zero_grad()
        model.loss(SENTENCES).backward()
        optimiser.step()

    assert bilm.fingerprint() == fingerprint
    assert all(parameter.grad is None for parameter in bilm.parameters())
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {
        "elmo.mixes.input.scalars",
        "elmo.mixes.input.gamma",
        "elmo.mixes.output.scalars",
        "elmo.mixes.output.gamma",
        "head.weight",
        "head.bias",
    }


@pytest.mark.parametrize("sentences", [["The play closed"], "The play closed", [["The", "play"], "closed"]])
def test_plain_text_is_refused(bilm, sentences):
    for compute in (Elmo(Counting(bilm)), bilm.layers, bilm.token_layers):
        with pytest.raises(InputError, match=r"expected sentences as lists of words, .* found the text '.*closed'"):
            compute(sentences)


@pytest.mark.parametrize("word", [None, float("nan"), 7, b"play"])
def test_words_that_are_not_text_are_refused(bilm, word):
    for compute in (Elmo(Counting(bilm)), bilm.layers, bilm.token_layers):
        with pytest.raises(
            InputError, match=rf"expected words as text, found {word} in the sentence \['The', {word}\]"
        ):
            compute([["The", "play"], ["The", word]])


def test_places_given_as_a_string_are_refused(bilm):
    with pytest.raises(InputError, match=r"places: expected a list of names, such as \['input'\], found the text"):
        Elmo(bilm, places="input")


def test_gradients_for_the_frozen_bilm_are_refused(bilm):
    with pytest.raises(InputError, match=r"the biLM is frozen.*python -m elmo\.pretrain"):
        bilm.requires_grad_()
    assert not bilm.layers(SENTENCES).requires_grad
    assert bilm.requires_grad_(False) is bilm
    assert not any(parameter.requires_grad for parameter in bilm.parameters())
