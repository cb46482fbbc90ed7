"""Files of kinds of test examples: RUNS_DIR/test_sets/TASK-HASH.json, one for each test set.

The kinds depend on the text of a test set, not on a run, so one file serves all runs that were tested on it, also those
made before the file. It has names and labels of examples, no text; labels are found by the hash of the test files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from elmo.common.files import read_json, write_json
from results.records.identity import Identity
from results.records.metric import Grouping
from results.records.typed_json import decode

FOLDER = "test_sets"
SCHEMA = 1
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NO_LABEL = "-"


class GroupsUnreadable(ValueError):  # noqa: N818 - reads as what it is
    """A file of kinds of test examples that is damaged, or of another test set."""


@dataclass(frozen=True)
class StoredGrouping:
    """Kinds of examples.

    Attributes:
        labels: For people.
        of: A character for each example: the number of its label, 0 to 9 and a to z, or "-" for none.
        train: The hash of the training files, if the kinds depend on them; else empty.
    """

    labels: Sequence[str]
    of: str
    train: str = ""

    @classmethod
    def made_from(cls, grouping: Grouping, train: str) -> "StoredGrouping":
        """The kinds as they are stored; `train` is the hash of the training files."""
        if len(grouping.labels) > len(_DIGITS):
            raise ValueError(f"expected at most {len(_DIGITS)} kinds of examples, found {len(grouping.labels)}")
        of = "".join(_NO_LABEL if number is None else _DIGITS[number] for number in grouping.of)
        return cls(list(grouping.labels), of, train if grouping.from_train else "")

    @property
    def grouping(self) -> Grouping:
        """The kinds as a task declares them.

        Raises:
            ValueError: A character stands for no label.
        """
        numbers = [None if digit == _NO_LABEL else _DIGITS.index(digit) for digit in self.of]
        if any(number is not None and number >= len(self.labels) for number in numbers):
            raise ValueError(f"of: expected numbers of {len(self.labels)} labels, found a higher one")
        return Grouping(self.labels, numbers, bool(self.train))


@dataclass(frozen=True)
class KnownExamples:
    """What is known about a test set.

    Attributes:
        task: The task.
        test: The hash of its files, as in records.
        ids: The names of its examples, in the order of the scores in records.
        groups: The ways to group them, by name.
        schema: Version of this layout.
    """

    task: str
    test: str
    ids: Sequence[str]
    groups: Mapping[str, StoredGrouping] = field(default_factory=dict)
    schema: int = SCHEMA


def groups_path(runs_dir: Path, task: str, test: str) -> Path:
    """The file for a test set, by the hash of its files."""
    return runs_dir / FOLDER / f"{task}-{test[:16]}.json"


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
    made = {name: StoredGrouping.made_from(own, hashes.get("train", "")) for name, own in groupings.items()}
    return merge_groups(runs_dir, KnownExamples(task, hashes["test"], list(ids), made))


def merge_groups(runs_dir: Path, new: KnownExamples) -> Path:
    """Writes the file of a test set; kinds of the same examples that are only in the file stay."""
    path = groups_path(runs_dir, new.task, new.test)
    known = read_groups(path) if path.exists() else None
    kept = known.groups if known and list(known.ids) == list(new.ids) else {}
    new = replace(new, groups={**kept, **new.groups})
    if new != known:
        write_json(path, asdict(new))
    return path


def read_groups(path: Path) -> KnownExamples:
    """The content of a file.

    Raises:
        GroupsUnreadable: It is no such file; the message says why and what to do.
    """
    try:
        found: KnownExamples = decode(KnownExamples, read_json(path))
        for name, own in found.groups.items():
            if len(own.grouping.of) != len(found.ids):
                raise ValueError(f"groups.{name}.of: expected {len(found.ids)} characters, found {len(own.of)}")
    except (OSError, ValueError) as error:
        raise GroupsUnreadable(f"{path}: expected kinds of test examples, found: {error}. Delete the file") from error
    return found


def reads_otherwise(identity: Identity) -> bool:
    """Whether a run sets how its files are read, so that the kinds of its examples are not those of other runs."""
    return any(key.lstrip("~+").startswith("data.reader.") for key in identity.variant)


def groups_above(record: Path, task: str, hashes: Mapping[str, object]) -> KnownExamples | None:
    """What is known about the test set of a run; None without a file in a folder above its record.

    Kinds that depend on other training files are left out.

    Args:
        record: The record's path.
        task: The name of the task.
        hashes: The run's `data_hashes`.
    """
    test, train = (str(hashes.get(split, "")) for split in ("test", "train"))
    for folder in record.parents:
        path = groups_path(folder, task, test)
        if test and path.is_file():
            found = read_groups(path)
            if (found.task, found.test) == (task, test):
                kept = {name: own for name, own in found.groups.items() if own.train in ("", train)}
                return replace(found, groups=kept)
    return None
