"""A transformer as a source: sub-words of words, windows, batches, and what its fingerprint covers."""

import logging
import random
import re
import shutil
from itertools import pairwise

import pytest
import torch

from elmo.common.errors import InputError
from elmo.sources.transformer import WINDOW, Transformer, owners, windows_of
from elmo.store.cached_layers import CachedLayers
from tests.elmo.sources import tiny_transformers

transformers = pytest.importorskip("transformers", reason="needs the extra `transformer`")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # DeBERTa's code uses it
KINDS = ("bert", "distilbert", "roberta", "deberta", "gpt2")
SENTENCES = [
    ["Ada", "plays", "unbelievable", "chess", "."],
    ["the", "cat"],
    ["playing", "on", "the", "river", "bank"],
    ["sat", "\x00", "qqq"],  # BERT's normaliser leaves nothing of the second, and does not know the third
]


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    return tiny_transformers.save(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_transformers.save(tmp_path_factory.mktemp("bert"), "bert")


def longest_pieces(word, vocabulary):
    """The sub-words of a word in a vocabulary of word pieces, the longest first."""
    found, start = [], 0
    while start < len(word):
        ends = range(len(word), start, -1)
        pieces = ["##" * (start > 0) + word[start:end] for end in ends]
        piece, end = next(((p, e) for p, e in zip(pieces, ends, strict=True) if p in vocabulary), (None, None))
        if piece is None:
            return [vocabulary["[UNK]"]]
        found.append(vocabulary[piece])
        start = end
    return found


class TestWords:
    def test_pieces_are_the_longest_of_the_vocabulary(self, bert):
        source = Transformer(bert)
        vocabulary = source.tokeniser.get_vocab()
        words = [word for sentence in SENTENCES[:3] for word in sentence]
        expected = [longest_pieces(word, vocabulary) for word in words]
        assert source.subwords(words) == expected
        assert max(map(len, expected)) == 3, "un ##believ ##able"
        assert source.subwords(["\x00", "qqQ", "\ud800"]) == [[vocabulary["[UNK]"]]] * 3
        assert source.subwords(["cat\udcff"]) == [[vocabulary["cat"]]]

    def test_words_spelled_like_marks_are_text(self, saved):
        source = Transformer(saved)
        tokeniser, vocabulary = source.tokeniser, source.tokeniser.get_vocab()
        for mark in tokeniser.all_special_tokens:
            (found,) = source.subwords([mark])
            if source._space:
                assert found == [vocabulary[letter] for letter in "Ġ" + mark], "no two of its letters are in TEXT"
            else:  # the vocabulary has neither the brackets nor what is between them
                assert found == [vocabulary["[UNK]"]] * 3

    @pytest.mark.parametrize("pooling", ["first", "mean"])
    def test_layers_are_those_of_the_words_own_sub_words(self, saved, pooling):
        """Words are found in the model's own reading of a sentence, as the tokeniser numbers them."""
        model, tokeniser = (
            kind.from_pretrained(saved) for kind in (transformers.AutoModel, transformers.AutoTokenizer)
        )
        model.eval()
        byte_level = "ByteLevel" in repr(tokeniser.backend_tokenizer.pre_tokenizer)
        if byte_level:  # the tokeniser that these models have for words: all of them after a space
            from tokenizers.pre_tokenizers import ByteLevel

            tokeniser.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
        sentences = SENTENCES if byte_level else SENTENCES[:3]
        expected = []
        for sentence in sentences:
            encoded = tokeniser(sentence, is_split_into_words=True)
            ids, words = encoded["input_ids"], encoded.word_ids()
            if not tokeniser.cls_token and tokeniser.all_special_ids[0] not in ids:  # GPT-2: its start mark
                ids, words = [tokeniser.bos_token_id, *ids], [None, *words]
            with torch.no_grad():
                layers = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
            for number in range(len(sentence)):
                own = [i for i, word in enumerate(words) if word == number]
                assert own
                own = own[:1] if pooling == "first" else own
                expected.append(torch.stack([layer[0, own].mean(dim=0) for layer in layers]))
        source = Transformer(saved, pooling).requires_grad_(False)
        found = source.token_layers(sentences)
        assert found.shape == (len(source.widths), sum(map(len, sentences)), source.widths[0]) == (3, len(expected), 16)
        torch.testing.assert_close(found, torch.stack(expected, dim=1), rtol=0, atol=1e-5)

    def test_a_sentence_does_not_depend_on_its_batch(self, saved):
        source = Transformer(saved, "mean", window=12, overlap=3)
        together = CachedLayers(source).token_layers([*SENTENCES, [], SENTENCES[0]])
        alone = torch.cat([CachedLayers(source).token_layers([s]) for s in [*SENTENCES, SENTENCES[0]]], dim=1)
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)
        assert CachedLayers(source).token_layers([[], []]).shape == (3, 0, 16)


class TestTuning:
    def test_padded_batches_have_the_layers_of_the_frozen_model(self, saved):
        frozen, tuned = (Transformer(saved, "mean", window=12, overlap=3) for _ in range(2))
        assert tuned.tuned
        found = tuned.eval().token_layers([*SENTENCES, []])
        expected = frozen.requires_grad_(False).token_layers([*SENTENCES, []])
        torch.testing.assert_close(found.detach(), expected, rtol=0, atol=1e-5)
        found.square().sum().backward()
        grouped = tuned.parameter_groups()
        assert sorted(id(weight) for group in grouped for weight in group) == sorted(map(id, tuned.parameters()))
        for group in grouped:
            assert any(weight.grad is not None and weight.grad.any() for weight in group)

    def test_a_mark_for_padding_that_the_model_lacks_is_not_read(self, tmp_path):
        """Users add such a mark to the tokeniser of a decoder."""
        gpt2 = tiny_transformers.save(tmp_path / "gpt2", "gpt2")
        expected = Transformer(gpt2).requires_grad_(False).token_layers(SENTENCES)
        tokeniser = transformers.AutoTokenizer.from_pretrained(gpt2)
        tokeniser.add_special_tokens({"pad_token": "[PAD]"})
        tokeniser.save_pretrained(gpt2)
        found = Transformer(gpt2).token_layers(SENTENCES)
        torch.testing.assert_close(found.detach(), expected, rtol=0, atol=1e-5)

    def test_groups_are_layers_from_the_bottom(self, saved):
        source = Transformer(saved)
        name = {id(weight): name for name, weight in source.named_parameters()}
        bottom, first, last = ([name[id(weight)] for weight in group] for group in source.parameter_groups())
        assert all(re.search(r"embed|wte|wpe", one) for one in bottom)
        assert all(".0." in one for one in first)
        assert all(".1." in one or "ln_f" in one or "rel_embeddings" in one for one in last)


class TestWindows:
    @pytest.mark.parametrize("seed", range(20))
    def test_they_cover_the_text_and_words_have_most_context(self, seed):
        draw = random.Random(seed)
        capacity = draw.randint(3, 12)
        overlap = draw.randint(0, capacity - 1)
        lengths = [draw.randint(1, min(4, capacity)) for _ in range(draw.randint(1, 30))]
        windows = windows_of(lengths, capacity, overlap)
        assert windows[0].start == 0
        assert windows[-1].stop == len(lengths)
        for window, following in pairwise(windows):
            assert window.start < following.start <= window.stop < following.stop
            assert sum(lengths[following.start : window.stop]) <= overlap
        for window in windows:
            assert sum(lengths[window.start : window.stop]) <= capacity
            full = window.stop == len(lengths) or sum(lengths[window.start : window.stop + 1]) > capacity
            assert full

        def context(word, window):
            left, right = sum(lengths[window.start : word]), sum(lengths[word + 1 : window.stop])
            missing_left, missing_right = window.start > 0, window.stop < len(lengths)
            return min(left if missing_left else 999, right if missing_right else 999)

        for word, owner in enumerate(owners(lengths, windows)):
            having = [n for n, window in enumerate(windows) if word in window]
            assert owner == max(having, key=lambda n: (context(word, windows[n]), -n))

    def test_an_example_by_hand(self):
        """The word of three sub-words is longer than the overlap, so the last window shares nothing."""
        windows = windows_of([1, 2, 1, 1, 3, 1], 5, 2)
        assert windows == [range(0, 4), range(2, 5), range(5, 6)]
        assert owners([1, 2, 1, 1, 3, 1], windows) == [0, 0, 0, 1, 1, 2]

    def test_a_text_that_fits_is_read_whole_and_a_longer_one_word_by_word_in_its_window(self, bert):
        text = [word for sentence in SENTENCES[:3] for word in sentence]  # 12 words, 16 sub-words
        model = transformers.AutoModel.from_pretrained(bert).eval()
        source = Transformer(bert, window=10, overlap=4).requires_grad_(False)
        pieces = source.subwords(text)
        lengths = list(map(len, pieces))
        windows = windows_of(lengths, 8, 4)
        assert len(windows) > 2

        def layers_of(window):
            ids = [2, *(i for word in pieces[window.start : window.stop] for i in word), 3]
            with torch.no_grad():
                layers = torch.stack(model(torch.tensor([ids]), output_hidden_states=True).hidden_states)[:, 0]
            starts = [1 + sum(lengths[window.start : word]) for word in window]
            return layers[:, starts]

        read = [layers_of(window) for window in windows]
        expected = [read[n][:, word - windows[n].start] for word, n in enumerate(owners(lengths, windows))]
        torch.testing.assert_close(source.token_layers([text]), torch.stack(expected, 1), rtol=0, atol=1e-5)
        whole = layers_of(range(0, len(text)))
        for window in (18, 60, 512):  # 16 sub-words and two marks, all positions, more than there are
            fits = Transformer(bert, window=window, overlap=4).requires_grad_(False)
            torch.testing.assert_close(fits.token_layers([text]), whole, rtol=0, atol=1e-5)

    def test_without_context_in_the_model_windows_equal_the_whole(self, bert):
        text = [word for sentence in SENTENCES[:3] for word in sentence] * 2
        found = []
        for window in (10, 140):
            source = Transformer(bert, "mean", window=window, overlap=3).requires_grad_(False)
            for name, parameter in source.model.named_parameters():
                if "position_embeddings" in name or "attention.output.dense" in name:
                    parameter.zero_()
            found.append(source.token_layers([text]))
        torch.testing.assert_close(*found, rtol=0, atol=1e-6)

    def test_a_word_longer_than_a_window_keeps_its_first_sub_words(self, bert):
        source = Transformer(bert, window=10, overlap=2).requires_grad_(False)
        long = "play" + "able" * 20
        assert len(source.subwords([long])[0]) == 8
        assert torch.isfinite(source.token_layers([["the", long, "cat"]])).all()

    def test_positions_that_a_model_has_bound_the_window(self, saved):
        source = Transformer(saved).requires_grad_(False)
        assert source.window == tiny_transformers.POSITIONS
        assert source.overlap == source.capacity // 2, "the default, 128, would be nearly all of it"
        assert torch.isfinite(source.token_layers([["chess"] * 150])).all()

    def test_a_model_for_any_number_of_positions(self, tmp_path):
        """XLNet's config has -1 for it."""
        folder = tiny_transformers.save(tmp_path / "bert", "bert")
        size = transformers.AutoConfig.from_pretrained(folder).vocab_size
        config = transformers.XLNetConfig(vocab_size=size, d_model=16, n_layer=1, n_head=2, d_inner=24)
        transformers.XLNetModel(config).save_pretrained(folder)
        assert Transformer(folder).window == WINDOW

    @pytest.mark.parametrize("overlap", [-1, 98])
    def test_an_overlap_as_long_as_a_window(self, bert, overlap):
        with pytest.raises(InputError, match="less than the 98 sub-words of a window"):
            Transformer(bert, window=100, overlap=overlap)

    def test_a_window_without_room_for_a_word(self, bert):
        with pytest.raises(InputError, match="window: expected at least 3, found 2"):
            Transformer(bert, window=2, overlap=0)


class TestFingerprint:
    def test_it_covers_weights_and_settings_and_no_folder(self, bert, tmp_path):
        folder = tmp_path / "elsewhere"
        shutil.copytree(bert, folder)
        other = tiny_transformers.save(tmp_path / "other", "bert", seed=1)
        first = Transformer(bert).fingerprint()
        assert Transformer(str(folder)).fingerprint() == first
        changed = [
            Transformer(bert, "mean"),
            Transformer(bert, window=30, overlap=4),
            Transformer(bert, overlap=5),
            Transformer(other),
        ]
        found = [first, *(source.fingerprint() for source in changed)]
        assert len(set(found)) == len(found)

    def test_the_pooler_is_left_out_and_nothing_is_drawn(self, tmp_path):
        """A file without it would get random weights, and so a new hash in every run."""
        saved = tiny_transformers.save(tmp_path / "bert", "bert")
        model = transformers.BertModel.from_pretrained(saved, add_pooling_layer=False)
        model.save_pretrained(saved)
        torch.manual_seed(3)
        state = torch.random.get_rng_state()
        found = {Transformer(saved).fingerprint() for _ in range(2)}
        assert len(found) == 1
        assert torch.equal(torch.random.get_rng_state(), state)

    def test_weights_of_an_output_layer_are_left_out_without_a_word(self, bert, tmp_path, monkeypatch):
        """Models of the hub have such a layer; transformers would print a table of its weights."""
        model = transformers.BertForMaskedLM.from_pretrained(bert)
        shutil.copytree(bert, tmp_path / "hub")
        model.save_pretrained(tmp_path / "hub")
        printed = []
        logger = transformers.utils.logging.get_logger("transformers")
        monkeypatch.setattr(logger, "handlers", [ListHandler(printed)])
        assert len(Transformer(str(tmp_path / "hub")).model.state_dict()) < len(model.state_dict())
        assert printed == []
        transformers.AutoModel.from_pretrained(tmp_path / "hub")
        assert "cls.predictions.bias" in printed[0], "as before, where others load a model"


class ListHandler(logging.Handler):
    """Keeps messages in a list."""

    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def emit(self, record):
        self.kept.append(record.getMessage())
