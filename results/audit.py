"""Compares records with the files next to them, and with each other: `python -m results.audit`.

Computes the test scores of the records again from the scores of single examples, examples.json.gz, those on further
test sets from examples-DATA.json.gz, and dev scores from the learning curve, and the scores of examples with labels or
entities from their predictions. Finds seeds that are copies of one another, seeds of one name with different settings,
configs that contradict the run's name, unsafe names, and commits that this repository does not have. Prints a line for
each finding: file, what was expected, what was found, what to do. The status is 1 if there is one.

Examples:
  python -m results.audit                      your own runs, in results/runs
  python -m results.audit --runs DIR           those in other folders
  python -m results.audit --published          the published records

`python -m results.table --check` and `python -m results.publish` make the same comparisons.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from elmo.common.errors import command_parser, say_on_terminal
from results.names import load_names, recomputed
from results.records.collect import PUBLISHED, RecordFile, collect
from results.records.environment import known_commits
from results.records.example_scores import Example, ExamplesUnreadable, Prediction, read_examples, read_predictions
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
    same_value,
    settings_hash,
    shown,
)
from results.records.printing import write
from results.records.progress import DEFAULT_RUNS, add_runs
from results.records.record import RunRecord, settings_of

ROOT = Path(__file__).parents[1]
EXACT = 1e-6  # points; a score that is computed again from the same counts differs by rounding alone
REMEDY = "was it edited by hand? Restore the folder from a copy, or delete it and run again"
_NAME = re.compile(r"[\w+@-]([\w .+@-]*[\w+@-])?")  # of data, tasks and features: neither path nor markup


@dataclass(frozen=True)
class AuditFinding:
    """Something wrong: the records that it concerns, and a line with file, expected, found and remedy."""

    paths: Sequence[Path]
    text: str


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what is wrong; returns the exit status: 1 if anything is, or if there are no records."""
    parser = command_parser("results.audit", __doc__ or "")
    add_runs(parser)
    parser.add_argument("--published", action="store_true", help="the records that come with the suite")
    return parser.run(argv, _audit)


def _audit(options: argparse.Namespace) -> int:
    folders = [*options.runs, *([PUBLISHED] if options.published else [])] or [DEFAULT_RUNS]
    say_on_terminal(f"reading {', '.join(map(str, folders))}")
    collection, commits = collect(folders), known_commits(ROOT)
    lines = [finding.text for finding in collection.findings if finding.wrong]
    lines += [finding.text for finding in audit(collection.files, commits)]
    if not collection.files:
        places = ", ".join(map(str, folders))
        lines.append(f"{places}: expected records of runs, found none; name their folder: --runs DIR")
    end = f"{len(lines)} finding{'s' * (len(lines) > 1)}" if lines else "nothing is wrong"
    unknown = ", commits not checked: no checkout with its whole history" if commits is None else ""
    lines.append(f"audit: {len(collection.files):,} records{unknown}; {end}")
    write("".join(f"{line}\n" for line in lines), sys.stdout)
    return 1 if len(lines) > 1 else 0


def audit(
    records: Sequence[RecordFile], commits: Set[str] | None = None, reference: Sequence[RecordFile] = ()
) -> list[AuditFinding]:
    """Compares each run with its own files, and with the others.

    Args:
        records: The runs.
        commits: Those that a run's code may have; None if they are not known.
        reference: Runs that are known to be right; these are compared with them, too.
    """
    findings = list[AuditFinding]()
    for item in records:
        texts = (*_of_record(item.record, commits), *_of_scores(item))
        findings += [AuditFinding([item.path], f"{item.path}: {text}") for text in texts]
    audited = {item.path for item in records}
    for first, second, text in _of_pairs([*reference, *records]):
        if not audited.isdisjoint(paths := [first.path, second.path]):
            findings.append(AuditFinding(paths, f"{first.path} and {second.path}: {text}; {REMEDY}"))
    return findings


def unlike_metrics(record: RunRecord, examples: Sequence[Example], further: str = "") -> list[str]:
    """Test scores that the examples contradict: the key, what they give, and what the record says.

    Args:
        record: The run.
        examples: The scores of its test examples.
        further: The name of a further test set, `RunRecord.also`, if the examples are of that one.
    """
    scores = record.also[further].scores if further else record.scores.get("test", {})
    key, file = (f"also.{further}.scores", also_name(further)) if further else ("scores.test", EXAMPLES_NAME)
    given = {name: recomputed(record, examples, name) for name in scores}
    return [
        f"{key}.{name}: expected {score:.6g}, which {file} gives, found {scores[name]:.6g}"
        for name, score in given.items()
        if score is not None and abs(score - scores[name]) > EXACT
    ]


def unsafe_name(identity: Identity) -> str:
    """Names of the run that would break a page or a path."""
    for key, name in {"data": identity.data, "task": identity.task, "features": identity.features}.items():
        if not _NAME.fullmatch(name):
            return f"identity.{key}: expected a name of letters, digits, spaces and -_.+@, found {name[:40]!r}"
    for key, value in identity.typed_variant.items():
        if not (key + value).isprintable() or not {"<", ">"}.isdisjoint(key + value):
            return f"identity.variant: expected settings as typed, found {f'{key}={value}'[:80]!r}"
    return ""


def _of_record(record: RunRecord, commits: Set[str] | None) -> Iterator[str]:
    """The faults of the record alone."""
    if name := unsafe_name(record.identity):
        yield f"{name}; give it another name, and run again"
    for text in (*_unlike_config(record), *_unlike_curve(record)):
        yield f"{text}; {REMEDY}"
    old = record.commit is None and not record.inputs  # as records were before they had to name a commit
    if commits is not None and record.commit not in commits and not old:
        yield (
            f"environment.commit: expected a commit of this repository, found {record.commit or 'none'}; fetch the "
            "commit, or run again from a checkout"
        )


def _unlike_config(record: RunRecord) -> Iterator[str]:
    """Contradictions of the config to the run's name or its own hash; keys that it lacks do not count.

    The fingerprint does not cover configs, but tables read the values of defaults from them.
    """
    name = record.identity
    names = {"data.name": name.data, "features.name": name.features, "seed": name.seed, FOLD: name.fold}
    for key, value in {**names, **name.variant}.items():
        configured = looked_up(record.config, key)
        if configured not in (..., value) and not same_value(key, shown(value), configured):
            yield f"config: {key}: expected {shown(value)}, as in the run's name, found {shown(configured)}"
    settings, expected = settings_hash(record.config), record.inputs.get("settings")
    if expected not in (None, settings):
        yield f"config: expected the hash {shown(expected)}, as inputs.settings says, found {shown(settings)}"


def _unlike_curve(record: RunRecord) -> Iterator[str]:
    """Dev scores that are not those of the best epoch; a user's own `fit` may choose otherwise."""
    scores = {number: epoch.get(record.metric) for number, epoch in enumerate(record.epochs)}
    known = {number: score for number, score in scores.items() if isinstance(score, int | float)}
    if record.identity.task not in load_names().tasks or not known:
        return
    best = record.epochs[max(known, key=known.__getitem__)]
    for name, score in record.scores.get("dev", {}).items():
        expected = best.get(name)
        if isinstance(expected, int | float) and abs(expected - score) > EXACT:
            yield f"scores.dev.{name}: expected {expected:.6g}, that of the best epoch, found {score:.6g}"


def _of_scores(item: RecordFile) -> Iterator[str]:
    """Contradictions of the examples and predictions next to the record."""
    record, folder = item.record, item.path.parent
    if record.status != "finished":
        return
    if record.trial:
        if any((folder / name).exists() for name in (EXAMPLES_NAME, PREDICTIONS_NAME, CONFIDENCES_NAME)):
            yield f"{EXAMPLES_NAME}: expected nothing about test examples next to a trial, found some; delete it"
        return
    try:
        examples = item.examples
        predictions = read_predictions(folder / PREDICTIONS_NAME, record.fingerprint)
        further = {name: read_examples(folder / also_name(name), record.fingerprint) for name in record.also}
    except ExamplesUnreadable as error:
        yield str(error).removeprefix(f"{folder}/")
        return
    if examples is None:
        if record.epochs or record.inputs:  # a record without either is too old to know
            yield f"{EXAMPLES_NAME}: expected the scores of the test examples, found none; {REMEDY}"
        return
    wrong = unlike_metrics(record, examples)
    for name, scores in further.items():
        missing = [f"{also_name(name)}: expected scores, found none"]
        wrong += missing if scores is None else unlike_metrics(record, scores, name)
    if predictions is not None and record.identity.task in load_names().tasks:  # others: of any form
        wrong += _unlike_predictions(examples, predictions)
    for text in wrong:
        yield f"{text}; {REMEDY}"


def _unlike_predictions(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[str]:
    """The first example whose scores are not those of its prediction."""
    if len(predictions) != len(examples):
        return [f"{PREDICTIONS_NAME}: expected {len(examples)}, one for each score, found {len(predictions)}"]
    for number, (prediction, scores) in enumerate(zip(predictions, examples, strict=True)):
        for name, expected in counted(prediction.gold, prediction.predicted).items():
            if scores.get(name, expected) != expected:
                where = f"{PREDICTIONS_NAME}: example {number}, {name}"
                return [f"{where}: expected {expected}, as predicted, found {scores[name]:.6g} among the scores"]
    return []


def counted(gold: Mapping[str, Any], predicted: Mapping[str, Any]) -> dict[str, int]:
    """The counts of one example with a label or entities, by their names among its scores; none of others."""
    if "label" in gold:
        return {"correct": int(gold["label"] == predicted.get("label"))}
    if "entities" not in gold:
        return {}
    place = itemgetter("label", "start", "end")
    right, guessed = (set(map(place, side.get("entities", ()))) for side in (gold, predicted))
    return {"tp": len(right & guessed), "fp": len(guessed - right), "fn": len(right - guessed)}


def _of_pairs(records: Sequence[RecordFile]) -> Iterator[tuple[RecordFile, RecordFile, str]]:
    """Runs that differ only in the seed by their fingerprints but not by their configs, and seeds with one curve."""
    firsts: dict[str, tuple[RecordFile, Parts]] = {}
    curves: dict[tuple[object, ...], RecordFile] = {}
    for item in records:
        record, settings = item.record, settings_of(item.record)
        first, expected = firsts.setdefault(fingerprint(record.without_seed), (item, settings))
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


if __name__ == "__main__":
    sys.exit(main())
