"""`python -m results.audit`: compares records with the files next to them, and with each other.

How predictions are scored is written here once more and not imported, because results/ does not know the tasks, and an
audit by the code that made the scores would repeat its mistakes. Configs are compared because the fingerprint does not
cover them, but tables read the values of defaults from them.
"""

import argparse
import hashlib
import json
import re
import string
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from elmo.common.errors import command_parser, exit_status
from results.analysis.names import load_names, metric_of
from results.records.collect import PUBLISHED, FoundRecord, collect
from results.records.environment import known_commits
from results.records.example_scores import (
    Confidence,
    Example,
    ExamplesUnreadable,
    Prediction,
    read_confidences,
    read_examples,
    read_predictions,
)
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
from results.records.metric import Metric
from results.records.printing import write
from results.records.progress import DEFAULT_RUNS
from results.records.record import RunRecord
from results.records.settings import settings_of
from results.records.typed_json import PAPER, read_toml

EXACT = 1e-6  # points; a score that is computed again from the same counts differs by rounding alone
REMEDY = "was it edited by hand? Restore the folder from a copy, or delete it and run again"
Sums = Mapping[str, float]  # column of the examples -> its sum
Given = tuple[str, float, float]  # a key, what the examples give, and what the record says
Fields = Mapping[str, Any]
Mentions = frozenset[tuple[int, int]]
_UNITS = ("correct", "answered", "instances")  # of word senses


@dataclass(frozen=True)
class AuditRules:
    """The content of audit.toml, which explains the keys."""

    harmonic: str
    share: str
    answers: Sequence[str]
    parts: Sequence[str]
    without_commit: Sequence[str]
    without_curve: Sequence[str]
    without_details: Sequence[str]
    counts: Mapping[str, Sequence[str]]


@cache
def load_rules() -> AuditRules:
    """The rules, read once."""
    return read_toml(AuditRules, PAPER / "audit.toml")


def unlike_metrics(record: RunRecord, examples: Sequence[Example]) -> list[str]:
    """Where a test score is not what the examples give: the key, what they give, and what the record says."""
    return _unlike(_metrics(record, _sums(examples), len(examples), record.scores.get("test", {})))


def unlike_further(record: RunRecord, name: str, examples: Sequence[Example]) -> list[str]:
    """The same for the scores on a further test set, `RunRecord.also`."""
    sums, scores = _sums(examples), record.also[name].scores
    return _unlike(_metrics(record, sums, len(examples), scores, f"also.{name}.scores"), also_name(name))


def unlike_scores(record: RunRecord, examples: Sequence[Example]) -> list[str]:
    """The same for all that follows from the examples: test scores, details, and counts of the test data."""
    sums, count = _sums(examples), len(examples)
    given = [*_metrics(record, sums, count, record.scores.get("test", {}))]
    if record.identity.task in load_names().tasks:  # others have details and counts of any meaning
        given += [*_counts(record, sums, count), *_details(record, sums, count)]
    return _unlike(given)


def unlike_confidences(record: RunRecord, confidences: Sequence[Confidence], tested: int) -> list[str]:
    """Where the parts of predictions that are right do not give the scores; `tested` is the number of test examples."""
    given = list[Given]()
    for own in confidences:
        parts = [part for example in own.examples for part in example]
        pairs = all(len(part) == 2 and 0 <= part[0] <= 1 and part[1] in (0, 1) for part in parts)
        if own.split not in ("dev", "test") or not pairs:
            wanted = "expected probabilities of dev and test, each with 1 if it is right, else 0, found others"
            return [f"{CONFIDENCES_NAME}: {wanted}"]
        scores = {} if own.split == "dev" and record.earlier else record.scores.get(own.split, {})
        right = 100 * sum(part[1] for part in parts) / max(len(parts), 1)
        names = [name for name in load_rules().parts if name in scores and parts]
        given += [(f"scores.{own.split}.{name}", right, scores[name]) for name in names]
        if own.split == "test":
            given.append(("test examples", tested, len(own.examples)))
    return _unlike(given, CONFIDENCES_NAME)


def unlike_curve(record: RunRecord) -> Iterator[str]:
    """What a finished run of a task of the suite lacks, and where its curve contradicts its dev scores or settings."""
    rules, task = load_rules(), record.identity.task
    if task not in load_names().tasks:
        return  # it may lack both, and its own `fit` may choose and count otherwise
    if record.status == "finished":
        if record.data.get("train") and not record.epochs and task not in rules.without_curve:
            yield "epochs: expected the learning curve, because data.train says what was read, found none"
        if record.data.get("test") and not record.details and task not in rules.without_details:
            yield "details: expected those of the test examples, because data.test counts them, found none"
    numbers, most = [epoch.get("epoch") for epoch in record.epochs], looked_up(record.config, "trainer.epochs")
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"epochs: expected epochs 1 to {len(numbers)} in order, found {str(numbers)[:40]}"
    if isinstance(most, int) and len(numbers) > most:
        yield f"epochs: expected at most trainer.epochs, {most}, found {len(numbers)}"
    scored = [own for own in map(_numbers, record.epochs) if record.metric in own]
    best = max(scored, key=itemgetter(record.metric), default={})
    for name, score in record.scores.get("dev", {}).items():
        if name in best and abs(best[name] - score) > EXACT:
            yield f"scores.dev.{name}: expected {best[name]:.6g}, that of the best epoch, found {score:.6g}"


def unlike_predictions(record: RunRecord, examples: Sequence[Example], predictions: Sequence[Prediction]) -> str:
    """Where the scores of the examples are not those of the predictions, the first such example; empty if nowhere."""
    task = record.identity.task
    if len(predictions) != len(examples):
        return f"{PREDICTIONS_NAME}: expected {len(examples)} predictions, one for each score, found {len(predictions)}"
    for number, (one, scores) in enumerate(zip(predictions, examples, strict=True)):
        try:
            counted = rescored(one.gold, one.predicted) if task in load_names().tasks else {}  # others: of any form
        except (AttributeError, KeyError, TypeError, ValueError):
            return f"{PREDICTIONS_NAME}: prediction {number}: expected outputs of {task}, found others"
        for name, expected in counted.items():
            if name in scores and abs(scores[name] - expected) > EXACT:
                found = f"found {scores[name]:.6g} among the scores"
                return f"{PREDICTIONS_NAME}: example {number}, {name}: expected {expected:.6g}, as predicted, {found}"
    labels, rows = record.confusion or ([], [])
    pairs = Counter((str(one.gold.get("label")), str(one.predicted.get("label"))) for one in predictions)
    if (expected_rows := [[pairs[gold, guess] for guess in labels] for gold in labels]) != rows:
        return f"details.confusion: expected {expected_rows}, as in {PREDICTIONS_NAME}, found {rows}"[:300]
    return ""


def tested(record: RunRecord, predictions: Sequence[Prediction]) -> tuple[str, str]:
    """What names the test examples of a run, and the hash of their texts and gold outputs: equal for equal names."""
    settings = settings_of(record).items()
    named = [setting for setting in settings if setting[0].startswith(("data.reader", "limit", "task"))]
    which = [record.identity.task, record.data_hashes.get("test"), sorted(named)]
    content = [[one.id, one.example, one.gold] for one in predictions]
    name, digest = (hashlib.sha256(json.dumps(own).encode()).hexdigest() for own in (which, content))
    return name, digest


def _unlike(given: Iterable[Given], file: str = EXAMPLES_NAME) -> list[str]:
    return [
        f"{key}: expected {expected:.6g}, which {file} gives, found {found:.6g}"
        for key, expected, found in given
        if abs(expected - found) > EXACT
    ]


def _sums(examples: Sequence[Example]) -> Sums:
    """The sums of the columns that all examples have."""
    names = set(examples[0]).intersection(*examples) if examples else ()
    return {name: sum(map(itemgetter(name), examples)) for name in names}


def _metrics(
    record: RunRecord, sums: Sums, count: int, scores: Mapping[str, float], key: str = "scores.test"
) -> Iterator[Given]:
    for name, found in scores.items():
        if metric := metric_of(record, sums, name):
            yield f"{key}.{name}", float(metric.score(sums, count)), found


def _counts(record: RunRecord, sums: Sums, count: int) -> Iterator[Given]:
    found = _numbers(record.data.get("test")) if record.limit is None else {}  # counts are of the whole split
    for name, columns in load_rules().counts.items():
        if name in found and sums.keys() >= set(columns):
            yield f"data.test.{name}", sum(sums[column] for column in columns) if columns else count, found[name]
    for label, own in _groups(record.details.get("labels")).items():
        if label in found and "gold" in own:
            yield f"data.test.{label}", own["gold"], found[label]


def _details(record: RunRecord, sums: Sums, count: int) -> Iterator[Given]:
    """Details have the shapes that the tasks of the suite give them; other ones are left alone."""
    rules = load_rules()
    gold = sums["tp"] + sums["fn"] if "fn" in sums else sums.get("tokens", count)
    right = sums["tp"] if "tp" in sums else sums.get("correct", 0)
    for name, value in record.details.items():
        if (metric := record.metrics.get(name)) and len(metric.terms) == 1 and len(metric.terms[0]) == 2:
            for key, ratio in zip(("precision", "recall"), metric.terms[0], strict=True):
                if key in (own := _numbers(value)):
                    yield f"details.{name}.{key}", float(Metric([[ratio]]).score(sums, count)), own[key]
            continue
        groups = _groups(value)
        if shares := [
            (own.get("recall", own.get(rules.share)), own["gold"]) for own in groups.values() if "gold" in own
        ]:
            yield f"details.{name}, the sum of gold", gold, sum(whole for _, whole in shares)
            if all(share is not None for share, _ in shares):
                found = sum((share or 0) * whole / 100 for share, whole in shares)
                yield f"details.{name}, the sum of right ones", right, found
        for unit in _UNITS:
            if unit in sums and name == "parts_of_speech":
                yield f"details.{name}, the sum of {unit}", sums[unit], sum(own.get(unit, 0) for own in groups.values())
        for label, own in groups.items():
            key = f"details.{name}.{label}"
            yield from ((f"{key}.{it}", sums[f"{label}_{it}"], own[it]) for it in own if f"{label}_{it}" in sums)
            if {rules.harmonic, "precision", "recall", "gold"} <= own.keys():
                both = own["precision"] + own["recall"]
                yield f"{key}.{rules.harmonic}", 2 * own["precision"] * own["recall"] / (both or 1), own[rules.harmonic]
                hits = own["recall"] * own["gold"] / 100
                yield f"{key}.recall, times gold", round(hits), hits
            elif rules.harmonic in own and set(_UNITS) <= own.keys():
                whole = own["answered"] + own["instances"]
                yield f"{key}.{rules.harmonic}", 200 * own["correct"] / (whole or 1), own[rules.harmonic]
    labels, rows = record.confusion or ([], [])
    if labels:
        yield "details.confusion, the sum of the diagonal", right, sum(rows[i][i] for i in range(len(labels)))


def _groups(value: object) -> dict[str, dict[str, float]]:
    return {str(key): _numbers(own) for key, own in value.items()} if isinstance(value, Mapping) else {}


def _numbers(value: object) -> dict[str, float]:
    """The numbers of a mapping; empty for anything else."""
    found = value if isinstance(value, Mapping) else {}
    return {key: own for key, own in found.items() if isinstance(own, int | float) and not isinstance(own, bool)}


def rescored(gold: Fields, predicted: Fields) -> dict[str, float]:
    """The counts of one example, by the names that they have in examples.json.gz; those that its outputs determine."""
    if "label" in gold:
        return {"correct": float(gold["label"] == predicted["label"])}
    if "answers" in gold:
        both = [_answer(str(predicted["answer"]), str(right)) for right in gold["answers"]]
        return dict(zip(load_rules().answers, map(max, zip(*both, strict=True)), strict=True))
    if "chains" in gold:
        sides = [[_mentions(chain) for chain in side["chains"]] for side in (gold, predicted)]
        several = _chains(*([chain for chain in side if len(chain) > 1] for side in sides))
        return {**_chains(*sides), **{f"{name}_without_singletons": count for name, count in several.items()}}
    for name in ("entities", "arguments"):
        if name in gold:
            right, guessed = (set(_arguments(side[name])) for side in (gold, predicted))
            return {"tp": len(right & guessed), "fp": len(guessed - right), "fn": len(right - guessed)}
    return {}


def _arguments(spans: Iterable[Fields]) -> list[tuple[object, ...]]:
    """Spans as they are counted: without the predicate, V, and with the pieces of a continued one (C-X) together."""
    found: list[tuple[str, list[tuple[int, int]]]] = []
    for span in spans:
        label, place = str(span["label"]), (int(span["start"]), int(span["end"]))
        before = [pieces for name, pieces in found if name == label.removeprefix("C-")]
        if label.startswith("C-") and before:
            before[-1].append(place)
        else:
            found.append((label.removeprefix("C-"), [place]))
    return [(label, *pieces) for label, pieces in found if label != "V"]


def _answer(predicted: str, gold: str) -> tuple[float, float]:
    """Whether the words are equal, and the share of common ones, in percent: precision and recall, harmonic mean."""
    guess, right = (_words(text) for text in (predicted, gold))
    common = sum((Counter(guess) & Counter(right)).values())
    return 100.0 * (guess == right), 200 * common / (len(guess) + len(right)) if common else 0.0


def _words(answer: str) -> list[str]:
    plain = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def _mentions(chain: Iterable[Fields]) -> Mentions:
    return frozenset((int(span["start"]), int(span["end"])) for span in chain)


def _chains(gold: Sequence[Mentions], predicted: Sequence[Mentions]) -> dict[str, float]:
    """The counts of MUC, B-cubed and CEAF-e."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    shared = np.array([[len(one & other) for other in predicted] for one in gold]).reshape(len(gold), len(predicted))
    sizes, guessed = (np.array([len(chain) for chain in side]) for side in (gold, predicted))
    similarity = 2 * shared / (sizes[:, None] + guessed) if shared.size else shared
    counts = {
        "links": np.maximum(shared - 1, 0).sum(),
        "gold_links": (sizes - 1).sum(),
        "predicted_links": (guessed - 1).sum(),
        "b_cubed_precision": (shared**2 / guessed).sum() if shared.size else 0,
        "b_cubed_recall": (shared**2 / sizes[:, None]).sum() if shared.size else 0,
        "gold_mentions": sizes.sum(),
        "predicted_mentions": guessed.sum(),
        "gold_chains": len(gold),
        "predicted_chains": len(predicted),
        "similarity": similarity[linear_sum_assignment(similarity, maximize=True)].sum(),
    }
    return {name: float(count) for name, count in counts.items()}


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


ROOT = Path(__file__).parents[1]

_DESCRIPTION = """\
Computes every score of the records again: test metrics, details and counts from the scores of single examples,
examples.json.gz, and these from the predictions, dev scores from the learning curve, scores on further test sets from
examples-DATA.json.gz, shares of right predictions from the confidences. Finds seeds that are copies of one another,
seeds of one name with different settings, configs that contradict the run's name, predictions with other texts than
those of the test set, unsafe names, and commits that this repository does not have. Prints a line for each finding:
file, what was expected, what was found, what to do. The status is 1 if there is one. Nothing is written."""

_EPILOG = """\
examples:
  python -m results.audit                      your own runs, in results/runs
  python -m results.audit --runs DIR           those in other folders
  python -m results.audit --published          the published records

`python -m results.table --check` and `python -m results.publish` make the same comparisons."""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what is wrong; returns the exit status: 1 if anything is, or if there are no records."""
    parser = command_parser("results.audit", _DESCRIPTION, _EPILOG)
    about = f"folders with runs; default: {DEFAULT_RUNS}"
    parser.add_argument("--runs", metavar="DIR", nargs="+", action="extend", type=Path, default=[], help=about)
    parser.add_argument("--published", action="store_true", help="the records that come with the suite")
    options = parser.parse_args(argv)
    return exit_status("results.audit", lambda: _audit(options))


def _audit(options: argparse.Namespace) -> int:
    folders = [*options.runs, *([PUBLISHED] if options.published else [])] or [DEFAULT_RUNS]
    collection = collect(folders)
    kept = [] if options.published else sorted({path.parent for path in PUBLISHED.rglob(PREDICTIONS_NAME)})
    commits = known_commits(ROOT)
    done = audit(collection.found, commits, collect(kept).found)
    lines = [finding.text for finding in collection.findings if finding.wrong]
    lines += [finding.text for finding in done.findings]
    if not collection.found:
        lines.append(
            f"{', '.join(map(str, folders))}: expected records of runs, found none; name their folder: --runs DIR"
        )
    counts = done.compared
    compared = [
        f"{counts['records']:,} records, {counts['scores']:,} test scores from {counts['examples']:,} examples",
        f"{counts['curves']:,} curves, {counts['predictions']:,} predictions",
        *(["commits not checked: no checkout with its whole history"] if commits is None else []),
    ]
    end = f"{len(lines)} finding{'s' * (len(lines) > 1)}" if lines else "nothing is wrong"
    write("".join(f"{line}\n" for line in [*lines, f"audit: {', '.join(compared)}; {end}"]), sys.stdout)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
