"""Files with one entry for each example: scores, predictions and confidences next to a record, kinds for a test set.

The kinds depend on the text of a test set, not on a run, so one file RUNS_DIR/test_sets/TASK-HASH.json.gz serves all
runs that were tested on it. It has names and labels of examples, no text; labels are found by the hash of the test
files.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from elmo.common.errors import InputError, reworded
from elmo.common.files import parse_json, read_json, replacing, write_json
from results.records.identity import Identity
from results.records.metric import Grouping
from results.records.typed_json import decode, is_number

Example = Mapping[str, float]
SCHEMA = 1
DIGITS = 3  # of confidences


class ExamplesUnreadable(InputError):  # noqa: N818 - reads as what it is
    """A file of one entry for each example that is incomplete, invalid, or of another run or test set."""


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


@dataclass(frozen=True)
class Confidence:
    """The confidence of a run in each prediction for a split, and whether it is right.

    Attributes:
        split: "dev" or "test".
        examples: For each example, in the order of the split, and each part of its prediction: the probability, to
            three digits, and 1 if the part is right, else 0. A label or an answer is one part; tags have one for each
            predicted span, so that an example may have none.
    """

    split: str
    examples: Sequence[Sequence[Sequence[float]]]


Line = TypeVar("Line", Prediction, Confidence)


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
    path = path if path.exists() else path.with_suffix("")  # of earlier versions: not compressed
    if not path.exists():
        return None
    cut = f"{path}: expected one whole JSON object, found"  # or not UTF-8
    with reworded((OSError, ValueError), lambda error: f"{cut}: {error}; {remedy}", ExamplesUnreadable):
        content = read_json(path)
    _check_fingerprint(path, content, fingerprint, remedy)
    scores = content.get("scores") if isinstance(content, dict) else None
    if not isinstance(scores, list) or not _are_examples(scores):
        raise ExamplesUnreadable(f"{path}: scores: expected a list of objects with finite numbers; {remedy}")
    return scores


def _check_fingerprint(path: Path, content: object, fingerprint: str, remedy: str) -> None:
    written = content.get("fingerprint") if isinstance(content, dict) else None
    if written != fingerprint:
        raise ExamplesUnreadable(
            f"{path}: expected the fingerprint of the record next to it, {fingerprint[:12]}, "
            f"found {str(written)[:12]}; {remedy}"
        )


def _are_examples(scores: Sequence[Any]) -> bool:
    """Whether each is an object with only numbers; checked all at once, because a grid of runs has millions."""
    try:
        numbers = set(chain.from_iterable(map(dict.values, scores)))
        return bool(scores) and is_number(min(numbers, default=0)) and is_number(max(numbers, default=0))
    except TypeError:  # no object, or something that has no order among numbers; NaN is no JSON
        return False


def write_predictions(path: Path, fingerprint: str, predictions: Iterable[Mapping[str, Any]]) -> None:
    """Writes a line with the fingerprint, then a line for each test example, atomically; equal input, equal bytes.

    Args:
        path: PREDICTIONS_NAME next to the record.
        fingerprint: The run's, which shows that both files belong together.
        predictions: The fields of `Prediction`. Numbers and arrays of numpy and torch are written as plain ones, any
            other value that JSON does not have as text.
    """

    def plain_or_text(value: Any) -> object:  # noqa: ANN401
        return value.tolist() if hasattr(value, "tolist") else str(value)

    content = chain([{"schema": SCHEMA, "fingerprint": fingerprint}], predictions)
    text = "".join(json.dumps(line, default=plain_or_text) + "\n" for line in content)
    with replacing(path) as partial:
        partial.write_bytes(gzip.compress(text.encode(), mtime=0))


def write_confidences(path: Path, fingerprint: str, judged: Mapping[str, Sequence[Sequence[Sequence[float]]]]) -> None:
    """Writes a line with the fingerprint, then a line for each split; equal input, equal bytes.

    Args:
        path: CONFIDENCES_NAME next to the record.
        fingerprint: The run's, which shows that both files belong together.
        judged: Split -> for each example, the probability of each part of its prediction and whether it is right.
    """
    lines = (  # written as predictions are
        {"split": split, "examples": [[[round(share, DIGITS), int(right)] for share, right in row] for row in examples]}
        for split, examples in judged.items()
    )
    write_predictions(path, fingerprint, lines)


def read_predictions(path: Path, fingerprint: str) -> list[Prediction] | None:
    """A run's test predictions, in the order of its scores; None if there is no such file.

    Args:
        path: The file next to the record.
        fingerprint: The record's; the file must have the same.

    Raises:
        ExamplesUnreadable: The file exists, but no run with this fingerprint wrote it.
    """
    return _read_lines(Prediction, path, fingerprint)


def read_confidences(path: Path, fingerprint: str) -> list[Confidence] | None:
    """The confidences of a run in its predictions, by split; arguments, None and errors as for `read_predictions`."""
    return _read_lines(Confidence, path, fingerprint)


def _read_lines(kind: type[Line], path: Path, fingerprint: str) -> list[Line] | None:
    remedy = "restore the file from a copy, or delete its folder and run again"
    if not path.exists():
        return None
    damaged = OSError, EOFError, zlib.error, ValueError  # cut short, or not JSON
    expected = f"{path}: expected {kind.__name__.lower()}s, a JSON object a line"
    with (
        reworded(damaged, lambda error: f"{expected}, found: {error}; {remedy}", ExamplesUnreadable),
        gzip.open(path, "rb") as file,
    ):
        lines = list(map(parse_json, file))
        if not lines:
            raise ValueError("an empty file")
        _check_fingerprint(path, lines[0], fingerprint, remedy)
        return [decode(kind, line) for line in lines[1:]]


FOLDER = "test_sets"


@dataclass(frozen=True)
class KnownExamples:
    """The known facts about a test set.

    Attributes:
        task: The task.
        test: The hash of its files, as in records.
        train: The hash of the training files, for kinds that depend on them; empty if none does.
        ids: The names of its examples, in the order of the scores in records.
        groups: The ways to group them, by name.
    """

    task: str
    test: str
    train: str
    ids: Sequence[str]
    groups: Mapping[str, Grouping]

    def groups_with(self, train: str) -> dict[str, Grouping]:
        """The kinds that hold where these are the training files."""
        return {name: by for name, by in self.groups.items() if self.train == train or not by.from_train}


def groups_path(runs_dir: Path, task: str, test: str) -> Path:
    """The file for a test set, by the hash of its files."""
    return runs_dir / FOLDER / f"{task}-{test[:16]}.json.gz"


def add_groups(
    runs_dir: Path, task: str, hashes: Mapping[str, str], ids: Sequence[str], groupings: Mapping[str, Grouping]
) -> Path:
    """Writes these kinds of test examples; other kinds of the same examples that the file has stay.

    Args:
        runs_dir: The folder of the runs.
        task: The name of the task.
        hashes: Those of the training and test files, as `fingerprinted.data` in records.
        ids: The names of the test examples.
        groupings: The kinds, by name.
    """
    return merge_groups(runs_dir, KnownExamples(task, hashes["test"], hashes.get("train", ""), list(ids), groupings))


def merge_groups(runs_dir: Path, new: KnownExamples) -> Path:
    """Writes the file of a test set; kinds of the same examples that are only in the file stay."""
    path = groups_path(runs_dir, new.task, new.test)
    if path.exists() and list((known := read_groups(path)).ids) == list(new.ids):
        train = new.train or known.train
        new = replace(new, train=train, groups={**known.groups_with(train), **new.groups})
    write_json(path, asdict(new))
    return path


def read_groups(path: Path) -> KnownExamples:
    """The content of a file.

    Raises:
        ExamplesUnreadable: It is no such file; the message says why and what to do.
    """
    expected = f"{path}: expected kinds of test examples, found"
    with reworded((OSError, ValueError), lambda error: f"{expected}: {error}. Delete the file", ExamplesUnreadable):
        known: KnownExamples = decode(KnownExamples, read_json(path))
        for name, grouping in known.groups.items():
            if len(grouping.of) != len(known.ids):
                raise ValueError(f"groups.{name}.of: expected {len(known.ids)} numbers, found {len(grouping.of)}")
        return known


def reads_otherwise(identity: Identity) -> bool:
    """Whether a run sets how its files are read, so that the kinds of its examples are not those of other runs."""
    return any(key.lstrip("~+").startswith("data.reader.") for key in identity.variant)


def groups_above(record: Path, task: str, hashes: Mapping[str, object]) -> KnownExamples | None:
    """The known facts about the test set of a run; None without a file in a folder above its record.

    Kinds that depend on other training files are left out.

    Args:
        record: The record's path.
        task: The name of the task.
        hashes: The run's `data_hashes`.
    """
    test = str(hashes.get("test", ""))
    for folder in record.parents:
        if test and (path := groups_path(folder, task, test)).is_file():
            known = read_groups(path)
            return replace(known, groups=known.groups_with(str(hashes.get("train", ""))))
    return None
