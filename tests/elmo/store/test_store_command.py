"""Tests of python -m elmo.store: info and prune."""

import os
import re

import pytest
import torch

from elmo.store.__main__ import main
from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import FORMAT
from tests.elmo.store.stores import DISTINCT, SENTENCES, close_shelves, find, layers_of, sentences_embedded


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
        kind, used = rf"{bilm.fingerprint()[:32]}-40-float32-v{FORMAT}", r"last used \d{4}-\d\d-\d\d \d\d:\d\d"
        assert re.search(rf"{kind}  0\.\d+ GB, {used}, {len(DISTINCT)} sentences", done.stdout)

    def test_a_home_that_is_not_there(self, command):
        done = command("--store", "~nobodyhere/x", "info")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "elmo.store: --store=~nobodyhere/x: expected a home folder, but ~nobodyhere has none\n"

    @pytest.mark.parametrize("kept", [None, 3000])
    def test_rows_that_are_cut_short_or_gone(self, store, bilm, shelf_of, kept, monkeypatch, command):
        """As a full disk or a copy that was broken off leaves them; the bytes of `rows` that are left are `kept`."""
        shelf = shelf_of(bilm)
        starts = dict(zip(DISTINCT, find(shelf, list(DISTINCT)), strict=True))
        whole = {key for key, start in starts.items() if (start + len(key)) * 160 <= (kept or 0)}
        if kept is None:
            (shelf.path / "rows").unlink()
        else:
            os.truncate(shelf.path / "rows", kept)
        info = command("--store", store, "info")
        assert (info.returncode, info.stderr) == (0, "")
        embedded = sentences_embedded(bilm, monkeypatch)
        cached = CachedLayers(bilm, shelf_of(bilm))
        cached.prepare(SENTENCES)
        assert sorted(embedded) == sorted(DISTINCT - whole)
        assert torch.equal(layers_of(cached, SENTENCES), bilm.layers(SENTENCES))

    def test_prune_removes_what_is_named_and_nothing_else(self, store, command):
        """--store may name any folder, such as one that holds much else."""
        website = store / "website"
        website.mkdir()
        (website / "rows").touch()
        old = store / "abc-zero-float16-v4"
        old.mkdir()
        (old / "rows").touch()
        for wrong in ((), ("float16",), (website.name,)):
            done = command("--store", store, "prune", *wrong)
            said = f"elmo.store: prune: expected names that info lists, found {wrong[0] if wrong else 'none'}\n"
            assert (done.returncode, done.stderr) == (1, said)
        assert f"{old.name}  0.000 GB, " in command("info", "--store", store).stdout
        names = [old.name, next(store.glob(f"*float16-v{FORMAT}")).name]
        assert command("--store", store, "prune", *names).returncode == 0
        assert sorted(path.name for path in store.iterdir()) == sorted([next(store.glob("*float32*")).name, "website"])

    def test_no_store_yet(self, tmp_path, command):
        done = command("--store", tmp_path / "none", "info")
        assert done.returncode == 1
        assert "no store there yet" in done.stderr
