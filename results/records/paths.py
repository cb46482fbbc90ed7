"""Paths and names of weights and vectors as records have them: a name unchanged, of a path only its last part.

The fingerprint has the hash of the content, so the folder does not matter.
"""

import re
import tomllib
from pathlib import Path

from elmo.bilm.options import SIZES
from elmo.download import published
from elmo.names import VECTOR_NAMES, shipped_names
from results.records.typed_json import PAPER

# Part and key of the settings of features that are names or paths.
BY_NAME_OR_PATH = tuple(tomllib.loads((PAPER / "by_name_or_path.toml").read_text(encoding="utf-8")).items())
SOURCE = re.compile(r"features\.frozen\.\w+\.source\.")  # what a source is made from
_HUB_NAME = re.compile(r"[\w.-]*\w(/[\w.-]+)?")  # MODEL or OWNER/MODEL


def is_name(part: str, given: str, anywhere: bool = False) -> bool:
    """Whether this is a name of weights or vectors; a folder of that name comes first, unless `anywhere`."""
    if part == "transformer":
        return _HUB_NAME.fullmatch(given) is not None and (anywhere or not Path(given).exists())
    if given in (*shipped_names(), *published.names()):
        return anywhere or not Path(given).exists()  # as in elmo.bilm.weight_files.find_weights
    return given in SIZES or given in VECTOR_NAMES


def without_folder(part: str, given: str, anywhere: bool = False) -> str:
    """How a record names the weights or vectors of a part of features.

    A path that ends like a name gets a "./", so that a user's biLM in a folder called small is not confused with the
    shipped one.

    Args:
        part: the part of the features.
        given: the name or path.
        anywhere: treat a name as one, even if a folder of that name is in the working directory.
    """
    last = Path(given).name
    if is_name(part, given, anywhere):
        return given
    return f"./{last}" if is_name(part, last, anywhere=True) else last


def last_of_path(value: object) -> object:
    """An absolute path as its last part; any other value as it is."""
    return Path(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def recorded(key: str, typed: str) -> str:
    """What a record has for a setting that was typed, such as the path of weights."""
    for part, name in BY_NAME_OR_PATH:
        if key == f"features.{part}.{name}":
            return without_folder(part, typed)
    if SOURCE.match(key):  # ${oc.env:NAME} may be an absolute path
        return Path(typed).name if typed.startswith("${") else str(last_of_path(typed))
    return typed
