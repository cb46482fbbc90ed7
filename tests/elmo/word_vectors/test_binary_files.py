"""Binary files of word2vec and fastText: refused with a remedy, which is that of the help, and read after it."""

import numpy as np
import pytest

from elmo import word_vectors
from elmo.common.errors import InputError
from elmo.word_vectors import open_vectors


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_binary_files_are_text_after_the_lines_of_the_help(tmp_path, monkeypatch):
    pytest.importorskip("gensim", reason="needs pip install -e '.[word2vec]'")
    from gensim.models import FastText, KeyedVectors
    from gensim.models.fasttext import load_facebook_vectors, save_facebook_model

    text = [["the", "café", "in", "日本", "opens"], ["a", "dog", "and", "the", "cat"]] * 3
    model = FastText(text, vector_size=8, min_count=1, min_n=1, max_n=4, bucket=50, epochs=1, seed=1, workers=1)
    monkeypatch.chdir(tmp_path)
    save_facebook_model(model, "model.bin")
    model.wv.save_word2vec_format("vectors.bin", binary=True)
    for name in ("model.bin", "vectors.bin"):
        with pytest.raises(InputError, match=rf"{name}: expected lines: .* see python -m elmo\.word_vectors --help"):
            open_vectors(name)
    KeyedVectors.load_word2vec_format("vectors.bin", binary=True).save_word2vec_format("vectors.txt")
    load_facebook_vectors("model.bin").save_word2vec_format("model.txt")
    for line in (
        'KeyedVectors.load_word2vec_format("vectors.bin", binary=True).save_word2vec_format("vectors.txt")',
        'load_facebook_vectors("model.bin").save_word2vec_format("model.txt")',
    ):
        assert f"\n  {line}\n" in word_vectors.__doc__
    for name in ("model.txt", "vectors.txt"):
        found = open_vectors(name).pick()
        assert list(found) == model.wv.index_to_key
        for word, row in found.items():
            np.testing.assert_allclose(row, model.wv[word], rtol=1e-6, err_msg=word)
