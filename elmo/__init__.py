"""The frozen representation: a biLM gives every token its layers, a learned mix joins them into one vector."""

from elmo.bilm.model import Bilm, CarriedState, random_bilm
from elmo.bilm.options import SIZES, BilmOptions
from elmo.bilm.weight_files import load_bilm, save_bilm
from elmo.common.errors import InputError
from elmo.layer import Elmo, ElmoOutput, Layers
from elmo.mix import ScalarMix

__all__ = [
    "SIZES",
    "Bilm",
    "BilmOptions",
    "CarriedState",
    "Elmo",
    "ElmoOutput",
    "InputError",
    "Layers",
    "ScalarMix",
    "load_bilm",
    "random_bilm",
    "save_bilm",
]
