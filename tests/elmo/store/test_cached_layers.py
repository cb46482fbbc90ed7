"""Tests of CachedLayers: the biLM's layers, computed once, in any order."""

import math
import random

import pytest
import torch
from torch import nn

import elmo.store.cached_layers
from elmo import Elmo, InputError
from elmo.common.progress import Reporter
from elmo.store.cached_layers import CachedLayers, first_within, in_batches, row_numbers, starts_from
from tests.elmo.store.stores import DISTINCT, SENTENCES, layers_of, sentences_embedded


def test_a_prepared_sentence_is_embedded_once(bilm, monkeypatch):
    cached = CachedLayers(bilm)
    embedded = sentences_embedded(bilm, monkeypatch)
    cached.prepare(SENTENCES[:20])
    cached.prepare(SENTENCES)
    layers_of(cached, SENTENCES)
    assert sorted(embedded) == sorted(DISTINCT)


def test_on_the_fly_a_batch_embeds_a_distinct_sentence_once(bilm, monkeypatch):
    """Premises of inference pairs repeat; some sentences are in memory, others are not."""
    cached = CachedLayers(bilm)
    cached.prepare(SENTENCES[:10])
    batch = [SENTENCES[i] for i in (12, 3, 12, 14, 3, 12, 9, 14)]
    expected = bilm.layers(batch)
    embedded = sentences_embedded(bilm, monkeypatch)
    torch.testing.assert_close(layers_of(cached, batch), expected, rtol=0, atol=1e-6)
    assert embedded == [SENTENCES[12], SENTENCES[14]]


def test_texts_of_one_batch_share_what_is_embedded(bilm, monkeypatch):
    cached = CachedLayers(bilm)
    cached.prepare(SENTENCES[13:15])
    first, second, third = SENTENCES[10:14], SENTENCES[12:16], SENTENCES[14:15]
    expected = [bilm.layers(text) for text in (first, second, third)]
    runs = []
    compute = bilm.token_layers
    monkeypatch.setattr(bilm, "token_layers", lambda batch, state=None: runs.append(list(batch)) or compute(batch))
    located = [cached.locate(text, [1] * len(text)) for text in (first, second, third)]
    assert runs == [], "locating computes nothing"
    for actual, layers in zip(cached.layers_at(located), expected, strict=True):
        torch.testing.assert_close(actual, layers, rtol=0, atol=1e-6)
    assert runs == [[*SENTENCES[10:13], SENTENCES[15]]]
    (actual,) = cached.layers_at(located[2:])
    torch.testing.assert_close(actual, expected[2], rtol=0, atol=1e-6)
    assert len(runs) == 1, "it is in memory"


def test_the_bits_do_not_depend_on_the_order_of_meeting(bilm, monkeypatch):
    monkeypatch.setattr(elmo.store.cached_layers, "TOKENS_AT_ONCE", 16)
    one, other = CachedLayers(bilm), CachedLayers(bilm)
    one.prepare(SENTENCES)
    other.prepare(random.Random(1).sample(SENTENCES, len(SENTENCES)))
    assert torch.equal(layers_of(one, SENTENCES), layers_of(other, SENTENCES))


def test_what_does_not_fit_is_counted_and_still_right(bilm):
    bytes_per_token = (bilm.dim // 2 + 2 * bilm.dim) * 4  # layer 0 is the same vector twice
    cached = CachedLayers(bilm, memory_gb=40 * bytes_per_token / 1e9)
    distinct = set(SENTENCES)
    left_out = cached.prepare(SENTENCES)
    assert 0 < left_out < len(distinct)
    assert 30 < len(cached._table) <= 40
    assert (
        cached.prepare([*SENTENCES, ("one", "more", "of", "ten", "words", "in", "all", "of", "them", ".")]) > left_out
    )
    assert len(cached._table) <= 40
    torch.testing.assert_close(layers_of(cached, SENTENCES), bilm.layers(SENTENCES), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("rows", "grows"), [(16, False), (17, True)])
def test_both_tables_count_while_one_grows(bilm, rows, grows):
    bytes_per_token = (bilm.dim // 2 + 2 * bilm.dim) * 4
    cached = CachedLayers(bilm, memory_gb=rows * bytes_per_token / 1e9)
    first, second = ("six", "words", "are", "here", "now", "."), ("three", "more", ".")
    assert cached.prepare([first]) == 0
    assert len(cached._table) == 1 + 6
    assert cached.prepare([first, second]) == (0 if grows else 1)
    assert len(cached._table) == (1 + 6 + 3 if grows else 1 + 6), "7 rows of the old table, 10 of the new one"
    torch.testing.assert_close(layers_of(cached, [second, first]), bilm.layers([second, first]), rtol=0, atol=1e-6)


def test_fingerprint_and_widths_are_those_of_the_bilm(bilm):
    cached = CachedLayers(bilm)
    cached.prepare(SENTENCES)
    assert (cached.dim, cached.widths, cached.fingerprint()) == (bilm.dim, bilm.widths, bilm.fingerprint())


def test_progress_is_shown_over_the_batches(bilm, monkeypatch):
    monkeypatch.setattr(elmo.store.cached_layers, "TOKENS_AT_ONCE", 16)
    seen = []

    class Tracker(Reporter):
        def track(self, items, total, what):
            seen.append((total, what))
            return items

    CachedLayers(bilm).prepare(SENTENCES, Tracker(quiet=True))
    ((total, what),) = seen
    assert total > 1
    assert what == "embedding"


class Interrupted(Reporter):
    """Ctrl-C in the second batch."""

    def track(self, items, total, what):
        yield items[0]
        raise KeyboardInterrupt


def test_what_was_interrupted_leaves_no_sentence_at_rows_of_another(bilm, monkeypatch):
    monkeypatch.setattr(elmo.store.cached_layers, "TOKENS_AT_ONCE", 16)
    cached = CachedLayers(bilm)
    cached.prepare(SENTENCES[:5])
    with pytest.raises(KeyboardInterrupt):
        cached.prepare(SENTENCES[5:20], Interrupted(quiet=True))
    assert torch.equal(layers_of(cached, SENTENCES), bilm.layers(SENTENCES)), "right after it"
    cached.prepare(SENTENCES[20:])
    assert torch.equal(layers_of(cached, SENTENCES), bilm.layers(SENTENCES)), "with other sentences in memory"
    assert cached.prepare(SENTENCES) == 0
    assert torch.equal(layers_of(cached, SENTENCES), bilm.layers(SENTENCES)), "prepared again"


@pytest.mark.parametrize("value", [1e6, -1e6])
def test_what_float16_could_not_hold_is_refused_again(bilm, value):
    cached = CachedLayers(bilm, precision="float16")
    with torch.no_grad():
        bilm.encoder.projection.bias[0] = value
    said = r"^elmo\.bilm\.model\.Bilm: .* float16 cannot hold, .* Use precision float32"
    for _ in range(2):
        with pytest.raises(InputError, match=said):
            cached.prepare(SENTENCES)
    with pytest.raises(InputError, match=said):
        layers_of(cached, SENTENCES)


def test_nan_is_no_matter_of_precision(bilm):
    with torch.no_grad():
        bilm.encoder.projection.bias[0] = math.nan
    with pytest.raises(InputError, match=r"Bilm: expected numbers .* reach nan\. .*check the weights"):
        CachedLayers(bilm, precision="float16").prepare(SENTENCES)


class Lengths:
    """Frozen layers that are no biLM's: layer j of a word is j times its length."""

    widths = (2, 2, 2, 2)

    def fingerprint(self):
        return "lengths"

    def token_layers(self, sentences):
        lengths = torch.tensor([float(len(word)) for sentence in sentences for word in sentence])
        return torch.arange(4.0)[:, None, None] * lengths[:, None].expand(-1, 2)


@pytest.mark.parametrize("wrapped", [CachedLayers, lambda source: source])
def test_any_frozen_layers_can_be_mixed(wrapped):
    elmo_layer = Elmo(wrapped(Lengths()), places=["input", "output"]).eval()
    output = elmo_layer([("a", "word"), ("long",)])
    expected = 1.5 * torch.tensor([[1.0, 4.0], [4.0, 0.0]])[..., None].expand(-1, -1, 2)  # the mean of 0, 1, 2, 3
    for place in ("input", "output"):
        torch.testing.assert_close(output.places[place], expected)


class TwoValues(nn.Module):
    """A module as a user may write it: trainable, with dropout, and of the shape it is given."""

    widths = (4, 2)

    def __init__(self, *shape):
        super().__init__()
        self.shape, self.scale, self.dropout = shape, nn.Parameter(torch.ones(())), nn.Dropout(0.5)

    def fingerprint(self):
        return "two values"

    def token_layers(self, sentences):
        return self.scale * self.dropout(torch.ones(self.shape))


def test_a_module_is_frozen_and_drops_nothing():
    """Also when the model around it trains; layer 1 stores two values, which it repeats."""
    model = nn.Sequential(CachedLayers(TwoValues(2, 3, 4))).train()
    layers = layers_of(model[0], [("a", "b"), ("c",)])
    assert torch.equal(layers[:, 0], torch.ones(2, 2, 4))
    assert not layers.requires_grad
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_layers_computed_in_a_step_with_autocast_are_those_of_the_cache(bilm, monkeypatch):
    weight = torch.rand(bilm.dim, bilm.dim)
    compute = bilm.token_layers
    monkeypatch.setattr(bilm, "token_layers", lambda batch: compute(batch) @ weight)  # a source of a user
    prepared, on_the_fly = CachedLayers(bilm), CachedLayers(bilm)
    prepared.prepare(SENTENCES)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(layers_of(on_the_fly, SENTENCES), layers_of(prepared, SENTENCES), rtol=0, atol=1e-6)


def test_layers_that_are_no_tensor_are_refused(monkeypatch):
    monkeypatch.setattr(TwoValues, "token_layers", lambda self, sentences: [[1.0] * 4])
    with pytest.raises(InputError, match=r"TwoValues: expected a tensor of .*, found \[\[1\.0, 1\.0, 1\.0, 1\.0\]\]"):
        CachedLayers(TwoValues()).prepare([("a", "b"), ("c",)])


@pytest.mark.parametrize("shape", [(1, 3, 4), (2, 2, 4), (2, 3, 5)])
def test_layers_of_another_shape_are_refused(shape):
    with pytest.raises(InputError, match=r"TwoValues: expected a tensor of the shape .* \(2, 3, 4\), found"):
        layers_of(CachedLayers(TwoValues(*shape)), [("a", "b"), ("c",)])


def test_widths_that_do_not_divide_the_largest_are_refused():
    source = TwoValues(2, 3, 4)
    source.widths = (4, 3)
    with pytest.raises(InputError, match=r"TwoValues: expected divisors of the largest, found \(4, 3\)"):
        CachedLayers(source)


A, B, C, EMPTY = ("a",), ("b", "b"), ("c", "c", "c"), ()


def test_sentences_follow_each_other_from_a_row_on():
    assert starts_from(5, [B, C, A]) == {B: 5, C: 7, A: 10}
    assert starts_from(5, []) == {}


@pytest.mark.parametrize(
    "starts",
    [[4, 9, 1, 20], [4, 0, 1, 20], [0] * 4],
    ids=["all", "one is nowhere", "none"],
)
def test_numbers_of_rows_are_0_for_padding_and_for_what_is_nowhere(starts):
    sentences = [B, C, EMPTY, A]
    counted = [
        [start + step if start else 0 for step in range(len(sentence))]
        for start, sentence in zip(starts, sentences, strict=True)
    ]
    assert row_numbers(starts, sentences, [4]).tolist() == [[number for row in counted for number in row]]
    assert row_numbers(starts, sentences, [1] * 4).tolist() == [row + [0] * (3 - len(row)) for row in counted]
    texts = [counted[0] + counted[1], counted[2], counted[3]]
    assert row_numbers(starts, sentences, [2, 1, 1]).tolist() == [row + [0] * (5 - len(row)) for row in texts]


def test_no_sentence_has_no_rows():
    assert row_numbers([], [], []).shape == (0, 0)
    assert row_numbers([7], [EMPTY], [1]).shape == (1, 0)


@pytest.mark.parametrize(("tokens", "fitting"), [(0, []), (2, [A]), (3, [A, B]), (5, [A, B]), (6, [A, B, C])])
def test_what_fits_is_taken_from_the_front(tokens, fitting):
    assert first_within(tokens, [A, B, C]) == fitting


def test_a_batch_has_so_many_tokens_at_most_or_one_longer_sentence():
    assert list(in_batches(3, [A, B, B, C, ("d",) * 9])) == [[A, B], [B], [C], [("d",) * 9]]
    assert list(in_batches(30, [A, B, B, C], size=2)) == [[A, B], [B, C]]
    assert list(in_batches(3, [])) == []
