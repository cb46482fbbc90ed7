"""Tests of the layer store: it returns the layers of the biLM."""

import hashlib
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import elmo.store.cached_layers
from elmo import InputError, random_bilm
from elmo.common.progress import Reporter
from elmo.store.__main__ import main
from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import StoreFull, key_of, open_shelf
from tests.elmo.store.stores import DISTINCT, SENTENCES, count, count_damaged, find, layers_of, sentences_embedded


class Listener(Reporter):
    """Records what is reported."""

    def __init__(self):
        super().__init__(quiet=True)
        self.said, self.warned = [], []

    def say(self, text):
        self.said.append(text)

    def warn(self, text):
        self.warned.append(text)


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
        shelf = open_shelf(tmp_path, "f" * 64, (1, 2), "float32", 1.0)
        rows = np.arange(15, dtype=np.float32).reshape(5, 3)
        shelf.add([("a", "b"), ("c", "d", "e")], rows)
        first, second, nowhere = find(shelf, [("a", "b"), ("c", "d", "e"), ("a",)])
        assert nowhere is None
        taken = np.full((2, 3, 3), 7, dtype=np.float32)
        shelf.take(np.array([[first, first + 1, 0], [second, second + 1, second + 2]]), taken)
        assert taken.tolist() == [[*rows[:2].tolist(), [0, 0, 0]], rows[2:].tolist()]
        assert count(shelf) == (2, 5)

    def test_one_kind_a_folder(self, tmp_path, bilm, shelf_of):
        other = random_bilm("tiny", seed=4)
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        for weights, precision in ((other, "float32"), (bilm, "float16")):
            assert set(find(shelf_of(weights, precision), list(DISTINCT))) == {None}
        assert len(list((tmp_path / "store").iterdir())) == 3

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match=r"cannot keep layers there: .*ELMO_STORE, or use none"):
            open_shelf(tmp_path / "file", "f" * 64, (2,), "float16", 1.0)

    def test_removed_while_it_is_used_it_stays_for_this_process(self, tmp_path, bilm, shelf_of):
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES[:10])
        cached, listener = CachedLayers(bilm, shelf_of(bilm)), Listener()
        assert main(["--store", str(tmp_path / "store"), "prune", shelf_of(bilm).path.name]) == 0
        assert cached.prepare(SENTENCES, listener) == 0
        assert listener.warned == []
        assert torch.equal(layers_of(cached, SENTENCES), bilm.layers(SENTENCES))

    def test_its_room_is_measured_while_others_are_pruned(self, tmp_path):
        other = tmp_path / "abc-zero-float16-v3"

        def come_and_go():
            for _ in range(40):
                other.mkdir(parents=True)
                for name in ("rows", *map(str, range(60))):  # many: one is met as it goes
                    (other / name).write_text("{}")
                shutil.rmtree(other)

        with ThreadPoolExecutor(1) as pool:
            pruning = pool.submit(come_and_go)
            while not pruning.done():
                assert open_shelf(tmp_path, "f" * 64, (1,), "float32", 1.0).room() > 0  # which measures all shelves
        pruning.result()


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
            assert torch.equal(layers_of(cached, SENTENCES), expected)
            assert torch.equal(layers_of(cached, SENTENCES[5:6]), expected[:, 5:6, : len(SENTENCES[5])])
        assert not warm._starts, "nothing had to be brought to memory"

    def test_another_default_device_changes_nothing(self, bilm, shelf_of):
        cached = CachedLayers(bilm, shelf_of(bilm))
        with torch.device("meta"):  # as torch.set_default_device
            cached.prepare(SENTENCES)
            found = layers_of(cached, SENTENCES)
        assert torch.equal(found, bilm.layers(SENTENCES))

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
        layers_of(again, SENTENCES)
        assert embedded == []
        assert listener.said[0].startswith(f"0 of {len(DISTINCT)} sentences to embed; store: ")

    def test_a_sub_sample_reuses_the_entries_and_a_larger_set_adds_to_them(self, bilm, shelf_of, monkeypatch):
        embedded = sentences_embedded(bilm, monkeypatch)
        for number in (20, 10, 30):
            CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES[:number])
        assert sorted(embedded) == sorted(DISTINCT)

    def test_what_a_forecast_says(self, bilm, shelf_of, monkeypatch):
        monkeypatch.setattr(elmo.store.cached_layers, "TOKENS_AT_ONCE", 16)
        listener, tokens = Listener(), sum(map(len, DISTINCT))
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES, listener)
        size = tokens * 40 * 4 / 1e6
        assert listener.said[0].startswith(
            f"{len(DISTINCT)} of {len(DISTINCT)} sentences to embed: {tokens} tokens, {size:.1f} MB"
        )


class TestNoRoom:
    ROW = 40 * 4

    def test_beyond_the_limit_layers_come_from_memory_or_are_computed(self, bilm, shelf_of, monkeypatch):
        listener, tokens = Listener(), sum(map(len, DISTINCT))
        overhead = sum(path.stat().st_size for path in shelf_of(bilm).path.rglob("*") if path.is_file())
        monkeypatch.setattr(elmo.store.cached_layers, "TOKENS_AT_ONCE", 16)
        limited = shelf_of(bilm, limit_gb=(overhead + 50 * self.ROW) / 1e9)
        cached = CachedLayers(bilm, limited, memory_gb=30 * self.ROW / 1e9)
        left_out = cached.prepare(SENTENCES, listener)
        (warning,) = listener.warned
        assert re.search(r"the limit of \S+ GB is reached\. Raise limit_gb, or free some", warning)
        stored = count(limited)[1]
        assert 30 < stored <= 50
        in_memory = len(cached._table) - 1
        assert 10 < in_memory <= 30
        assert stored + in_memory < tokens
        assert left_out == len(DISTINCT - cached._starts.keys() - cached._stored.keys()) > 0
        assert torch.equal(layers_of(cached, SENTENCES), bilm.layers(SENTENCES))

    @pytest.mark.parametrize("at_once", [7, 40, 100])
    def test_short_writes_are_gone_on_with(self, tmp_path, monkeypatch, at_once):
        """The kernel may take a part; what is left must follow."""
        write = os.pwrite
        monkeypatch.setattr(os, "pwrite", lambda file, content, offset: write(file, content[:at_once], offset))
        rows = np.random.default_rng(0).random((9, 20), np.float32)
        shelf = open_shelf(tmp_path, "f" * 64, (20,), "float32", 1.0)
        shelf.add([("a",) * 4, ("b",) * 5], rows)
        assert (shelf.path / "rows").stat().st_size == 10 * 80
        assert count_damaged(shelf) == 0

    def test_others_of_the_store_count(self, bilm, shelf_of):
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        other = random_bilm("tiny", seed=4)
        assert shelf_of(other, limit_gb=1e-5).room() == 0
        with pytest.raises(StoreFull, match=r"the limit of 1e-05 GB is reached\. Raise limit_gb"):
            shelf_of(other, limit_gb=1e-5).add([("a",)], np.zeros((1, 40), np.float32))

    def test_what_others_write_after_the_opening_counts(self, tmp_path):
        """biLMs that fill one store side by side keep its limit together."""
        shelves = [open_shelf(tmp_path, letter * 64, (1000,), "float32", 1e-3) for letter in "abc"]

        def fill():
            for number in range(1000):
                shelves[number % 3].add([(f"w{number}",) * 5], np.ones((5, 1000), np.float32))

        with pytest.raises(StoreFull):
            fill()
        assert 0.9e6 < sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 1.1e6
        assert [shelf.room() <= 5 for shelf in shelves] == [True] * 3
