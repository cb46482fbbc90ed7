import numpy as np
import pytest
import torch

from elmo.bilm import encoder
from elmo.bilm.sentences import character_ids
from elmo.bilm.weight_files import load_bilm
from tests.elmo import naive

# One word of every length in bytes from 0 to 60, and the two marks, shuffled.
WORDS = [("abcdefghij" * 6)[:n] for n in range(61)] + ["<S>", "</S>", "中文" * 7, "😀", "Zürich"]
WORDS = [WORDS[i] for i in np.random.default_rng(0).permutation(len(WORDS))]


@pytest.fixture
def make(tmp_path):
    def build(**changes):
        options = naive.make_options(**changes)
        tensors = naive.make_tensors(options, seed=4)
        return load_bilm(naive.write_model(tmp_path, options, tensors)).encoder, options, tensors

    return build


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("n_highway", [0, 1, 2])
def test_equals_the_naive_encoder(make, activation, n_highway, monkeypatch):
    monkeypatch.setattr(encoder, "WORDS_AT_ONCE", 13)  # several groups, each with another width
    model, options, tensors = make(activation=activation, n_highway=n_highway)
    expected = np.array([naive.word_vector(tensors, options, word) for word in WORDS])
    with torch.no_grad():
        found = model.encode_words(WORDS).numpy()
    np.testing.assert_allclose(found, expected, atol=5e-6)


def test_less_padding_is_exact(make):
    # Some filters respond to padding more strongly than to any letter: one window of padding must be kept.
    model, options, _ = make()
    widest = max(width for width, _ in options["char_cnn"]["filters"])
    for n in range(50):
        words = ["q" * n]
        whole, cut = (torch.from_numpy(character_ids(words, room=room)) for room in (None, widest))
        with torch.no_grad():
            torch.testing.assert_close(model(cut), model(whole), rtol=0, atol=4e-6)


def test_padding_can_be_the_maximum(make):
    # Shows that the test above can fail: with one position less of padding the widest filter changes.
    model, options, _ = make()
    widest = max(width for width, _ in options["char_cnn"]["filters"])
    differences = []
    for n in range(8):
        whole, short = (torch.from_numpy(character_ids(["q" * n], room=room)) for room in (None, widest - 1))
        with torch.no_grad():
            differences.append(float((model(short) - model(whole)).abs().max()))
    assert max(differences) > 1e-3


def test_many_groups_equal_one(make, monkeypatch):
    model, _, _ = make()
    words = [f"word{i}" * (i % 9) for i in range(300)]
    with torch.no_grad():
        at_once = model.encode_words(words)
        monkeypatch.setattr(encoder, "WORDS_AT_ONCE", 7)
        in_groups = model.encode_words(words)
    torch.testing.assert_close(in_groups, at_once, rtol=0, atol=2e-6)


def test_gradients_of_many_groups_are_equal_in_every_call(make, monkeypatch):
    """Of groups that threads encoded, some gradients were lost, and the others were summed in any order."""
    monkeypatch.setattr(encoder, "WORDS_AT_ONCE", 7)
    model, options, _ = make()
    model.requires_grad_()
    words = [f"word{i}" * (i % 9) for i in range(300)]
    slopes = torch.randn(len(words), options["lstm"]["projection_dim"], generator=torch.Generator().manual_seed(1))

    def gradients():
        return torch.autograd.grad((model.encode_words(words) * slopes).sum(), list(model.parameters()))

    first = gradients()
    assert all(torch.equal(found, before) for _ in range(3) for found, before in zip(gradients(), first, strict=True))


def test_no_words(make):
    model, options, _ = make()
    assert model.encode_words([]).shape == (0, options["lstm"]["projection_dim"])
