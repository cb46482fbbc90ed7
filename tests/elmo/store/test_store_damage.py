"""Tests of damaged, cut, read-only and full stores: no wrong layers, no crash, one line that says so."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock

from elmo.store.__main__ import main
from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import LOCK, StoreFull, StoreUnusable, open_shelf
from tests.elmo.store import filling
from tests.elmo.store.stores import (
    DISTINCT,
    SENTENCES,
    close_shelves,
    count,
    count_damaged,
    find,
    layers_of,
    sentences_embedded,
)

ROW = 40 * 4


@pytest.fixture
def filled(tmp_path, bilm):
    """The folder of a filled shelf, closed, so that the next opening is like that of another process."""
    shelf = open_shelf(tmp_path / "store", bilm.fingerprint(), bilm.widths, "float32", 1.0)
    CachedLayers(bilm, shelf).prepare(SENTENCES)
    close_shelves()
    return shelf.path


def prepared(bilm, shelf):
    """The layers of all sentences, and what was warned of."""
    listener, cached = filling.Listener(), CachedLayers(bilm, shelf)
    listener.say = lambda text: None
    listener.warn = listener.said.append
    cached.prepare(SENTENCES, listener)
    return layers_of(cached, SENTENCES), listener.said


def flip(rows, *places):
    with rows.open("r+b") as file:
        for place in places:
            file.seek(place)
            (byte,) = file.read(1)
            file.seek(place)
            file.write(bytes([byte ^ 1]))


class TestRows:
    def test_damaged_ones_are_embedded_again_and_replaced(self, filled, bilm, shelf_of, monkeypatch):
        expected = bilm.layers(SENTENCES)
        size = (filled / "rows").stat().st_size
        flip(filled / "rows", ROW + 3, size - 5)  # in the first sentence and in the last
        embedded = sentences_embedded(bilm, monkeypatch)
        layers, (warning,) = prepared(bilm, shelf_of(bilm))
        assert torch.equal(layers, expected)
        assert len(embedded) == 2
        assert warning.startswith(f"{filled}: 2 sentences are damaged: their rows do not match their checksums.")
        assert count_damaged(shelf_of(bilm)) == 0
        assert count(shelf_of(bilm)) == (len(DISTINCT), sum(map(len, DISTINCT)))
        layers, warnings = prepared(bilm, shelf_of(bilm))
        assert (torch.equal(layers, expected), len(embedded), warnings) == (True, 2, [])

    def test_with_no_room_to_replace_them_they_are_still_not_read(self, filled, bilm, shelf_of):
        flip(filled / "rows", ROW + 3)
        layers, warnings = prepared(bilm, shelf_of(bilm, limit_gb=0))
        assert torch.equal(layers, bilm.layers(SENTENCES))
        assert len(warnings) == 2
        assert "1 sentences are damaged" in warnings[0]
        assert "the limit of 0 GB is reached" in warnings[1]

    def test_rows_that_the_disk_cannot_read(self, filled, bilm, shelf_of, monkeypatch):
        def broken(file, size, offset, read=os.pread):
            if offset == ROW:
                raise OSError(5, "Input/output error")
            return read(file, size, offset)

        monkeypatch.setattr(os, "pread", broken)
        layers, (warning,) = prepared(bilm, shelf_of(bilm))
        assert torch.equal(layers, bilm.layers(SENTENCES))
        assert "1 sentences are damaged" in warning

    def test_rows_are_compared_once_a_process_and_never_after_writing_them(self, filled, bilm, shelf_of, monkeypatch):
        read = []

        def counted(file, size, offset, pread=os.pread):
            if os.path.samestat(os.fstat(file), (filled / "rows").stat()):
                read.append(offset)
            return pread(file, size, offset)

        monkeypatch.setattr(os, "pread", counted)
        prepared(bilm, shelf_of(bilm))
        assert len(read) == len(set(read)) == len(DISTINCT)
        assert read == sorted(read), "in their order on disk"
        prepared(bilm, shelf_of(bilm))
        assert len(read) == len(DISTINCT)
        shelf_of(bilm).add([("new",)], np.ones((1, 40), np.float32))
        assert find(shelf_of(bilm), [("new",)]) != [None]
        assert len(read) == len(DISTINCT)


def cut(content, draw):
    return content[: draw.randrange(len(content))]


def flipped(content, draw):
    for place in draw.sample(range(len(content)), 40):
        content[place] ^= 1 << draw.randrange(8)
    return content


def zeroed(content, draw):
    place = draw.randrange(len(content))
    content[place : place + 100] = bytes(len(content[place : place + 100]))
    return content


def foreign(content, draw):
    place = draw.randrange(len(content))
    return content[:place] + draw.randbytes(draw.randrange(1, 200)) + content[place:]


class TestIndex:
    @pytest.mark.parametrize("damage", [cut, flipped, zeroed, foreign])
    @pytest.mark.parametrize("seed", range(5))
    def test_whatever_is_damaged_layers_are_right(self, filled, bilm, shelf_of, damage, seed, called):
        """A sentence without a whole record is embedded again."""
        path, expected = filled / "entries", bilm.layers(SENTENCES)
        path.write_bytes(damage(bytearray(path.read_bytes()), random.Random(seed)))
        done = called(main, "--store", filled.parent, "info")
        assert (done.returncode, done.stderr) == (0, "")
        layers, warnings = prepared(bilm, shelf_of(bilm))
        assert torch.equal(layers, expected)
        assert all("sentences are damaged: their rows do not match" in warning for warning in warnings)
        close_shelves()
        layers, warnings = prepared(bilm, shelf_of(bilm))
        assert (torch.equal(layers, expected), warnings) == (True, [])

    def test_an_entry_of_zeros_is_no_entry(self, filled, bilm, shelf_of, monkeypatch):
        """Its checksum is that of no rows."""
        path = filled / "entries"
        content = bytearray(path.read_bytes())
        content[16:32] = bytes(16)
        path.write_bytes(content)
        embedded = sentences_embedded(bilm, monkeypatch)
        assert torch.equal(prepared(bilm, shelf_of(bilm))[0], bilm.layers(SENTENCES))
        assert len(embedded) == 1 + len(SENTENCES), "one, and those that are compared"


class TestReadOnly:
    @pytest.fixture
    def read_only(self, monkeypatch):
        """A file system that refuses to open for writing; root could write where permissions forbid it."""

        def refuse(path, flags, *mode, opened=os.open, **more):
            if flags & (os.O_RDWR | os.O_WRONLY):
                raise OSError(30, "Read-only file system")
            return opened(path, flags, *mode, **more)

        monkeypatch.setattr(os, "open", refuse)
        monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)

    def test_what_it_has_is_read_and_the_rest_computed(self, filled, bilm, shelf_of, read_only, monkeypatch):
        embedded, before = sentences_embedded(bilm, monkeypatch), (filled / "rows").read_bytes()
        assert prepared(bilm, shelf_of(bilm))[1] == embedded == []
        new = [*SENTENCES, ("a", "new", "one")]
        cached, listener = CachedLayers(bilm, shelf_of(bilm)), filling.Listener()
        assert cached.prepare(new, listener) == 0
        assert set(embedded) == {("a", "new", "one")}
        assert torch.equal(layers_of(cached, new), bilm.layers(new))
        assert "Read-only file system" in listener.said[-1]
        assert "What is left is kept in memory" in listener.said[-1]
        with pytest.raises(StoreFull, match="Read-only"):
            shelf_of(bilm).add([("new",)], np.ones((1, 40), np.float32))
        assert (filled / "rows").read_bytes() == before

    def test_the_command(self, filled, read_only, capsys):
        store = str(filled.parent)
        assert main(["--store", store, "info"]) == 0
        assert "1 kinds of layers" in capsys.readouterr().out


def test_a_disk_full_at_the_start_is_named(bilm, shelf_of, monkeypatch):
    def no_space(path, flags, *mode, opened=os.open, **more):
        if flags & os.O_RDWR:
            raise OSError(28, "No space left on device")
        return opened(path, flags, *mode, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_space)
        with pytest.raises(StoreUnusable, match=r"cannot keep layers there: .*No space left on device\. Name another"):
            shelf_of(bilm)
    assert prepared(bilm, shelf_of(bilm))[1] == [], "the next run tries again"


def stop_while_writing(store):
    """Stops this process as if by Ctrl-Z while it writes."""
    with FileLock(open_shelf(Path(store), *filling.KIND).path / LOCK):
        os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.processes
def test_a_stopped_writer_is_waited_for_a_stated_time_only(tmp_path, monkeypatch):
    code = "import sys; from tests.elmo.store.test_store_damage import *; stop_while_writing(sys.argv[1])"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    try:
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        monkeypatch.setattr("elmo.store.shelf.WAIT_SECONDS", 0.5)
        cached, listener = CachedLayers(filling.BILM, open_shelf(tmp_path, *filling.KIND)), filling.Listener()
        assert cached.prepare(filling.SENTENCES, listener) == 0
        assert torch.equal(layers_of(cached, filling.SENTENCES), filling.BILM.layers(filling.SENTENCES))
        assert "end a process that is stopped with Ctrl-Z" in listener.said[-1]
        assert count(open_shelf(tmp_path, *filling.KIND)) == (0, 0)
    finally:
        process.kill()
        process.wait()
    CachedLayers(filling.BILM, open_shelf(tmp_path, *filling.KIND)).prepare(filling.SENTENCES)
    assert count(open_shelf(tmp_path, *filling.KIND))[0] == len(set(filling.SENTENCES)), "its end frees the store"
