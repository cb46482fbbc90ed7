"""Binary files of word2vec, read as gensim writes them and as their format says."""

import gzip

import numpy as np
import pytest

from elmo.common.errors import InputError
from elmo.word_vectors import open_vectors

WORDS = ("cat", "dog", "日本", "café")
VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def word2vec_file(path, newline=b""):
    entries = b"".join(word.encode() + b" " + row.tobytes() + newline for word, row in zip(WORDS, VECTORS, strict=True))
    content = b"4 3\n" + entries
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(("name", "newline"), [("v.bin", b""), ("v.bin", b"\n"), ("v.bin.gz", b"\n")])
def test_word2vec(tmp_path, name, newline):
    vectors = open_vectors(str(word2vec_file(tmp_path / name, newline)))
    assert vectors.dim == 3
    found = vectors.pick(["café", "dog", "unicorn"])
    assert {word: row.tolist() for word, row in found.items()} == {
        "dog": [0.375, 0.5, 0.625],
        "café": [1.125, 1.25, 1.375],
    }
    assert tuple(vectors.pick()) == WORDS


def test_a_word2vec_file_larger_than_what_is_read_at_once(tmp_path):
    rows = np.random.default_rng(1).standard_normal((5000, 100)).astype("<f4")
    path = tmp_path / "large.bin"
    path.write_bytes(b"5000 100\n" + b"".join(b"word%d " % i + row.tobytes() for i, row in enumerate(rows)))
    found = open_vectors(str(path)).pick()
    assert list(found) == [f"word{i}" for i in range(5000)]
    np.testing.assert_array_equal(np.stack(list(found.values())), rows)


def test_damaged_word2vec_files(tmp_path):
    path = word2vec_file(tmp_path / "v.bin")
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(
        InputError, match=r"v\.bin: expected 4 words of 3 numbers in binary form, found the end .* after 3\. Get"
    ):
        open_vectors(str(path)).pick(["cat"])
    path.write_bytes(b"cat 1 2 3\n")
    with pytest.raises(InputError, match=r"v\.bin: expected word2vec's binary format.*must not end in \.bin"):
        open_vectors(str(path))
    path.write_bytes(b"1 2\ncat " + np.array([1, np.nan], dtype="<f4").tobytes())
    with pytest.raises(InputError, match=r"v\.bin: expected finite numbers for 'cat'"):
        open_vectors(str(path)).pick(["cat"])


@pytest.mark.parametrize("dim", ["0", str(10**9), str(10**18), "9" * 60])
def test_a_word2vec_file_of_absurd_width(tmp_path, dim):
    (tmp_path / "v.bin").write_bytes(f"4 {dim}\n".encode() + bytes(100))
    with pytest.raises(InputError, match=rf"v\.bin: expected word2vec's .* at most 65,536, .*found b'4 {dim}"):
        open_vectors(str(tmp_path / "v.bin"))


def test_the_wrong_ending(tmp_path):
    """A text file begins with the same line, and its digits would be read as bytes of numbers."""
    text = tmp_path / "text.bin"
    text.write_text("2 3\ncat 0.125 0.25 -0.375\ndog 0.5 0.625 0.75\n")
    with pytest.raises(InputError, match=r"expected 2 words of 3 numbers in binary form, .* must not end in"):
        open_vectors(str(text)).pick(["cat"])
    with pytest.raises(InputError, match=r"expected lines: .* binary ones must end in \.bin"):
        open_vectors(str(word2vec_file(tmp_path / "v.model")))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_against_gensim(tmp_path):
    """Vectors as gensim computes and writes them."""
    pytest.importorskip("gensim", reason="needs pip install -e '.[word2vec]'")
    from gensim.models import Word2Vec

    text = [["the", "café", "in", "日本", "opens"], ["a", "dog", "and", "the", "cat"]] * 3
    model = Word2Vec(text, vector_size=8, min_count=1, epochs=1, seed=1, workers=1)
    model.wv.save_word2vec_format(str(tmp_path / "vectors.bin"), binary=True)
    found = open_vectors(str(tmp_path / "vectors.bin")).pick([*model.wv.index_to_key, "cats", "naïve"])
    assert set(found) == set(model.wv.index_to_key)
    for word, row in found.items():
        np.testing.assert_array_equal(row, model.wv[word])
