"""Rules for publishing runs. Only records, scores of examples, confidences and kinds of test examples are copied.

Test predictions contain text, so they are copied only where all data files come with the suite.

A run is refused if it did not finish, used limited data or code that is not committed, is of a task that is not in the
suite, has no example scores, if the audit finds something in it, if another run of its name contradicts it, or if one
of the files contains more than numbers and names: no third-party text or paths in the repository. Nothing is copied
before all runs have been checked.
"""

import dataclasses
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from elmo.common.files import read_json
from results.analysis.names import load_names, recomputed
from results.audit.runs import audit
from results.breakdown.group_files import GroupsUnreadable, groups_above, merge_groups
from results.experiments.experiment import Experiment
from results.experiments.runs_of_cells import only_cells
from results.records.collect import FoundRecord, collect
from results.records.example_scores import (
    ExamplesUnreadable,
    read_confidences,
    read_examples,
    write_confidences,
    write_examples,
)
from results.records.identity import (
    CONFIDENCES_NAME,
    EXAMPLES_NAME,
    PREDICTIONS_NAME,
    RECORD_NAME,
    also_name,
    differences,
    record_path,
)
from results.records.record import RecordUnreadable, RunRecord, read_record, write_record

Kind = Literal["added", "replaced", "left", "refused"]
RECORD_KEYS = {field.name for field in dataclasses.fields(RunRecord)} | {"fingerprint"}
LONGEST_NAME = 160  # characters: names of EWT's predicates have 123, a hash has 64


@dataclass(frozen=True)
class Candidate:
    """A run to publish.

    Attributes:
        item: The run, with the commit filled in.
        target: The file for its record.
        there: The published record of its name, if any.
        refusal: Why it may not be published; empty if it may.
    """

    item: FoundRecord
    target: Path
    there: RunRecord | None = None
    refusal: str = ""


@dataclass(frozen=True)
class PublishOutcome:
    """The outcome for one run: its title, and the score or the reason."""

    kind: Kind
    title: str
    text: str


def publish_runs(
    folders: Sequence[Path],
    published: Path,
    commit: str | None = None,
    experiment: Experiment | None = None,
    there: Sequence[FoundRecord] = (),
    commits: Set[str] | None = None,
) -> list[PublishOutcome]:
    """Copies publishable runs from below the folders; returns an outcome for each run.

    Args:
        folders: Folders with records anywhere below.
        published: The target folder; the path below it follows from a run's identity.
        commit: The commit to fill into records that have none.
        experiment: Only the runs of its cells.
        there: The runs that are published.
        commits: Those that a run's code may have; None if they are not known.
    """
    collection = collect(folders)
    found = (only_cells(collection, experiment.cells) if experiment else collection).found
    unreadable = [finding.text for finding in collection.findings if finding.kind == "unreadable"]
    outcomes = [PublishOutcome("refused", "not read", text) for text in unreadable]
    for folder in folders:
        if not folder.is_dir():
            outcomes.append(PublishOutcome("refused", str(folder), "expected a folder with runs, found no such folder"))
        elif next(folder.rglob(RECORD_NAME), None) is None:
            outcomes.append(PublishOutcome("refused", str(folder), f"expected runs, found no {RECORD_NAME} below it"))
    if experiment and not found:
        outcomes.append(
            PublishOutcome("refused", experiment.sweep_name, "expected runs of this experiment, found none")
        )
    named: dict[Path, list[FoundRecord]] = {}
    for item in found:
        named.setdefault(record_path(published, item.record.identity), []).append(item)
    candidates = [_candidate(item, target, items, commit) for target, items in named.items() for item in items]
    candidates = _audited(candidates, there, commits)
    taken = [own.item for own in candidates if not own.refusal]
    return [*outcomes, *map(_publish, candidates), *_publish_groups(taken, published)]


def _candidate(item: FoundRecord, target: Path, named: Sequence[FoundRecord], commit: str | None) -> Candidate:
    """The run with the reason against it, if there is one without an audit; `named` are all runs of its name."""
    try:
        there = read_record(target) if target.exists() else None
    except RecordUnreadable as error:
        return Candidate(item, target, refusal=f"the published run of this name: {error}")
    refusal = _refusal(item) or _conflict(there, item.record, target) or _contradiction(item, named)
    filled = _with_commit(item.record, commit or (there.commit if there else None))
    return Candidate(replace(item, record=filled), target, there, refusal)


def _audited(
    candidates: Sequence[Candidate], there: Sequence[FoundRecord], commits: Set[str] | None
) -> list[Candidate]:
    """The runs with what the audit finds, in them or between them and published ones that they do not replace."""
    passed = [own for own in candidates if not own.refusal]
    replaced = {own.target for own in passed}
    done = audit([own.item for own in passed], commits, [item for item in there if item.path not in replaced])
    wrong = {path: finding.text for finding in reversed(done.findings) for path in finding.paths}
    return [replace(own, refusal=own.refusal or wrong.get(own.item.path, "")) for own in candidates]


def _publish_groups(taken: Sequence[FoundRecord], published: Path) -> list[PublishOutcome]:
    """Copies the kinds of test examples of these runs; returns an outcome for each file that is refused."""
    outcomes, seen = list[PublishOutcome](), set[tuple[str, str]]()
    for item in taken:
        task, hashes = item.record.identity.task, item.record.data_hashes
        test = str(hashes.get("test"))
        if (task, test) in seen:
            continue
        seen.add((task, test))
        try:
            known = groups_above(item.path, task, hashes)
            if known is None:
                continue
            texts = [*known.ids, *known.groups, *(label for own in known.groups.values() for label in own.labels)]
            long = [text for text in texts if len(text) > LONGEST_NAME or "\n" in text]
            if long:
                raise GroupsUnreadable(f"expected names of examples and kinds, found text: {long[0][:40]!r}")
            merge_groups(published, known)
        except GroupsUnreadable as error:
            outcomes.append(PublishOutcome("refused", f"kinds of test examples of {task}", str(error)))
    return outcomes


def _publish(run: Candidate) -> PublishOutcome:
    """Copies a run to its record's path, unless there is a reason not to."""
    item, target, there, record = run.item, run.target, run.there, run.item.record
    title = record.identity.title
    if run.refusal:
        return PublishOutcome("refused", title, run.refusal)
    score = f"{record.metric} {record.score:.2f}"
    elsewhere = target.resolve() != item.path.resolve()
    if record == there:
        if elsewhere:
            _copy_predictions(item, target)
        return PublishOutcome("left", title, score)
    target.parent.mkdir(parents=True, exist_ok=True)
    if elsewhere and not record.trial:
        for name in (PREDICTIONS_NAME, CONFIDENCES_NAME, *(_examples_of(there) if there else ())):
            target.with_name(name).unlink(missing_ok=True)  # of the run that is replaced
        for name in _examples_of(record):  # written again, as the confidences: only numbers
            examples = read_examples(item.path.with_name(name), record.fingerprint) or []
            write_examples(target.with_name(name), record.fingerprint, examples)
        kept = read_confidences(item.path.with_name(CONFIDENCES_NAME), record.fingerprint)
        if kept is not None:
            by_split = {own.split: own.examples for own in kept}
            write_confidences(target.with_name(CONFIDENCES_NAME), record.fingerprint, by_split)
        _copy_predictions(item, target)
    if record == read_record(item.path):
        shutil.copyfile(item.path, target)  # last: a record implies that its examples are complete
    else:
        write_record(target, record)
    if there is None:
        return PublishOutcome("added", title, score)
    newer = f", recipe {there.recipe} -> {record.recipe}" if there.recipe < record.recipe else ""
    return PublishOutcome("replaced", title, f"{there.score:.2f} -> {score}{newer}")


def _examples_of(record: RunRecord) -> list[str]:
    """The names of the files with scores of single examples."""
    return [EXAMPLES_NAME, *map(also_name, record.also)]


def _copy_predictions(item: FoundRecord, target: Path) -> None:
    """Copies the test predictions if the run kept them and their text may be published."""
    predictions = item.path.with_name(PREDICTIONS_NAME)
    if item.record.shipped_data and predictions.exists():
        shutil.copyfile(predictions, target.with_name(PREDICTIONS_NAME))


def _with_commit(record: RunRecord, commit: str | None) -> RunRecord:
    """The record with the commit filled in if it has none; the fingerprint does not cover it."""
    environment = record.environment
    if commit is None or environment is None or environment.commit is not None:
        return record
    return replace(record, environment=replace(environment, commit=commit))


def _conflict(there: RunRecord | None, here: RunRecord, target: Path) -> str:
    """Why the run cannot replace the published one of its name; empty if it can."""
    if there is None or _replaces(here, there):
        return ""
    if there.recipe > here.recipe:
        return f"a run of this name with recipe {there.recipe} is published, and this run has recipe {here.recipe}"
    found = ", ".join(differences(there.hashed, here.hashed))
    return f"a run of this name made under other settings is published ({found}); to replace it, delete {target.parent}"


def _replaces(new: RunRecord, old: RunRecord) -> bool:
    """Whether a run may replace another one of its name: it has the same settings, or differs only by newer recipes."""
    if old.fingerprint == new.fingerprint:
        return True
    return old.recipe < new.recipe and all(key.startswith("recipes.") for key in differences(old.hashed, new.hashed))


def _contradiction(item: FoundRecord, named: Sequence[FoundRecord]) -> str:
    """Why it is unknown which of the finished runs of one name should be published; empty if it is known."""
    remedy = "publish only the right one, --runs with its folder"
    if item.contradiction:
        return f"{item.contradiction}; {remedy}"
    here = item.record
    for other in named:
        there = other.record
        if there.status == "finished" and not _replaces(here, there) and not _replaces(there, here):
            found = ", ".join(differences(there.hashed, here.hashed))
            return f"{item.path} and {other.path} have one name and different settings ({found}); {remedy}"
    return ""


def _refusal(item: FoundRecord) -> str:
    """Why a run may not be published; empty if it may."""
    record = item.record
    if record.error is not None:
        return f"expected a finished run, found one that failed: {record.error.last_line}"
    if record.limit is not None:
        return f"expected the whole data, found limit={record.limit}"
    if record.environment and record.environment.dirty:
        return "expected committed code, found uncommitted changes (environment.dirty); commit them and run again"
    if (task := record.identity.task) not in load_names().tasks:
        known = ", ".join(load_names().tasks)
        return f"expected a task of the suite ({known}), found {task}; to add it, see CONTRIBUTING.md, Ship a task"
    if record.trial:
        return _text_in_record(_content(item.path))
    for name in _examples_of(record):
        try:
            scores = read_examples(item.path.with_name(name), record.fingerprint)
        except ExamplesUnreadable as error:
            return str(error)
        if scores is None:
            return f"expected {name} next to the record, found none; without it there is no interval"
        if recomputed(record, scores) is None:
            return f"{name}: expected counts that give {record.metric}, found none"
        for key in sorted(set[str]().union(*scores)):
            if len(key) > LONGEST_NAME or any(map(str.isspace, key)):
                return f"{name}: expected names without spaces, found {key[:40]!r}"
    return _text_in_record(_content(item.path))


def _content(path: Path) -> Mapping[str, object]:
    content = read_json(path)
    assert isinstance(content, dict)
    return content


def _text_in_record(content: Mapping[str, object]) -> str:
    """Why the record contains more than settings, counts and scores; empty if it does not."""
    if extra := sorted(content.keys() - RECORD_KEYS):
        return f"record.json: expected the keys of a record, found {', '.join(extra)} too"
    for where, text in _texts(content):
        if len(text) > LONGEST_NAME or "\n" in text:
            return f"record.json: {where}: expected a name or a number, found text: {text[:40]!r}"
        if text.startswith(("/", "~")) or text[1:3] == ":\\":
            return f"record.json: {where}: expected a name, found a path of one machine: {text[:40]!r}"
    return ""


def _texts(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """All text of a JSON value, including keys, each with its place."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            place = f"{where}.{key}" if where else str(key)
            yield place[:LONGEST_NAME], str(key)
            yield from _texts(item, place)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, where)
