"""Options of a biLM: a checked options.json, and the named sizes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from elmo.common import checks
from elmo.common.errors import InputError, naming, reworded
from elmo.common.files import parse_json

N_CHARACTERS = 261  # 256 bytes and five marks; the files have this many rows, options.json counts one more for padding
UNKNOWN_WORD = "<UNK>"
MOST_CHARACTERS = 1000  # of a word; a file with a larger number is damaged or hostile, and would fill the memory
MISFITS = (TypeError, ValueError, AttributeError, OverflowError)  # what values of other types raise
REMEDY = "Use the options that came with the weights"
OBJECTIVES = ("forward", "joined", "masked")
NETWORKS = ("lstm", "transformer")
WEIGHT_TYPES = ("float32", "float16", "int8")
STANDARD_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))  # (width, filters)


@dataclass(frozen=True)
class BilmOptions:
    """The settings that define the tensor shapes and the computation of a biLM.

    Attributes:
        cell_dim: LSTM cell width, per direction.
        projection_dim: width of the projected LSTM state and of the encoder's output. A layer is twice as wide.
        filters: character convolutions as (width, number of filters).
        char_dim: width of a character embedding.
        n_highway: highway layers after the convolutions.
        n_layers: LSTM layers; the biLM has one layer more, the encoder's.
        max_characters: maximum characters of a word, its two boundary marks included.
        activation: "relu" or "tanh", after the convolutions.
        cell_clip: bound of the LSTM cell; None for no clipping.
        projection_clip: bound of the projected state; None for no clipping.
        skip_connections: whether an LSTM layer above the first adds its input to its output.
        words: vocabulary of a table of word vectors, <UNK> included; empty for a biLM that reads only characters.
            With words and without filters the biLM reads only words.
        word_dim: width of a word vector.
        char_output_dim: width of the character vector that is concatenated to it.
    """

    cell_dim: int
    projection_dim: int
    filters: tuple[tuple[int, int], ...] = STANDARD_FILTERS
    char_dim: int = 16
    n_highway: int = 1
    n_layers: int = 2
    max_characters: int = 50
    activation: str = "relu"
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    skip_connections: bool = True
    words: tuple[str, ...] = ()
    word_dim: int = 0
    char_output_dim: int = 0
    objective: ClassVar[str] = "joined"
    network: ClassVar[str] = "lstm"

    def __post_init__(self) -> None:
        checks.one_of(("relu", "tanh"), "char_cnn.activation", self.activation)
        if self.words and UNKNOWN_WORD not in self.words:
            raise InputError(f"word_embedding.words must contain {UNKNOWN_WORD}, which replaces all other words")
        checks.width("lstm.dim", self.cell_dim)
        checks.width("lstm.projection_dim", self.projection_dim)
        checks.count(checks.MOST_LAYERS, "lstm.n_layers", self.n_layers)
        if self.words:
            checks.width("word_embedding.dim", self.word_dim)
        if self.words and self.filters:
            checks.width("char_cnn.output_dim, next to words", self.char_output_dim)
        for name, clip in {"lstm.cell_clip": self.cell_clip, "lstm.proj_clip": self.projection_clip}.items():
            if clip is not None and not 0 < clip < math.inf:
                raise InputError(f"{name} must be above 0, or null for no clipping, found {clip}")
        # The marks around a sentence are one character between two marks.
        checks.count(MOST_CHARACTERS, "char_cnn.max_characters_per_token", self.max_characters, least=3)
        if self.words and not self.filters:
            return
        if not self.filters:
            raise InputError("char_cnn.filters must list at least one [width, number of filters]")
        checks.width("char_cnn.embedding.dim", self.char_dim)
        checks.count(checks.MOST_LAYERS, "char_cnn.n_highway", self.n_highway, least=0)
        checks.width("every number in char_cnn.filters", min(min(item) for item in self.filters))
        checks.width("the sum of all char_cnn.filters", self.n_filters)
        checks.count(self.max_characters, "a width in char_cnn.filters", max(width for width, _ in self.filters))

    @property
    def n_filters(self) -> int:
        """Width of the concatenated convolutions."""
        return sum(count for _, count in self.filters)

    @property
    def output_dim(self) -> int:
        """Width of what an output layer reads, in either direction."""
        return self.projection_dim

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "options") -> BilmOptions:
        """The options in a parsed options.json of bilm-tf or AllenNLP; missing clip values mean no clipping.

        Args:
            content: the parsed JSON object.
            where: its name in errors, such as the file name.
        """
        if cell_of(content) != cell_of({}):
            other = "a language model with objective={} and network={}".format(*cell_of(content))
            raise InputError(f"{where}: expected a biLM, found {other}, which elmo.load_lm reads")
        with (
            naming(where, REMEDY),
            reworded(KeyError, lambda key: f"expected the key {key} of a bilm-tf options.json"),
            reworded(MISFITS, lambda error: f"a value is not of the type that bilm-tf writes there: {error}"),
        ):
            lstm, words = content["lstm"], content.get("word_embedding")
            # Only a biLM with words can do without a character encoder.
            characters = content.get("char_cnn", _NO_CHARACTERS) if words else content["char_cnn"]
            return cls(
                cell_dim=_integer(lstm["dim"]),
                projection_dim=_integer(lstm["projection_dim"]),
                filters=tuple((_integer(width), _integer(count)) for width, count in characters["filters"]),
                char_dim=_integer(characters["embedding"]["dim"]),
                n_highway=_integer(characters.get("n_highway") or 0),
                n_layers=_integer(lstm.get("n_layers", 2)),
                max_characters=_integer(characters.get("max_characters_per_token", 50)),
                activation=characters.get("activation", "relu"),
                cell_clip=_optional_float(lstm.get("cell_clip")),
                projection_clip=_optional_float(lstm.get("proj_clip")),
                skip_connections=_boolean(lstm.get("use_skip_connections", False)),
                words=tuple(words["words"]) if words else (),
                word_dim=_integer(words["dim"]) if words else 0,
                char_output_dim=_integer(characters.get("output_dim", 0)) if words else 0,
            )

    @classmethod
    def from_file(cls, path: Path) -> BilmOptions:
        """The options in an options.json file."""
        if not path.is_file():  # reading a pipe would block
            raise InputError(f"{path}: no such options file")
        return cls.from_json(json_object(path.read_bytes(), str(path)), str(path))

    def to_json(self) -> dict[str, Any]:
        """The options as bilm-tf and AllenNLP read them; both clip keys are always present."""
        content: dict[str, Any] = {
            "lstm": {
                "dim": self.cell_dim,
                "projection_dim": self.projection_dim,
                "n_layers": self.n_layers,
                "cell_clip": self.cell_clip,
                "proj_clip": self.projection_clip,
                "use_skip_connections": self.skip_connections,
            },
            "char_cnn": {
                "embedding": {"dim": self.char_dim},
                "filters": [list(item) for item in self.filters],
                "n_highway": self.n_highway,
                "n_characters": N_CHARACTERS + 1,  # bilm-tf and AllenNLP count one more, for padding
                "max_characters_per_token": self.max_characters,
                "activation": self.activation,
            },
        }
        if self.words:
            content["word_embedding"] = {"dim": self.word_dim, "words": list(self.words)}
            content["char_cnn"]["output_dim"] = self.char_output_dim
        if not self.filters:
            del content["char_cnn"]
        return content

    def canonical(self) -> str:
        """A normal form: equal options give equal strings, however their file was written."""
        clips = {name: _optional_float(getattr(self, name)) for name in ("cell_clip", "projection_clip")}  # 3 is 3.0
        return json.dumps({**asdict(self), **clips}, sort_keys=True)


def cell_of(content: Mapping[str, Any]) -> tuple[str, str]:
    """The objective and the network of a language model, by its options.json; a biLM has joined LSTMs."""
    network = "transformer" if "transformer" in content else "lstm"
    shape = content.get(network)
    usual = "masked" if network == "transformer" else "joined"
    return shape.get("objective", usual) if isinstance(shape, Mapping) else usual, network


def json_object(text: str | bytes, where: str) -> dict[str, Any]:
    """The JSON object in the text of a file of options; `where` names it in an error."""
    expected = f"{where}: expected a JSON object"
    with reworded(ValueError, lambda it: f"{expected}, but it does not parse: {it}. Copy it again"):
        content = parse_json(text)
    if not isinstance(content, dict):
        raise InputError(f"{expected}, found a {type(content).__name__}. Copy it again")
    return content


_NO_CHARACTERS: dict[str, Any] = {"filters": (), "embedding": {"dim": 0}}


def _typed(kind: type, expected: str, value: object) -> Any:  # noqa: ANN401
    """The value, if it has this type: not 2.7, which int() would cut to 2, nor "no", which bool() makes true."""
    if type(value) is not kind:
        raise TypeError(f"expected {expected}, found {str(value)[:60]!r}")
    return value


_integer = partial(_typed, int, "a whole number")
_boolean = partial(_typed, bool, "true or false")


def _optional_float(value: float | None) -> float | None:
    return None if value is None else float(value)


SIZES: dict[str, BilmOptions] = {
    # For tests: all features of the other sizes in a few thousand weights.
    "tiny": BilmOptions(cell_dim=24, projection_dim=8, filters=((1, 4), (2, 8), (3, 16)), char_dim=4),
    "small": BilmOptions(cell_dim=1024, projection_dim=128),
    "medium": BilmOptions(cell_dim=2048, projection_dim=256),
    "original": BilmOptions(cell_dim=4096, projection_dim=512, n_highway=2),
}
