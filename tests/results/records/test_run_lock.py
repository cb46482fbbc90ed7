"""Run locks: one holder at a time, also between processes, and free once the holder is dead."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from results.records import run_lock
from results.records.run_lock import LOCK_NAME, Lock, Owner, Process, read_lock, take
from tests.elmo.common.waiting import wait_for

HOLD = """
import sys, time
from pathlib import Path
from results.records.run_lock import Lock, Process, take
held = take(Path(sys.argv[1]), "a run", Process.of(int(sys.argv[2])) if len(sys.argv) > 2 else None)
assert isinstance(held, Lock)
with held:
    held.progress(3, 8)
    print("held", flush=True)
    time.sleep(600)
"""

# Waits for the starting shot, tries once, keeps what it got, and says what that was.
TRY = """
import sys, time
from pathlib import Path
from results.records.run_lock import Lock, take
folder = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
taken = take(folder)
print("mine" if isinstance(taken, Lock) else taken.token, flush=True)
sys.stdin.readline()
"""


def start(source, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def processes():
    """Real processes, ended when the test is."""
    started = []

    def begin(source, *arguments):
        process = start(source, *arguments)
        started.append(process)
        assert process.stdout.readline().strip() in ("held", "ready")
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def kill(process):
    process.kill()
    process.wait()


def elsewhere(folder, modified=None, name=LOCK_NAME, token="of-another"):
    """A lock of a machine that cannot be seen from here."""
    path = folder / name
    owner = Owner(token, "far", Process(1, "1", "far away"), since="2026-01-01T00:00:00+00:00")
    path.write_bytes(run_lock._text(owner))
    if modified is not None:
        os.utime(path, (modified, modified))
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def quick(monkeypatch):
    """Heartbeats every tenth of a second, and silence after half a second."""
    monkeypatch.setattr(run_lock, "SILENCE", 0.5)
    return 0.1


class TestTaking:
    def test_it_is_there_while_it_is_held_and_gone_afterwards(self, tmp_path):
        with take(tmp_path) as held:
            assert isinstance(held, Lock)
            assert names(tmp_path) == [LOCK_NAME]
            owner = read_lock(tmp_path / LOCK_NAME)
            assert (owner.process.pid, owner.process.alive()) == (os.getpid(), True)
            other = take(tmp_path)
            assert isinstance(other, Owner)
            assert other.token == owner.token
            assert f"pid {os.getpid()}, since 20" in str(other)
            assert names(tmp_path) == [LOCK_NAME], "asking leaves nothing behind"
        assert names(tmp_path) == []

    def test_an_exception_gives_it_back(self, tmp_path):
        with pytest.raises(KeyboardInterrupt), take(tmp_path):
            raise KeyboardInterrupt
        assert names(tmp_path) == []

    def test_progress_can_be_read(self, tmp_path):
        with take(tmp_path) as held:
            size = (tmp_path / LOCK_NAME).stat().st_size
            held.progress(9, 10)
            held.progress(10, 10)
            owner = read_lock(tmp_path / LOCK_NAME)
            assert (owner.epoch, owner.epochs) == (10, 10)
            assert owner.seconds >= 0
            assert (tmp_path / LOCK_NAME).stat().st_size == size

    def test_what_killed_processes_left_is_swept_up(self, tmp_path):
        for name in ("record.json.12-ab.partial", "checkpoint.pt.12.partial", "lock.json.9-ff.partial"):
            (tmp_path / name).write_text("half")
        (tmp_path / "checkpoint.pt").write_text("whole")
        with take(tmp_path):
            assert names(tmp_path) == ["checkpoint.pt", LOCK_NAME]

    def test_a_folder_that_cannot_be_written(self, tmp_path):
        with pytest.raises(OSError, match="nowhere"):
            take(tmp_path / "nowhere")

    def test_without_hard_links(self, tmp_path, monkeypatch):
        def refuse(*_):
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
        with take(tmp_path) as held:
            assert held.held()
            assert isinstance(take(tmp_path), Owner)
        assert names(tmp_path) == []


class TestOwnersHere:
    def test_a_living_one_keeps_it(self, tmp_path, processes):
        process = processes(HOLD, tmp_path)
        taken = take(tmp_path)
        assert isinstance(taken, Owner)
        assert (taken.process.pid, taken.title, taken.epoch, taken.epochs) == (process.pid, "a run", 3, 8)

    def test_a_silent_one_keeps_it_while_it_lives(self, tmp_path, processes, quick):
        process = processes(HOLD, tmp_path)
        process.send_signal(signal.SIGSTOP)
        os.utime(tmp_path / LOCK_NAME, (0, 0))
        assert isinstance(take(tmp_path, heartbeat=quick), Owner)

    def test_kill_9_sets_it_free_at_once(self, tmp_path, processes):
        kill(processes(HOLD, tmp_path))
        assert names(tmp_path) == [LOCK_NAME], "no process could clean up"
        started = time.monotonic()
        with take(tmp_path) as held:
            assert isinstance(held, Lock)
            assert read_lock(tmp_path / LOCK_NAME).process.pid == os.getpid()
        assert time.monotonic() - started < 5
        assert names(tmp_path) == []

    def test_a_zombie_is_dead(self, tmp_path, processes):
        process = processes(HOLD, tmp_path)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
        with take(tmp_path) as held:
            assert isinstance(held, Lock)

    def test_another_process_with_its_number_is_not_it(self, tmp_path):
        path = elsewhere(tmp_path)
        me = Process.of(os.getpid())
        path.write_bytes(run_lock._text(replace(read_lock(path), process=replace(me, born="1"))))
        assert isinstance(take(tmp_path), Lock)

    def test_one_whose_launcher_is_gone_is_waited_for(self, tmp_path, processes):
        launcher = processes(TRY, tmp_path)
        process = processes(HOLD, tmp_path, launcher.pid)
        kill(launcher)
        killer = subprocess.Popen(
            [sys.executable, "-c", f"import os, time; time.sleep(0.5); os.kill({process.pid}, 9)"]
        )
        assert isinstance(take(tmp_path), Lock)
        killer.wait()


class TestOwnersElsewhere:
    def test_a_fresh_heartbeat_is_believed(self, tmp_path):
        elsewhere(tmp_path)
        started = time.monotonic()
        assert take(tmp_path).host == "far"
        assert time.monotonic() - started < 5

    @pytest.mark.parametrize("clock", [-3600, 3600], ids=["silent for an hour", "the clock went back an hour"])
    def test_one_that_is_silent_while_watched_is_taken_over(self, tmp_path, quick, clock):
        elsewhere(tmp_path, time.time() + clock)
        with take(tmp_path, heartbeat=quick) as held:
            assert isinstance(held, Lock)
            assert names(tmp_path) == [LOCK_NAME]
        assert names(tmp_path) == []

    @pytest.mark.parametrize("clock", [-3600, 3600])
    def test_one_that_shows_itself_keeps_it_whatever_its_clock(self, tmp_path, quick, clock):
        path = elsewhere(tmp_path, time.time() + clock)
        beating = start(
            "import os, sys, time\n"
            "for beat in range(100):\n"
            "    time.sleep(0.05); os.utime(sys.argv[1], (float(sys.argv[2]) + beat,) * 2)",
            *(path, time.time() + clock),
        )
        first = path.stat().st_mtime
        wait_for(lambda: path.stat().st_mtime != first)  # until it beats
        assert take(tmp_path, heartbeat=quick).host == "far"
        beating.kill()
        beating.communicate()

    def test_the_local_clock_is_not_asked(self, tmp_path, monkeypatch):
        elsewhere(tmp_path)
        monkeypatch.setattr(time, "time", lambda: 0.0)
        assert take(tmp_path).host == "far"

    def test_a_lock_file_with_other_content_has_an_unknown_owner(self, tmp_path, quick):
        path = tmp_path / LOCK_NAME
        path.write_text("{")
        assert take(tmp_path, heartbeat=quick).host == "unknown"
        os.utime(path, (0, 0))
        assert isinstance(take(tmp_path, heartbeat=quick), Lock)

    @pytest.mark.parametrize("token", ["../../x", "x" * 1000, "a\0b", ""])
    def test_a_token_that_is_no_name_has_an_unknown_owner(self, tmp_path, quick, token):
        elsewhere(tmp_path, token=token)
        assert take(tmp_path, heartbeat=quick).host == "unknown"
        assert list(tmp_path.rglob("*")) == [tmp_path / LOCK_NAME]

    def test_a_link_that_leads_nowhere_is_replaced(self, tmp_path, quick):
        (tmp_path / LOCK_NAME).symlink_to(tmp_path / "gone")
        with take(tmp_path, heartbeat=quick) as held:
            assert held.held()
            assert not (tmp_path / LOCK_NAME).is_symlink()
        assert list(tmp_path.iterdir()) == []

    def test_who_was_taken_over_leaves_the_new_one_alone(self, tmp_path, quick):
        with take(tmp_path, heartbeat=0.02) as held:
            other = elsewhere(tmp_path, name="theirs")
            other.replace(tmp_path / LOCK_NAME)
            held.progress(1, 2)
            time.sleep(0.1)
            assert not held.held()
        assert read_lock(tmp_path / LOCK_NAME).token == "of-another"


class TestHeartbeat:
    def test_the_file_is_rewritten_while_it_is_held(self, tmp_path):
        with take(tmp_path, heartbeat=0.05):
            path = tmp_path / LOCK_NAME
            seen = set()
            deadline = time.monotonic() + 30
            while len(seen) < 3 and time.monotonic() < deadline:
                seen.add(path.stat().st_mtime_ns)
                time.sleep(0.01)
            assert len(seen) == 3
            os.utime(path, (0, 0))
            wait_for(lambda: path.stat().st_mtime != 0)
            assert abs(run_lock.silence(path)) < 10


def race(folder, processes, n=6):
    """What each of `n` processes got that ask for one lock at the same moment."""
    contestants = [processes(TRY, folder) for _ in range(n)]
    for process in contestants:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.stdout.readline().strip() for process in contestants]


@pytest.mark.integration
class TestRaces:
    """None gives its lock back before all have asked: exactly one may have it, and all others know who that is."""

    def assert_one_wins(self, folder, processes):
        got = race(folder, processes)
        assert got.count("mine") == 1
        (others,) = {answer for answer in got if answer != "mine"}
        assert read_lock(folder / LOCK_NAME).token == others
        assert [name for name in names(folder) if name.endswith(".partial")] == []

    def test_of_many_that_come_first(self, tmp_path, processes):
        for i in range(3):
            folder = tmp_path / str(i)
            folder.mkdir()
            self.assert_one_wins(folder, processes)

    def test_of_many_that_take_over_from_a_killed_one(self, tmp_path, processes):
        for i in range(3):
            folder = tmp_path / str(i)
            folder.mkdir()
            kill(processes(HOLD, folder))
            self.assert_one_wins(folder, processes)

    def test_of_many_that_take_over_from_one_killed_while_taking_over(self, tmp_path, processes):
        kill(processes(HOLD, tmp_path))
        dead = json.loads((tmp_path / LOCK_NAME).read_text())
        claim = Path(f"{tmp_path / LOCK_NAME}.{dead['token']}")
        claim.write_text(json.dumps({**dead, "token": "second"}))
        self.assert_one_wins(tmp_path, processes)

    def test_a_claim_that_is_withdrawn_is_not_the_owner(self, tmp_path, processes):
        """A process claims the lock of a killed one, finds that another was faster, and withdraws."""
        kill(processes(HOLD, tmp_path))
        lock = tmp_path / LOCK_NAME
        dead = read_lock(lock)
        claim = lock.with_name(f"{LOCK_NAME}.{dead.token}")
        here = Process.of(os.getpid())
        claim.write_bytes(run_lock._text(replace(dead, token="withdrawn", process=here)))

        faster = tmp_path / "faster"
        faster.write_bytes(run_lock._text(replace(dead, token="faster", process=here)))
        timer = threading.Timer(0.3, faster.replace, [lock])
        timer.start()
        try:
            assert take(tmp_path).token == "faster"
        finally:
            timer.join()
