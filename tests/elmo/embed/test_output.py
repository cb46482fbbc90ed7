"""elmo.embed on raw text, tables and standard input, into HDF5, npy, Arrow and Parquet, by token and pooled by line."""

import io
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from elmo import tokenise
from elmo.bilm.model import Bilm
from elmo.embed import one_file, output
from elmo.embed.__main__ import main
from tests.elmo import naive
from tests.elmo.embed.conftest import OPTIONS, TENSORS, run

TEXTS = ["It rained. We didn't go.", "", "Nights. Nights", "one"]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    return path


def expected(text):
    """The layers of each token, sentence by sentence: (layers, tokens, dim)."""
    found = [naive.sentence_layers(TENSORS, OPTIONS, sentence)[0] for sentence in tokenise(text)]
    return np.concatenate(found, axis=1) if found else np.zeros((3, 0, 12))


def mean(layers):
    return layers.mean(axis=1) if layers.shape[1] else np.zeros((3, 12))


def test_raw_text_is_embedded_sentence_by_sentence(source, weights, tmp_path):
    assert run(source, tmp_path / "out.hdf5", weights, "--tokenise", "ptb") == 0
    assert run(source, tmp_path / "mean.hdf5", weights, "--tokenise", "ptb", "--pool", "mean") == 0
    with h5py.File(tmp_path / "out.hdf5") as file, h5py.File(tmp_path / "mean.hdf5") as pooled:
        for number, text in enumerate(TEXTS):
            np.testing.assert_allclose(file[str(number)][...], expected(text), atol=2e-5)
            np.testing.assert_allclose(pooled[str(number)][...], mean(expected(text)), atol=2e-5)
        assert b"It rained . We did n't go ." in file["sentence_to_index"][0]


@pytest.mark.parametrize("layers", ["all", "last"])
def test_npy(source, weights, tmp_path, layers):
    options = "--tokenise", "ptb", "--layers", layers
    assert run(source, tmp_path / "out.npy", weights, *options) == 0
    assert run(source, tmp_path / "mean.npy", weights, *options, "--pool", "mean", "--precision", "float16") == 0
    chosen = slice(None) if layers == "all" else -1
    tokens = np.concatenate([expected(text).swapaxes(0, 1) for text in TEXTS])[:, chosen]
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), tokens, atol=2e-5)
    assert np.load(tmp_path / "out.lengths.npy").tolist() == [8, 0, 3, 1]
    pooled = np.load(tmp_path / "mean.npy", mmap_mode="r")
    assert pooled.dtype == np.float16
    np.testing.assert_allclose(pooled, np.stack([mean(expected(text)) for text in TEXTS])[:, chosen], atol=4e-3)
    assert not (tmp_path / "mean.lengths.npy").exists()


@pytest.mark.parametrize("layers", ["all", "last"])
def test_arrow(source, weights, tmp_path, layers, monkeypatch):
    monkeypatch.setattr(output, "LINES_IN_A_BATCH", 2)  # lines come by length, and are written in order
    options = "--tokenise", "ptb", "--layers", layers
    assert run(source, tmp_path / "out.arrow", weights, *options) == 0
    assert run(source, tmp_path / "mean.arrow", weights, *options, "--pool", "mean") == 0
    tokens, pooled = (pa.ipc.open_file(tmp_path / f"{name}.arrow").read_all() for name in ("out", "mean"))
    assert tokens.column_names == ["line", "tokens", "vectors"]
    assert tokens["line"].to_pylist() == pooled["line"].to_pylist() == [0, 1, 2, 3]
    assert tokens["tokens"].to_pylist()[2] == pooled["tokens"].to_pylist()[2] == ["Nights", ".", "Nights"]
    chosen = slice(None) if layers == "all" else -1
    for number, text in enumerate(TEXTS):
        found = np.array(tokens["vectors"][number].as_py())
        by_token = expected(text).swapaxes(0, 1)[:, chosen]
        np.testing.assert_allclose(found.reshape(by_token.shape), by_token, atol=2e-5)
        np.testing.assert_allclose(pooled["vector"][number].as_py(), mean(expected(text))[chosen], atol=2e-5)


@pytest.mark.parametrize("options", [(), ("--layers", "last", "--pool", "mean", "--precision", "float16")])
def test_parquet_holds_what_arrow_holds_and_the_source(source, weights, tmp_path, options):
    assert run(source, tmp_path / "out.arrow", weights, *options) == 0
    assert run(source, tmp_path / "out.parquet", weights, *options) == 0
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["source"].to_pylist() == ["in.txt"] * len(TEXTS)
    assert table.drop_columns("source").equals(pa.ipc.open_file(tmp_path / "out.arrow").read_all())


@pytest.mark.parametrize(("name", "first"), [("out.parquet", [1, 5]), ("out.arrow", [1, 5]), ("out.npy", [1, 1, 2, 5])])
def test_few_lines_wait_for_those_before_them(weights, tmp_path, monkeypatch, name, first):
    """Lines are sorted by length; formats in order keep their layers in memory, so they sort fewer at a time."""
    (tmp_path / "in.txt").write_text("a b c d e\na\na b\na\n", encoding="utf-8")
    monkeypatch.setattr(one_file, "LINES_THAT_WAIT", 2)
    lengths, token_layers = [], Bilm.token_layers

    def recorded(self, sentences, state=None):
        lengths.append([len(sentence) for sentence in sentences])
        return token_layers(self, sentences, state)

    monkeypatch.setattr(Bilm, "token_layers", recorded)
    assert run(tmp_path / "in.txt", tmp_path / name, weights) == 0
    assert lengths[0] == first


def test_a_column_of_a_table(weights, tmp_path):
    (tmp_path / "in.csv").write_text('id,text\n1,"It rained. We\ndidn\'t go."\n2,one\n', encoding="utf-8")
    assert run(tmp_path / "in.csv", tmp_path / "out.hdf5", weights, "--column", "text", "--tokenise", "ptb") == 0
    with h5py.File(tmp_path / "out.hdf5") as file:
        np.testing.assert_allclose(file["0"][...], expected("It rained.\nWe\ndidn't go."), atol=2e-5)
        np.testing.assert_allclose(file["1"][...], expected("one"), atol=2e-5)


def test_words_of_a_column_are_split_like_those_of_lines(weights, tmp_path):
    text = f"a <S> b </S> {'long' * 30}"
    (tmp_path / "in.csv").write_text(f"text\n{text}\n", encoding="utf-8")
    (tmp_path / "in.txt").write_text(f"{text}\n", encoding="utf-8")
    assert run(tmp_path / "in.csv", tmp_path / "a.npy", weights, "--column", "text") == 0
    assert run(tmp_path / "in.txt", tmp_path / "b.npy", weights) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


def test_a_wrong_column_is_named(weights, tmp_path, capsys):
    (tmp_path / "in.csv").write_text("id,review\n1,one\n", encoding="utf-8")
    assert run(tmp_path / "in.csv", tmp_path / "out.npy", weights, "--column", "text") == 1
    assert "in.csv, line 1: expected one column 'text' in the header, found id, review" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_standard_input(source, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(source.read_bytes())))
    assert run("-", tmp_path / "piped.npy", weights) == 0
    assert run(source, tmp_path / "read.npy", weights) == 0
    assert (tmp_path / "piped.npy").read_bytes() == (tmp_path / "read.npy").read_bytes()


@pytest.mark.parametrize("name", ["out.npy", "out.arrow"])
def test_nothing_to_embed(weights, tmp_path, name):
    (tmp_path / "in.txt").write_text("", encoding="utf-8")
    assert run(tmp_path / "in.txt", tmp_path / name, weights, "--layers", "last") == 0
    if name == "out.npy":
        assert np.load(tmp_path / name).shape == (0, 12)
    else:
        assert pa.ipc.open_file(tmp_path / name).read_all().num_rows == 0


@pytest.mark.parametrize("name", ["out.npy", "out.arrow", "out.parquet"])
def test_an_error_leaves_nothing(source, weights, tmp_path, monkeypatch, name):
    def fails(*_):
        raise OSError("no more")

    monkeypatch.setattr("elmo.bilm.model.Bilm.token_layers", fails)
    assert run(source, tmp_path / name, weights) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("options", [["--tokenise", "ptb"], ["--column", "text"]])
def test_carried_states_need_sentences_in_words(source, weights, tmp_path, capsys, options):
    with pytest.raises(SystemExit):
        run(source, tmp_path / "out.npy", weights, "--state", "carried", *options)
    assert "--state carried needs one sentence per line, split into words" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["out.hdf5", "out.npy", "out.parquet"])
@pytest.mark.parametrize("after", ["a b\n", "a b\nc\nd e\n", "a b\nc d\n", "a b\nx\n", "a b\nc \n"])
def test_a_text_that_changes_while_it_is_read(weights, tmp_path, monkeypatch, capsys, name, after):
    """It shrinks, grows, or has other words: between the pass that counts and the one that embeds."""
    source = tmp_path / "in.txt"
    source.write_text("a b\nc\n")
    monkeypatch.setattr("elmo.embed.one_file.require_space", lambda *_: source.write_text(after))
    assert run(source, tmp_path / name, weights) == 1
    assert f"elmo.embed: {source}: has changed while it was read, so nothing was written." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_the_help_names_the_file_of_lengths(source, weights, tmp_path, capsys):
    run(source, tmp_path / "x.npy", weights)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["--help"])
    named = re.search(r"(\S+\.lengths\.npy) next to x\.npy", capsys.readouterr().out)
    assert (tmp_path / named[1]).is_file()


def test_a_name_that_is_no_text(weights, tmp_path, capsys):
    source = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    source.write_text("a b\n")
    assert run(source, tmp_path / "out.parquet", weights) == 1
    assert main([str(source), "--out", str(tmp_path / "out"), "--weights", str(weights)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert all("caf\\xe9.txt': expected a path in UTF-8. Rename the file" in line for line in errors)
