"""Benchmarks of `make bench`: speeds compared with an anchor that runs in turn in the same process."""

import os
import time

STARTED = time.perf_counter()  # before importing torch, which is part of a benchmark's time
# Set before torch starts its threads: idle threads sleep, so that CPU seconds do not count their spinning.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
