"""Folders of Parquet shards: what they hold, how they continue, what they refuse. Ray: tests/cluster/test_ray.py."""

import dataclasses
import json
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow import parquet

from elmo.bilm.encoder import CharacterEncoder
from elmo.bilm.weight_files import load_bilm
from elmo.common.errors import InputError
from elmo.common.processes import locked
from elmo.embed.__main__ import main
from elmo.embed.settings import EmbedSettings
from elmo.embed.shards import (
    LOCK,
    METADATA,
    ShardsJob,
    ShardWriter,
    find_inputs,
    room_for_workers,
)
from tests.elmo import naive
from tests.elmo.embed.conftest import OPTIONS, TENSORS

TEXTS = {"2020/a.txt": "the cat sat\n\nhere\n", "2020/b.txt": "", "2021/a.txt": "a dog\nthe cat sat here again\n"}


@pytest.fixture
def texts(tmp_path):
    """The pattern of three texts in two folders."""
    for name, text in TEXTS.items():
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(tmp_path / "texts" / "*" / "*.txt")


@pytest.fixture
def run(tmp_path, weights, capsys):
    """Runs the command; returns its exit status, and what it printed to either stream."""

    def embed(*arguments, out=tmp_path / "out", weights=weights):
        status = main([*map(str, arguments), "--out", str(out), "--weights", str(weights), "--device", "cpu"])
        return status, "".join(capsys.readouterr())

    return embed


def shards(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_a_shard_for_each_file_with_source_and_line(texts, run, tmp_path):
    status, printed = run(texts)
    assert status == 0
    assert f"{tmp_path / 'out'}: 3 shards written, 11 tokens\n" in printed
    assert set(shards(tmp_path / "out")) == {f"{name}.parquet" for name in TEXTS}
    table = parquet.read_table(tmp_path / "out")  # the folder as a whole
    rows = {(row["source"], row["line"]): row for row in table.to_pylist()}
    lines = {(name, n): line for name, text in TEXTS.items() for n, line in enumerate(text.splitlines())}
    assert set(rows) == set(lines)
    for key, line in lines.items():
        assert rows[key]["tokens"] == line.split()
        expected = naive.sentence_layers(TENSORS, OPTIONS, line.split())[0].swapaxes(0, 1)
        np.testing.assert_allclose(np.reshape(rows[key]["vectors"], expected.shape), expected, atol=2e-5)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"2020", "2021", LOCK}


def test_each_word_is_encoded_once_for_all_shards(texts, run, monkeypatch):
    encoded = []
    encode = CharacterEncoder.encode_words

    def counted(encoder, words):
        encoded.extend(words)
        return encode(encoder, words)

    monkeypatch.setattr(CharacterEncoder, "encode_words", counted)
    assert run(texts)[0] == 0
    words = {word for text in TEXTS.values() for word in text.split()}
    assert sorted(encoded) == sorted({*words, "<S>", "</S>"})


def test_a_shard_depends_on_its_file_alone(texts, run, tmp_path):
    threads = torch.get_num_threads()
    run(texts, "--threads", 2)
    run(tmp_path / "texts" / "2021" / "a.txt", "--threads", 2, out=tmp_path / "alone")
    assert shards(tmp_path / "alone") == {"a.txt.parquet": (tmp_path / "alone" / "a.txt.parquet").read_bytes()}
    tables = [parquet.read_table(tmp_path / name) for name in ("out/2021/a.txt.parquet", "alone/a.txt.parquet")]
    assert tables[0].drop_columns("source").equals(tables[1].drop_columns("source"))
    assert torch.get_num_threads() == threads


def test_the_same_command_again_makes_what_is_missing(texts, run, tmp_path):
    run(texts)
    first, out = shards(tmp_path / "out"), tmp_path / "out"
    (out / "2021" / "a.txt.parquet").rename(out / "2021" / "a.txt.parquet.1-2.partial")  # as a killed worker leaves it
    kept = out / "2020" / "a.txt.parquet"
    before = kept.stat()
    status, printed = run(texts)
    assert status == 0
    assert "1 shards written, 2 were there, 7 tokens" in printed
    assert shards(out) == first
    assert kept.stat().st_mtime_ns == before.st_mtime_ns
    assert not list(out.rglob("*.partial"))


def test_shards_in_int8(texts, run, tmp_path, weights):
    assert run(texts, "--precision", "int8")[0] == 0
    rows = parquet.read_table(tmp_path / "out" / "2020" / "a.txt.parquet").to_pylist()
    layers = load_bilm(weights, precision="int8").token_layers([rows[0]["tokens"]]).transpose(0, 1)
    assert np.array_equal(np.reshape(rows[0]["vectors"], layers.shape), layers.numpy())


def test_files_of_others_stay(texts, run, tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("mine.parquet.partial", "mine.parquet.old.partial", "big.partial"):
        (tmp_path / "out" / name).write_text("mine")
    assert run(texts)[0] == 0
    assert len(list((tmp_path / "out").glob("*.partial"))) == 3


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (("--pool", "mean"), "pool: 'none' there, 'mean' asked for"),
        (("--batch-size", "7"), "batch_size: None there, 7 asked for"),
        (("--precision", "int8"), "precision: 'float32' there, 'int8' asked for"),
        (("--threads", "3"), "threads: 1 there, 3 asked for"),
    ],
)
def test_other_options_are_refused(texts, run, tmp_path, options, difference):
    run(texts)
    first = shards(tmp_path / "out")
    status, printed = run(texts, *options)
    assert status == 1
    assert f".parquet: made with other options or input:\n  {difference}\n" in printed
    assert shards(tmp_path / "out") == first


def test_other_weights_are_refused(texts, run, tmp_path):
    run(texts)
    other = naive.write_model(tmp_path, OPTIONS, naive.make_tensors(OPTIONS, seed=6))
    status, printed = run(texts, weights=other)
    assert status == 1
    assert "made with other options or input:\n  weights: " in printed


def test_a_file_that_changed_is_refused_until_its_shard_is_deleted(texts, run, tmp_path):
    run(texts)
    changed, shard = tmp_path / "texts" / "2020" / "b.txt", tmp_path / "out" / "2020" / "b.txt.parquet"
    changed.write_text("more\n", encoding="utf-8")
    status, printed = run(texts)
    assert status == 1
    assert f"{shard}: made with other options or input:\n  sha256 of the input: " in printed
    shard.unlink()
    assert run(texts)[0] == 0
    assert parquet.read_table(shard)["tokens"].to_pylist() == [["more"]]


def test_a_wrong_line_is_named_and_the_other_files_are_written(texts, run, tmp_path):
    wrong = tmp_path / "texts" / "2020" / "b.txt"
    wrong.write_bytes(b"fine\nwrong \xff\n")
    status, printed = run(texts)
    assert status == 1
    assert "1 of 3 shards failed; the others are written" in printed
    assert f"\n  {wrong}, line 2: expected UTF-8 text" in printed
    assert set(shards(tmp_path / "out")) == {"2020/a.txt.parquet", "2021/a.txt.parquet"}
    wrong.write_bytes(b"fine\n")
    assert "1 shards written, 2 were there" in run(texts)[1]


def test_a_folder_that_cannot_be_used(texts, run, tmp_path):
    assert "expected a folder for shards, found a file" in run(texts, out=tmp_path / "texts" / "2020" / "a.txt")[1]
    with locked(tmp_path / "out" / LOCK, ""):
        status, printed = run(texts)
    assert status == 1
    assert "another command writes shards there" in printed


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["none.txt"], "none.txt: expected a file, or a pattern that fits files"),
        (["texts"], "texts: expected a file, or a pattern that fits files"),
        (["texts/*.csv"], "texts/*.csv: expected a file, or a pattern that fits files"),
        (["texts/2020/a.txt", "texts/2021/a.txt"], "has the name 'a.txt', too"),
        (["texts/_c.txt"], "skip names that begin with _"),
    ],
)
def test_inputs_that_cannot_be_used(texts, tmp_path, monkeypatch, paths, message):
    monkeypatch.chdir(tmp_path)
    Path("texts/_c.txt").touch()
    with pytest.raises(InputError) as error:
        find_inputs(paths)
    assert message in str(error.value)


def test_a_file_that_is_named_twice_is_embedded_once(texts, tmp_path):
    path = str(tmp_path / "texts" / "2020" / "a.txt")
    assert find_inputs([path, path]) == {"a.txt": Path(path)}


def test_a_file_of_another_program_is_refused(texts, run, tmp_path):
    run(texts)
    shard = tmp_path / "out" / "2021" / "a.txt.parquet"
    plain = parquet.read_table(shard).replace_schema_metadata()
    parquet.write_table(plain, tmp_path / "plain.parquet")
    for content in (b"half", b"", (tmp_path / "plain.parquet").read_bytes()):
        shard.write_bytes(content)
        status, printed = run(texts)
        assert status == 1
        assert printed == f"elmo.embed: {shard}: expected a shard of this command, found another file. Delete it\n"
    shard.unlink()
    assert run(texts)[0] == 0


class TestWriter:
    """What a worker on another machine finds."""

    @pytest.fixture
    def job(self, bilm, texts, tmp_path, weights):
        (tmp_path / "out").mkdir()
        return ShardsJob(tmp_path / "out", str(weights), bilm.fingerprint(), EmbedSettings(), "cpu", 1)

    def failure(self, job, bilm=None):
        path = job.folder.parent / "texts" / "2020" / "a.txt"
        result = ShardWriter(job, bilm)({"name": "a.txt", "path": str(path)})
        assert (result["name"], result["tokens"]) == ("a.txt", 0 if result["failure"] else 4)
        assert not result["failure"] or result["failure"].endswith(f" (on {socket.gethostname()})")
        return result["failure"]

    def test_a_folder_that_is_not_shared(self, job, bilm):
        job.folder.rmdir()
        assert f"its folder does not exist: '{job.folder}/a.txt.parquet'" in self.failure(job, bilm)

    def test_a_file_that_is_not_there(self, job, bilm):
        (job.folder.parent / "texts" / "2020" / "a.txt").unlink()
        assert "texts/2020/a.txt" in self.failure(job, bilm)

    def test_other_weights(self, job):
        assert f"{job.weights}: other weights than where the command runs" in self.failure(job)

    def test_a_shard_that_killed_its_workers(self, job, bilm):
        for number in range(3):
            (job.folder / f"a.txt.parquet.{number}-ab.partial").touch()
        assert "a.txt: 3 workers died while they embedded it" in self.failure(job, bilm)
        (job.folder / "a.txt.parquet.0-ab.partial").unlink()
        assert not self.failure(job, bilm)

    def test_a_shard_says_all_that_decides_its_bits(self, job, bilm):
        assert not self.failure(job, bilm)
        about = json.loads(parquet.read_schema(job.folder / "a.txt.parquet").metadata[METADATA.encode()])
        assert {field.name for field in dataclasses.fields(EmbedSettings)} < set(about)
        assert (about["weights"], about["device"], about["threads"]) == (job.fingerprint, "cpu", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["in.txt"], "expected IN and OUT, or many IN and --out FOLDER, found 1 paths"),
        (["in.txt", "out.hdf5", "--engine", "ray"], "--engine ray and --threads need --out FOLDER"),
        (["in.txt", "--out", "o", "--workers", "2"], "--workers, --gpus and --address need --engine ray"),
        (["in.txt", "--out", "o", "--engine", "ray", "--workers", "0"], "--workers must be from 1 to 1,024, found 0"),
        (["in.txt", "--out", "o", "--engine", "ray", "--gpus", "nan"], "--gpus must be from 0 to 64, found nan"),
        (["in.txt", "--out", "o", "--engine", "ray", "--gpus", "1", "--device", "cpu"], "--device cpu cannot be"),
        (["-", "--out", "o"], "standard input cannot be used with --out"),
    ],
)
def test_options_that_do_not_go_together(options, message, capsys):
    with pytest.raises(SystemExit):
        main(options)
    assert message in capsys.readouterr().err


def test_the_room_of_a_cluster():
    assert room_for_workers({"CPU": 9.0}, cpus=2, gpus=0) == 4
    assert room_for_workers({"CPU": 9.0, "GPU": 2.0}, cpus=1, gpus=0.5) == 4
    with pytest.raises(InputError, match="needs 1 CPUs and 1 GPUs, the cluster has 8 and 0"):
        room_for_workers({"CPU": 8.0}, cpus=1, gpus=1)
