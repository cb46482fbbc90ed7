"""Names of biLMs, word vectors and transformers that can be used instead of paths, and paths as records store them."""

from __future__ import annotations

import re
from pathlib import Path

from elmo.bilm.options import SIZES
from elmo.download import published

GLOVE_50D = "glove-6b-50d"
WINK_100D = "wink-100d"
WORD2VEC = "word2vec"
VECTOR_NAMES = (GLOVE_50D, WINK_100D, WORD2VEC)  # that are not downloaded on demand
HUB_NAME = re.compile(r"[\w.-]*\w(/[\w.-]+)?")  # MODEL or OWNER/MODEL
SHIPPED = Path(__file__).parent / "pretrained"  # one folder for each biLM in this package

# Part and key of the settings of features that are names or paths.
BY_NAME_OR_PATH = (("words", "vectors"), ("elmo", "weights"), ("transformer", "model"))
SOURCE = re.compile(r"features\.frozen\.\w+\.source\.")  # what a source is made from


def shipped_names() -> list[str]:
    """The names of the biLMs that come with this package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/options.json"))


def shipped_folder(name: str) -> Path:
    """The folder of a biLM that comes with this package."""
    return SHIPPED / name


def is_name(part: str, given: str, anywhere: bool = False) -> bool:
    """Whether this is a name of weights or vectors; a folder of that name comes first, unless `anywhere`."""
    if part == "transformer":
        return HUB_NAME.fullmatch(given) is not None and (anywhere or not Path(given).exists())
    if given in (*shipped_names(), *published.names()):
        return anywhere or not Path(given).exists()  # as in elmo.bilm.weight_files.find_weights
    return given in SIZES or given in VECTOR_NAMES


def without_folder(part: str, given: str, anywhere: bool = False) -> str:
    """How a record names the weights or vectors of a part of features: a name unchanged, or the last part of a path.

    The fingerprint has the hash of the content, so the folder does not matter. A path that ends like a name gets a
    "./", so that a user's biLM in a folder called small is not confused with the shipped one.

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
    """An absolute path as its last part: where a file is does not change a score, and its content is in the hash."""
    return Path(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def recorded(key: str, typed: str) -> str:
    """What a record has for a setting that was typed, such as bilms/mine for features.elmo.weights."""
    for part, name in BY_NAME_OR_PATH:
        if key == f"features.{part}.{name}":
            return without_folder(part, typed)
    if SOURCE.match(key):  # ${oc.env:NAME} may be an absolute path
        return Path(typed).name if typed.startswith("${") else str(last_of_path(typed))
    return typed
