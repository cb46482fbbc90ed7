"""The public names of the package: `elmo` imports this module when one of them is first used."""

from elmo.bilm.model import Bilm, CarriedState, random_bilm
from elmo.bilm.options import SIZES, BilmOptions
from elmo.bilm.weight_files import load_bilm, save_bilm
from elmo.checking import check_source
from elmo.common.errors import InputError
from elmo.encode import TextEncoder, load_layer, save_layer
from elmo.layer import Elmo, ElmoOutput, ScalarMix
from elmo.sources.grid import GridLm, load_lm
from elmo.sources.source import FrozenSource
from elmo.tokeniser import tokenise

__all__ = ["SIZES", "Bilm", "BilmOptions", "CarriedState", "Elmo", "ElmoOutput", "FrozenSource", "GridLm", "InputError"]
__all__ += ["ScalarMix", "TextEncoder", "check_source", "load_bilm", "load_layer", "load_lm", "random_bilm"]
__all__ += ["save_bilm", "save_layer", "tokenise"]
