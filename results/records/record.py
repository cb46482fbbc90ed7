"""Run records: one JSON file per run, written atomically, with everything needed to audit its score.

A run does:

    path = runs_dir / identity.path
    if decide(path, fingerprinted) != "run": ...
    with run_lock(path.parent): ...                   # then decide again: another process may have finished it
    write_examples(path.with_name(EXAMPLES_NAME), ...)
    write_predictions(path.with_name(PREDICTIONS_NAME), ...)
    write_record(path, RunRecord(...))                # last: a finished record implies that the others are complete
"""

import dataclasses
import math
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import accumulate, chain
from pathlib import Path, PurePath
from typing import Any, Literal

from elmo.common.errors import InputError, reworded
from elmo.common.files import read_json, write_json
from results.records.environment import Environment
from results.records.identity import FOLD, Identity, Parts, differences, fingerprint, flattened, looked_up
from results.records.metric import Metric
from results.records.printing import printable
from results.records.typed_json import decode, is_number, read_toml

SCHEMA = 2  # 1: the fingerprint covered the whole config
_OTHER_WEIGHTS = (
    "\nThe weights differ, and a run is named by the last part of their path. To keep both, rename that folder or file "
    "(python -m elmo.pretrain name=NAME exports to export/NAME), or name the features: --config-dir with "
    "features/NAME.yaml"
)


class RecordConflict(InputError):  # noqa: N818 - reads as what it is
    """A finished run of the same identity was made under other settings."""


class RecordUnreadable(InputError):  # noqa: N818
    """A record that is incomplete, invalid, or from another version of the suite."""

    def __init__(self, reason: str) -> None:
        super().__init__(printable(reason))  # it quotes the file


@dataclass(frozen=True)
class RunError:
    """Why a run failed: the exception's type and message, and the last lines of its traceback."""

    type: str
    message: str
    traceback: Sequence[str] = field(default_factory=list)

    @property
    def last_line(self) -> str:
        """The error on one line, like the last line of a traceback."""
        lines = self.message.strip().splitlines()
        return f"{self.type}: {lines[0]}" if lines else self.type

    @classmethod
    def of(cls, error: BaseException, last_lines: int = 20) -> "RunError":
        """Describes an exception, with the last lines of its traceback."""
        lines = "".join(traceback.format_exception(error)).splitlines()
        return cls(type(error).__name__, str(error), lines[-last_lines:])


@dataclass(frozen=True)
class Mix:
    """One learned mix of layers: the weights after the softmax, bottom layer first, and gamma."""

    weights: Sequence[float]
    gamma: float


def in_last_tenth(epoch: int, limit: int) -> bool:
    """Whether an epoch lies in the last tenth of the limit; a single epoch, of a task that does not train, has none."""
    return 10 * epoch > 9 * limit > 9


@dataclass(frozen=True)
class FurtherTest:
    """The selected model on the test set of another dataset. The scores of its examples are in a file of their own.

    Attributes:
        scores: Metric -> percent.
        data: Counts, and warnings if they differ from the published ones.
        labels: "gold" and "predicted" -> label of the dataset, or of the run's own -> the common label that it counted
            as, null for a label that was dropped.
    """

    scores: Mapping[str, float]
    data: Mapping[str, object] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run: settings, scores and environment. Every score is in percent (92.22, not 0.9222).

    Attributes:
        status: "finished" or "failed".
        identity: The run's name; its path follows from it.
        fingerprinted: Everything else that may change a score: `recipes` (versions of the task and of the parts of the
            features), `data`, `vectors` and `weights` (content hashes), and `settings` from a user's own YAML. Default
            settings of the suite are not here: the recipe numbers stand for them.
        config: The whole resolved config, for audits; the fingerprint does not cover it.
        folds: The number of folds of the dataset, if `identity.fold` is one of them; else None.
        metric: Name of the main metric, a key of `scores["test"]`.
        metrics: Name of a metric -> how it follows from the scores of single examples, as the task declares it. Empty
            in records of earlier versions; see results/paper/names.toml for those.
        scores: Split ("dev", "test") -> metric -> percent.
        details: Further scores of any shape, such as per class; percent as well.
        also: Name of a further dataset -> the model's scores on its test set. The run's own score and its fingerprint
            do not depend on it.
        data: Per split: counts, hashes, and warnings if they differ from the published ones.
        weights: Name, sha256 and state policy of the biLM; None without one.
        coverage: Per split: the number of distinct `words`, and of those `with_vector`; None without
            pretrained vectors and in records of earlier versions.
        mixes: Placement ("input", "output") -> the learned mix.
        epochs: The learning curve, one mapping per epoch; NaN and infinite values are null.
        at_limit: Whether the best epoch lies in the last tenth of `trainer.epochs`, so that more epochs may raise the
            score; None in records of earlier versions, whose curve tells it.
        seconds: Wall time of the run, by a monotonic clock.
        peak_memory_mb: Peak memory, of the GPU if there is one.
        inputs: Name of everything that was read and can change a score -> its sha256: `data.SPLIT/NAME`,
            `data.also.DATASET/NAME`, `vectors/NAME`, `PART/FILE` of a biLM or a transformer, `frozen.PART/FILE`,
            `frozen.PART/module:NAME`, and `settings`, the resolved config without seed and fold. Not in the
            fingerprint; empty in earlier records.
        model: The sha256 of the weights that were kept next to the record; None without them.
        environment: Versions, commit, device, threads, kernels.
        earlier: The environments of earlier processes of a resumed run that differ from `environment`.
        started_at: ISO 8601, UTC.
        finished_at: ISO 8601, UTC.
        error: Why it failed, if it did.
        schema: Version of this layout.
    """

    status: Literal["finished", "failed"]
    identity: Identity
    fingerprinted: Mapping[str, object]
    metric: str
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    folds: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)
    also: Mapping[str, FurtherTest] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    weights: Mapping[str, object] | None = None
    coverage: Mapping[str, Mapping[str, int]] | None = None
    mixes: Mapping[str, Mix] = field(default_factory=dict)
    epochs: Sequence[Mapping[str, object]] = field(default_factory=list)
    at_limit: bool | None = None
    seconds: float | None = None
    peak_memory_mb: float | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    environment: Environment | None = None
    earlier: Sequence[Environment] = field(default_factory=list)
    started_at: str | None = None
    finished_at: str | None = None
    error: RunError | None = None
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        further = {f"also.{name}": result.scores for name, result in self.also.items()}
        for split, metrics in {**self.scores, **further}.items():
            for name, score in metrics.items():
                if not math.isfinite(score):
                    raise ValueError(f"scores.{split}.{name}: expected a finite number, found {score}")
        fold = self.identity.fold
        if fold is not None and not 0 <= fold < (self.folds or 0):
            raise ValueError(f"folds: expected a number of folds above identity.fold, {fold}, found {self.folds}")
        if self.status == "finished" and self.metric not in self.scores.get(self.judged, {}):
            main = f"scores.{self.judged}.{self.metric}"
            raise ValueError(f"{main}: missing, but it is the main metric of a finished run")
        if self.trial and ("test" in self.scores or self.also):
            raise ValueError("scores.test and also: expected none, because a trial is judged on dev alone")
        if self.status == "failed" and self.error is None:
            raise ValueError("error: missing, but the run failed")

    @property
    def limit(self) -> int | None:
        """The limit on examples per split, or None."""
        limit = self.identity.variant.get("limit")
        return limit if isinstance(limit, int) else None

    @property
    def trial(self) -> bool:
        """Whether the run tried settings: it was judged on dev alone, and its test set was not read."""
        return self.identity.variant.get("trial") is True

    @property
    def judged(self) -> str:
        """The split whose main score is the run's: dev for a trial."""
        return "dev" if self.trial else "test"

    @property
    def commit(self) -> str | None:
        """The commit of the code, if it is known."""
        return self.environment.commit if self.environment else None

    @property
    def recipe(self) -> int:
        """The version of the task's recipe."""
        version = looked_up(self.fingerprinted, "recipes.task")
        return version if isinstance(version, int) else 1

    def settings(self, group: str) -> Mapping[str, object]:
        """The part of the config under this key, such as "features"; empty if there is none."""
        return mapping_of(self.config.get(group))

    @property
    def data_hashes(self) -> Mapping[str, object]:
        """Split -> the hash of its files; of joined folds, fold -> their hashes."""
        return mapping_of(self.fingerprinted.get("data"))

    @property
    def shipped_data(self) -> bool:
        """Whether all data files come with the suite, so that their text may be published; a hub or a path may not."""
        data = self.settings("data")
        named = [name for names in mapping_of(data.get("splits")).values() for name in names]
        inside = [not PurePath(str(name)).is_absolute() and ".." not in PurePath(str(name)).parts for name in named]
        only_files = data.get("hub") is None and data.get("documents") is None
        return data.get("shipped") is True and only_files and bool(named) and all(inside)

    @property
    def warnings(self) -> list[str]:
        """The warnings of the features about their sources, such as test data that they were trained on."""
        parts = self.settings("features")
        every = [*parts.values(), *mapping_of(parts.get("frozen")).values()]
        texts = [mapping_of(part).get("warning") for part in every]
        return [text for text in texts if isinstance(text, str) and text]

    @property
    def data_warnings(self) -> list[str]:
        """The warnings of the run about its data: counts, texts in two splits, labels."""
        by_split = [mapping_of(split).get("warnings") for split in self.data.values()]
        return [text for texts in by_split if isinstance(texts, list) for text in texts if isinstance(text, str)]

    @property
    def limited(self) -> bool:
        """Whether the best epoch lies in the last tenth of the limit on epochs."""
        if self.at_limit is not None:
            return self.at_limit
        limit, dev = self.settings("trainer").get("epochs"), [epoch.get(self.metric) for epoch in self.epochs]
        scored = [(score, -number) for number, score in enumerate(dev, start=1) if isinstance(score, (int, float))]
        return isinstance(limit, int) and bool(scored) and in_last_tenth(-max(scored)[1], limit)

    @property
    def confusion(self) -> tuple[list[str], list[list[float]]] | None:
        """The classes, and the counts of test examples by gold and predicted class; None where there are none."""
        table = mapping_of(self.details.get("confusion"))
        names, counts = table.get("labels"), table.get("gold_by_predicted")
        if not isinstance(names, list) or not isinstance(counts, list) or not names or len(counts) != len(names):
            return None
        if not all(isinstance(row, list) and len(row) == len(names) and all(map(is_number, row)) for row in counts):
            return None
        return list(map(str, names)), counts

    @property
    def learned_nothing(self) -> bool:
        """Whether a finished run scored 0, or predicted one class for all test examples although they have several."""
        _, counts = self.confusion or ([], [])
        predicted = [any(column) for column in zip(*counts, strict=True)]
        return self.score == 0 or (sum(predicted) == 1 and sum(map(any, counts)) > 1)

    @property
    def hashed(self) -> dict[str, object]:
        """All that the fingerprint covers: the run's name and everything else that may change its score."""
        return hashed(self.identity, self.fingerprinted)

    @property
    def without_seed(self) -> dict[str, object]:
        """The same without the run's own seed; other seeds are settings."""
        named = {key: value for key, value in self.identity.hashed().items() if key != "seed"}
        return {"identity": named, **self.fingerprinted}

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of `hashed`; computed, so that the two cannot disagree."""
        return fingerprint(self.hashed)

    @cached_property
    def leaves(self) -> Mapping[str, object]:
        """The config by dotted keys; tables look at it often."""
        return flattened(self.config)

    def summary(self) -> dict[str, object]:
        """The outcome as plain values, without config and curve, for experiment loggers."""
        kept = ("status", "scores", "details", "mixes", "data", "seconds", "peak_memory_mb", "environment", "error")
        content = dataclasses.asdict(self)
        return {**{key: content[key] for key in kept}, "fingerprint": self.fingerprint}

    @property
    def score(self) -> float:
        """The main metric of a finished run, on the test split; of a trial, on dev."""
        return self.scores[self.judged][self.metric]


def mapping_of(value: object) -> Mapping[str, Any]:
    """A part of a record, which may have any shape; empty if it is no mapping."""
    return value if isinstance(value, Mapping) else {}


def timestamp() -> str:
    """The current time: ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def hashed(identity: Identity, fingerprinted: Parts) -> dict[str, object]:
    """All that a run's fingerprint covers."""
    return {"identity": identity.hashed(), **fingerprinted}


def decide(path: Path, parts: Parts) -> Literal["run", "skip", "failed"]:
    """Whether to do the run with this record path: "skip" only if an equal run has finished.

    "failed" if an equal run failed, which may fail again. A run that failed under other settings is done again.

    Args:
        path: The record's path.
        parts: What the run's fingerprint covers; see `hashed`.

    Raises:
        RecordConflict: A finished record there has another fingerprint; the message lists the differing keys.
        RecordUnreadable: The file there is not a record.
    """
    if not path.exists():
        return "run"
    record = read_record(path)
    equal = record.fingerprint == fingerprint(parts)
    if record.status == "failed":
        return "failed" if equal else "run"
    if equal:
        return "skip"
    differing = differences(record.hashed, parts)
    lines = [f"  {printable(key)}: {there} there, {here} here" for key, (there, here) in differing.items()]
    raise RecordConflict(
        f"{path} holds a finished run of the same name made under other settings:\n"
        + "\n".join(lines)
        + _OTHER_WEIGHTS * ("weights" in differing)
        + f"\nTo keep both, use another runs_dir=DIR; to replace it, delete the folder {path.parent}"
    )


def write_record(path: Path, record: RunRecord) -> None:
    """Writes the record atomically: the file is either the old one or the complete new one."""
    write_json(path, {**dataclasses.asdict(record), "fingerprint": record.fingerprint})


def read_record(path: Path) -> RunRecord:
    """The record in this file.

    Raises:
        RecordUnreadable: This version cannot read the file; the message says why and what to do.
        OSError: The file cannot be opened.
    """
    remedy = "Restore the file from a copy, or delete its folder and run again"
    cut = f"{path}: expected one whole JSON object, found"  # or not UTF-8
    with reworded(ValueError, lambda error: f"{cut}: {error}. {remedy}", RecordUnreadable):
        content = read_json(path)
    schema = content.get("schema") if isinstance(content, dict) else None
    if isinstance(schema, int) and schema != SCHEMA:
        remedy = "Update the suite to read it" if schema > SCHEMA else "Delete its folder and run again"
        raise RecordUnreadable(f"{path}: expected record schema {SCHEMA}, found {schema}. {remedy}")
    with reworded(ValueError, lambda error: f"{path}: not a run record: {error}. {remedy}", RecordUnreadable):
        record: RunRecord = decode(RunRecord, content)
    written = content.get("fingerprint") if isinstance(content, dict) else None
    if written != record.fingerprint:
        raise RecordUnreadable(
            f"{path}: fingerprint: expected {record.fingerprint}, the hash of `identity` and `fingerprinted`, "
            f"found {written!r:.80}; was it edited by hand? {remedy}"
        )
    return record


# What cannot change a score: the seed and the fold, which are in the run's name, texts for people, places of data
# files, whose content is hashed, and where a class of the suite is, whose recipe has a number.
_FREE = re.compile(rf"seed|{FOLD}|data\.(?!reader\b).*|.*\b(title|warning)")
_OURS = ("elmo.sources.", "tasks.")


@dataclass(frozen=True)
class Introduced:
    """The content of introduced.toml, which explains it: keys whose first default is null, and values of the others."""

    null: Sequence[str]
    values: Mapping[str, object]


@cache
def first_defaults() -> dict[str, object]:
    """Key of a setting that was added after the first records -> its default at that time."""
    introduced = read_toml(Introduced, "introduced.toml")
    return {**dict.fromkeys(introduced.null), **introduced.values}


def settings_of(record: RunRecord) -> dict[str, object]:
    """Key -> value of all settings that may change a score; empty for a record without a config."""
    leaves = record.leaves
    parts = {"", *chain.from_iterable(accumulate(key.split(".")[:-1], "{}.{}".format) for key in leaves)}
    later = {
        key: value
        for key, value in first_defaults().items()
        if leaves and key.rpartition(".")[0].removesuffix(".tuning") in parts and key not in parts
    }
    return {key: value for key, value in {**later, **leaves}.items() if not _is_free(key, value)}


def _is_free(key: str, value: object) -> bool:
    return bool(_FREE.fullmatch(key)) or (key.endswith("_target_") and str(value).startswith(_OURS))


def contents_of(record: RunRecord) -> dict[str, str]:
    """Name -> hash of what the run read apart from its settings and data; those of the fingerprint cover the data."""
    return {name: value for name, value in record.inputs.items() if name != "settings" and not name.startswith("data.")}
