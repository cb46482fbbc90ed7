"""Corpus builds that were killed or failed, and are run again; builds at the same time."""

import gzip
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from elmo.common.errors import InputError
from elmo.pretrain.corpus import token_store as build
from elmo.pretrain.corpus.token_store import CorpusSettings, build_store
from tests.elmo.common.waiting import wait_for
from tests.elmo.pretrain.corpus_text import QUIET, contents, write

CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children")
SCRIPT = """
import sys
from elmo.pretrain.corpus.token_store import CorpusSettings, build_store

if __name__ == "__main__":
    build_store(CorpusSettings([sys.argv[1]], block_bytes=8192, heldout_fraction=0.1, workers=2), sys.argv[2])
"""


def settings(text, **changes):
    return CorpusSettings([text], **{"block_bytes": 8192, "heldout_fraction": 0.1, "workers": 1, **changes})


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.integration
@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="watches processes through /proc"
)
def test_a_killed_run_leaves_nothing_to_the_next_one(tmp_path):
    text = write(tmp_path / "text.txt", range(30_000))
    script = tmp_path / "build.py"
    script.write_text(SCRIPT)
    folder, work = tmp_path / "store", tmp_path / "store.partial"
    process = subprocess.Popen([sys.executable, script, text, folder], stderr=subprocess.DEVNULL)
    try:
        of_process = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(lambda: process.poll() is not None or (work.exists() and len(of_process.read_text().split()) >= 2))
        children = of_process.read_text().split()
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    wait_for(lambda: not any(running(pid) for pid in children))  # no worker outlives its parent
    assert len(children) >= 2
    assert not folder.exists()
    (work / "vocab.txt").touch()  # of another text
    build_store(settings(text), folder, QUIET)
    assert not work.exists()
    uninterrupted = build_store(settings(text), tmp_path / "uninterrupted", QUIET)
    assert contents(folder) == contents(uninterrupted.folder)


@pytest.mark.parametrize(("damage", "message"), [(slice(-100), "Copy it again"), (slice(0), "no words")])
def test_a_run_succeeds_after_a_damaged_file_was_replaced(tmp_path, damage, message):
    packed = gzip.compress(write(tmp_path / "text.txt", range(50)).read_bytes())
    text = tmp_path / "c.gz"
    text.write_bytes(packed[damage])
    with pytest.raises(InputError, match=message):
        build_store(settings(text), tmp_path / "store", QUIET)
    text.write_bytes(packed)
    copied = build_store(settings(text), tmp_path / "store", QUIET)
    assert contents(copied.folder) == contents(build_store(settings(text), tmp_path / "new", QUIET).folder)


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
    monkeypatch.setattr(build, "make_shard", _die)
    with pytest.raises(InputError, match=r"worker process was killed.*Run the command again"):
        build_store(settings(text, workers=2), tmp_path / "store", QUIET)


def _die(job, **arguments):
    os.kill(os.getpid(), signal.SIGKILL)
