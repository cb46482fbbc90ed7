"""Run locks: one holder at a time, also between processes, and free once the holder is dead."""

import os
import subprocess
import sys
import time

import pytest

from results.records.progress import LOCK_NAME, HeldLock, Owner, is_locked, read_lock, run_lock

# Tries once, keeps what it got until a line comes, and says what that was.
TRY = """
import sys
from pathlib import Path
from results.records.progress import HeldLock, run_lock
print("ready", flush=True)
sys.stdin.readline()
with run_lock(Path(sys.argv[1])) as held:
    if isinstance(held, HeldLock):
        held.progress(3, 8)
    print("mine" if isinstance(held, HeldLock) else held.pid, flush=True)
    sys.stdin.readline()
"""


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.fixture
def start():
    """Processes that try to take the lock on a folder when the test says so; they end with the test."""
    started = []

    def begin(folder):
        command = [sys.executable, "-c", TRY, str(folder)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline().strip() == "ready"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_it_is_there_while_it_is_held_and_gone_afterwards(tmp_path):
    with run_lock(tmp_path) as held:
        assert isinstance(held, HeldLock)
        assert names(tmp_path) == [LOCK_NAME]
        assert is_locked(tmp_path / LOCK_NAME)
        with run_lock(tmp_path, patience=0.1) as other:
            assert isinstance(other, Owner)
            assert other.pid == os.getpid()
            assert f"pid {os.getpid()}, since 20" in str(other)
        assert names(tmp_path) == [LOCK_NAME], "asking leaves it alone"
    assert names(tmp_path) == []


def test_an_exception_gives_it_back(tmp_path):
    with pytest.raises(KeyboardInterrupt), run_lock(tmp_path):
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_progress_can_be_read_and_does_not_open_it(tmp_path):
    with run_lock(tmp_path) as held:
        for epoch in (9, 10):
            held.progress(epoch, 10, 81.5)
            owner = read_lock(tmp_path / LOCK_NAME)
            assert owner.progress == f"epoch {epoch} of 10, best dev 81.50"
            assert owner.seconds >= 0
            assert is_locked(tmp_path / LOCK_NAME)


def test_what_killed_processes_left_is_swept_up(tmp_path):
    for name in ("record.json.12-ab.partial", "checkpoint.pt.12.partial"):
        (tmp_path / name).write_text("half")
    (tmp_path / "checkpoint.pt").write_text("whole")
    with run_lock(tmp_path):
        assert names(tmp_path) == ["checkpoint.pt", LOCK_NAME]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file: expected a folder .* runs_dir=DIR"), run_lock(tmp_path / "file"):
        pass


@pytest.mark.parametrize("content", ["{", '{"host": 1}', ""])
def test_a_file_with_other_content_is_replaced(tmp_path, content):
    path = tmp_path / LOCK_NAME
    path.write_text(content)
    assert read_lock(path).host == "unknown"
    assert not is_locked(path)
    with run_lock(tmp_path) as held:
        assert isinstance(held, HeldLock)
        assert read_lock(path).pid == os.getpid()
    assert names(tmp_path) == []


@pytest.mark.integration
class TestProcesses:
    def test_kill_9_sets_it_free_at_once(self, tmp_path, start):
        process = start(tmp_path)
        go(process)
        assert process.stdout.readline().strip() == "mine"
        with run_lock(tmp_path, patience=0.1) as taken:
            assert isinstance(taken, Owner)
            assert (taken.pid, taken.progress) == (process.pid, "epoch 3 of 8")
        process.kill()
        process.wait()
        assert names(tmp_path) == [LOCK_NAME], "no process could clean up"
        assert not is_locked(tmp_path / LOCK_NAME)
        assert read_lock(tmp_path / LOCK_NAME).progress == "epoch 3 of 8", "how far it had got"
        started = time.monotonic()
        with run_lock(tmp_path) as held:
            assert isinstance(held, HeldLock)
        assert time.monotonic() - started < 1
        assert names(tmp_path) == []

    def test_of_many_that_take_over_from_a_killed_one_one_wins(self, tmp_path, start):
        (tmp_path / LOCK_NAME).write_text("{")
        processes = [start(tmp_path) for _ in range(4)]
        for process in processes:
            go(process)
        answers = [process.stdout.readline().strip() for process in processes]
        assert answers.count("mine") == 1
        winner = processes[answers.index("mine")]
        assert {answer for answer in answers if answer != "mine"} == {str(winner.pid)}
