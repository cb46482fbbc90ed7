"""Binary files of word2vec and fastText, read as gensim writes them and as their formats say."""

import gzip
import struct

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


def fasttext_file(path, rows, shortest=3, longest=3, buckets=10, version=12, quantised=False, words=("ab", "</s>")):
    """A model of fastText in the layout of its Args, Dictionary and DenseMatrix."""
    dim = rows.shape[1]
    content = struct.pack("<2i", 793712314, version)
    content += struct.pack("<12id", dim, 5, 5, 1, 5, 1, 2, 2, buckets, shortest, longest, 100, 1e-4)
    content += struct.pack("<3i2q", len(words) + 1, len(words), 1, 99, -1)
    for word, kind in [*((word, 0) for word in words), ("__label__x", 1)]:
        content += word.encode("utf-8", "surrogateescape") + b"\0" + struct.pack("<qb", 7, kind)
    content += struct.pack("<?", quantised) + struct.pack("<2q", *rows.shape) + rows.astype("<f4").tobytes()
    path.write_bytes(content)
    return path


def test_a_fasttext_model_by_hand(tmp_path):
    """The mean over the word and its n-grams <ab and ab>, whose buckets are FNV-1a hashes."""
    expected = {}
    for text in ("<ab", "ab>"):
        value = 2166136261
        for letter in text:
            value = (value ^ ord(letter)) * 16777619 % 2**32
        expected[text] = value % 10
    rows = np.random.default_rng(2).standard_normal((12, 4)).astype(np.float32)
    vectors = open_vectors(str(fasttext_file(tmp_path / "m.bin", rows)))
    assert vectors.dim == 4
    found = vectors.pick()
    assert list(found) == ["ab", "</s>"], "a label is no word"
    parts = [0, 2 + expected["<ab"], 2 + expected["ab>"]]
    np.testing.assert_allclose(found["ab"], rows[parts].astype(np.float64).mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(found["</s>"], rows[1])


def test_words_of_a_fasttext_model_that_are_not_utf8_are_counted(tmp_path):
    """Both read as U+FFFD; the rows of n-grams begin after those of all words."""
    rows = np.random.default_rng(2).standard_normal((14, 4)).astype(np.float32)
    plain = open_vectors(str(fasttext_file(tmp_path / "plain.bin", rows[[0, 1, *range(4, 14)]])))
    other = fasttext_file(tmp_path / "other.bin", rows, words=("ab", "</s>", "\udcfe", "\udcff"))
    expected = plain.pick(["ab", "cde"])
    for word, row in open_vectors(str(other)).pick(["ab", "cde"]).items():
        np.testing.assert_array_equal(row, expected[word])


def test_a_fasttext_model_without_ngrams_knows_no_other_words(tmp_path):
    rows = np.eye(2, 4, dtype=np.float32)
    vectors = open_vectors(str(fasttext_file(tmp_path / "m.bin", rows, 0, 0, 0)))
    assert {word: row.tolist() for word, row in vectors.pick(["ab", "abc"]).items()} == {"ab": [1, 0, 0, 0]}


def test_fasttext_models_that_cannot_be_read(tmp_path):
    rows = np.zeros((12, 4), dtype=np.float32)
    path = fasttext_file(tmp_path / "m.bin", rows, quantised=True)
    with pytest.raises(InputError, match=r"m\.bin: expected .*found a quantised model"):
        open_vectors(str(path))
    fasttext_file(path, rows, version=13)
    with pytest.raises(InputError, match=r"m\.bin: expected .* version 11 or 12, .*found version 13"):
        open_vectors(str(path))
    fasttext_file(path, rows, buckets=-3)
    with pytest.raises(InputError, match=r"m\.bin: expected .*Get the file again"):
        open_vectors(str(path))
    fasttext_file(path, rows)
    whole = path.read_bytes()
    for dim in (0, -3, -4, 1 << 30):  # after the magic number and the version, and in front of the vectors
        place = len(whole) - rows.nbytes - 8
        path.write_bytes(whole[:8] + struct.pack("<i", dim) + whole[12:place] + struct.pack("<q", dim) + bytes(400))
        with pytest.raises(InputError, match=r"m\.bin: expected a model of fastText, .* Get the file again"):
            open_vectors(str(path))
    for length in (6, 40, 90, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"m\.bin: expected .*Get (it|the file) again"):
            open_vectors(str(path))
    (tmp_path / "m.bin.gz").write_bytes(gzip.compress(whole))
    with pytest.raises(InputError, match=r"m\.bin\.gz: .*gunzip"):
        open_vectors(str(tmp_path / "m.bin.gz"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_against_gensim(tmp_path):
    """Vectors of known and unknown words in both formats, as gensim computes and writes them."""
    pytest.importorskip("gensim", reason="needs pip install -e '.[word2vec]'")
    from gensim.models import FastText
    from gensim.models.fasttext import save_facebook_model

    text = [["the", "café", "in", "日本", "opens"], ["a", "dog", "and", "the", "cat"]] * 3
    model = FastText(text, vector_size=8, min_count=1, min_n=1, max_n=4, bucket=50, epochs=1, seed=1, workers=1)
    save_facebook_model(model, str(tmp_path / "model.bin"))
    model.wv.save_word2vec_format(str(tmp_path / "vectors.bin"), binary=True)
    known, unknown = model.wv.index_to_key, ["cats", "naïve", "日", "x"]
    full, plain = (open_vectors(str(tmp_path / name)) for name in ("model.bin", "vectors.bin"))
    found = full.pick([*known, *unknown])
    assert set(found) == {*known, *unknown}
    for word, row in found.items():
        np.testing.assert_allclose(row, model.wv[word], rtol=1e-5, atol=1e-7, err_msg=word)
    found = plain.pick([*known, *unknown])
    assert set(found) == set(known)
    for word, row in found.items():
        np.testing.assert_array_equal(row, model.wv[word])
