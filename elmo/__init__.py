"""Frozen word representations: a biLM computes layers for every token, and a learned mix joins them into one vector.

Public names are imported on first use: `import elmo` alone loads neither torch nor h5py.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from elmo.common.errors import shorten_interrupts

if TYPE_CHECKING:
    from elmo.bilm.model import Bilm as Bilm
    from elmo.bilm.model import CarriedState as CarriedState
    from elmo.bilm.model import random_bilm as random_bilm
    from elmo.bilm.options import SIZES as SIZES
    from elmo.bilm.options import BilmOptions as BilmOptions
    from elmo.bilm.weight_files import load_bilm as load_bilm
    from elmo.bilm.weight_files import save_bilm as save_bilm
    from elmo.checking import check_source as check_source
    from elmo.common.errors import InputError as InputError
    from elmo.encode import TextEncoder as TextEncoder
    from elmo.encode import load_layer as load_layer
    from elmo.encode import save_layer as save_layer
    from elmo.layer import Elmo as Elmo
    from elmo.layer import ElmoOutput as ElmoOutput
    from elmo.layer import ScalarMix as ScalarMix
    from elmo.sources.grid import GridLm as GridLm
    from elmo.sources.grid import load_lm as load_lm
    from elmo.sources.source import FrozenSource as FrozenSource
    from elmo.tokeniser import tokenise as tokenise

shorten_interrupts()

_MODULES = {
    "elmo.bilm.model": ("Bilm", "CarriedState", "random_bilm"),
    "elmo.bilm.options": ("SIZES", "BilmOptions"),
    "elmo.bilm.weight_files": ("load_bilm", "save_bilm"),
    "elmo.common.errors": ("InputError",),
    "elmo.layer": ("Elmo", "ElmoOutput", "ScalarMix"),
    "elmo.checking": ("check_source",),
    "elmo.encode": ("TextEncoder", "load_layer", "save_layer"),
    "elmo.sources.grid": ("GridLm", "load_lm"),
    "elmo.sources.source": ("FrozenSource",),
    "elmo.tokeniser": ("tokenise",),
}
__all__ = [name for names in _MODULES.values() for name in names]


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
