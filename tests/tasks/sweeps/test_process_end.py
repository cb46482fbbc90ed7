"""Early end of a sweep's processes."""

import signal
import sys
import time

from joblib.externals.loky.backend.process import LokyProcess

from tasks.sweeps.process_end import end_children, start_workers_quietly


def test_workers_of_joblib_are_killed():
    """Their class has no working kill()."""
    worker = LokyProcess(target=time.sleep, args=(600,))
    worker.start()
    end_children()
    assert worker.exitcode == -signal.SIGKILL


def _exit_by_mask():
    sys.exit(42 if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()) else 1)


def test_ctrl_c_is_blocked_in_workers_of_joblib_from_their_start(monkeypatch):
    """The terminal sends it to them, too, and while they load packages each would print a traceback."""
    monkeypatch.setattr(LokyProcess, "start", LokyProcess.start)  # restores it
    start_workers_quietly()
    worker = LokyProcess(target=_exit_by_mask)
    worker.start()
    worker.join()
    assert worker.exitcode == 42
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
