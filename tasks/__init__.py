"""The benchmark: tasks read data and score predictions; heads learn on top of token features."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from elmo.common.errors import shorten_interrupts

if TYPE_CHECKING:
    from tasks.running.predict import load_model

__all__ = ["load_model"]

shorten_interrupts()

# Set before torch is loaded: its threads otherwise spin while they wait, and runs that share a machine, as those of a
# sweep do, then slow each other down tenfold.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def __getattr__(name: str) -> object:
    """Imports `load_model` on first use (PEP 562): `import tasks` alone does not load torch."""
    if name == "load_model":
        from tasks.running.predict import load_model

        return load_model
    raise AttributeError(f"module 'tasks' has no attribute {name!r}")
