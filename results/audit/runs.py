"""The audit of runs: each against the files next to it, and all against each other.

The fingerprint does not cover the config, but tables read the values of defaults from it: the sizes of vectors, and
which runs are those of an experiment. So a config that was edited or damaged would mislead readers.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from results.audit.scores import (
    REMEDY,
    load_rules,
    tested,
    unlike_confidences,
    unlike_curve,
    unlike_further,
    unlike_predictions,
    unlike_scores,
)
from results.records.collect import FoundRecord
from results.records.example_scores import ExamplesUnreadable, read_confidences, read_examples, read_predictions
from results.records.identity import (
    CONFIDENCES_NAME,
    EXAMPLES_NAME,
    FOLD,
    PREDICTIONS_NAME,
    Identity,
    Parts,
    also_name,
    differences,
    fingerprint,
    looked_up,
    record_path,
    same_value,
    settings_hash,
    shown,
    without_seed,
)
from results.records.record import RunRecord
from results.records.settings import settings_of

_NAME = re.compile(r"[\w+@-]([\w .+@-]*[\w+@-])?")  # of data, tasks and features: neither path nor markup
TestSets = dict[str, tuple[FoundRecord, str]]  # name -> a run on it, and the hash of its texts and gold outputs


@dataclass(frozen=True)
class AuditFinding:
    """Something wrong: the records that it concerns, and a line with file, expected, found and remedy."""

    paths: Sequence[Path]
    text: str


@dataclass(frozen=True)
class Audit:
    """What was found, and how much was compared: what -> number."""

    findings: Sequence[AuditFinding]
    compared: Counter[str] = field(default_factory=Counter)


def audit(
    found: Sequence[FoundRecord], commits: Set[str] | None = None, reference: Sequence[FoundRecord] = ()
) -> Audit:
    """Compares each run with its own files, and with the others.

    Args:
        found: The runs.
        commits: Those that a run's code may have; None if they are not known.
        reference: Runs that are known to be right; these are compared with them, too.
    """
    compared, test_sets = Counter[str](records=len(found)), TestSets()
    for item in reference:
        with suppress(ExamplesUnreadable):
            if predictions := read_predictions(item.path.with_name(PREDICTIONS_NAME), item.record.fingerprint):
                name, content = tested(item.record, predictions)
                test_sets.setdefault(name, (item, content))
    findings = [
        AuditFinding([item.path], f"{item.path}: {text}")
        for item in found
        for text in (*_of_record(item, commits), *_of_scores(item, compared, test_sets))
    ]
    audited = {item.path for item in found}
    for first, second, text in _of_pairs([*reference, *found]):
        if not audited.isdisjoint(paths := [first.path, second.path]):
            findings.append(AuditFinding(paths, f"{first.path} and {second.path}: {text}; {REMEDY}"))
    return Audit(findings, compared)


def unsafe_name(identity: Identity) -> str:
    """Which of the run's names would break a page or a path; empty if none."""
    for key, name in {"data": identity.data, "task": identity.task, "features": identity.features}.items():
        if not _NAME.fullmatch(name):
            return f"identity.{key}: expected a name of letters, digits, spaces and -_.+@, found {name[:40]!r}"
    for key, value in identity.typed_variant.items():
        if not (key + value).isprintable() or not {"<", ">"}.isdisjoint(key + value):
            return f"identity.variant: expected settings as typed, found {f'{key}={value}'[:80]!r}"
    return ""


def _of_record(item: FoundRecord, commits: Set[str] | None) -> Iterator[str]:
    """What is wrong with the record alone."""
    record = item.record
    if name := unsafe_name(record.identity):
        yield f"{name}; give it another name, and run again"
    for text in (*_unlike_config(record), *unlike_curve(record)):
        yield f"{text}; {REMEDY}"
    folder = record_path(Path(), record.identity).parents[1].as_posix()
    old = record.commit is None and folder in load_rules().without_commit
    if commits is not None and record.commit not in commits and not old:
        yield (
            f"environment.commit: expected a commit of this repository, found {record.commit or 'none'}; fetch the "
            "commit, or publish with --commit HASH if you know it"
        )


def _unlike_config(record: RunRecord) -> Iterator[str]:
    """Where the config contradicts the run's name, or its own hash; keys that it lacks do not count."""
    name = record.identity
    names = {"data.name": name.data, "features.name": name.features, "seed": name.seed, FOLD: name.fold}
    for key, value in {**names, **name.variant}.items():
        found = looked_up(record.config, key)
        if found not in (..., value) and not same_value(key, shown(value), found):
            yield f"config: {key}: expected {shown(value)}, as in the run's name, found {shown(found)}"
    settings, expected = settings_hash(record.config), record.inputs.get("settings")
    if expected not in (None, settings):
        yield f"config: expected the hash {shown(expected)}, as inputs.settings says, found {shown(settings)}"


def _of_scores(item: FoundRecord, compared: Counter[str], test_sets: TestSets) -> Iterator[str]:
    """What the examples and predictions next to the record contradict; keeps their test examples to compare others."""
    record, folder = item.record, item.path.parent
    if record.status != "finished":
        return
    compared["curves"] += bool(record.epochs)
    if record.trial:
        if any((folder / name).exists() for name in (EXAMPLES_NAME, PREDICTIONS_NAME, CONFIDENCES_NAME)):
            yield f"{EXAMPLES_NAME}: expected nothing about test examples next to a trial, found some; delete it"
        return
    try:
        examples = read_examples(folder / EXAMPLES_NAME, record.fingerprint)
        predictions = read_predictions(folder / PREDICTIONS_NAME, record.fingerprint)
        further = {name: read_examples(folder / also_name(name), record.fingerprint) for name in record.also}
        confidences = read_confidences(folder / CONFIDENCES_NAME, record.fingerprint)
    except ExamplesUnreadable as error:
        yield str(error).removeprefix(f"{folder}/")
        return
    if examples is None:
        if record.epochs or record.inputs:  # a record without either is too old to know
            yield f"{EXAMPLES_NAME}: expected the scores of the test examples, found none; {REMEDY}"
        return
    compared["scores"] += len(record.scores["test"])
    compared["examples"] += sum(map(len, filter(None, [examples, *further.values()])))
    wrong = [*unlike_scores(record, examples), *unlike_confidences(record, confidences or (), len(examples))]
    for name, own in further.items():
        wrong += unlike_further(record, name, own) if own else [f"{also_name(name)}: expected scores, found none"]
    if predictions is not None:
        compared["predictions"] += len(predictions)
        wrong.append(unlike_predictions(record, examples, predictions))
        name, content = tested(record, predictions)
        first, right = test_sets.setdefault(name, (item, content))
        if content != right:
            expected = f"expected the test examples and gold outputs of {first.path.parent}"
            wrong.append(f"{PREDICTIONS_NAME}: {expected}, which has the same test files, found others")
    for text in filter(None, wrong):
        yield f"{text}; {REMEDY}"


def _of_pairs(found: Sequence[FoundRecord]) -> Iterator[tuple[FoundRecord, FoundRecord, str]]:
    """Runs that differ only in the seed by their fingerprints but not by their configs, and seeds with one curve."""
    firsts: dict[str, tuple[FoundRecord, Parts]] = {}
    curves: dict[tuple[object, ...], FoundRecord] = {}
    for item in found:
        record, settings = item.record, settings_of(item.record)
        first, expected = firsts.setdefault(fingerprint(without_seed(record.hashed)), (item, settings))
        if settings != expected:
            key, (there, here) = next(iter(differences(expected, settings).items()))
            wanted = "expected the same values, since the runs differ only in the seed"
            yield first, item, f"config: {wanted}, found {key}: {there} and {here}"
        losses = tuple((str(epoch.get("loss")), str(epoch.get(record.metric))) for epoch in record.epochs)
        if any("." in loss for loss, _ in losses):  # else no loss was kept, or none that is a fraction
            first = curves.setdefault((record.identity.task, *losses), item)
            if first.record.identity.seed != record.identity.seed:
                seeds = f"{first.record.identity.seed} and {record.identity.seed}"
                yield first, item, f"epochs: expected different curves of seeds {seeds}, found the same"
