"""Folders of Parquet shards: what they hold, how they continue, what they refuse. Ray: tests/cluster/test_ray.py."""

import dataclasses
import hashlib
import json
import re
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow import parquet

from elmo.bilm.encoder import CharacterEncoder
from elmo.common.errors import InputError
from elmo.common.processes import alone
from elmo.embed.__main__ import main
from elmo.embed.on_ray import _room
from elmo.embed.one_file import EmbedSettings
from elmo.embed.shards import (
    LOCK,
    MANIFEST,
    InputFile,
    ShardsJob,
    ShardWriter,
    arithmetic,
    find_inputs,
    unfinished,
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
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"2020", "2021", MANIFEST, LOCK}


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


def test_a_shard_that_was_changed_is_named(texts, run, tmp_path):
    run(texts)
    shard = tmp_path / "out" / "2021" / "a.txt.parquet"
    shard.write_bytes((tmp_path / "out" / "2020" / "a.txt.parquet").read_bytes())
    status, printed = run(texts)
    assert status == 1
    assert f"elmo.embed: {shard}: has changed since it was written. Delete it to make it again\n" in printed
    shard.unlink()
    assert run(texts)[0] == 0


def test_a_shard_without_a_hash_is_made_again(texts, run, tmp_path):
    """As a command leaves it that is killed before it notes the shard, and as earlier versions did."""
    run(texts)
    first, manifest = shards(tmp_path / "out"), tmp_path / "out" / MANIFEST
    content = json.loads(manifest.read_text())
    hashes = {name: entry["shard"] for name, entry in content["inputs"].items()}
    assert hashes == {name: hashlib.sha256(first[f"{name}.parquet"]).hexdigest() for name in TEXTS}
    del content["inputs"]["2021/a.txt"]["shard"]
    manifest.write_text(json.dumps(content))
    (tmp_path / "out" / "2021" / "a.txt.parquet").write_bytes(b"half")
    status, printed = run(texts)
    assert (status, shards(tmp_path / "out")) == (0, first)
    assert "1 shards written, 2 were there" in printed
    assert {name: entry["shard"] for name, entry in json.loads(manifest.read_text())["inputs"].items()} == hashes


def test_hashes_are_noted_before_the_end(texts, run, tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.embed.shards.NOTED_EVERY_S", -1.0)
    noted, manifest = [], tmp_path / "out" / MANIFEST
    monkeypatch.setattr("elmo.embed.shards.Meter.advance", lambda *_: noted.append(manifest.read_text()))
    assert run(texts)[0] == 0
    assert [text.count('"shard"') for text in noted] == [1, 2, 3]


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{", "5", "[" * 100_000, '{"inputs": {}}'),
        *({"inputs": None}, {"inputs": []}, {"inputs": {"2020/a.txt": "x"}}, {"inputs": 5}, {"weights": "x" * 5000}),
    ],
)
def test_a_malformed_manifest_is_explained(texts, run, tmp_path, content):
    run(texts)
    manifest = tmp_path / "out" / MANIFEST
    whole = json.loads(manifest.read_text())
    manifest.write_text(content if isinstance(content, str) else json.dumps(whole | content))
    status, printed = run(texts)
    assert status == 1
    assert re.fullmatch(rf"elmo\.embed: {re.escape(str(manifest))}: .{{40,1000}}\n", printed), printed[:1000]


def test_files_of_others_stay(texts, run, tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("mine.parquet.partial", "mine.parquet.old.partial", "big.partial"):
        (tmp_path / "out" / name).write_text("mine")
    assert run(texts)[0] == 0
    assert len(list((tmp_path / "out").glob("*.partial"))) == 3


def test_further_files_may_join(texts, run, tmp_path):
    run(str(tmp_path / "texts" / "2020" / "*.txt"))
    other = tmp_path / "c.txt"
    other.write_text("one\n", encoding="utf-8")
    assert run(other)[0] == 0
    assert set(json.loads((tmp_path / "out" / MANIFEST).read_text())["inputs"]) == {"a.txt", "b.txt", "c.txt"}


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (("--pool", "mean"), "pool none there, mean now"),
        (("--batch-size", "7"), "batch-size None there, 7 now"),
        (("--threads", "3"), "threads 1 there, 3 now"),
    ],
)
def test_other_options_are_refused(texts, run, tmp_path, options, difference):
    run(texts)
    first = shards(tmp_path / "out")
    status, printed = run(texts, *options)
    assert status == 1
    assert f"{MANIFEST}: its shards were made in another way: {difference}. " in printed
    assert shards(tmp_path / "out") == first


def test_other_weights_are_refused(texts, run, tmp_path):
    run(texts)
    other = naive.write_model(tmp_path, OPTIONS, naive.make_tensors(OPTIONS, seed=6))
    status, printed = run(texts, weights=other)
    assert status == 1
    assert "its shards were made in another way: weights " in printed


def test_a_file_that_changed_is_refused_until_its_shard_is_deleted(texts, run, tmp_path):
    run(texts)
    changed, shard = tmp_path / "texts" / "2020" / "b.txt", tmp_path / "out" / "2020" / "b.txt.parquet"
    changed.write_text("more\n", encoding="utf-8")
    status, printed = run(texts)
    assert status == 1
    assert f"{changed}: its content has changed since {shard} was made" in printed
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
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "a.parquet").touch()
    assert f"{taken}: Parquet files, but no {MANIFEST}" in run(texts, out=taken)[1]
    assert "expected a folder for shards, found a file" in run(texts, out=taken / "a.parquet")[1]
    with alone(tmp_path / "out" / LOCK, ""):
        status, printed = run(texts)
    assert status == 1
    assert "another command writes shards there" in printed


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["none.txt"], "none.txt: no such file"),
        (["texts"], "expected a file, found a folder. Name its files: 'texts/*.txt'"),
        (["texts/*.csv"], "expected at least one file that fits this pattern, found none"),
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
    assert [file.name for file in find_inputs([path, path])] == ["a.txt"]


class TestWriter:
    """What a worker on another machine finds."""

    @pytest.fixture
    def file(self, texts, tmp_path):
        (found,) = find_inputs([str(tmp_path / "texts" / "2020" / "a.txt")])
        return found

    @pytest.fixture
    def job(self, bilm, tmp_path, weights):
        settings, here = EmbedSettings(), arithmetic("cpu")
        return ShardsJob(tmp_path / "out", str(weights), None, bilm.fingerprint(), settings, "cpu", 1, here)

    def failure(self, job, file, bilm=None):
        result = ShardWriter(job, bilm)(file)
        assert (result.name, result.tokens) == (file.name, 0)
        return result.failure

    def test_a_folder_that_is_not_shared(self, job, file, bilm):
        assert f"no {MANIFEST} there on " in self.failure(job, file, bilm)

    def test_a_file_that_is_not_there(self, job, file, bilm):
        unfinished(job, [file])
        file.path.unlink()
        failure = self.failure(job, file, bilm)
        assert str(file.path) in failure
        assert f"(on {socket.gethostname()})" in failure

    def test_another_file_of_this_name(self, job, file, bilm):
        unfinished(job, [file])
        other = InputFile(file.name, file.path, "0" * 64)
        assert f"{file.path}: expected the sha256 000000000000..." in self.failure(job, other, bilm)

    def test_other_weights(self, job, file):
        unfinished(job, [file])
        assert f"{job.weights}: other weights on " in self.failure(job, file)

    def test_no_compiler_there(self, job, file, bilm, monkeypatch):
        unfinished(job, [file])
        monkeypatch.setattr("elmo.embed.shards.compiled", lambda: None)
        there = dataclasses.replace(job, arithmetic=f"torch {torch.__version__} and compiled C")
        assert f"computes with torch {torch.__version__} alone, the command with " in self.failure(there, file, bilm)

    def test_a_shard_that_killed_its_workers(self, job, file, bilm):
        unfinished(job, [file])
        for number in range(3):
            assert not (job.folder / "a.txt.parquet").exists()
            (job.folder / f"a.txt.parquet.{number}-ab.partial").touch()
        assert f"{file.path}: 3 workers died while they embedded it" in self.failure(job, file, bilm)
        (job.folder / "a.txt.parquet.0-ab.partial").unlink()
        assert ShardWriter(job, bilm)(file).failure is None

    def test_the_manifest_says_all_that_decides_the_bits(self, job):
        found = job.identity()
        assert {field.name for field in dataclasses.fields(EmbedSettings)} < set(found)
        assert (found["weights"], found["device"], found["threads"]) == (job.fingerprint, "cpu", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["in.txt"], "expected IN and OUT, or many IN and --out FOLDER, found 1 paths"),
        (["in.txt", "out.hdf5", "--engine", "ray"], "--engine ray and --threads need --out FOLDER"),
        (["in.txt", "--out", "o", "--workers", "2"], "--workers needs --engine ray"),
        (["in.txt", "--out", "o", "--engine", "ray", "--workers", "0"], "--workers must be from 1 to 1,024, found 0"),
        (["in.txt", "--out", "o", "--engine", "ray", "--gpus", "nan"], "--gpus must be from 0 to 64, found nan"),
        (["in.txt", "--out", "o", "--engine", "ray", "--gpus", "1", "--device", "cpu"], "--gpus cannot be used with"),
        (["in.txt", "--out", "o", "--store", "s"], "--store cannot be used with --out"),
        (["-", "--out", "o"], "standard input cannot be used with --out"),
        (["in.txt", "--out", "o.hdf5"], "--out: expected a folder for shards, found o.hdf5. Without --out: IN OUT"),
    ],
)
def test_options_that_do_not_go_together(options, message, capsys):
    with pytest.raises(SystemExit):
        main(options)
    assert message in capsys.readouterr().err


def test_the_room_of_a_cluster():
    assert _room({"CPU": 9.0}, cpus=2, gpus=0) == 4
    assert _room({"CPU": 9.0, "GPU": 2.0}, cpus=1, gpus=0.5) == 4
    with pytest.raises(InputError, match="needs 1 CPUs and 1 GPUs, the cluster has 8 and 0"):
        _room({"CPU": 8.0}, cpus=1, gpus=1)
