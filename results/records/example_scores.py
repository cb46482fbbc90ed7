"""Files with one entry for each example, next to a record: scores and predictions of test, confidences."""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from elmo.common.files import parse_json, read_json, replacing, write_json
from results.records.typed_json import decode, is_number

Example = Mapping[str, float]
SCHEMA = 1
DIGITS = 3  # of confidences


class ExamplesUnreadable(ValueError):  # noqa: N818 - reads as what it is
    """A file of example scores or predictions that is incomplete, invalid, or of another run."""


@dataclass(frozen=True)
class Prediction:
    """A test example and what a run predicts for it.

    Attributes:
        id: The example's name.
        example: Its words or texts.
        gold: The correct output, in the form of `python -m tasks.predict --output json`.
        predicted: The run's output, in the same form.
    """

    id: str
    example: Mapping[str, object]
    gold: Mapping[str, object]
    predicted: Mapping[str, object]


def write_examples(path: Path, fingerprint: str, scores: Sequence[Example]) -> None:
    """Writes one score object per test example, in the order of the test split; never any text.

    Args:
        path: EXAMPLES_NAME next to the record.
        fingerprint: The run's, which shows that both files belong together.
        scores: Counts or scores of each example, such as `{"tp": 1, "fp": 0, "fn": 2}`.

    Raises:
        ValueError: A score is not a finite number.
    """
    for index, example in enumerate(scores):
        for name, score in example.items():
            if not is_number(score):
                raise ValueError(f"{path}: example {index}, {name}: expected a finite number, found {score!r}")
    write_json(path, {"schema": SCHEMA, "fingerprint": fingerprint, "scores": scores})


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
        content = read_json(path if path.exists() else path.with_suffix(""))  # runs of earlier versions: not compressed
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # cut short, or not UTF-8
        raise ExamplesUnreadable(f"{path}: expected one whole JSON object, found: {error}; {remedy}") from error
    _check_fingerprint(path, content, fingerprint, remedy)
    scores = content.get("scores") if isinstance(content, dict) else None
    if not isinstance(scores, list) or not _are_examples(scores):
        raise ExamplesUnreadable(f"{path}: scores: expected a list of objects with finite numbers; {remedy}")
    return scores


def _check_fingerprint(path: Path, content: object, fingerprint: str, remedy: str) -> None:
    found = content.get("fingerprint") if isinstance(content, dict) else None
    if found != fingerprint:
        raise ExamplesUnreadable(
            f"{path}: expected the fingerprint of the record next to it, {fingerprint[:12]}, "
            f"found {str(found)[:12]}; {remedy}"
        )


def _are_examples(scores: Sequence[Any]) -> bool:
    """Whether each is an object with only numbers; checked all at once, because a grid of runs has millions."""
    if set(map(type, scores)) != {dict}:
        return False
    numbers = list(chain.from_iterable(map(dict.values, scores)))
    if not set(map(type, numbers)) <= {int, float, bool}:
        return False
    return not numbers or (is_number(min(numbers)) and is_number(max(numbers)))  # NaN is no JSON


def write_predictions(path: Path, fingerprint: str, predictions: Iterable[Mapping[str, Any]]) -> None:
    """Writes a line with the fingerprint, then a line for each test example, atomically; equal input, equal bytes.

    Args:
        path: PREDICTIONS_NAME next to the record.
        fingerprint: The run's, which shows that both files belong together.
        predictions: The fields of `Prediction`. Numbers and arrays of numpy and torch are written as plain ones, any
            other value that JSON does not have as text.
    """
    _write_lines(path, fingerprint, predictions)


def write_confidences(path: Path, fingerprint: str, judged: Mapping[str, Sequence[Sequence[Sequence[float]]]]) -> None:
    """Writes a line with the fingerprint, then a line for each split; equal input, equal bytes.

    Args:
        path: CONFIDENCES_NAME next to the record.
        fingerprint: The run's, which shows that both files belong together.
        judged: Split -> for each example, the probability of each part of its prediction and whether it is right.
    """
    lines = (
        {"split": split, "examples": [[[round(share, DIGITS), int(right)] for share, right in own] for own in examples]}
        for split, examples in judged.items()
    )
    _write_lines(path, fingerprint, lines)


def _write_lines(path: Path, fingerprint: str, lines: Iterable[Mapping[str, Any]]) -> None:
    def plain_or_text(value: Any) -> object:  # noqa: ANN401
        return value.tolist() if hasattr(value, "tolist") else str(value)

    content = chain([{"schema": SCHEMA, "fingerprint": fingerprint}], lines)
    text = "".join(json.dumps(line, default=plain_or_text) + "\n" for line in content)
    with replacing(path) as partial:
        partial.write_bytes(gzip.compress(text.encode(), mtime=0))


def read_predictions(path: Path, fingerprint: str) -> list[Prediction] | None:
    """A run's test predictions, in the order of its scores; None if there is no such file.

    Args:
        path: The file next to the record.
        fingerprint: The record's; the file must have the same.

    Raises:
        ExamplesUnreadable: The file exists, but no run with this fingerprint wrote it.
    """
    remedy = "restore the file from a copy, or delete its folder and run again"
    try:
        with gzip.open(path, "rb") as file:
            lines = list(map(parse_json, file))
        if not lines:
            raise ValueError("an empty file")
        _check_fingerprint(path, lines[0], fingerprint, remedy)
        return [decode(Prediction, line) for line in lines[1:]]
    except FileNotFoundError:
        return None
    except ExamplesUnreadable:
        raise
    except (OSError, EOFError, zlib.error, ValueError) as error:  # cut short, or not JSON
        raise ExamplesUnreadable(
            f"{path}: expected predictions, a JSON object a line, found: {error}; {remedy}"
        ) from error
