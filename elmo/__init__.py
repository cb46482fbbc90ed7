"""Frozen word representations: a biLM computes layers for every token, and a learned mix joins them into one vector.

Public names are imported on first use: `import elmo` alone loads neither torch nor h5py.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from elmo.common.errors import shorten_interrupts

if TYPE_CHECKING:
    from elmo.bilm.model import Bilm, CarriedState, random_bilm
    from elmo.bilm.options import SIZES, BilmOptions
    from elmo.bilm.weight_files import load_bilm, save_bilm
    from elmo.common.errors import InputError
    from elmo.layer import Elmo, ElmoOutput
    from elmo.masked.model import MaskedLm
    from elmo.masked.weight_files import load_masked
    from elmo.mix import ScalarMix
    from elmo.sources.checking import check_source
    from elmo.sources.source import FrozenSource
    from elmo.tokeniser import tokenise

__all__ = [
    "SIZES",
    "Bilm",
    "BilmOptions",
    "CarriedState",
    "Elmo",
    "ElmoOutput",
    "FrozenSource",
    "InputError",
    "MaskedLm",
    "ScalarMix",
    "check_source",
    "load_bilm",
    "load_masked",
    "random_bilm",
    "save_bilm",
    "tokenise",
]

shorten_interrupts()

_MODULES = {
    "elmo.bilm.model": ("Bilm", "CarriedState", "random_bilm"),
    "elmo.bilm.options": ("SIZES", "BilmOptions"),
    "elmo.bilm.weight_files": ("load_bilm", "save_bilm"),
    "elmo.common.errors": ("InputError",),
    "elmo.layer": ("Elmo", "ElmoOutput"),
    "elmo.masked.model": ("MaskedLm",),
    "elmo.masked.weight_files": ("load_masked",),
    "elmo.mix": ("ScalarMix",),
    "elmo.sources.checking": ("check_source",),
    "elmo.sources.source": ("FrozenSource",),
    "elmo.tokeniser": ("tokenise",),
}


def __getattr__(name: str) -> object:
    """Imports a public name from its module (PEP 562)."""
    for module, names in _MODULES.items():
        if name in names:
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'elmo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
