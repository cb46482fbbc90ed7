"""elmo.embed on raw text, tables and standard input, into HDF5 and Parquet, by token and pooled by line."""

import io
import sys
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from pyarrow import parquet

from elmo import tokenise
from elmo.embed import one_file
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
def test_parquet(source, weights, tmp_path, layers, monkeypatch):
    monkeypatch.setattr(one_file, "BATCHES_IN_A_WINDOW", 1)
    options = "--tokenise", "ptb", "--layers", layers, "--batch-size", "2"
    assert run(source, tmp_path / "out.parquet", weights, *options) == 0
    assert run(source, tmp_path / "mean.parquet", weights, *options, "--pool", "mean", "--precision", "float16") == 0
    tokens, pooled = (parquet.read_table(tmp_path / f"{name}.parquet") for name in ("out", "mean"))
    assert tokens.column_names == ["source", "line", "tokens", "vectors"]
    assert tokens["source"].to_pylist() == ["in.txt"] * len(TEXTS)
    assert tokens["line"].to_pylist() == pooled["line"].to_pylist() == [0, 1, 2, 3]
    assert tokens["tokens"].to_pylist()[2] == pooled["tokens"].to_pylist()[2] == ["Nights", ".", "Nights"]
    chosen = slice(None) if layers == "all" else -1
    for number, text in enumerate(TEXTS):
        by_token = expected(text).swapaxes(0, 1)[:, chosen]
        shown = np.array(tokens["vectors"][number].as_py())
        np.testing.assert_allclose(shown.reshape(by_token.shape), by_token, atol=2e-5)
        np.testing.assert_allclose(pooled["vector"][number].as_py(), mean(expected(text))[chosen], atol=4e-3)


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
    assert run(tmp_path / "in.csv", tmp_path / "a.hdf5", weights, "--column", "text") == 0
    assert run(tmp_path / "in.txt", tmp_path / "b.hdf5", weights) == 0
    with h5py.File(tmp_path / "a.hdf5") as column, h5py.File(tmp_path / "b.hdf5") as lines:
        np.testing.assert_array_equal(column["0"][...], lines["0"][...])


def test_a_wrong_column_is_named(weights, tmp_path, capsys):
    (tmp_path / "in.csv").write_text("id,review\n1,one\n", encoding="utf-8")
    assert run(tmp_path / "in.csv", tmp_path / "out.hdf5", weights, "--column", "text") == 1
    assert "in.csv, line 1: expected one column 'text' in the header, found id, review" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_standard_input(source, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(source.read_bytes())))
    assert run("-", tmp_path / "piped.parquet", weights) == 0
    assert run(source, tmp_path / "read.parquet", weights) == 0
    piped, read = (parquet.read_table(tmp_path / f"{name}.parquet") for name in ("piped", "read"))
    assert piped.drop_columns("source").equals(read.drop_columns("source"))


@pytest.mark.parametrize("name", ["out.hdf5", "out.parquet"])
def test_nothing_to_embed(weights, tmp_path, name):
    (tmp_path / "in.txt").write_text("", encoding="utf-8")
    assert run(tmp_path / "in.txt", tmp_path / name, weights, "--layers", "last") == 0
    if name == "out.parquet":
        assert parquet.read_table(tmp_path / name).num_rows == 0
    else:
        with h5py.File(tmp_path / name) as file:
            assert list(file) == ["sentence_to_index"]


@pytest.mark.parametrize("name", ["out.hdf5", "out.parquet"])
def test_an_error_leaves_nothing(source, weights, tmp_path, monkeypatch, name):
    def fails(*_):
        raise OSError("no more")

    monkeypatch.setattr("elmo.bilm.model.Bilm.token_layers", fails)
    assert run(source, tmp_path / name, weights) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("options", [["--tokenise", "ptb"], ["--column", "text"]])
def test_carried_states_need_sentences_in_words(source, weights, tmp_path, capsys, options):
    with pytest.raises(SystemExit):
        run(source, tmp_path / "out.hdf5", weights, "--state", "carried", *options)
    assert "--state carried needs one sentence per line, split into words" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["out.hdf5", "out.parquet"])
@pytest.mark.parametrize("after", ["a b\n", "a b\nc\nd e\n", "a b\nc d\n", "a b\nx\n", "a b\nc \n"])
def test_a_text_that_changes_while_it_is_read(weights, tmp_path, monkeypatch, capsys, name, after):
    """It shrinks, grows, or has other words: between the pass that counts and the one that embeds."""
    source = tmp_path / "in.txt"
    source.write_text("a b\nc\n")
    monkeypatch.setattr("elmo.embed.one_file.require_space", lambda *_: source.write_text(after))
    assert run(source, tmp_path / name, weights) == 1
    assert f"elmo.embed: {source}: has changed while it was read, so nothing was written." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
