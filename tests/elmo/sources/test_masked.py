"""The masked LM as a source of layers, compared with its definition in double precision."""

import copy
import random

import pytest
import torch

from elmo import FrozenSource, InputError
from elmo.sources.grid import GridLm, GridOptions, random_lm, windows
from tests.elmo.sources.naive_masked import OPTIONS, naive_layers

WORDS = ["we", "play", "chess", "包袱", "x" * 60, "a", "."]


def drawn_sentences(count, longest, seed=0):
    draw = random.Random(seed)
    return [draw.choices(WORDS, k=draw.randint(1, longest)) for _ in range(count)]


@pytest.fixture(scope="module")
def model():
    return random_lm(OPTIONS, seed=1)


def by_definition(model, sentence):
    """(layers, words, dim) in double precision."""
    exact = copy.deepcopy(model).double()
    vectors = exact.encoder.encode_words(["<S>", *sentence, "</S>"])
    return torch.stack(naive_layers(exact, vectors))[:, 1:-1]


def test_layers_equal_the_definition(model):
    sentences = [[], *drawn_sentences(6, 10), []]
    found = model.token_layers(sentences)
    wanted = torch.cat([by_definition(model, sentence) for sentence in sentences if sentence], dim=1)
    assert isinstance(model, FrozenSource)
    assert found.shape == (len(model.widths), sum(map(len, sentences)), model.widths[0]) == wanted.shape
    torch.testing.assert_close(found.double(), wanted, atol=2e-5, rtol=0)
    assert model.token_layers([]).shape == model.token_layers([[], []]).shape == (4, 0, 12)


def test_every_layer_but_the_first_depends_on_the_words_on_both_sides(model):
    sentence = ["we", "play", "chess"]
    at = model.token_layers([sentence])[:, 1]
    for other in (["a", "play", "chess"], ["we", "play", "."]):
        changed = (model.token_layers([other])[:, 1] - at).abs().amax(dim=1)
        assert changed[0] == 0
        assert (changed[1:] > 1e-3).all()


def test_the_layers_of_a_sentence_do_not_depend_on_its_batch_to_the_last_bit():
    model = random_lm(OPTIONS, seed=2)
    sentences = drawn_sentences(40, 25)
    together = model.token_layers(sentences).split([len(sentence) for sentence in sentences], dim=1)
    model.remember_words()
    for sentence, found in zip(sentences, together, strict=True):
        assert torch.equal(model.token_layers([sentence]), found)


@pytest.mark.parametrize("mode", [torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_words_remembered_in_inference_mode_or_autocast_serve_outside_it(mode):
    model = random_lm(OPTIONS, seed=2)
    expected = [model.token_layers([[word]]) for word in "abcd"]
    model.remember_words()
    with mode():
        for word, found in zip("abc", expected, strict=False):  # at the third the table of words has a free row
            assert torch.equal(model.token_layers([[word]]), found)
    for word, found in zip("abcd", expected, strict=True):
        assert torch.equal(model.token_layers([[word]]), found)


@pytest.mark.parametrize("longest", [2, 3, 10, 11])
def test_windows_give_each_word_once_and_far_from_cuts(longest):
    for length in range(1, 60):
        found = windows(length, longest)
        assert [word for window in found for word in range(window.first, window.last)] == list(range(length))
        for window in found:
            assert 0 <= window.start <= window.first < window.last <= window.end <= length
            assert window.end - window.start == min(length, longest)
            if window.start > 0:
                assert window.first - window.start >= longest // 4
            if window.end < length:
                assert window.end - window.last >= longest // 4


def test_a_long_sentence_is_read_in_windows(model):
    sentence = drawn_sentences(1, 10, seed=3)[0] + drawn_sentences(1, 10, seed=4)[0] + ["a"] * 20
    parts = [
        by_definition(model, sentence[w.start : w.end])[:, w.first - w.start : w.last - w.start]
        for w in windows(len(sentence), OPTIONS.longest)
    ]
    assert len(parts) > 1
    found = model.token_layers([["we"], sentence])[:, 1:]
    torch.testing.assert_close(found.double(), torch.cat(parts, dim=1), atol=2e-5, rtol=0)


def test_text_is_refused_where_words_belong(model):
    with pytest.raises(InputError, match="expected sentences as lists of words"):
        model.token_layers(["we play"])


def test_making_one_leaves_the_random_state_alone_and_draws_by_seed():
    before = torch.get_rng_state()
    hashes = {random_lm(OPTIONS, seed).fingerprint() for seed in (1, 1, 2)}
    assert torch.equal(torch.get_rng_state(), before)
    assert len(hashes) == 2
    assert not any(parameter.requires_grad for parameter in GridLm(OPTIONS).parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_heads": 5}, r"transformer.dim: expected a multiple of 2 x n_heads \(10\).*found 12"),
        ({"n_layers": 0}, "transformer.n_layers: expected at least 1, found 0"),
        ({"longest": 1}, "transformer.longest: expected at least 2, found 1"),
        ({"output_dim": 2.5}, "expected whole numbers under 'transformer', found output_dim=2.5"),
        ({"depth": 3}, "depth"),
    ],
)
def test_wrong_options_are_refused(change, message):
    content = OPTIONS.to_json()
    assert GridOptions.from_json(content) == OPTIONS
    with pytest.raises(InputError, match=f"here: .*{message}"):
        GridOptions.from_json({**content, "transformer": {**content["transformer"], **change}}, "here")
