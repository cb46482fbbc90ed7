"""What is in the store is what the biLM gives; whoever else writes to it is in test_store_processes.py."""

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import elmo.cache
from elmo import InputError, random_bilm
from elmo.cache import CachedLayers
from elmo.store import About, Shelf, StoreFull, open_shelf
from elmo.store.__main__ import main
from elmo.store.shelf import key_of
from elmo.teller import Silence

SENTENCES = [tuple(f"w{random.Random(i).randrange(40)}" for _ in range(i % 9)) for i in range(30)]
DISTINCT = set(SENTENCES) - {()}


class Listener(Silence):
    """Remembers what it is told."""

    def __init__(self):
        self.said, self.warned = [], []

    def say(self, text):
        self.said.append(text)

    def warn(self, text):
        self.warned.append(text)


@pytest.fixture
def bilm():
    return random_bilm("tiny", seed=3)


@pytest.fixture
def shelf_of(tmp_path):
    """Opens the shelf of a biLM, in a store of this test."""

    def opened(bilm, precision="float32", store=tmp_path / "store", limit_gb=1.0):
        return open_shelf(store, About(bilm.fingerprint(), bilm.widths, precision), limit_gb)

    return opened


def sentences_embedded(bilm, monkeypatch):
    """The sentences that go through the biLM from now on."""
    embedded = []
    compute = bilm.token_layers
    monkeypatch.setattr(bilm, "token_layers", lambda batch, state=None: embedded.extend(batch) or compute(batch))
    return embedded


class TestKeys:
    def test_lists_that_differ_have_different_keys(self):
        lists = [
            ("a", "b"), ("ab",), ("a b",), ("a", "b", ""), ("", "a", "b"), ("a", "", "b"), ("b", "a"), ("A", "b"),
            ("a\0b",), ("a", "\0", "b"), ("a\n", "b"), ("a", "\nb"), ("é",), ("e\u0301",), ("\ud800",), ("\ud801",), (),
        ]  # fmt: skip
        assert len({key_of(tokens) for tokens in lists}) == len(lists)

    def test_lists_and_tuples_are_the_same(self):
        assert key_of(["The", "cat"]) == key_of(("The", "cat"))

    def test_the_same_in_every_process_and_version(self):
        """Stores are shared by processes and outlive them."""
        digest = hashlib.blake2b(b"Thecat" + b"\3\0\0\0" + b"\3\0\0\0", digest_size=16)
        assert key_of(("The", "cat")) == digest.digest()


class TestShelf:
    def test_rows_come_back(self, tmp_path):
        shelf = Shelf(tmp_path, About("f" * 64, (1, 2), "float32"))
        rows = np.arange(15, dtype=np.float32).reshape(5, 3)
        shelf.add([("a", "b"), ("c", "d", "e")], rows)
        first, second, nowhere, empty = shelf.find([("a", "b"), ["c", "d", "e"], ("a",), ()])
        assert nowhere is None
        assert empty is not None
        taken = np.full((2, 3, 3), 7, dtype=np.float32)
        shelf.take(np.array([[first, first + 1, 0], [second, second + 1, second + 2]]), taken)
        assert taken.tolist() == [[*rows[:2].tolist(), [0, 0, 0]], rows[2:].tolist()]
        assert shelf.count() == (2, 5)
        shelf.close()

    def test_what_is_there_is_left_alone(self, tmp_path):
        shelf = Shelf(tmp_path, About("f" * 64, (1,), "float32"))
        shelf.add([("a",)], np.array([[1.0]], np.float32))
        shelf.add([("b",), ("a",), ("b",)], np.array([[2.0], [3.0], [4.0]], np.float32))
        taken = np.empty((2, 1), np.float32)
        shelf.take(np.array(shelf.find([("a",), ("b",)])), taken)
        assert taken.tolist() == [[1.0], [2.0]]
        assert shelf.count() == (2, 2)
        shelf.close()

    def test_one_kind_a_folder(self, tmp_path, bilm, shelf_of):
        other = random_bilm("tiny", seed=4)
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        for weights, precision in ((other, "float32"), (bilm, "float16")):
            assert set(shelf_of(weights, precision).find(list(DISTINCT))) == {None}
        assert len(list((tmp_path / "store").iterdir())) == 3

    @pytest.mark.parametrize(
        "change", [{"format": 1}, {"weights": "0" * 64}, {"state": "carried"}, {"widths": [1]}, {"x": 1}]
    )
    def test_a_folder_that_says_something_else_is_refused(self, tmp_path, change):
        about = About("f" * 64, (2,), "float16")
        Shelf(tmp_path, about).close()
        file = tmp_path / about.folder / "about.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
        with pytest.raises(InputError, match=r"about\.json: expected .* found .* Remove that folder, or name another"):
            Shelf(tmp_path, about)

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match=r"cannot keep layers there: .*store\.path=null"):
            Shelf(tmp_path / "file", About("f" * 64, (2,), "float16"))

    def test_removed_and_asked_for_again_it_starts_anew(self, tmp_path, bilm, shelf_of):
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        assert main(["--store", str(tmp_path / "store"), "prune", "--all"]) == 0
        assert shelf_of(bilm).count() == (0, 0)

    def test_it_opens_while_others_are_pruned(self, tmp_path):
        own, other = About("f" * 64, (1,), "float32"), tmp_path / "abc-zero-float16-v3"

        def come_and_go():
            for _ in range(100):
                (other / "index").mkdir(parents=True)
                for name in (
                    "about.json",
                    "index/data.mdb",
                    *map(str, range(60)),
                ):  # many: one is met as it goes
                    (other / name).write_text("{}")
                shutil.rmtree(other)

        with ThreadPoolExecutor(1) as pool:
            pruning = pool.submit(come_and_go)
            while not pruning.done():
                open_shelf(tmp_path, own)
        pruning.result()
        assert open_shelf(tmp_path, own).room() > 0

    def test_pruned_the_moment_it_is_opened_it_serves_the_run(self, tmp_path, monkeypatch):
        limit_to = Shelf.limit_to

        def pruned_meanwhile(shelf, limit_gb):
            shutil.rmtree(shelf.path)
            limit_to(shelf, limit_gb)

        monkeypatch.setattr(Shelf, "limit_to", pruned_meanwhile)
        shelf = open_shelf(tmp_path, About("f" * 64, (1,), "float32"))
        shelf.add([("a",)], np.array([[1.0]], np.float32))
        assert shelf.count() == (1, 1)


class TestLayers:
    @pytest.mark.parametrize("precision", ["float32", "float16"])
    def test_are_those_of_the_bilm_rounded_and_nothing_else(self, bilm, shelf_of, precision):
        """To the last bit: cold, warm, without a store, and for what was not prepared."""
        expected = bilm.layers(SENTENCES).to(getattr(torch, precision)).float()
        cold, warm, memory, unprepared, half = (
            CachedLayers(bilm, shelf, precision) for shelf in (shelf_of(bilm, precision),) * 2 + (None,) * 2 + (None,)
        )
        for cached, prepared in ((cold, SENTENCES), (warm, SENTENCES), (memory, SENTENCES), (half, SENTENCES[::2])):
            assert cached.prepare(prepared) == 0
        for cached in (cold, warm, memory, unprepared, half):
            assert torch.equal(cached.layers(SENTENCES), expected)
            assert torch.equal(cached.layers(SENTENCES[5:6]), expected[:, 5:6, : len(SENTENCES[5])])
        assert not warm._starts, "nothing had to be brought to memory"

    def test_layer_0_is_kept_once(self, tmp_path, bilm, shelf_of):
        CachedLayers(bilm, shelf_of(bilm, "float16"), "float16").prepare(SENTENCES)
        (rows,) = (tmp_path / "store").glob("*/rows")
        tokens = sum(map(len, DISTINCT))
        assert rows.stat().st_size == (1 + tokens) * (bilm.dim // 2 + 2 * bilm.dim) * 2  # a row of zeros, for padding

    def test_the_second_run_embeds_nothing(self, bilm, shelf_of, monkeypatch):
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        embedded, listener = sentences_embedded(bilm, monkeypatch), Listener()
        again = CachedLayers(bilm, shelf_of(bilm))
        assert again.prepare(SENTENCES, listener) == 0
        again.layers(SENTENCES)
        assert embedded == []
        assert listener.said[0].startswith(f"0 of {len(DISTINCT)} sentences to embed; store: ")

    def test_a_sub_sample_reuses_the_entries_and_a_larger_set_adds_to_them(self, bilm, shelf_of, monkeypatch):
        embedded = sentences_embedded(bilm, monkeypatch)
        for number in (20, 10, 30):
            CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES[:number])
        assert sorted(embedded) == sorted(DISTINCT)

    def test_what_a_forecast_says(self, bilm, shelf_of, monkeypatch):
        monkeypatch.setattr(elmo.cache, "TOKENS_AT_ONCE", 16)
        listener, tokens = Listener(), sum(map(len, DISTINCT))
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES, listener)
        size = tokens * 40 * 4 / 1e9
        assert listener.said[0].startswith(
            f"{len(DISTINCT)} of {len(DISTINCT)} sentences to embed: {tokens} tokens, {size:.2g} GB"
        )
        assert re.match(r"embedding takes about \d+ s, as the second of \d+ batches tells", listener.said[1])

    def test_read_ahead_in_another_thread(self, bilm, shelf_of, monkeypatch):
        cached = CachedLayers(bilm, shelf_of(bilm))
        cached.prepare(SENTENCES)
        expected = cached.layers(SENTENCES[:9])
        threads, take = [], Shelf.take
        monkeypatch.setattr(
            Shelf, "take", lambda self, *rest: threads.append(threading.current_thread()) or take(self, *rest)
        )
        located = [cached.locate(text) for text in (SENTENCES[:9], SENTENCES[3:5])]
        for text in located:
            text.reading.result()
        assert len(threads) == 2
        assert threading.main_thread() not in threads
        assert torch.equal(cached.layers_at(located[0], None), expected)
        assert len(threads) == 2, "read once"

    def test_the_disk_is_told_what_will_be_read(self, bilm, shelf_of, monkeypatch):
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        told = []
        monkeypatch.setattr(Shelf, "expect", lambda self, first, last: told.append((first, last)))
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES[10:15])
        starts = shelf_of(bilm).find(SENTENCES[10:15])
        assert told == [(min(starts), max(starts))]
        CachedLayers(bilm, shelf_of(bilm), memory_gb=0).prepare(SENTENCES)
        assert len(told) == 1, "what does not fit would only drive out what does"

    def test_values_that_float16_cannot_hold(self, bilm):
        with torch.no_grad():
            bilm.encoder.projection.bias[0] = 1e6
        with pytest.raises(InputError, match=r"^float16 cannot hold .* features\.elmo\.precision=float32"):
            CachedLayers(bilm, None, "float16").prepare(SENTENCES)

    def test_a_shelf_of_something_else(self, bilm, shelf_of):
        with pytest.raises(ValueError, match="expected a shelf of float16"):
            CachedLayers(bilm, shelf_of(bilm, "float32"), "float16")


class TestNoRoom:
    ROW = 40 * 4

    def test_beyond_the_limit_layers_come_from_memory_or_are_computed(self, bilm, shelf_of):
        listener, tokens = Listener(), sum(map(len, DISTINCT))
        overhead = sum(path.stat().st_size for path in shelf_of(bilm).path.rglob("*") if path.is_file())
        limited = shelf_of(bilm, limit_gb=(overhead + 50 * self.ROW) / 1e9)
        cached = CachedLayers(bilm, limited, memory_gb=30 * self.ROW / 1e9)
        left_out = cached.prepare(SENTENCES, listener)
        (warning,) = listener.warned
        assert re.match(
            r"the store has room for \d+ of them\. Raise store\.limit_gb, or python -m elmo\.store prune", warning
        )
        stored = limited.count()[1]
        assert 30 < stored <= 50
        in_memory = len(cached._table) - 1
        assert 10 < in_memory <= 30
        assert stored + in_memory < tokens
        assert left_out == len(DISTINCT - cached._starts.keys() - cached._stored.keys()) > 0
        assert torch.equal(cached.layers(SENTENCES), bilm.layers(SENTENCES))

    @pytest.mark.parametrize("at_once", [7, 40, 100])
    def test_short_writes_are_gone_on_with(self, tmp_path, monkeypatch, at_once):
        """The kernel may take a part; what is left must follow."""
        write = os.pwrite
        monkeypatch.setattr(os, "pwrite", lambda file, content, offset: write(file, content[:at_once], offset))
        rows = np.random.default_rng(0).random((9, 20), np.float32)
        shelf = Shelf(tmp_path, About("f" * 64, (20,), "float32"))
        shelf.add([("a",) * 4, ("b",) * 5], rows)
        assert (shelf.path / "rows").stat().st_size == 10 * 80
        assert list(shelf.damaged()) == []
        shelf.close()

    def test_others_of_the_store_count(self, bilm, shelf_of):
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        other = random_bilm("tiny", seed=4)
        assert shelf_of(other, limit_gb=1e-5).room() == 0
        with pytest.raises(StoreFull, match=r"the limit of 1e-05 GB is reached\. Raise store\.limit_gb"):
            shelf_of(other, limit_gb=1e-5).add([("a",)], np.zeros((1, 40), np.float32))

    def test_what_others_write_after_the_opening_counts(self, tmp_path):
        """biLMs that fill one store side by side keep its limit together."""
        kinds = [About(letter * 64, (1000,), "float32") for letter in "abc"]
        shelves = [open_shelf(tmp_path, about, limit_gb=1e-3) for about in kinds]

        def fill():
            for number in range(1000):
                shelves[number % 3].add([(f"w{number}",) * 5], np.ones((5, 1000), np.float32))

        with pytest.raises(StoreFull):
            fill()
        assert 0.9e6 < sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 1.1e6
        assert [shelf.room() <= 5 for shelf in shelves] == [True] * 3


class TestCommand:
    @pytest.fixture
    def store(self, tmp_path, bilm, shelf_of):
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        CachedLayers(bilm, shelf_of(bilm, "float16"), "float16").prepare(SENTENCES[:10])
        return tmp_path / "store"

    @staticmethod
    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "elmo.store", *map(str, arguments)], capture_output=True, text=True, check=False
        )

    def test_info(self, store, bilm):
        done = self.command("--store", store, "info")
        assert (done.returncode, done.stderr) == (0, "")
        assert "2 kinds of layers" in done.stdout
        tokens = sum(map(len, DISTINCT))
        expected = rf"{bilm.fingerprint()[:16]}-zero-float32-v3  {len(DISTINCT)} sentences, {tokens} tokens, 0\.\d+ GB"
        assert re.search(expected, done.stdout)

    def test_verify_finds_what_was_changed_and_drops_it(self, store, bilm, shelf_of, monkeypatch):
        assert self.command("--store", store, "verify").returncode == 0
        victim = max(DISTINCT, key=len)
        (start,) = shelf_of(bilm).find([victim])
        with (shelf_of(bilm).path / "rows").open("r+b") as file:
            file.seek(start * 160 + 3)
            file.write(b"\x55")
        done = self.command("--store", store, "verify")
        assert done.returncode == 1
        assert f"float32-v3  {len(DISTINCT)} sentences, 1 damaged" in done.stdout
        assert self.command("--store", store, "verify", "--drop").returncode == 0
        assert self.command("--store", store, "verify").returncode == 0
        embedded = sentences_embedded(bilm, monkeypatch)
        cached = CachedLayers(bilm, shelf_of(bilm))
        cached.prepare(SENTENCES)
        assert embedded == [victim]
        assert torch.equal(cached.layers(SENTENCES), bilm.layers(SENTENCES))

    def test_what_was_dropped_is_not_counted(self, tmp_path):
        shelf = Shelf(tmp_path, About("f" * 64, (1,), "float32"))
        shelf.add([("a",), ("b", "b"), ("c",) * 3, ("d",) * 4], np.ones((10, 1), np.float32))
        shelf.drop([key_of(("b", "b")), key_of(("d",) * 4)])
        shelf.close()
        assert "float32-v3  2 sentences, 4 tokens" in self.command("--store", tmp_path, "info").stdout

    @pytest.mark.parametrize("kept", [None, 3000])
    def test_rows_that_are_cut_short_or_gone(self, store, bilm, shelf_of, kept, monkeypatch):
        """As a full disk or a copy that was broken off leaves them; the bytes of `rows` that are left are `kept`."""
        shelf = shelf_of(bilm)
        starts = dict(zip(DISTINCT, shelf.find(list(DISTINCT)), strict=True))
        whole = {key for key, start in starts.items() if (start + len(key)) * 160 <= (kept or 0)}
        if kept is None:
            (shelf.path / "rows").unlink()
        else:
            os.truncate(shelf.path / "rows", kept)
        for _ in range(2):
            with pytest.raises(InputError, match=r"rows: expected .* python -m elmo\.store --store .* verify --drop"):
                shelf_of(bilm)
        info = self.command("--store", store, "info")
        assert (info.returncode, info.stderr) == (0, "")
        damaged = f"float32-v3  {len(DISTINCT)} sentences, {len(DISTINCT - whole)} damaged"
        done = self.command("--store", store, "verify")
        assert (done.returncode, damaged in done.stdout) == (1, True)
        done = self.command("--store", store, "verify", "--drop")
        assert (done.returncode, f"{damaged} and dropped" in done.stdout) == (0, True)
        assert shelf_of(bilm).count() == (len(whole), sum(map(len, whole)))
        embedded = sentences_embedded(bilm, monkeypatch)
        cached = CachedLayers(bilm, shelf_of(bilm))
        cached.prepare(SENTENCES)
        assert sorted(embedded) == sorted(DISTINCT - whole)
        assert torch.equal(cached.layers(SENTENCES), bilm.layers(SENTENCES))
        assert (shelf.path / "rows").stat().st_size == (1 + sum(map(len, DISTINCT))) * 160, "its room is used again"

    @pytest.mark.parametrize("command", ["info", "verify"])
    def test_an_index_that_cannot_be_read_does_not_hide_the_others(self, store, command):
        broken, whole = next(store.glob("*float32*")), next(store.glob("*float16*"))
        os.utime(whole / "about.json", (0, 0))  # it comes after the broken one
        (broken / "index" / "data.mdb").write_bytes(b"junk" * 5000)
        done = self.command("--store", store, command)
        assert done.returncode == 1
        assert re.search(rf"{whole.name}  \d+ sentences", done.stdout)
        assert f"elmo.store: {broken}: cannot keep layers there: " in done.stderr

    def test_prune(self, store):
        old = next(store.glob("*float16*"))
        os.utime(old / "about.json", (0, time.time() - 5 * 86_400))
        dry = self.command("--store", store, "prune", "--days", 3, "--dry-run")
        assert "would free" in dry.stdout
        assert old.exists()
        assert self.command("--store", store, "prune", "--days", 3).returncode == 0
        assert [path.name for path in store.iterdir()] == [next(store.glob("*float32*")).name]
        assert self.command("--store", store, "prune", "--to-gb", 1).returncode == 0
        assert len(list(store.iterdir())) == 1
        assert self.command("--store", store, "prune", "--to-gb", 0).returncode == 0
        assert list(store.iterdir()) == []

    def test_what_another_version_wrote_is_shown_and_never_read(self, store):
        folder = store / "abc-zero-float16-v9"
        (folder / "index").mkdir(parents=True)
        (folder / "index" / "data.mdb").touch()
        (folder / "about.json").write_text('{"format": 9, "new": true}')
        assert "abc-zero-float16-v9  0.000 GB" in self.command("--store", store, "info").stdout
        assert "abc-zero-float16-v9  of another version, not read" in self.command("--store", store, "verify").stdout
        self.command("--store", store, "prune", "--other-versions")
        assert not folder.exists()
        assert len(list(store.iterdir())) == 2

    @pytest.mark.parametrize("which", ["--all", "--other-versions"])
    def test_what_is_not_the_stores_is_never_removed(self, store, which):
        """--store may name any folder, such as one that holds much else."""
        website, copied = store / "website", store / "notes-float16-v3"
        (website / "index").mkdir(parents=True)
        (website / "index" / "data.mdb").touch()
        copied.mkdir()
        for folder in (website, copied):
            (folder / "about.json").write_text('{"title": "Home"}')
        done = self.command("--store", store, "prune", which)
        assert done.returncode == 0, done.stderr
        assert website.exists()
        assert copied.exists()
        assert len(list(store.iterdir())) == (2 if which == "--all" else 4)
        assert f"{0 if which == '--all' else 2} kinds" in self.command("--store", store, "info").stdout

    @pytest.mark.parametrize("which", ["--days", "--to-gb"])
    @pytest.mark.parametrize("number", ["-1", "nan", "-0.5", "many"])
    def test_numbers_that_cannot_be_meant(self, tmp_path, which, number, capsys):
        with pytest.raises(SystemExit) as exited:
            main(["--store", str(tmp_path), "prune", which, number])
        assert exited.value.code == 2
        assert f"argument {which}: expected a number from 0 on, found '{number}'" in capsys.readouterr().err

    def test_no_store_yet(self, tmp_path):
        done = self.command("--store", tmp_path / "none", "info")
        assert done.returncode == 1
        assert "no store there yet" in done.stderr
