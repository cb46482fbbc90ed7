"""Checks of settings: ranges, choices, names of classes, and types that say a range: `hidden: Width = 200`."""

import importlib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Annotated, Any, get_args, get_type_hints

from elmo.common.errors import InputError, excerpt, reworded

WIDEST = 1 << 16  # of a layer; a larger one is a typing error and would fill the memory
MOST_LAYERS = 100
MOST_THREADS = 1024
DEVICES = ("auto", "cpu", "cuda")


def finite(values: Mapping[str, object], prefix: str = "") -> None:
    """Raises an InputError for NaN or infinity anywhere in a tree of settings; JSON, and so a record, has neither."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            finite(value, f"{prefix}{key}.")
        elif any(isinstance(item, float) and not math.isfinite(item) for item in _items(value)):
            raise InputError(f"{prefix}{key}: expected a finite number, found {value}")


def _items(value: object) -> list[object]:
    return [item for inner in value for item in _items(inner)] if isinstance(value, list) else [value]


def at_least(least: int, key: str, value: float | None) -> None:
    """Raises an InputError for a smaller number; null passes, because the schema defines where it is allowed."""
    if value is not None and not value >= least:  # `value < least` would let NaN pass
        raise InputError(f"{key}: expected at least {least}, found {value}")


def count(most: int, key: str, value: int | None, least: int = 1) -> None:
    """Raises an InputError for a number below `least` or above `most`; null passes."""
    at_least(least, key, value)
    if value is not None and value > most:
        raise InputError(f"{key}: expected at most {most:,}, found {excerpt(value)}")


def width(key: str, value: int) -> None:
    """Raises an InputError unless the value can be the width of a layer."""
    count(WIDEST, key, value)


def within(expected: str, holds: Callable[[float], bool], key: str, value: float | None) -> None:
    """Raises an InputError unless the condition holds for the value; null passes."""
    if value is not None and not holds(value):
        raise InputError(f"{key}: expected {expected}, found {value}")


positive = partial(within, "a positive number", lambda value: value > 0)


def one_of(known: Collection[str], key: str, value: str) -> None:
    """Raises an InputError for an unknown choice."""
    if value not in known:
        raise InputError(f"{key}: expected {' or '.join(known)}, found {value!r}")


def importable(key: str, target: object) -> object:
    """The object with a dotted name, module.NAME; None without a dot.

    Raises:
        InputError: the module cannot be imported, or does not have the name.
    """
    module, _, name = str(target).rpartition(".")
    if not module:
        return None
    remedy = "A file of your own is found in the current folder or in a folder of PYTHONPATH"
    with reworded(ImportError, lambda error: f"{key}: {excerpt(target)} cannot be imported: {error}. {remedy}"):
        loaded = importlib.import_module(module)
    if not hasattr(loaded, name):
        raise InputError(f"{key}: expected a class that the module {module} has, found {name}. Correct the name")
    return getattr(loaded, name)


Width = Annotated[int, width]
Layers = Annotated[int, partial(count, MOST_LAYERS)]
AtLeastOne = Annotated[int, partial(at_least, 1)]
AtLeastZero = Annotated[int, partial(at_least, 0)]
NotNegative = Annotated[float, partial(at_least, 0)]
Positive = Annotated[float, positive]
Dropout = Annotated[float, partial(within, "at least 0 and below 1", lambda value: 0 <= value < 1)]
Fraction = Annotated[float, partial(within, "above 0 and below 1", lambda value: 0 < value < 1)]
Share = Annotated[float, partial(within, "more than 0 and at most 1", lambda value: 0 < value <= 1)]


def check_ranges(key: str, settings: object) -> None:
    """Raises an InputError for a field of a dataclass out of the range of its type; null passes where it is allowed.

    Args:
        key: where the settings are in the config, such as "trainer"; empty for its root.
        settings: the dataclass. The checks of types are called for each item of a list.
    """
    for name, kind in get_type_hints(type(settings), include_extras=True).items():
        value = getattr(settings, name)
        for part in (kind, *get_args(kind)):  # the type may be within a list, or next to None
            for check in getattr(part, "__metadata__", ()):
                for item in value if isinstance(value, list) else [value]:
                    if item is not None:
                        check(f"{key}.{name}" if key else name, item)


def check_tree(key: str, settings: Any) -> None:  # noqa: ANN401
    """Checks the ranges of a dataclass and of those in it, each with its method `check(key)` after them, if it has one.

    Args:
        key: as for `check_ranges`.
        settings: a dataclass, or a mapping of some; other values pass.
    """
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            check_tree(f"{key}.{name}", value)
    if is_dataclass(settings):
        check_ranges(key, settings)
        for name, value in vars(settings).items():
            check_tree(f"{key}.{name}".lstrip("."), value)
        if hasattr(settings, "check"):
            settings.check(key)
