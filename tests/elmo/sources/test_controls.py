"""Controls: each keeps the width of the biLM and lacks what its name says."""

from itertools import permutations

import pytest
import torch

from elmo import load_bilm, random_bilm, save_bilm
from elmo.sources import controls
from elmo.sources.bilm import in_int8
from elmo.sources.controls import CONTROLS, MATCHING_TEXT, Matched, in_context, shuffled, untrained

TEXT = [line.split() for line in MATCHING_TEXT.read_text().splitlines()]
SENTENCES = [["The", "old", "bank", "of", "the", "river", "was", "steep"], ["We", "play", "chess", "and", "a", "game"]]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("bilm") / "weights.safetensors"
    save_bilm(random_bilm("tiny", 5), path)
    return str(path)


def mean_cosine(layer):
    """Over all pairs of different tokens, (tokens, dim)."""
    unit = torch.nn.functional.normalize(layer.double(), dim=-1)
    n = len(unit)
    return float(((unit @ unit.t()).sum() - n) / (n * (n - 1)))


def test_matched_has_the_lengths_of_the_trained_bilm_and_no_mean_on_other_sentences(repository):
    """On sentences that neither comes from; the shuffled biLM has neither, and is as long in no layer."""
    blocks = (repository / "tasks" / "mini" / "ner" / "dev.txt").read_text().split("\n\n")[:30]
    sentences = [[line.split()[0] for line in block.splitlines() if line] for block in blocks]
    control = Matched("small", 0)
    trained, plain, found = (own.token_layers(sentences) for own in (load_bilm("small"), control.source, control))
    lengths = [layers.norm(dim=2).mean(dim=1) for layers in (trained, plain, found)]
    torch.testing.assert_close(lengths[2], lengths[0], rtol=0.1, atol=0)
    assert (lengths[1][1:] > 3 * lengths[0][1:]).all()
    assert max(abs(mean_cosine(layer)) for layer in found) < 0.1


def test_matched_is_shuffled_less_a_mean_and_times_a_number_that_no_batch_changes(weights):
    source, control = shuffled(weights, 3), Matched(weights, 3)
    text = source.token_layers(TEXT).double()
    centred = text - text.mean(dim=1, keepdim=True)
    together = control.token_layers(SENTENCES)
    for layer in range(3):
        length = load_bilm(weights).token_layers(TEXT)[layer].double().norm(dim=1).mean()
        own = source.token_layers(SENTENCES)[layer] - text[layer].mean(dim=0)
        torch.testing.assert_close(together[layer], (own * length / centred[layer].norm(dim=1).mean()).float())
    assert torch.equal(control.token_layers(SENTENCES[1:]), together[:, len(SENTENCES[0]) :])
    torch.testing.assert_close(control.token_layers(TEXT).mean(dim=1), torch.zeros(3, 16), rtol=0, atol=1e-6)
    assert control.widths == source.widths


def test_shuffled_keeps_the_values_of_each_tensor_and_no_order(weights):
    trained, control = (bilm.state_dict() for bilm in (load_bilm(weights), shuffled(weights, 1)))
    assert trained.keys() == control.keys()
    for name, tensor in trained.items():
        assert torch.equal(tensor.flatten().sort().values, control[name].flatten().sort().values), name
        if len(tensor.unique()) > 4:
            assert not torch.equal(tensor, control[name]), name
    assert torch.isfinite(shuffled(weights, 1).token_layers(SENTENCES)).all()


def test_draws_and_controls_have_fingerprints_of_their_own(weights):
    makers = [untrained, *CONTROLS.values()]
    found = [make(weights, draw).fingerprint() for make in makers for draw in (0, 1)]
    assert len({load_bilm(weights).fingerprint(), *found}) == 1 + len(found)
    assert [make(weights, draw).fingerprint() for make in makers for draw in (0, 1)] == found


def test_controls_in_int8_have_fingerprints_of_their_own(weights):
    for kind in (shuffled, Matched):
        exact, rounded = kind(weights, 1), in_int8(kind(weights, 1))
        assert rounded.fingerprint() != exact.fingerprint()
        assert not torch.equal(rounded.token_layers([["some", "words"]]), exact.token_layers([["some", "words"]]))


def test_another_text_is_another_source(weights, tmp_path):
    (tmp_path / "text").write_text("A word or two\n")
    other = Matched(weights, 0, tmp_path / "text")
    assert other.fingerprint() != Matched(weights, 0).fingerprint()
    assert not torch.equal(other.token_layers(SENTENCES), Matched(weights, 0).token_layers(SENTENCES))


class Neighbours:
    """A source whose layer 0 is the word's number, and whose layer 1 sums the numbers of all words that it reads."""

    widths = (1, 1)

    def fingerprint(self):
        return "ab" * 32

    def token_layers(self, sentences):
        words = [[float(ord(word)) for word in sentence] for sentence in sentences]
        own = torch.tensor([number for sentence in words for number in sentence])
        read = torch.tensor([sum(sentence) for sentence in words for _ in sentence])
        return torch.stack([own, read]).unsqueeze(-1)


class TestContext:
    """Each rung of the ladder, on a biLM and on a source whose layers say what it read."""

    @pytest.fixture
    def bilm(self, weights):
        return load_bilm(weights)

    def test_a_word_alone_is_a_sentence_of_one_word(self, bilm):
        alone = in_context(bilm, "isolated")
        assert torch.equal(alone.token_layers(SENTENCES), bilm.token_layers([[word] for s in SENTENCES for word in s]))
        assert torch.equal(alone.token_layers([["bank"]]), bilm.token_layers([["bank"]]))

    @pytest.mark.parametrize("context", ["window8", "window20"])
    def test_a_window_as_long_as_the_sentence_is_the_sentence(self, bilm, context):
        assert torch.equal(in_context(bilm, context).token_layers(SENTENCES), bilm.token_layers(SENTENCES))

    @pytest.mark.parametrize(("reach", "expected"), [(1, [3, 6, 9, 12, 9]), (2, [6, 10, 15, 14, 12])])
    def test_a_window_has_its_neighbours_and_no_more(self, reach, expected):
        source = in_context(Neighbours(), f"window{reach}")
        own, read = source.token_layers([[chr(number) for number in range(1, 6)]]).squeeze(-1).tolist()
        assert own == [1, 2, 3, 4, 5]
        assert read == expected

    def test_vectors_of_a_permuted_sentence_return_to_their_words(self, bilm):
        """Layer 0 of a biLM knows the word alone, so it stays; the order that was read is one of all 720."""
        (sentence,) = SENTENCES[1:]
        permuted, whole = in_context(bilm, "permuted").token_layers([sentence]), bilm.token_layers([sentence])
        assert torch.equal(permuted[0], whole[0])
        assert not torch.allclose(permuted[1:], whole[1:])
        orders = list(permutations(range(len(sentence))))
        read = bilm.token_layers([[sentence[index] for index in order] for order in orders]).unflatten(1, (-1, 6))
        found = [o for k, o in enumerate(orders) if torch.equal(read[:, k], permuted[:, list(o)])]
        assert len(found) == 1

    @pytest.mark.parametrize("context", ["isolated", "window1", "window3", "permuted"])
    def test_a_sentence_has_the_same_vectors_in_any_batch(self, bilm, context, monkeypatch):
        source = in_context(bilm, context)
        together = source.token_layers([*TEXT[:20], *SENTENCES])
        monkeypatch.setattr(controls, "_MOST_TOKENS", 10)
        assert torch.equal(source.token_layers([*TEXT[:20], *SENTENCES]), together)
        assert torch.equal(source.token_layers(SENTENCES[1:]), together[:, -len(SENTENCES[1]) :])
        assert source.widths == bilm.widths

    def test_each_context_has_a_fingerprint_of_its_own(self, bilm):
        names = ("whole", "isolated", "window1", "window3", "permuted")
        assert len({in_context(bilm, name).fingerprint() for name in names}) == len(names)
        assert in_context(bilm, "whole") is bilm
