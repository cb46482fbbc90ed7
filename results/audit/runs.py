"""The audit of runs: each against the files next to it, and all against each other."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from results.audit.configs import name_contradiction, unlike_configs
from results.audit.predictions import tested, unlike_predictions
from results.audit.scores import (
    REMEDY,
    emptied,
    load_rules,
    unlike_confidences,
    unlike_curve,
    unlike_further,
    unlike_scores,
)
from results.records.collect import FoundRecord
from results.records.example_scores import ExamplesUnreadable, read_confidences, read_examples, read_predictions
from results.records.identity import CONFIDENCES_NAME, EXAMPLES_NAME, PREDICTIONS_NAME, Identity, also_name, record_path

_MARKUP = frozenset("<>&|`\\/")  # in names of data, tasks and features


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
    compared, test_sets = Counter[str](records=len(found)), dict[str, tuple[FoundRecord, str]]()
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
    audited, every = {item.path for item in found}, [*reference, *found]
    for first, second, text in (*unlike_configs(every), *_copied_seeds(every)):
        if not audited.isdisjoint(paths := [first.path, second.path]):
            findings.append(AuditFinding(paths, f"{first.path} and {second.path}: {text}; {REMEDY}"))
    return Audit(findings, compared)


def unsafe_name(identity: Identity) -> str:
    """Which of the run's names would break a page or a path; empty if none."""
    names = {"data": identity.data, "task": identity.task, "features": identity.features}
    for key, name in names.items():
        if (
            name.strip(". ") != name.strip()
            or not name.strip()
            or not name.isprintable()
            or not _MARKUP.isdisjoint(name)
        ):
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
    for text in filter(None, [name_contradiction(record), *emptied(record), *unlike_curve(record)]):
        yield f"{text}; {REMEDY}"
    folder = record_path(Path(), record.identity).parents[1].as_posix()
    if (
        commits is not None
        and record.commit not in commits
        and not (record.commit is None and folder in load_rules().without_commit)
    ):
        yield (
            f"environment.commit: expected a commit of this repository, found {record.commit or 'none'}; fetch the "
            "commit, or publish with --commit HASH if you know it"
        )


def _of_scores(
    item: FoundRecord, compared: Counter[str], test_sets: dict[str, tuple[FoundRecord, str]]
) -> Iterator[str]:
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
    compared["examples"] += len(examples)
    wrong = [*unlike_scores(record, examples), *unlike_confidences(record, confidences or (), len(examples))]
    for name, own in further.items():
        compared["examples"] += len(own or ())
        wrong += unlike_further(record, name, own) if own else [f"{also_name(name)}: expected scores, found none"]
    for text in wrong:
        yield f"{text}; {REMEDY}"
    if predictions is None:
        return
    compared["predictions"] += len(predictions)
    for text in unlike_predictions(record, examples, predictions):
        yield f"{text}; {REMEDY}"
    name, content = tested(record, predictions)
    first, right = test_sets.setdefault(name, (item, content))
    if content != right:
        expected = f"expected the test examples and gold outputs of {first.path.parent}"
        yield f"{PREDICTIONS_NAME}: {expected}, which has the same test files, found others; {REMEDY}"


def _copied_seeds(found: Sequence[FoundRecord]) -> Iterator[tuple[FoundRecord, FoundRecord, str]]:
    """Runs of different seeds with the same learning curve, which no two seeds have."""
    curves: dict[tuple[object, ...], FoundRecord] = {}
    for item in found:
        record = item.record
        losses = tuple((str(epoch.get("loss")), str(epoch.get(record.metric))) for epoch in record.epochs)
        if not any("." in loss for loss, _ in losses):
            continue  # no loss was kept, or none that is a fraction
        first = curves.setdefault((record.identity.task, *losses), item)
        if first.record.identity.seed != record.identity.seed:
            seeds = f"{first.record.identity.seed} and {record.identity.seed}"
            yield first, item, f"epochs: expected different curves of seeds {seeds}, found the same"
