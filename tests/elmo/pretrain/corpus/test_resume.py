"""Corpus builds that were killed or failed, and are run again."""

import gzip
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import patch

import pytest
from rich.console import Console

from elmo.common.errors import InputError
from elmo.pretrain.corpus import build, shards
from elmo.pretrain.corpus.build import CorpusSettings, build_store
from tests.elmo.common.waiting import wait_for
from tests.elmo.pretrain.corpus_text import QUIET, contents, write

SCRIPT = """
import sys
from elmo.pretrain.corpus.build import CorpusSettings, build_store

if __name__ == "__main__":
    build_store(CorpusSettings([sys.argv[1]], block_bytes=8192, heldout_fraction=0.1, workers=2), sys.argv[2])
"""


def settings(text, **changes):
    return CorpusSettings([text], **{"block_bytes": 8192, "heldout_fraction": 0.1, "workers": 1, **changes})


def fail_while_merging(text, folder):
    with (
        patch.object(build, "merge", side_effect=RuntimeError("died while merging")),
        pytest.raises(RuntimeError, match="died while merging"),
    ):
        build_store(settings(text), folder, QUIET)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.integration
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="watches processes through /proc")
def test_a_killed_run_continues_and_ends_with_the_same_bytes(tmp_path, monkeypatch):
    text = write(tmp_path / "text.txt", range(8_000))
    script = tmp_path / "build.py"
    script.write_text(SCRIPT)
    folder, work = tmp_path / "store", tmp_path / "store.partial"
    process = subprocess.Popen([sys.executable, script, text, folder], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(list(work.glob("*.npz"))) >= 5 or process.poll() is not None)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    wait_for(lambda: not any(running(pid) for pid in children))  # no worker outlives its parent
    assert len(children) >= 2
    done = {path.name for path in work.glob("*.npz")}
    assert not folder.exists()

    made = []

    def spy(block, **arguments):
        made.append(f"{block.index:06d}.npz")
        return shard(block, **arguments)

    shard = shards.make_shard
    monkeypatch.setattr(shards, "make_shard", spy)
    build_store(settings(text), folder, QUIET)
    resumed = set(made)
    assert resumed
    assert not done & resumed
    assert not work.exists()
    made.clear()
    uninterrupted = build_store(settings(text), tmp_path / "uninterrupted", QUIET)
    assert set(made) == done | resumed
    assert contents(folder) == contents(uninterrupted.folder)


def test_a_run_that_failed_while_merging_does_not_tokenise_again(tmp_path, monkeypatch):
    text = write(tmp_path / "text.txt", range(500))
    fail_while_merging(text, tmp_path / "store")
    assert not (tmp_path / "store").exists()
    monkeypatch.setattr(shards, "tokenise_block", None)
    # Shards do not depend on the vocabulary: it may change on the way.
    store = build_store(settings(text, vocabulary=50), tmp_path / "store", QUIET)
    assert store.vocabulary_size == 53


def test_shards_of_other_settings_are_refused(tmp_path):
    text = write(tmp_path / "text.txt", range(500))
    fail_while_merging(text, tmp_path / "store")
    with pytest.raises(
        InputError, match=r"store\.partial: made with other settings:\n  max_tokens: 200 there, 50 asked for"
    ):
        build_store(settings(text, max_tokens=50), tmp_path / "store", QUIET)


@pytest.mark.parametrize(("damage", "message"), [(slice(-100), "cut off, copy it again"), (slice(0), "no words")])
def test_a_run_continues_after_a_damaged_file_was_replaced(tmp_path, damage, message):
    packed = gzip.compress(write(tmp_path / "text.txt", range(50)).read_bytes())
    text = tmp_path / "c.gz"
    text.write_bytes(packed[damage])
    with pytest.raises(InputError, match=message):
        build_store(settings(text), tmp_path / "store", QUIET)
    text.write_bytes(packed)
    copied = build_store(settings(text), tmp_path / "store", QUIET)
    assert contents(copied.folder) == contents(build_store(settings(text), tmp_path / "new", QUIET).folder)


def test_a_damaged_shard_is_named_and_a_lost_one_made_again(tmp_path):
    text, work = write(tmp_path / "text.txt", range(500)), tmp_path / "store.partial"
    whole = build_store(settings(text), tmp_path / "whole", QUIET)
    for content in (b"", b"PK", b"\x93NUMPY", "half"):
        fail_while_merging(text, tmp_path / "store")
        shard = work / "000001.npz"
        shard.write_bytes(shard.read_bytes()[:-2000] if content == "half" else content)
        with pytest.raises(
            InputError, match=r"000001\.npz: expected a shard .* Delete .*store\.partial, and run again"
        ):
            build_store(settings(text), tmp_path / "store", QUIET)
        shard.unlink()
    assert contents(build_store(settings(text), tmp_path / "store", QUIET).folder) == contents(whole.folder)


def test_of_two_runs_that_start_together_one_builds_the_store_and_the_other_waits(tmp_path, monkeypatch):
    text = write(tmp_path / "text.txt", range(50))
    said, builds, others = io.StringIO(), [], []

    def build_other():
        others.append(build_store(settings(text), tmp_path / "store", Console(file=said, width=400)))

    other = threading.Thread(target=build_other)

    def start_other(*given):
        builds.append(1)
        other.start()
        wait_for(lambda: "waiting for another process" in said.getvalue() or not other.is_alive())
        return make(*given)

    make = build.make_shards
    monkeypatch.setattr(build, "make_shards", start_other)
    first = build_store(settings(text), tmp_path / "store", QUIET)
    other.join()
    assert builds == [1]
    assert [store.fingerprint for store in others] == [first.fingerprint]
    assert "nothing to do" in said.getvalue()
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "store"}


@pytest.mark.integration
def test_a_killed_worker_is_reported(tmp_path, monkeypatch):
    text = write(tmp_path / "text.txt", range(500))
    monkeypatch.setattr(shards, "make_shard", _die)
    with pytest.raises(InputError, match=r"worker process was killed.*Run the command again"):
        build_store(settings(text, workers=2), tmp_path / "store", QUIET)


def _die(block, **arguments):
    os.kill(os.getpid(), signal.SIGKILL)
