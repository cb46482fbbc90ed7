"""What a setting may be: a value that cannot be meant is refused before anything is read or computed with it."""

from __future__ import annotations

from collections.abc import Collection

from elmo.errors import InputError


def at_least(least: int, key: str, value: float | None) -> None:
    """Raises an InputError for a number that is smaller; null passes, the schema says where it may stand."""
    if value is not None and not value >= least:  # `value < least` would let nan pass
        raise InputError(f"{key}: expected at least {least}, found {value}")


def positive(key: str, value: float | None) -> None:
    """Raises an InputError for zero and below; null passes."""
    if value is not None and not value > 0:
        raise InputError(f"{key}: expected a positive number, found {value}")


def dropout(key: str, value: float) -> None:
    """Raises an InputError for what is no share of values that leaves some."""
    if not 0 <= value < 1:
        raise InputError(f"{key}: expected at least 0 and below 1, found {value}")


def one_of(known: Collection[str], key: str, value: str) -> None:
    """Raises an InputError for an unknown word."""
    if value not in known:
        raise InputError(f"{key}: expected {' or '.join(known)}, found {value!r}")
