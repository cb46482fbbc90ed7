"""Files of kinds of test examples: RUNS_DIR/test_sets/TASK-HASH.json.gz, one for each test set.

The kinds depend on the text of a test set, not on a run, so one file serves all runs that were tested on it, also those
made before the file. It has names and labels of examples, no text; labels are found by the hash of the test files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from elmo.common.files import read_json, write_json
from results.records.identity import Identity
from results.records.metric import Grouping
from results.records.typed_json import decode

FOLDER = "test_sets"


class GroupsUnreadable(ValueError):  # noqa: N818 - reads as what it is
    """A file of kinds of test examples that is damaged, or of another test set."""


@dataclass(frozen=True)
class KnownExamples:
    """What is known about a test set.

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
        return {name: own for name, own in self.groups.items() if self.train == train or not own.from_train}


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
        GroupsUnreadable: It is no such file; the message says why and what to do.
    """
    try:
        known: KnownExamples = decode(KnownExamples, read_json(path))
        for name, own in known.groups.items():
            if len(own.of) != len(known.ids):
                raise ValueError(f"groups.{name}.of: expected {len(known.ids)} numbers, found {len(own.of)}")
    except (OSError, ValueError) as error:
        raise GroupsUnreadable(f"{path}: expected kinds of test examples, found: {error}. Delete the file") from error
    return known


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
    test = str(hashes.get("test", ""))
    for folder in record.parents:
        if test and (path := groups_path(folder, task, test)).is_file():
            known = read_groups(path)
            return replace(known, groups=known.groups_with(str(hashes.get("train", ""))))
    return None
