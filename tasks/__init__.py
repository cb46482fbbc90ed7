"""The benchmark: tasks read data and score predictions; heads learn on top of token features."""

import os
from importlib import import_module
from typing import TYPE_CHECKING

from elmo.common.errors import shorten_interrupts

if TYPE_CHECKING:
    from tasks.data.text import Span
    from tasks.evaluation import evaluate
    from tasks.kinds import Classification, Classifier, LabelledText, TaggedText, Tagging
    from tasks.running.predict import load_model
    from tasks.task import Head, Task

__all__ = ["Classification", "Classifier", "Head", "LabelledText", "Span", "TaggedText", "Tagging", "Task"]
__all__ += ["evaluate", "load_model"]

shorten_interrupts()

# Set before torch is loaded: its threads otherwise spin while they wait, and runs that share a machine, as those of a
# sweep do, then slow each other down tenfold.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def __getattr__(name: str) -> object:
    """Imports a public name on first use (PEP 562): `import tasks` alone does not load torch."""
    if name not in __all__:
        raise AttributeError(f"module 'tasks' has no attribute {name!r}")
    homes = {"load_model": "tasks.running.predict", "evaluate": "tasks.evaluation", "Span": "tasks.data.text"}
    homes |= dict.fromkeys(("Head", "Task"), "tasks.task")
    return getattr(import_module(homes.get(name, "tasks.kinds")), name)
