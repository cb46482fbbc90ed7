"""Tests of elmo.check_source: a source that can be used gets a line, any other one a list of what is wrong."""

import hashlib
import re

import pytest
import torch
from torch import nn

import elmo
from elmo import InputError, random_bilm


class Lengths:
    """Layer 0 has the length of the word, layer 1 the number of words before it, twice."""

    def __init__(self, factor=1.0):
        self.factor, self.widths = factor, (4, 2)

    def fingerprint(self):
        return hashlib.sha256(f"lengths {self.factor}".encode()).hexdigest()

    def token_layers(self, sentences):
        own = torch.tensor([[float(len(word))] * 4 for sentence in sentences for word in sentence])
        before = torch.tensor([[float(place)] * 4 for sentence in sentences for place in range(len(sentence))])
        return self.factor * torch.stack([own, before])


class Drawn(Lengths):
    def token_layers(self, sentences):
        return super().token_layers(sentences) + torch.rand(())


class Batched(Lengths):
    def token_layers(self, sentences):
        layers = super().token_layers(sentences)
        return layers - layers.mean(dim=1, keepdim=True)


class Counting(Lengths):
    calls = 0

    def fingerprint(self):
        return hashlib.sha256(str(self.calls).encode()).hexdigest()

    def token_layers(self, sentences):
        self.calls += 1
        return super().token_layers(sentences)


class Unhashed(Lengths):
    def fingerprint(self):
        return "lengths"


class Plain:
    """No fingerprint of its own: that of its attributes."""

    widths = (4, 2)

    def __init__(self, factor=1.0):
        self.factor = factor

    token_layers = Lengths.token_layers


class OneLayer(Lengths):
    def token_layers(self, sentences):
        return super().token_layers(sentences)[:1]


class NotRepeated(Lengths):
    def token_layers(self, sentences):
        return super().token_layers(sentences) + torch.arange(4.0)


class Forgetful(Lengths):
    def fingerprint(self):
        return hashlib.sha256(b"lengths").hexdigest()


class Module(nn.Module):
    """Of matrix products, whose last bits depend on the batch, with dropout, which a run turns off."""

    def __init__(self, values=16):
        super().__init__()
        self.widths = (values,)
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(2, 300), nn.Tanh(), nn.Dropout(0.5), nn.Linear(300, values))

    fingerprint = Lengths.fingerprint
    factor = 1.0

    def token_layers(self, sentences):
        found = [[float(len(word)), float(place)] for sentence in sentences for place, word in enumerate(sentence)]
        return self.layers(torch.tensor(found))[None]


@pytest.mark.parametrize("source", [Lengths(), Module(), Plain()])
def test_a_source_that_can_be_used(source):
    name = rf"{re.escape(__name__)}\.{type(source).__name__}"
    assert re.fullmatch(
        rf"{name}: [12] layers of (4|16) values, the same twice and in any batch; fingerprint [0-9a-f]{{12}}, with the "
        rf"code of {re.escape(__name__)}; [\d.e+-]+ ms for 1,000 tokens on cpu",
        elmo.check_source(source),
    )


def test_a_bilm_has_no_code_of_a_user():
    bilm = random_bilm("tiny", seed=3)
    assert f"fingerprint {bilm.fingerprint()[:12]}; " in elmo.check_source(bilm)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (Drawn(), "Drawn: expected the same layers twice, found a relative difference of .* fixed seed"),
        (Batched(), "Batched: expected the layers of a sentence to depend on that sentence alone, found"),
        (Counting(), "Counting: expected one fingerprint, found another one after a call"),
        (Unhashed(), r"fingerprint\(\) of .*Unhashed: expected a hash of 16 or more hexadecimal digits"),
        (OneLayer(), r"OneLayer: expected a tensor of the shape \(layers, tokens, dim\)"),
        (NotRepeated(), "NotRepeated: expected layer 1 to repeat its first 2 values, see widths, found others"),
        (
            Plain(torch.ones(1)),
            r"Plain: expected numbers and texts as attributes, found factor, .* Define fingerprint\(\)",
        ),
        (Lengths(torch.nan), "Lengths: expected finite numbers, found NaN"),
        (object(), "expected builtins.object to have widths and .* found no widths"),
    ],
)
def test_what_is_wrong_is_named(source, problem):
    with pytest.raises(InputError, match=problem) as error:
        elmo.check_source(source)
    assert str(error.value).count("\n") == 0


def test_all_that_is_wrong_is_named_at_once():
    class Both(Drawn, Counting):
        pass

    with pytest.raises(InputError, match=r"the same layers twice(.|\n)*one fingerprint"):
        elmo.check_source(Both())


def test_other_settings_have_another_fingerprint():
    elmo.check_source(Lengths(), Lengths(2.0))
    elmo.check_source(Plain(), Plain(2.0))
    elmo.check_source(Forgetful(), Forgetful())
    with pytest.raises(InputError, match="expected another fingerprint for other layers, found the same"):
        elmo.check_source(Forgetful(), Forgetful(2.0))


def test_values_beyond_float16_need_another_precision():
    assert "too large for float16: set precision: float32" in elmo.check_source(Lengths(1e5))


def test_a_class_in_place_of_a_source():
    with pytest.raises(InputError, match=r"such as TestSource\(\.\.\.\), found its class"):
        elmo.check_source(type("TestSource", (), {}))
