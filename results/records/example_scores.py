"""Scores of single test examples: reads the file next to a record."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from elmo.common.files import read_json
from results.records.typed_json import is_number

Example = Mapping[str, float]


class ExamplesUnreadable(ValueError):  # noqa: N818 - reads as what it is
    """A file of example scores that is incomplete, invalid, or of another run."""


def read_examples(path: Path, fingerprint: str) -> list[Example] | None:
    """The scores of a run's test examples, or None if there is no such file.

    Args:
        path: The file next to the record.
        fingerprint: The record's; the file must have the same.

    Raises:
        ExamplesUnreadable: The file exists, but no run with this fingerprint wrote it.
    """
    remedy = "no interval is made from it; restore the file from a copy, or delete its folder and run again"
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExamplesUnreadable(f"{path}: {error.strerror}; {remedy}") from error
    except ValueError as error:  # cut short, or not UTF-8
        raise ExamplesUnreadable(f"{path}: expected one whole JSON object, found: {error}; {remedy}") from error
    found = content.get("fingerprint") if isinstance(content, dict) else None
    if found != fingerprint:
        raise ExamplesUnreadable(
            f"{path}: expected the fingerprint of the record next to it, {fingerprint[:12]}, "
            f"found {str(found)[:12]}; {remedy}"
        )
    scores = content.get("scores") if isinstance(content, dict) else None
    if not isinstance(scores, list) or not _are_examples(scores):
        raise ExamplesUnreadable(f"{path}: scores: expected a list of objects with finite numbers; {remedy}")
    return scores


def _are_examples(scores: Sequence[Any]) -> bool:
    """Whether each is an object with only numbers; checked all at once, because a grid of runs has millions."""
    if set(map(type, scores)) != {dict}:
        return False
    numbers = list(chain.from_iterable(map(dict.values, scores)))
    if not set(map(type, numbers)) <= {int, float, bool}:
        return False
    return not numbers or (is_number(min(numbers)) and is_number(max(numbers)))  # NaN is no JSON
