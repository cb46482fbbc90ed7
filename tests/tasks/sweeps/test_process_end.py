"""Early end of a sweep's processes."""

import signal
import time

from joblib.externals.loky.backend.process import LokyProcess

from tasks.sweeps.process_end import end_children


def test_workers_of_joblib_are_killed():
    """Their class has no working kill()."""
    worker = LokyProcess(target=time.sleep, args=(600,))
    worker.start()
    end_children()
    assert worker.exitcode == -signal.SIGKILL
