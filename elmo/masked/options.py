"""Options of a masked LM: a checked options.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from elmo.bilm.options import REMEDY, BilmOptions
from elmo.common import checks
from elmo.common.errors import InputError

KIND = "transformer"
"""The key of options.json that a masked LM has and a biLM does not."""


@dataclass(frozen=True)
class MaskedOptions:
    """The settings that define the tensor shapes and the computation of a masked LM.

    Attributes:
        encoder: of words, as in a biLM; its projection_dim is the width of every layer. Settings of LSTMs are unused.
        n_layers: transformer blocks; there is one layer more, the encoder's.
        n_heads: of attention; each has an even width.
        feedforward_dim: inner width of the feed-forward part of a block.
        output_dim: width of what the output layer reads.
        longest: words of the longest sentence in training; longer texts are read in windows of this length.
    """

    encoder: BilmOptions
    n_layers: int
    n_heads: int
    feedforward_dim: int
    output_dim: int
    longest: int

    def __post_init__(self) -> None:
        check_shape(KIND, self.dim, self.n_layers, self.n_heads, self.feedforward_dim)
        for name in ("output_dim", "longest"):
            checks.width(f"{KIND}.{name}", getattr(self, name))
        checks.at_least(2, f"{KIND}.longest", self.longest)

    @property
    def dim(self) -> int:
        """Width of every layer."""
        return self.encoder.projection_dim

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "options") -> MaskedOptions:
        """The options in a parsed options.json; `where` names it in an error."""
        if KIND not in content:
            raise InputError(f"{where}: expected a masked LM, found a biLM or another model; load_bilm reads biLMs")
        try:
            shape = dict(content[KIND])
            encoder = encoder_options(content, shape.pop("dim"), where)
            wrong = [f"{key}={value!r}" for key, value in shape.items() if type(value) is not int]
            if wrong:
                raise InputError(f"expected whole numbers under {KIND!r}, found {', '.join(wrong)}")
            return cls(encoder, **shape)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{where}: not the options of a masked LM: {error}. {REMEDY}") from error

    def to_json(self) -> dict[str, Any]:
        """The content of options.json."""
        content = self.encoder.to_json()
        del content["lstm"]
        shape = {key: value for key, value in asdict(self).items() if key != "encoder"}
        return {KIND: {"dim": self.dim, **shape}, **content}

    def canonical(self) -> str:
        """A normal form: equal options give equal strings, however their file was written."""
        return json.dumps(self.to_json(), sort_keys=True)


def check_shape(key: str, dim: int, n_layers: int, n_heads: int, feedforward_dim: int) -> None:
    """Raises an InputError for a shape of blocks that cannot be computed; `key` is where the user sets it."""
    checks.count(checks.MOST_LAYERS, f"{key}.n_layers", n_layers)
    for name, width in {"dim": dim, "n_heads": n_heads, "feedforward_dim": feedforward_dim}.items():
        checks.width(f"{key}.{name}", width)
    if dim % (2 * n_heads):
        raise InputError(
            f"{key}.dim: expected a multiple of 2 x n_heads ({2 * n_heads}), since positions rotate pairs of values of "
            f"each head, found {dim}"
        )


def encoder_options(content: Mapping[str, Any], dim: int, where: str = "options") -> BilmOptions:
    """The options of a word encoder of this width, from an options.json; settings of LSTMs are left at defaults."""
    without = {key: value for key, value in content.items() if key != KIND}
    return BilmOptions.from_json({**without, "lstm": {"dim": 1, "projection_dim": dim}}, where)
