"""Settings of word vectors: words without a vector, and the shape of a word."""

import pytest
import torch

from elmo import InputError
from tasks.features.token_features import TokenFeatures
from tests.tasks.making import words_only

TRAIN = [("The", "cat", "sat", "."), ("Dogs", "bark", "!"), ("I", "am", "unheard", "of")]


class TestUnknown:
    def test_zero_is_for_all_words_without_a_vector(self, vectors):
        features = TokenFeatures(words_only(vectors, unknown="zero"), TRAIN, 1)
        assert features.training_words == ("the", "cat", "sat", ".", "dogs")
        for mode in (True, False):
            batch = features.train(mode)(TRAIN)
            assert batch.input[1].tolist() == [[4, 10, 100], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
            assert batch.input[2].abs().sum() == 0
        assert features.eval()([("unicorn", "zxqwv")]).input[0].tolist() == [[5, 10, 100], [0, 0, 0]]

    def test_a_table_built_from_its_words_is_the_same(self, vectors):
        features = TokenFeatures(words_only(vectors, unknown="zero"), TRAIN, 1)
        again = TokenFeatures(words_only(vectors, unknown="zero"), [features.training_words], 1)
        assert torch.equal(again.words, features.words)

    def test_words_without_a_vector_get_no_gradient(self, vectors):
        features = TokenFeatures(words_only(vectors, unknown="zero"), TRAIN, 1)
        features([TRAIN[2]]).input.sum().backward()
        assert not features.words.grad.any()

    @pytest.mark.parametrize(("unknown", "message"), [("zero", "expected pretrained"), ("x", "expected drawn or zero")])
    def test_bad_settings(self, unknown, message):
        with pytest.raises(InputError, match=rf"features\.words\.unknown.*{message}"):
            TokenFeatures(words_only(unknown=unknown), TRAIN, 1)


class TestCasing:
    def test_the_shape_follows_the_word_vector(self, vectors):
        words = ("cat", "Cat", "I", "CAT", "iPhone", "U.S.", "e.g.", "1996", "B-52", "...", "😀", "İ", "东京")
        shapes = [0, 1, 1, 2, 3, 2, 0, 4, 1, 5, 5, 1, 0]
        plain = TokenFeatures(words_only(vectors), TRAIN, 1).eval()([words, ("Cat",)]).input
        features = TokenFeatures(words_only(vectors, casing=True), TRAIN, 1).eval()
        assert features.widths["input"] == plain.shape[-1] + 6
        batch = features([words, ("Cat",)]).input
        assert torch.equal(batch[..., :-6], plain)
        assert batch[0, :, -6:].tolist() == torch.eye(6)[shapes].tolist()
        assert batch[1, 0, -6:].tolist() == [0, 1, 0, 0, 0, 0]
        assert not batch[1, 1:].any(), "padding has no shape"
