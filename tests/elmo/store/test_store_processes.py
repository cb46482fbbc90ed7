"""The store with several processes: parallel writers, kills while writing, full disks."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import open_shelf
from tests.elmo.store import filling
from tests.elmo.store.stores import count, count_damaged, files_of_at_most, find, layers_of


def start_filling(store, seconds):
    command = [sys.executable, "-m", "tests.elmo.store.filling", str(store), str(seconds)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def check(store):
    """Every entry is whole and is what the biLM gives; the number of their tokens."""
    shelf = open_shelf(store, *filling.KIND)
    assert count_damaged(shelf) == 0
    present = [
        s for s, start in zip(filling.SENTENCES, find(shelf, filling.SENTENCES), strict=True) if start is not None
    ]
    if present:
        cached = CachedLayers(Absent(), shelf)
        assert torch.equal(layers_of(cached, present), filling.BILM.layers(present))
    return count(shelf)[1]


class Absent(filling.Slow):
    """A source that must not be asked."""

    def __init__(self):
        super().__init__(0)

    def token_layers(self, sentences):
        raise AssertionError(f"{len(sentences)} sentences are embedded again")


class TestShelf:
    @pytest.mark.processes
    def test_rows_that_others_wrote_are_seen(self, tmp_path):
        """By a shelf that mapped the file before they were there."""
        store = tmp_path / "store"
        shelf = open_shelf(store, *filling.KIND)
        assert find(shelf, filling.SENTENCES[:1]) == [None]
        start_filling(store, 0.0).communicate("go\n", timeout=300)
        cached = CachedLayers(filling.BILM, shelf)
        cached.prepare(filling.SENTENCES)
        assert torch.equal(layers_of(cached, filling.SENTENCES), filling.BILM.layers(filling.SENTENCES))


class TestNoRoom:
    ROW = 40 * 4

    def test_a_file_that_may_not_grow_ends_the_filling_and_not_the_run(self, tmp_path, monkeypatch):
        quota = 100_000
        monkeypatch.setattr("elmo.store.cached_layers.TOKENS_AT_ONCE", filling.TOKENS_AT_ONCE)
        with files_of_at_most(quota):
            found = filling.fill(tmp_path / "store")
        assert found["right"]
        assert "cannot write there: " in found["said"][-1]
        tokens = check(tmp_path / "store")
        assert 0 < tokens <= quota / self.ROW

    @pytest.mark.integration
    def test_a_full_disk_ends_the_filling_and_not_the_run(self, tmp_path):
        disk = mount_point(tmp_path)
        found = filled_inside(f"mount -t tmpfs -o size=100k none {disk}", disk / "store")
        assert found["right"]
        assert "cannot write there: " in found["said"][-1]

    @pytest.mark.processes
    def test_a_read_only_disk_is_read(self, tmp_path):
        disk = mount_point(tmp_path)
        filling.fill(disk / "store")
        found = filled_inside(f"mount --bind {disk} {disk} && mount -o remount,bind,ro {disk}", disk / "store")
        assert found["right"]
        assert found["embedded"] == 3, "those of the spot check"


def mount_point(tmp_path):
    """An empty folder; the test is skipped where nothing can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["unshare", "-rm", "sh", "-c", f"mount -t tmpfs none {disk}"], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a file system in a namespace of its own")
    return disk


def filled_inside(mount, store):
    """What a process says that fills a store on a disk that is mounted for it alone."""
    command = f"{mount} && exec {sys.executable} -m tests.elmo.store.filling {store} 0"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command], input="go\n", capture_output=True, text=True, check=True, timeout=300
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.integration
class TestProcesses:
    def test_killed_while_filling_nothing_written_is_lost_or_torn(self, tmp_path):
        store, draw, before = tmp_path / "store", random.Random(0), 0
        rows = open_shelf(store, *filling.KIND).path / "rows"
        for _ in range(2):
            process = start_filling(store, 0.02)
            process.stdin.write("go\n")
            process.stdin.flush()
            while not rows.exists() or rows.stat().st_size < (before + 400) * 160:
                time.sleep(0.001)
                assert process.poll() is None, "it was done before it could be killed"
            time.sleep(draw.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            tokens = check(store)
            assert tokens >= before
            before = tokens
        total = sum(map(len, set(filling.SENTENCES)))
        assert 400 < before < total
        assert filling.fill(store)["right"]
        assert check(store) == total

    def test_rows_and_half_a_record_that_a_killed_writer_left_do_no_harm(self, tmp_path):
        """Killed between the rows and the index: the worst moment, made by hand."""
        filling.fill(tmp_path / "store")
        tokens = check(tmp_path / "store")
        shelf = open_shelf(tmp_path / "store", *filling.KIND)
        with (shelf.path / "rows").open("ab") as file:
            file.write(os.urandom(5 * 160 + 7))
        with (shelf.path / "entries").open("ab") as file:
            file.write(os.urandom(13))
        assert check(tmp_path / "store") == tokens
        shelf.add([("new",)], np.full((1, 40), 3, np.float32))
        taken = np.empty((1, 40), np.float32)
        shelf.take(np.array(find(shelf, [("new",)])), taken)
        assert (taken == 3).all()
        assert check(tmp_path / "store") == tokens + 1

    @pytest.mark.processes
    def test_two_at_once_share_the_work(self, tmp_path):
        store = tmp_path / "store"
        processes = [start_filling(store, 0.05) for _ in range(2)]
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        found = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
        assert all(one["right"] for one in found)
        distinct = len(set(filling.SENTENCES))
        embedded = [one["embedded"] for one in found]
        assert min(embedded) > 0.1 * distinct, "both were at work"
        # Twice the sentences if nothing were shared; about 1.3 times were seen on a loaded machine.
        assert distinct <= sum(embedded) <= 1.6 * distinct
        assert check(store) == sum(map(len, set(filling.SENTENCES)))
