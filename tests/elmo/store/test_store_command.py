"""Tests of python -m elmo.store: info, verify, prune."""

import os
import re
import time

import numpy as np
import pytest
import torch

from elmo.store.__main__ import main
from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import Shelf, ShelfDescription, key_of
from tests.elmo.store.stores import DISTINCT, SENTENCES, close_shelves, sentences_embedded


class TestCommand:
    @pytest.fixture
    def store(self, tmp_path, bilm, shelf_of):
        CachedLayers(bilm, shelf_of(bilm)).prepare(SENTENCES)
        CachedLayers(bilm, shelf_of(bilm, "float16"), "float16").prepare(SENTENCES[:10])
        return tmp_path / "store"

    @pytest.fixture
    def command(self, called):
        """python -m elmo.store, which finds no shelf open, as if it were in a process of its own."""

        def call(*arguments):
            close_shelves()
            return called(main, *arguments)

        return call

    def test_info(self, store, bilm, command):
        done = command("--store", store, "info")
        assert (done.returncode, done.stderr) == (0, "")
        assert "2 kinds of layers" in done.stdout
        tokens = sum(map(len, DISTINCT))
        expected = rf"{bilm.fingerprint()[:16]}-zero-float32-v5  {len(DISTINCT)} sentences, {tokens} tokens, 0\.\d+ GB"
        assert re.search(expected, done.stdout)

    @pytest.mark.parametrize("damage", ["deep", "pipe"])
    def test_a_kind_that_says_nothing_of_itself_does_not_hide_the_others(self, store, damage, command):
        about = next(store.glob("*float16*/about.json"))
        about.unlink()
        if damage == "pipe":
            os.mkfifo(about)
        else:
            about.write_text("[" * 100_000 + "]" * 100_000)
        for name in ("info", "verify"):
            done = command("--store", store, name)
            assert (done.returncode, done.stderr) == (0, "")
            assert f"float32-v5  {len(DISTINCT)} sentences" in done.stdout

    def test_a_home_that_is_not_there(self, command):
        done = command("--store", "~nobodyhere/x", "info")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "elmo.store: --store=~nobodyhere/x: expected a home folder, but ~nobodyhere has none\n"

    def test_verify_finds_what_was_changed_and_drops_it(self, store, bilm, shelf_of, monkeypatch, command):
        assert command("--store", store, "verify").returncode == 0
        victim = max(DISTINCT, key=len)
        (start,) = shelf_of(bilm).find([victim])
        with (shelf_of(bilm).path / "rows").open("r+b") as file:
            file.seek(start * 160 + 3)
            file.write(b"\x55")
        done = command("--store", store, "verify")
        assert done.returncode == 1
        assert f"float32-v5  {len(DISTINCT)} sentences, 1 damaged" in done.stdout
        assert command("verify", "--drop", "--store", store).returncode == 0
        assert command("--store", store, "verify").returncode == 0
        embedded = sentences_embedded(bilm, monkeypatch)
        cached = CachedLayers(bilm, shelf_of(bilm))
        cached.prepare(SENTENCES)
        assert embedded == [victim]
        assert torch.equal(cached.layers(SENTENCES), bilm.layers(SENTENCES))

    def test_verify_names_layers_without_an_entry(self, tmp_path, command):
        shelf = Shelf(tmp_path, ShelfDescription("f" * 64, (1,), "float32"))
        shelf.add([("a",), ("b", "b"), ("c",) * 3], np.ones((6, 1), np.float32))
        shelf.close()
        assert "does not name" not in command("--store", tmp_path, "verify").stdout
        (shelf.path / "entries").write_bytes(b"")
        out = command("--store", tmp_path, "verify").stdout
        assert "0 sentences, 0 damaged" in out
        assert f"{shelf.path / 'rows'}: 24 bytes of layers that {shelf.path / 'entries'} does not name" in out
        assert f"prune --kind {shelf.path.name} frees the room" in out
        assert command("--store", tmp_path, "prune", "--kind", shelf.path.name).returncode == 0
        assert not shelf.path.exists()

    def test_what_was_dropped_is_not_counted(self, tmp_path, command):
        shelf = Shelf(tmp_path, ShelfDescription("f" * 64, (1,), "float32"))
        shelf.add([("a",), ("b", "b"), ("c",) * 3, ("d",) * 4], np.ones((10, 1), np.float32))
        shelf.drop([key_of(("b", "b")), key_of(("d",) * 4)])
        shelf.close()
        assert "float32-v5  2 sentences, 4 tokens" in command("--store", tmp_path, "info").stdout

    @pytest.mark.parametrize("kept", [None, 3000])
    def test_rows_that_are_cut_short_or_gone(self, store, bilm, shelf_of, kept, monkeypatch, command):
        """As a full disk or a copy that was broken off leaves them; the bytes of `rows` that are left are `kept`."""
        shelf = shelf_of(bilm)
        starts = dict(zip(DISTINCT, shelf.find(list(DISTINCT)), strict=True))
        whole = {key for key, start in starts.items() if (start + len(key)) * 160 <= (kept or 0)}
        if kept is None:
            (shelf.path / "rows").unlink()
        else:
            os.truncate(shelf.path / "rows", kept)
        info = command("--store", store, "info")
        assert (info.returncode, info.stderr) == (0, "")
        damaged = f"float32-v5  {len(DISTINCT)} sentences, {len(DISTINCT - whole)} damaged"
        done = command("--store", store, "verify")
        assert (done.returncode, damaged in done.stdout) == (1, True)
        done = command("verify", "--drop", "--store", store)
        assert (done.returncode, f"{damaged} and dropped" in done.stdout) == (0, True)
        assert shelf_of(bilm).count() == (len(whole), sum(map(len, whole)))
        embedded = sentences_embedded(bilm, monkeypatch)
        cached = CachedLayers(bilm, shelf_of(bilm))
        cached.prepare(SENTENCES)
        assert sorted(embedded) == sorted(DISTINCT - whole)
        assert torch.equal(cached.layers(SENTENCES), bilm.layers(SENTENCES))

    def test_one_kind_alone_is_pruned(self, store, command):
        name = next(store.glob("*float16*")).name
        done = command("--store", store, "prune", "--kind", "float16")
        assert (done.returncode, "expected --kind to be a name that info lists, found 'float16'" in done.stderr) == (
            1,
            True,
        )
        assert command("--store", store, "prune", "--kind", name).returncode == 0
        assert [path.name for path in store.iterdir()] == [name.replace("float16", "float32")]

    def test_prune(self, store, command):
        old = next(store.glob("*float16*"))
        os.utime(old / "about.json", (0, time.time() - 5 * 86_400))
        dry = command("--store", store, "prune", "--days", 3, "--dry-run")
        assert "would free" in dry.stdout
        assert old.exists()
        assert command("--store", store, "prune", "--days", 3).returncode == 0
        assert [path.name for path in store.iterdir()] == [next(store.glob("*float32*")).name]
        assert command("--store", store, "prune", "--to-gb", 1).returncode == 0
        assert len(list(store.iterdir())) == 1
        assert command("--store", store, "prune", "--to-gb", 0).returncode == 0
        assert list(store.iterdir()) == []

    def test_what_another_version_wrote_is_shown_and_never_read(self, store, command):
        folder = store / "abc-zero-float16-v9"
        folder.mkdir()
        (folder / "rows").touch()
        (folder / "about.json").write_text('{"format": 9, "new": true}')
        assert "abc-zero-float16-v9  0.000 GB" in command("--store", store, "info").stdout
        assert "abc-zero-float16-v9  of another version, not read" in command("--store", store, "verify").stdout
        command("--store", store, "prune", "--other-versions")
        assert not folder.exists()
        assert len(list(store.iterdir())) == 2

    @pytest.mark.parametrize("which", ["--all", "--other-versions"])
    def test_what_is_not_the_stores_is_never_removed(self, store, which, command):
        """--store may name any folder, such as one that holds much else."""
        website, copied = store / "website", store / "notes-float16-v3"
        website.mkdir()
        (website / "rows").touch()
        copied.mkdir()
        for folder in (website, copied):
            (folder / "about.json").write_text('{"title": "Home"}')
        done = command("--store", store, "prune", which)
        assert done.returncode == 0, done.stderr
        assert website.exists()
        assert copied.exists()
        assert len(list(store.iterdir())) == (2 if which == "--all" else 4)
        assert f"{0 if which == '--all' else 2} kinds" in command("--store", store, "info").stdout

    @pytest.mark.parametrize("which", ["--days", "--to-gb"])
    @pytest.mark.parametrize("number", ["-1", "nan", "-0.5", "many"])
    def test_numbers_that_cannot_be_meant(self, tmp_path, which, number, capsys):
        with pytest.raises(SystemExit) as exited:
            main(["--store", str(tmp_path), "prune", which, number])
        assert exited.value.code == 2
        assert f"argument {which}: expected a number from 0 on, found '{number}'" in capsys.readouterr().err

    def test_no_store_yet(self, tmp_path, command):
        done = command("--store", tmp_path / "none", "info")
        assert done.returncode == 1
        assert "no store there yet" in done.stderr
