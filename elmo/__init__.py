"""The frozen representation: a biLM gives every token its layers, a learned mix joins them into one vector."""

from elmo.bilm import Bilm, CarriedState, random_bilm
from elmo.errors import InputError
from elmo.layer import Elmo, ElmoOutput, Layers
from elmo.mix import ScalarMix
from elmo.options import SIZES, BilmOptions
from elmo.weights import load_bilm, save_bilm

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
