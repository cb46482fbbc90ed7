"""Collects records from folders, without duplicates, and joins the runs of one seed on the folds of a dataset.

Every example is tested in one fold, so the counts of all folds are summed into one score. A mean of the folds' scores
would be another number, and folds are no seeds: they have different test sets.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from results.records.example_scores import Example, read_examples
from results.records.identity import EXAMPLES_NAME, FOLD, RECORD_NAME, differences, fingerprint
from results.records.metric import mean_of
from results.records.record import RecordUnreadable, RunRecord, hashed, read_record, settings_of

PUBLISHED = Path(__file__).parents[1] / "published"


@dataclass(frozen=True)
class Finding:
    """A message below the table; `wrong` if `--check` should fail because of it.

    Attributes:
        kind: "failed" run, "empty" cell (the text is the command that fills it), missing "seeds" of a cell (likewise),
            "unreadable" file, or "note".
        text: The message, on one line.
        wrong: Whether it must be fixed before the table can be trusted.
        row: The (data, task) it belongs to, if any.
    """

    kind: Literal["failed", "empty", "seeds", "unreadable", "note"]
    text: str
    wrong: bool
    row: tuple[str, str] | None = None


@dataclass(frozen=True)
class RecordFile:
    """A record and the file it was read from."""

    path: Path
    record: RunRecord

    @property
    def runs_dir(self) -> Path:
        """The folder of runs that it is in."""
        return self.path.parents[: len(self.record.identity.path.parts)][-1]

    @cached_property
    def examples(self) -> list[Example] | None:
        """The scores of its test examples, read once for all tables; None or an error as by `read_examples`."""
        return read_examples(self.path.with_name(EXAMPLES_NAME), self.record.fingerprint)


@dataclass(frozen=True)
class Collection:
    """All records below some folders, and the findings about them."""

    files: Sequence[RecordFile]
    findings: Sequence[Finding]


def collect(folders: Sequence[Path]) -> Collection:
    """All records below the folders, ordered by path, copies of one run counted once; a missing folder is empty."""
    records: list[RecordFile] = []
    findings: list[Finding] = []
    # rglob would ask for the file in every folder.
    paths = (Path(at, RECORD_NAME) for top in folders for at, _, names in os.walk(top) if RECORD_NAME in names)
    files = {os.path.realpath(path) if len(folders) > 1 else path: path for path in paths}  # folders may overlap
    for path in sorted(files.values()):
        try:
            records.append(RecordFile(path, read_record(path)))
        except RecordUnreadable as error:
            findings.append(Finding("unreadable", str(error), wrong=True))
        except OSError as error:
            findings.append(Finding("unreadable", f"{path}: {error.strerror}", wrong=True))
    return Collection(_without_copies(records, findings), findings)


def _without_copies(records: Sequence[RecordFile], findings: list[Finding]) -> list[RecordFile]:
    """One of each fingerprint, which covers the name: records merge by copying folders, so copies are expected."""
    kept: dict[str, RecordFile] = {}
    for item in records:
        other = kept.setdefault(item.record.fingerprint, item)
        if other is item or item.record.status != "finished":
            continue
        if other.record.status != "finished":
            kept[item.record.fingerprint] = item  # failed in one folder, finished in the other
        elif unlike := differences(item.record.scores, other.record.scores):
            name, (here, there) = next(iter(unlike.items()))
            text = f"{item.path} and {other.path} are the same run with different scores, {name} {here} and {there}"
            text += "; only the second is counted"
            findings.append(Finding("note", text, wrong=True, row=item.record.identity.row))
    return list(kept.values())


@dataclass(frozen=True)
class ScoredRun:
    """A finished run and the scores of its test examples.

    Attributes:
        record: Its record. For joined runs, one with what they have in common and the test scores over all their
            examples. It has no fold, and if folds are missing, those that are there are a setting, as typed:
            `{"fold": "0,1,4"}`.
        examples: None where they are missing or damaged.
        single: The records of the folds that were joined; empty for an ordinary run.
        runs_dir: The folder of runs that the record is in.
    """

    record: RunRecord
    examples: Sequence[Example] | None
    single: Sequence[RunRecord] = ()
    runs_dir: Path = Path()

    @property
    def incomplete(self) -> bool:
        """Whether some folds of the dataset are missing."""
        return 0 < len(self.single) < (self.record.folds or 0)


def join_folds(runs: Sequence[ScoredRun]) -> tuple[list[ScoredRun], list[ScoredRun]]:
    """The runs with those on different folds joined, and those whose examples cannot be added to the other folds'.

    If a fold is there with several contents, only runs of one folder are joined: nothing else says which of them are
    of one version of the dataset.
    """
    kept, alone = list[ScoredRun](), list[ScoredRun]()
    sets: dict[tuple[object, ...], list[ScoredRun]] = defaultdict(list)
    for run in runs:
        fold = run.record.identity.fold
        if fold is None:
            kept.append(run)
        elif run.record.metric not in _scores(run.record, run.examples or ()):
            alone.append(run)
        else:
            sets[run.record.identity.seed, run.record.folds, _all_but_fold(run.record)].append(run)
    return [*kept, *(_joined(fold_set) for runs in sets.values() for fold_set in _sets(runs))], alone


def _sets(runs: Sequence[ScoredRun]) -> Iterable[list[ScoredRun]]:
    """The runs, which are alike but for their folds, in sets with each fold once, in the order of the folds."""
    several = len({run.record.identity.fold for run in runs}) < len(runs)
    sets: dict[tuple[object, ...], list[ScoredRun]] = defaultdict(list)
    seen = Counter[tuple[object, ...]]()
    for run in sorted(runs, key=lambda run: run.record.identity.fold or 0):
        fold = (run.runs_dir if several else None, run.record.identity.fold)
        sets[fold[0], seen[fold]].append(run)  # a copy under another name may be in one folder, too
        seen[fold] += 1
    return sets.values()


def _joined(runs: Sequence[ScoredRun]) -> ScoredRun:
    """One run of all these, which are in the order of their folds."""
    single = [run.record for run in runs]
    first, folds = single[0], [str(record.identity.fold) for record in single]
    missing = {} if len(single) == first.folds else {FOLD: ",".join(folds)}
    examples = _examples(runs)
    data = {fold: record.fingerprinted.get("data") for fold, record in zip(folds, single, strict=True)}
    record = replace(
        first,
        identity=replace(first.identity, fold=None, variant={**first.identity.variant, **missing}),
        fingerprinted={**first.fingerprinted, "data": data},
        config={key: value for key, value in first.config.items() if key != FOLD},
        scores={"test": _scores(first, examples)},
        details={},
        data={},
        coverage=None,
        mixes={},
        epochs=[],
        seconds=sum(record.seconds or 0.0 for record in single),
    )
    return ScoredRun(record, examples, single)


def _examples(runs: Sequence[ScoredRun]) -> list[Example]:
    """The examples of all runs, each with its fold if there are several: intervals leave out whole folds."""
    numbers = [{FOLD: run.record.identity.fold or 0} if len(runs) > 1 else {} for run in runs]
    return [{**example, **ids} for run, ids in zip(runs, numbers, strict=True) for example in run.examples or ()]


def _scores(record: RunRecord, examples: Sequence[Example]) -> dict[str, float]:
    """The test metrics of a run that these examples determine."""
    declared = {name: record.metrics.get(name) or mean_of(name) for name in record.scores["test"]}
    scores = {name: metric.of_examples(examples) for name, metric in declared.items()}
    return {name: score for name, score in scores.items() if score is not None}


def _all_but_fold(record: RunRecord) -> str:
    """The parts that must be equal in runs that are joined: all but the seed, the fold and the content of its files."""
    parts = hashed(replace(record.identity, seed=0, fold=None), record.fingerprinted)
    return fingerprint({**parts, "data": None, "metric": record.metric, "resolved": settings_of(record)})
