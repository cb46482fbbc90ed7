"""Scores that a run's own files contradict: test metrics, details, counts of the test data, and dev scores."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

from results.analysis.names import load_names, metric_of
from results.records.example_scores import Confidence, Example
from results.records.identity import CONFIDENCES_NAME, EXAMPLES_NAME, also_name, looked_up
from results.records.metric import Metric
from results.records.record import RunRecord
from results.records.typed_json import PAPER, read_toml

EXACT = 1e-6  # points; a score that is computed again from the same counts differs by rounding alone
REMEDY = "was it edited by hand? Restore the folder from a copy, or delete it and run again"
Sums = Mapping[str, float]  # column of the examples -> its sum
Given = tuple[str, float, float]  # a key, what the examples give, and what the record says
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
        found = [(name, scores[name]) for name in load_rules().parts if name in scores and parts]
        given += [(f"scores.{own.split}.{name}", 100 * sum(r for _, r in parts) / len(parts), it) for name, it in found]
        if own.split == "test":
            given.append(("test examples", tested, len(own.examples)))
    return _unlike(given, CONFIDENCES_NAME)


def unlike_scores(record: RunRecord, examples: Sequence[Example]) -> list[str]:
    """The same for all that follows from the examples: test scores, details, and counts of the test data."""
    sums, count = _sums(examples), len(examples)
    given = [*_metrics(record, sums, count, record.scores.get("test", {}))]
    if record.identity.task in load_names().tasks:  # others have details and counts of any meaning
        given += [*_counts(record, sums, count), *_details(record, sums, count)]
    return _unlike(given)


def _unlike(given: Iterable[Given], file: str = EXAMPLES_NAME) -> list[str]:
    return [
        f"{key}: expected {expected:.6g}, which {file} gives, found {found:.6g}"
        for key, expected, found in given
        if abs(expected - found) > EXACT
    ]


def emptied(record: RunRecord) -> list[str]:
    """What the record lacks although its run has read the data; a task of a user may have neither."""
    rules, task = load_rules(), record.identity.task
    if task not in load_names().tasks or record.status != "finished":
        return []
    found = []
    if record.data.get("train") and not record.epochs and task not in rules.without_curve:
        found.append("epochs: expected the learning curve, because data.train says what was read, found none")
    if record.data.get("test") and not record.details and task not in rules.without_details:
        found.append("details: expected those of the test examples, because data.test counts them, found none")
    return found


def unlike_curve(record: RunRecord) -> list[str]:
    """Where the dev scores are not those of the curve's best epoch, or the curve is none of the run's settings."""
    if record.identity.task not in load_names().tasks or not record.epochs:
        return []  # a task's own `fit` may choose and count otherwise
    numbers = [epoch.get("epoch") for epoch in record.epochs]
    if numbers != list(range(1, len(numbers) + 1)):
        return [f"epochs: expected epochs 1 to {len(numbers)} in order, found {str(numbers)[:40]}"]
    most = looked_up(record.config, "trainer.epochs")
    if isinstance(most, int) and len(numbers) > most:
        return [f"epochs: expected at most trainer.epochs, {most}, found {len(numbers)}"]
    scored = [own for own in map(_numbers, record.epochs) if record.metric in own]
    best = max(scored, key=itemgetter(record.metric), default={})
    return [
        f"scores.dev.{name}: expected {best[name]:.6g}, that of the best epoch, found {score:.6g}"
        for name, score in record.scores.get("dev", {}).items()
        if name in best and abs(best[name] - score) > EXACT
    ]


def _sums(examples: Sequence[Example]) -> Sums:
    """The sums of the columns that all examples have."""
    sums = {}
    for name in examples[0] if examples else ():
        try:
            sums[name] = sum(map(itemgetter(name), examples))
        except KeyError:
            continue
    return sums


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


def _details(record: RunRecord, sums: Sums, count: int) -> Iterator[Given]:
    """Details have the shapes that the tasks of the suite give them; other ones are left alone."""
    gold = sums["tp"] + sums["fn"] if "fn" in sums else sums.get("tokens", count)
    right = sums["tp"] if "tp" in sums else sums.get("correct", 0)
    for name, value in record.details.items():
        group = {key: _numbers(own) for key, own in value.items()} if isinstance(value, Mapping) else {}
        parts = [own for own in group.values() if "gold" in own]
        if name in ("labels", "tags", "predicates") and parts:
            shares = [(own.get("recall", own.get(load_rules().share)), own["gold"]) for own in parts]
            yield f"details.{name}, the sum of gold", gold, sum(own["gold"] for own in parts)
            found = [share * whole / 100 for share, whole in shares if share is not None]
            if len(found) == len(parts):
                yield f"details.{name}, the sum of right ones", right, sum(found)
            counted = _numbers(record.data.get("test")) if name == "labels" and record.limit is None else {}
            for key, own in group.items():
                yield from _label(f"details.{name}.{key}", own)
                if key in counted and "gold" in own:
                    yield f"data.test.{key}", own["gold"], counted[key]
        elif name == "confusion" and isinstance(value, Mapping):
            yield from _confusion(record, value, right)
        elif name == "sets":
            for key, own in group.items():
                expected = {unit: sums[f"{key}_{unit}"] for unit in _UNITS if f"{key}_{unit}" in sums}
                yield from _senses(f"details.{name}.{key}", expected, own)
        elif name == "parts_of_speech":
            for unit in _UNITS:
                if unit in sums:
                    total = sum(own.get(unit, 0) for own in group.values())
                    yield f"details.{name}, the sum of {unit}", sums[unit], total
            for key, own in group.items():
                yield from _senses(f"details.{name}.{key}", own, own)
        elif name == "binary_examples" and "polar" in sums:
            yield f"details.{name}", sums["polar"], float(value) if isinstance(value, int | float) else 0.0
        elif (metric := record.metrics.get(name)) and len(metric.terms) == 1 and len(metric.terms[0]) == 2:
            for key, ratio in zip(("precision", "recall"), metric.terms[0], strict=True):
                own = _numbers(value)
                if key in own:
                    yield f"details.{name}.{key}", float(Metric([[ratio]]).score(sums, count)), own[key]


def _label(key: str, own: Mapping[str, float]) -> Iterator[Given]:
    """The harmonic mean follows from precision and recall; the right and the guessed ones are whole numbers."""
    mean = load_rules().harmonic
    if {mean, "precision", "recall", "gold"} <= own.keys():
        precision, recall = own["precision"], own["recall"]
        expected = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        yield f"{key}.{mean}", expected, own[mean]
        right = recall * own["gold"] / 100
        yield f"{key}.recall, times gold", round(right), right
        if precision and right:
            yield f"{key}.precision, of the guessed", round(100 * right / precision), 100 * right / precision


def _senses(key: str, expected: Mapping[str, float], own: Mapping[str, float]) -> Iterator[Given]:
    for unit in expected.keys() & own.keys() & set(_UNITS):
        yield f"{key}.{unit}", expected[unit], own[unit]
    whole, mean = expected.get("answered", 0) + expected.get("instances", 0), load_rules().harmonic
    if whole and mean in own:
        yield f"{key}.{mean}", 200 * expected.get("correct", 0) / whole, own[mean]


def _confusion(record: RunRecord, value: Mapping[str, object], right: float) -> Iterator[Given]:
    """The matrix has a row for each gold label and a column for each predicted one."""
    names, rows, labels = value.get("labels"), value.get("gold_by_predicted"), record.details.get("labels")
    if not isinstance(names, list) or not isinstance(rows, list) or not isinstance(labels, Mapping):
        return
    counts = [[cell for cell in row if isinstance(cell, int)] if isinstance(row, list) else [] for row in rows]
    if {len(names)} != {len(counts), *map(len, counts)}:
        return
    yield "details.confusion, the sum of the diagonal", right, sum(counts[i][i] for i in range(len(names)))
    for i, name in enumerate(map(str, names)):
        own, hits = _numbers(labels.get(name)), counts[i][i]
        for key, whole in (("recall", sum(counts[i])), ("precision", sum(row[i] for row in counts))):
            if key in own:
                yield f"details.labels.{name}.{key}", 100 * hits / whole if whole else 0.0, own[key]


def _numbers(value: object) -> dict[str, float]:
    """The numbers of a mapping; empty for anything else."""
    found = value if isinstance(value, Mapping) else {}
    return {key: own for key, own in found.items() if isinstance(own, int | float) and not isinstance(own, bool)}
