"""Datasets: examples from shipped files, from official files in a data folder or from the hub, and a look at them."""

import hashlib
import json
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from elmo.common.errors import InputError, excerpt
from elmo.common.files import hashes_of, sha256_of, utf8_lines
from elmo.download import DownloadNeeded
from results.records.identity import differences
from tasks.data.text import json_object, parsed_lines
from tasks.task import SPLITS, HasId, Sentence, Split, Task

SHIPPED = Path(__file__).parents[1] / "mini"
MOST_NAMED = 3  # of the files that a split lacks
# Split -> the share of another split's examples whose texts may be in it, too. CoNLL-2003 has 6 % of the sentences of
# dev in train, short ones. Texts of dev help a model less than those of train: they only choose the epoch.
MOST_SHARED: dict[Split, float] = {"train": 0.1, "dev": 0.5}
FEW_EXAMPLES = 5  # of a label in train; from fewer a model hardly learns it
MOST_LABELS = 5  # named in a warning
Example = TypeVar("Example", bound=HasId)


@dataclass
class HubConfig:
    """A dataset on the Hugging Face hub: its path, its names for the splits, and its columns by our names."""

    path: str = ""
    name: str | None = None
    revision: str | None = None
    splits: dict[str, str] = field(default_factory=lambda: {"train": "train", "dev": "validation", "test": "test"})
    columns: dict[str, str] = field(default_factory=dict)


@dataclass
class DataConfig:
    """A dataset: the contents of one YAML under conf/data/.

    Attributes:
        name: as in the file's name, in the records and in the table.
        task: the task that it is for; None if it has a part for each task.
        splits: the files of train, dev and test, relative to the data folder; a name with * means all files that
            match it, and ** any folders.
        folds: the number of folds of a dataset for cross-validation, whose test parts together are all examples; in
            `splits`, "{fold}" is then the number of the fold, from 0. None for a dataset with one test set.
        documents: the path of a document by its name, "{id}", for splits in .ids files, which have a name a line; what
            follows the last point of a name is left out.
        first: split -> how many lines of its file, or rows of the hub, to read. Of these it reads the fields that
            `hub.columns` names, and a hash of these fields, of the lines with a label, identifies it: files that have
            more lines or fields are the same data. Its files are alternatives: the first that is there is read.
        shipped: whether the files come with the suite rather than from the data folder.
        reader: differences between this dataset's files and the task's usual ones; see the task's reader.
        labels: label -> what it is called in other datasets of the task, for their test sets (`also`): a label that is
            not there has no counterpart. Empty: each label is called the same everywhere.
        expected: published counts, compared with the counts read.
        hub: the source to use if the files are absent.
        instead: advice for users who cannot get the files, such as another dataset; ends the error that names them.
    """

    name: str = ""
    task: str | None = None
    splits: dict[str, list[str]] = field(default_factory=dict)
    folds: int | None = None
    documents: str | None = None
    first: dict[str, int] = field(default_factory=dict)
    shipped: bool = False
    reader: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    expected: dict[str, dict[str, int]] = field(default_factory=dict)
    hub: HubConfig | None = None
    instead: str = ""

    def of_fold(self, fold: int | None) -> "DataConfig":
        """The dataset with the files of one fold; without folds, the dataset itself.

        Raises:
            InputError: the dataset has no such fold, has folds and none was chosen, or all folds have one test set.
        """
        if self.folds is None:
            if fold is not None:
                raise InputError(f"fold: expected null, as data={self.name} has no folds, found {fold}. Leave it out")
            return self
        if self.folds < 2 or not any("{fold}" in path for path in self.splits.get("test", [])):
            raise InputError(
                f"data={self.name}: expected data.folds of at least 2 and {{fold}} in the path of a test file, found "
                f"{self.folds} folds and {self.splits.get('test')}. Correct data.splits.test, or remove data.folds"
            )
        if fold is None or not 0 <= fold < self.folds:
            raise InputError(
                f"fold: expected one of the folds 0 to {self.folds - 1} of data={self.name}, found "
                f"{'none' if fold is None else fold}. Add fold=0, or for all folds -m 'fold=range({self.folds})'"
            )
        splits = {split: [path.replace("{fold}", str(fold)) for path in paths] for split, paths in self.splits.items()}
        return replace(self, splits=splits)


@dataclass(frozen=True)
class Loaded(Generic[Example]):
    """The examples of a split.

    Attributes:
        examples: the usable ones, after `limit` and `train_fraction`.
        counts: the counts before any limit, with `dropped` if some were not usable, and `used` if only some are kept.
        warnings: one for each count that differs from the published one.
    """

    examples: list[Example]
    counts: dict[str, int]
    warnings: list[str]


@dataclass
class DataSource:
    """The splits of one dataset for one task.

    Attributes:
        config: the dataset.
        data_dir: the folder of the official files.
        limit: examples to keep of each split; None keeps all.
        train_fraction: the share of the training examples to keep, drawn at random.
        seed: of that draw. Under the same seed a smaller share is a subset of a larger one.
        used: the splits that are needed.
    """

    config: DataConfig
    data_dir: Path
    limit: int | None = None
    train_fraction: float = 1.0
    seed: int = 0
    used: Sequence[Split] = SPLITS

    def __post_init__(self) -> None:
        self._hub = self.config.hub or HubConfig()
        self._root = SHIPPED if self.config.shipped else self.data_dir
        self._rows: dict[str, list[dict[str, Any]]] = {}  # by the hub's names, since two splits may share one
        self._hashes: dict[Split, dict[str, str]] = {}  # of the files of each split, by name

    def fingerprint(self) -> dict[str, str]:
        """The sha256 of each split's content, computed without parsing; `load` checks that it is still the same."""
        self._hashes = {split: self._hash(split) for split in self.used}
        of_rows = [split for split in self.used if split in self.config.first or not self._has_files(split)]
        return {
            split: min(hashes.values()) if split in of_rows else _joint_hash(hashes.values())
            for split, hashes in self._hashes.items()
        }

    @property
    def inputs(self) -> dict[str, str]:
        """The sha256 of each file by `data.SPLIT/NAME`, as hashed by `fingerprint`; see `RunRecord.inputs`."""
        return {f"data.{split}/{name}": it for split, hashes in self._hashes.items() for name, it in hashes.items()}

    def check_unchanged(self, *splits: Split) -> None:
        """Raises an InputError if one of the splits, of all by default, has changed since `fingerprint`."""
        for split in splits or self.used:
            if split in self._hashes and (changed := differences(self._hashes[split], self._hash(split))):
                raise InputError(
                    f"data={self.config.name}: the {split} split changed during the run: {', '.join(changed)}. Run "
                    "again to start over with the new content, or put the old content back and run with retry=failed"
                )

    def check_there(self, download: bool) -> None:
        """Raises an InputError if a split has no examples to read; what only the hub has is asked for once.

        Args:
            download: also downloads it, so that runs find it in the cache of the datasets library; otherwise a
                DownloadNeeded names what is not in that cache.
        """
        if all(self._has_files(split) for split in self.used):
            return
        if download:
            self.fingerprint()
            return
        import datasets

        ask = partial(datasets.load_dataset_builder, self._hub.path, self._hub.name, revision=self._hub.revision)
        builder = self._asked(self.used[0], ask)
        if not Path(builder.cache_dir).is_dir():
            raise DownloadNeeded(self._hub.path, builder.info.download_size)

    def load(self, task: Task[Example, Any], split: Split) -> Loaded[Example]:
        """The examples of a split.

        Raises:
            InputError: the split cannot be read, or its content has changed since `fingerprint`.
        """
        if split in self.config.first or not self._has_files(split):
            if lacking := [column for column in task.columns if column not in self._hub.columns]:
                raise self._wrong_columns(f"a name for {', '.join(lacking)}", self._hub.columns)
            rows = self._first_rows(split) if split in self.config.first else self._hub_rows(split, task)
            examples = task.from_rows(rows, split)
        else:
            examples = [example for path in self._paths(split) for example in task.read(path, split)]
        self.check_unchanged(split)
        usable = [example for example in examples if task.usable(example)]
        if not usable:
            raise self._no_examples(split)
        name, texts = usable[0].id, task.texts(usable[0])
        if not isinstance(name, str) or any(isinstance(sentence, str) for sentence in texts):  # letters are no words
            raise InputError(
                f"examples of {type(task).__name__}: expected a text as id, and as texts a tuple of sentences, each a "
                f"tuple of words, found {excerpt(name)} and {excerpt(texts)}. A single sentence is (words,)"
            )
        wanted = usable[: self.limit]
        if split == "train" and self.train_fraction < 1:
            wanted = _drawn(wanted, self.train_fraction, self.seed)
        left = {"dropped": len(examples) - len(usable), "used": len(wanted) if len(wanted) < len(usable) else 0}
        counts = {**task.counts(usable), **{name: count for name, count in left.items() if count}}
        warnings = [
            f"{split}: expected {published:,} {what} as published, found {counts.get(what, 0):,}"
            for what, published in self.config.expected.get(split, {}).items()
            if counts.get(what) != published
        ]
        return Loaded(wanted, counts, warnings)

    def _paths(self, split: Split) -> list[Path]:
        paths = [path for name in self.config.splits.get(split, []) for path in self._files(name)]
        return ([path for path in paths if path.is_file()] or paths)[:1] if split in self.config.first else paths

    def _first_rows(self, split: Split) -> Sequence[Mapping[str, Any]]:
        """The rows of a split that `first` names, with the columns that identify it."""
        number, columns = self.config.first[split], self._hub.columns
        if not self._has_files(split):
            return self._hub_rows(split)[:number]

        (path,) = self._paths(split)
        first = islice(utf8_lines(path), number)
        rows = parsed_lines(first, path, "Is this a file of JSON lines?", lambda name, line: json_object(line))
        return [{column: row[column] for column in columns if column in row} for row in rows]

    def _files(self, name: str) -> list[Path]:
        """The files that match a name with *, sorted, or the documents of an .ids file; otherwise the path itself."""
        path, documents = self._root / name, self.config.documents
        if documents is not None and path.suffix == ".ids" and path.is_file():
            ids = [Path(line.strip()).stem for line in utf8_lines(path) if line.strip()]
            return [self._root / documents.replace("{id}", document) for document in ids]
        matching = self._root.glob(name) if "*" in name and not Path(name).is_absolute() else []
        return sorted(matching) or [path]

    def _has_files(self, split: Split) -> bool:
        """Whether the split's files exist. If not, and there is no hub, raises an error with the expected place."""
        if self.config.splits.get(split) and not self._absent(split):
            return True
        if self.config.hub is None:
            raise self._missing(split)
        return False

    def _absent(self, split: Split) -> str:
        """The files of a split that are not there, the first of many."""
        return _listed([str(path) for path in self._paths(split) if not path.is_file()], MOST_NAMED)

    def _missing(self, split: Split, nor: str = "") -> InputError:
        """The error for a split that is not there: it and those after it, and what to do."""
        later = SPLITS[SPLITS.index(split) + 1 :]
        further = "".join(f"; the {other} split needs {it}" for other in later if (it := self._absent(other)))
        absent = self._absent(split) or "a file in data.splits"
        return InputError(
            f"data={self.config.name}: the {split} split needs {absent}, which is not there{nor}{further}. Put the "
            "files there, or name their folder with data_dir=DIR or the variable ELMO_DATA"
            + (f"; {self.config.instead}" if self.config.instead else "")
        )

    def _hash(self, split: Split) -> dict[str, str]:
        """The sha256 of each file of a split, or the one of its rows."""
        if split in self.config.first:
            labelled = [row for row in self._first_rows(split) if not any(it in (None, "-") for it in row.values())]
            name = next(iter(self.config.splits.get(split, [])), self._hub.path)
            return {name: hashlib.sha256(json.dumps(labelled, sort_keys=True).encode()).hexdigest()}
        if self._has_files(split):
            paths = self._paths(split)
            if not any(path.stat().st_size for path in paths):  # before training: test is read after it
                raise self._no_examples(split)
            if len(set(paths)) < len(paths):
                raise InputError(f"data={self.config.name}: splits.{split}: expected each file once, found one twice")
            return hashes_of(paths, self._root)
        rows = json.dumps(self._hub_rows(split), sort_keys=True).encode()
        return {f"{self._hub.path}:{self._hub.splits[split]}": hashlib.sha256(rows).hexdigest()}

    def _hub_rows(self, split: Split, task: Task[Any, Any] | None = None) -> Sequence[dict[str, Any]]:
        name = self._hub.splits[split] if task is None else task.hub_split(split, self._hub.splits)
        if name not in self._rows:
            self._rows[name] = self._read_hub(split, name)
        return self._rows[name]

    def _read_hub(self, split: Split, name: str) -> list[dict[str, Any]]:
        """The rows of a split of the hub, with our column names and with label names instead of numbers."""
        import datasets

        hub = self._hub
        rows = self._asked(split, lambda: datasets.load_dataset(hub.path, hub.name, revision=hub.revision, split=name))
        absent = [theirs for theirs in hub.columns.values() if theirs not in rows.column_names]
        if absent:
            raise self._wrong_columns(f"the columns {', '.join(absent)}", rows.column_names)
        columns: dict[str, list[Any]] = {}
        for ours, theirs in hub.columns.items():
            values = list(rows[theirs])
            if None in values:
                raise self._wrong_columns(f"{theirs} in each row of {name}", [f"none in row {values.index(None)}"])
            columns[ours] = labelled(values, rows.features[theirs])
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _asked(self, split: Split, ask: Callable[[], Any]) -> Any:  # noqa: ANN401 (of the datasets library)
        """The hub's answer to a request about a split; that of its library's cache if the hub cannot be reached."""
        if not self._rows:  # a request may take long
            files = " and ".join(map(str, self._paths(split))) or "a file"
            print(f"data={self.config.name}: found no {files}; loading {self._hub.path} from the hub", file=sys.stderr)
        unreachable = _unreachable()
        try:
            return ask()
        except (OSError, ValueError, RuntimeError) as error:
            reason = unreachable or f"{type(error).__name__}: {error}"
            raise self._missing(split, f", nor on the hub as {self._hub.path!r} ({reason})") from error

    def _no_examples(self, split: Split) -> InputError:
        named = ", ".join(map(str, self._paths(split)[:MOST_NAMED])) or "its rows on the hub"
        return InputError(f"data={self.config.name}: the {split} split has no examples. Check {named}")

    def _wrong_columns(self, expected: str, columns: Iterable[str]) -> InputError:
        key = "data" if self.config.task else f"datasets.{self.config.name}"  # the second for several tasks
        return InputError(
            f"data={self.config.name}, on the hub {self._hub.path}: expected {expected}, "
            f"found {', '.join(columns) or 'none'}. Name the dataset's columns in {key}.hub.columns"
        )


@cache
def _unreachable() -> str:
    """Why this process cannot reach the hub; empty if it can.

    If it cannot, the hub's libraries then answer from their cache, at once: they would try for 25 s at each request.
    """
    import datasets
    import requests
    from huggingface_hub import constants

    try:
        requests.head(constants.ENDPOINT, timeout=5)
    except OSError as error:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
        return f"{type(error).__name__}: {error}"
    return ""


def common_labels(labels: Iterable[str], ours: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str | None]:
    """The label that each label of a dataset counts as, together with another dataset; None without counterpart.

    Args:
        labels: the labels.
        ours: the dataset's `labels`.
        other: those of the other dataset.
    """
    called = {label: ours.get(label) if ours else label for label in labels}
    return {label: name if not other or name in other.values() else None for label, name in called.items()}


def hash_of_files(paths: Sequence[Path]) -> str:
    """The hash of a split's files, as records have it."""
    return _joint_hash(map(sha256_of, paths))


def _joint_hash(hashes: Iterable[str]) -> str:
    """One hash for those of all files."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, hashes))).hexdigest()


def _drawn(examples: list[Example], fraction: float, seed: int) -> list[Example]:
    """A random share of the examples, at least one, in their original order."""
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    return [examples[index] for index in sorted(order[: max(1, round(fraction * len(examples)))])]


def labelled(values: Sequence[Any], feature: Any) -> list[Any]:  # noqa: ANN401 (a type of the datasets library)
    """The values of a column, with names instead of numbers for class labels."""
    inner = getattr(feature, "feature", feature)  # a list of labels wraps the label
    names = getattr(inner, "names", None)
    if names is None:
        return list(values)
    name_of = {-1: None, **dict(enumerate(names))}  # -1 means no label
    return [[name_of[i] for i in value] if isinstance(value, list) else name_of[value] for value in values]


def look_at(
    task: Task[Any, Any], split: Split, examples: Sequence[Any], earlier: Mapping[Split, Sequence[Any]]
) -> tuple[dict[str, Any], list[str]]:
    """Facts about a split for the record, and warnings.

    Two examples are equal if all their texts have the same words in the same order.

    Args:
        task: of the examples.
        split: read after those in `earlier`, first train and then dev.
        examples: those of the split.
        earlier: the examples of the splits before it.
    """
    facts, warnings = dict[str, Any](), list[str]()
    texts = _texts(task, examples)
    for other, known in earlier.items():
        count = sum(map(set(_texts(task, known)).__contains__, texts))
        share = count / len(texts)
        facts[f"also_in_{other}"] = {"examples": count, "share": round(share, 4)}
        if share > MOST_SHARED[other]:
            warnings.append(
                f"{split}: the texts of {count:,} of {len(texts):,} examples ({share:.0%}) are also in {other}. The "
                f"score says little about new texts: remove these from {other}"
            )
    labels = task.label_counts(examples)
    trained = task.label_counts(earlier.get("train", ()))
    few = [f"{excerpt(label)} ({count})" for label, count in labels.items() if count < FEW_EXAMPLES]
    new = [_new_label(label, count, trained) for label, count in labels.items() if label not in trained]
    absent = [excerpt(label) for label in trained if label not in labels]
    if split == "train" and few:
        warnings.append(f"train: labels with fewer than {FEW_EXAMPLES} examples: {_listed(few, MOST_LABELS)}")
    if split != "train" and new:
        warnings.append(f"{split}: labels that train lacks, and that are never predicted: {_listed(new, MOST_LABELS)}")
    if split == "dev" and absent:
        warnings.append(f"dev: lacks labels of train, so no epoch is chosen by them: {_listed(absent, MOST_LABELS)}")
    return facts, warnings


def _texts(task: Task[Any, Any], examples: Sequence[Any]) -> list[tuple[Sentence, ...]]:
    return [tuple(map(tuple, task.texts(example))) for example in examples]


def _new_label(label: str, count: int, trained: Iterable[str]) -> str:
    """A label that train lacks, with one of train that differs in case alone, if there is one."""
    like_it = next((f"; train has {excerpt(known)}" for known in trained if known.casefold() == label.casefold()), "")
    return f"{excerpt(label)} ({count}{like_it})"


def _listed(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
