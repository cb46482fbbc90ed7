"""Tests of the output of elmo.embed: disk space reserved ahead, and files that it must not overwrite."""

import shutil

import h5py
import pytest

from tests.elmo import naive
from tests.elmo.embed.conftest import OPTIONS, TENSORS, run
from tests.elmo.store.stores import files_of_at_most

LINES = ["The cat sat on the mat .", "either / or", "", "one"]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def test_a_disk_with_too_little_space_is_refused_before_any_work(source, weights, tmp_path, monkeypatch, capsys):
    """The values alone take tokens x layers x width x 4 bytes; one byte less is too little."""
    tokens = sum(len(line.split()) for line in source.read_text(encoding="utf-8").splitlines())
    needed = tokens * 3 * 2 * OPTIONS["lstm"]["projection_dim"] * 4
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr("elmo.bilm.model.Bilm.token_layers", None)  # must not be called
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, needed - 1))
    assert run(source, tmp_path / "out.hdf5", weights) == 1
    assert "MB are free; free some space" in capsys.readouterr().err
    assert not (tmp_path / "out.hdf5").exists()


def test_the_space_includes_the_overhead_of_hdf5(source, weights, tmp_path, monkeypatch, capsys):
    """For short lines the values are the smaller part; JSON needs six characters for a control character."""
    source.write_text("\n".join([*map(str, range(500)), *(chr(1) * 50 + str(i) for i in range(500))]), encoding="utf-8")
    assert run(source, tmp_path / "out.hdf5", weights, "--layers", "last") == 0
    size = (tmp_path / "out.hdf5").stat().st_size
    assert size > 3 * 1000 * 12 * 4, "the values are not a third of it"
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, size - 1))
    assert run(source, tmp_path / "other.hdf5", weights, "--layers", "last") == 1
    assert "MB are free; free some space" in capsys.readouterr().err
    assert not (tmp_path / "other.hdf5").exists()


def test_reserved_space_that_was_not_needed_is_released(source, weights, tmp_path):
    assert run(source, tmp_path / "out.hdf5", weights) == 0
    with h5py.File(tmp_path / "out.hdf5") as file, h5py.File(tmp_path / "plain.hdf5", "w") as plain:
        for number in sorted(range(len(LINES)), key=lambda number: len(LINES[number].split())):
            plain.create_dataset(str(number), data=file[str(number)][...])
        plain.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = file["sentence_to_index"][0]
    assert (tmp_path / "out.hdf5").stat().st_size < (tmp_path / "plain.hdf5").stat().st_size + 5000


@pytest.mark.parametrize("allowed", [20_000, 150_000])
def test_a_file_that_may_not_grow(weights, tmp_path, capsys, allowed):
    """A quota, simulated by a limit on the size of files: HDF5 would crash."""
    source, target = tmp_path / "in.txt", tmp_path / "out.hdf5"
    source.write_text("two words\n" * 1000, encoding="utf-8")
    with files_of_at_most(allowed):
        assert run(source, target, weights) == 1
    assert capsys.readouterr().err == f"elmo.embed: [Errno 27] File too large: '{target}'\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("given", ["file", "folder"])
@pytest.mark.parametrize("name", ["weights.hdf5", "options.json", "link.hdf5"])
def test_weights_and_options_are_not_overwritten(source, tmp_path, capsys, given, name):
    naive.write_model(tmp_path / "model", OPTIONS, TENSORS)
    files = {path: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    assert len(files) == 2
    (tmp_path / "link.hdf5").symlink_to(tmp_path / "model" / "weights.hdf5")
    target = tmp_path / name if (tmp_path / name).exists() else tmp_path / "model" / name
    chosen = tmp_path / "model" / ("weights.hdf5" if given == "file" else "")
    assert run(source, target, chosen) == 1
    overwrites = "cannot write there: it would overwrite the biLM"
    ending = "expected the name of a file that ends in .hdf5, .h5 or .parquet"
    assert f"{target}: {ending if target.suffix == '.json' else overwrites}" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "model").iterdir()} == files
