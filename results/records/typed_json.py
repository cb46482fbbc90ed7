"""Decodes JSON and TOML into typed objects: the dataclass is the schema, and an error names the key."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from elmo.common.errors import excerpt

PAPER = Path(__file__).parents[1] / "paper"  # the suite's TOML files
LARGEST = 1e100  # far above any seed, count or loss; sums and squares of it are still finite
_Content = TypeVar("_Content")
_adapter = cache(TypeAdapter[Any])  # for each type, created once


def is_number(value: object) -> bool:
    """Whether the value is a finite number that is not too large to compute with."""
    return isinstance(value, (int, float)) and -LARGEST <= value <= LARGEST


def decode(kind: type[_Content], value: object) -> _Content:
    """The content of a JSON or TOML file as an instance of `kind`.

    Unknown keys are ignored, so that records with keys of later versions stay readable.

    Raises:
        ValueError: The value does not fit; the message says where, what was expected and what was found.
    """
    try:
        return _adapter(kind).validate_python(value)  # type: ignore[arg-type]  # a type is hashable
    except ValidationError as error:
        raise ValueError(_first_problem(error)) from error


def read_toml(kind: type[_Content], name: str) -> _Content:
    """The content of a TOML file of the suite, as an instance of the dataclass `kind`."""
    return decode(kind, tomllib.loads((PAPER / name).read_text(encoding="utf-8")))


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"]).removeprefix(".")
    if first["type"] in ("missing", "unexpected_keyword_argument"):
        return f"{where}: {'missing' if first['type'] == 'missing' else 'no such key'}"
    if first["type"] == "value_error":  # raised by a dataclass
        return ": ".join(filter(None, [where, str(first["ctx"]["error"])]))
    expected = first["msg"].replace("Input should be", "expected")
    return f"{where or 'top level'}: {expected}, found {excerpt(first['input'])}"
