"""Early end of a sweep's processes."""

import signal
import sys
import time
import warnings

from joblib.externals.loky.backend.process import LokyProcess
from joblib.externals.loky.backend.utils import kill_process_tree

from tasks.sweeps.launchers import end_children, start_workers_quietly


def test_workers_of_joblib_are_killed():
    """Their class has no working kill()."""
    worker = LokyProcess(target=time.sleep, args=(600,))
    worker.start()
    end_children()
    assert worker.exitcode == -signal.SIGKILL


def test_joblib_ends_its_workers_without_a_word_where_it_cannot_list_their_children(monkeypatch, tmp_path):
    for name in ("start", "kill"):
        monkeypatch.setattr(LokyProcess, name, getattr(LokyProcess, name))  # restores it
    with warnings.catch_warnings(record=True) as said:
        start_workers_quietly()
        worker = LokyProcess(target=time.sleep, args=(600,))
        worker.start()
        monkeypatch.setenv("PATH", str(tmp_path))  # without pgrep, or on SIGTERM in the middle of it
        try:
            kill_process_tree(worker, use_psutil=False)
        finally:
            end_children()
    assert worker.exitcode == -signal.SIGKILL
    assert said == []


def _exit_by_mask():
    sys.exit(42 if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()) else 1)


def test_ctrl_c_is_blocked_in_workers_of_joblib_from_their_start(monkeypatch):
    """The terminal sends it to them, too, and while they load packages each would print a traceback."""
    for name in ("start", "kill"):
        monkeypatch.setattr(LokyProcess, name, getattr(LokyProcess, name))  # restores it
    start_workers_quietly()
    worker = LokyProcess(target=_exit_by_mask)
    worker.start()
    worker.join()
    assert worker.exitcode == 42
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
