"""Frozen word representations: a biLM computes layers for every token, and a learned mix joins them into one vector.

Public names are imported on first use: `import elmo` alone loads neither torch nor h5py.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from elmo.common.errors import shorten_interrupts

if TYPE_CHECKING:
    from elmo.api import *  # noqa: F403

shorten_interrupts()


def __getattr__(name: str) -> object:
    """Imports the public names (PEP 562)."""
    api = import_module({"InputError": "elmo.common.errors", "tokenise": "elmo.tokeniser"}.get(name, "elmo.api"))
    if name not in vars(api):
        raise AttributeError(f"module 'elmo' has no attribute {name!r}")
    return vars(api)[name]


def __dir__() -> list[str]:
    return [*globals(), *import_module("elmo.api").__all__]
