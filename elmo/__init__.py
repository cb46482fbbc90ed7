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
    value: object = getattr(import_module("elmo.api"), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *import_module("elmo.api").__all__]
