"""Decodes JSON and TOML into typed objects: the dataclass is the schema, and an error names the key.

Files are not trusted. Values that would break a reader later are refused here: numbers too large to compute with,
nesting that is too deep, text that cannot be encoded.
"""

import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

PAPER = Path(__file__).parents[1] / "paper"  # the suite's TOML files
LARGEST = 1e100  # far above any seed, count or loss; sums and squares of it are still finite
DEEPEST = 50  # a record has about ten
# Tuples, created once: `isinstance` with `int | float` is slow, and a grid of runs has millions of values.
_NUMBER = (int, float)
_CONTAINER = (dict, list)
_Content = TypeVar("_Content")


def is_number(value: object) -> bool:
    """Whether the value is a finite number that is not too large to compute with."""
    return isinstance(value, _NUMBER) and -LARGEST <= value <= LARGEST


def decode(kind: Any, value: object, where: str = "") -> Any:  # noqa: ANN401 - the type comes in as a value
    """The value as an instance of `kind`: a dataclass, mapping, sequence, union, literal, number, text or object.

    Unknown keys are ignored, so that records with keys of later versions stay readable.

    Raises:
        ValueError: The value does not fit; the message says where, what was expected and what was found.
    """
    if kind is object:
        _check_plain(value, where)
        return value
    if kind is str and type(value) is str:  # most values are text
        return value
    if is_dataclass(kind):
        return _decode_dataclass(kind, _expect(Mapping, value, where), where)
    origin, arguments = _form(kind)
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"{where}: expected one of {', '.join(map(repr, arguments))}, found {value!r}")
        return value
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, value, where)
    if origin is Mapping and arguments[1] is object:
        _check_plain(_expect(Mapping, value, where), where)
        return value
    if origin is Mapping:
        return {
            key: decode(arguments[1], item, _join(where, key)) for key, item in _expect(Mapping, value, where).items()
        }
    if origin is Sequence:
        return [decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(_expect(list, value, where))]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(_expect_number(value, where))
    return _expect_number(_expect(kind, value, where), where)


def read_toml(kind: type[_Content], path: Path) -> _Content:
    """The content of a TOML file of the suite, as an instance of the dataclass `kind`."""
    found: _Content = decode(kind, tomllib.loads(path.read_text(encoding="utf-8")))
    return found


def refuse_unknown_keys(kind: type, values: object, where: str = "", without: Sequence[str] = ()) -> None:
    """Raises a ValueError for a key that the dataclass lacks, or that is in `without`: in a file that a person writes.

    `decode` ignores unknown keys.
    """
    known = [f.name for f in fields(kind) if f.name not in without]
    for key in values if isinstance(values, Mapping) else ():
        if key not in known:
            raise ValueError(f"{where}{key:.80}: expected one of {', '.join(known)}")


def _check_plain(value: object, where: str, depth: int = 0) -> None:
    """Checks depth and numbers of a value of any shape."""
    if depth > DEEPEST:
        raise ValueError(f"{where[:60]}: expected at most {DEEPEST} values inside one another, found more")
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, _CONTAINER):
            _check_plain(item, _join(where, str(key)), depth + 1)
        elif isinstance(item, _NUMBER) and not -LARGEST <= item <= LARGEST:
            _expect_number(item, _join(where, str(key)))
    _expect_number(value, where)


def _expect_number(value: Any, where: str) -> Any:  # noqa: ANN401
    """The value; raises for numbers too large to compute with, NaN and infinity."""
    if isinstance(value, _NUMBER) and not -LARGEST <= value <= LARGEST:
        raise ValueError(f"{where}: expected a number between -{LARGEST:g} and {LARGEST:g}, found {_described(value)}")
    return value


@cache
def _form(kind: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401
    return get_origin(kind), get_args(kind)


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401
    """The types of a dataclass's fields by name, and the names that have no default."""
    hints = get_type_hints(kind)
    required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    return {f.name: hints[f.name] for f in fields(kind)}, required


def _decode_dataclass(kind: Any, value: Mapping[str, object], where: str) -> object:  # noqa: ANN401
    kinds, required = _fields(kind)
    missing = [_join(where, name) for name in required if name not in value]
    if missing:
        raise ValueError(f"{', '.join(missing)}: missing")
    return kind(**{name: decode(kinds[name], value[name], _join(where, name)) for name in kinds if name in value})


def _decode_union(arguments: tuple[Any, ...], value: object, where: str) -> object:
    """Decodes `X | None` and unions of plain types."""
    for member in arguments:
        if isinstance(member, type) and type(value) is member:
            return _expect_number(value, where)
    others = [member for member in arguments if member is not type(None)]
    if len(others) == 1:
        return decode(others[0], value, where)
    names = " or ".join("null" if m is type(None) else m.__name__ for m in arguments)
    raise ValueError(f"{where}: expected {names}, found {_described(value)}")


def _expect(kind: Any, value: object, where: str) -> Any:  # noqa: ANN401
    # bool is an int to Python, but a seed of `true` is a mistake
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{where or 'top level'}: expected {kind.__name__}, found {_described(value)}")
    return value


def _described(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
