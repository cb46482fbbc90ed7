"""Waiting for other processes."""

import os
import time


def wait_for(condition, seconds=300.0):
    """Waits until a condition holds; fails the test if that takes longer than some seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"nothing happened in {seconds:g} s"
        time.sleep(0.002)


def group_is_alive(group):
    """Whether a process of this group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
