"""make bench: speeds, each beside an anchor that runs alternately in the same process."""

import os
import time

STARTED = time.perf_counter()  # before torch, whose import is part of what a benchmark takes
# Before torch starts its threads: waiting ones shall sleep, or CPU seconds would count their spinning.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
