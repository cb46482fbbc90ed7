"""The benchmark: tasks read data and score predictions; heads learn on top of token features."""

import os

# Set before torch is loaded: its threads otherwise spin while they wait, and runs that share a machine, as those of a
# sweep do, then slow each other down tenfold.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
