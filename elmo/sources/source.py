"""The interfaces of sources: `FrozenSource` for frozen layers, `TunableSource` for tuned ones."""

import hashlib
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast, runtime_checkable

from torch import Tensor, nn

from elmo.bilm.sentences import Sentence
from elmo.common.errors import InputError, excerpt
from elmo.common.files import sha256_of

_OWN = ("elmo", "tasks")  # packages of this suite: a version number in their fingerprints stands for their code


@runtime_checkable
class FrozenSource(Protocol):
    """A frozen representation: a biLM, the hidden states of a transformer, a control.

    Every token gets a stack of layers, all `dim_of(source)` wide. A sentence's layers depend on that sentence alone,
    whatever its batch: they are stored by sentence. A source that is an nn.Module is moved to the device of the run.
    """

    @property
    def widths(self) -> tuple[int, ...]:
        """For each layer the values to store: all, or the first ones if the layer repeats these up to its width."""

    def fingerprint(self) -> str:
        """A hash of the weights and options that the layers depend on; `fingerprint_of` adds that of the code.

        A user's source needs none if its attributes are plain values: these are hashed.
        """

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (layers, tokens, dim), no gradients."""


@runtime_checkable
class TunableSource(FrozenSource, Protocol):
    """A source that a task can tune: while its parameters require gradients, its layers have them."""

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """All parameters, layer by layer, bottom first: lower layers are tuned later and with lower rates."""


def dim_of(source: FrozenSource) -> int:
    """The width of each layer: that of the widest."""
    return max(source.widths)


def require_source(source: object, name: str) -> FrozenSource:
    """The source; raises an InputError, with this name of it, if it lacks something or its widths are none."""
    missing = [attribute for attribute in ("widths", "token_layers") if not hasattr(source, attribute)]
    if missing:
        raise InputError(
            f"expected {name} to have widths and token_layers(sentences), found no "
            f"{' and no '.join(missing)}. See elmo.FrozenSource"
        )
    frozen = cast(FrozenSource, source)
    widths: object = frozen.widths
    numbers = widths if isinstance(widths, Sequence) else ()
    if not numbers or not all(isinstance(width, int) and width > 0 for width in numbers):
        raise InputError(
            f"widths of {name}: expected a positive integer for each layer, found {excerpt(widths)}. For two layers of "
            "32 values, set (32, 32)"
        )
    if any(max(numbers) % width for width in numbers):
        raise InputError(f"widths of {name}: expected divisors of the largest, found {widths}")
    return frozen


def fingerprint_of(source: FrozenSource) -> str:
    """The source's fingerprint; that of a user's source is hashed together with the file of its class.

    Raises:
        InputError: it is no hash.
    """
    code = code_of(source)
    settings: object = source.fingerprint() if hasattr(source, "fingerprint") else _hash_of_attributes(source)
    if code is None:
        return cast(str, settings)
    if not (isinstance(settings, str) and re.fullmatch("[0-9a-f]{16,}", settings)):
        raise InputError(
            f"fingerprint() of {name_of(source)}: expected a hash of 16 or more hexadecimal digits, such as "
            f"hashlib.sha256(...).hexdigest(), found {excerpt(settings)}"
        )
    return hashlib.sha256(f"{settings} {code[1]}".encode()).hexdigest()


def _hash_of_attributes(source: object) -> str:
    """The sha256 of a source's attributes, which must be plain values: the text of others may mean nothing."""
    for name, value in vars(source).items():
        items = value if isinstance(value, tuple | list) else [value]
        if not all(item is None or isinstance(item, str | int | float) for item in items):
            raise InputError(
                f"{name_of(source)}: expected numbers and texts as attributes, found {name}, {excerpt(value)}. Define "
                "fingerprint(), a hash of the weights and settings that the layers depend on"
            )
    return hashlib.sha256(repr(sorted(vars(source).items())).encode()).hexdigest()


def code_of(source: FrozenSource) -> tuple[str, str] | None:
    """The module of a user's source and the sha256 of its file; None for a source of this suite."""
    name = type(source).__module__
    return None if name.split(".")[0] in _OWN else (name, _hash_of(sys.modules[name]))


@cache
def _hash_of(module: ModuleType) -> str:
    """The sha256 of a module's file, read once, since the file may change while the module stays as it is."""
    file = getattr(module, "__file__", None)
    return sha256_of(Path(file)) if file else "no file"  # as in a notebook


def name_of(source: object) -> str:
    """The class of a source, as module.Class."""
    return f"{type(source).__module__}.{type(source).__qualname__}"
