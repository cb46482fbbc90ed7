"""Scores that a run's own files contradict: test metrics, details, counts of the test data, and dev scores."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from results.analysis.names import load_names, metric_of
from results.records.example_scores import Example
from results.records.identity import EXAMPLES_NAME, looked_up
from results.records.metric import Metric
from results.records.record import RunRecord

EXACT = 1e-6  # points; a score that is computed again from the same counts differs by rounding alone
REMEDY = "was it edited by hand? Restore the folder from a copy, or delete it and run again"
Sums = Mapping[str, float]  # column of the examples -> its sum
# Counts of the test data that follow from the examples: the sums of these columns, or the number of examples.
_COUNTS: Mapping[str, Sequence[str]] = {
    **{"entities": ("tp", "fn"), "arguments": ("tp", "fn"), "mentions": ("gold_mentions",), "chains": ("gold_chains",)},
    **{"instances": ("instances",), "tokens": ("tokens",)},
    **{"examples": (), "pairs": (), "questions": (), "documents": ()},
}
_UNITS = ("correct", "answered", "instances")  # of word senses


def unlike_scores(record: RunRecord, examples: Sequence[Example]) -> list[str]:
    """Where the record contradicts the scores of its test examples: the key, what they give, and what it says."""
    sums = _sums(examples)
    given = [*_metrics(record, sums, len(examples))]
    if record.identity.task in load_names().tasks:  # others have details and counts of any meaning
        given += [*_counts(record, sums, len(examples)), *_details(record, sums, len(examples))]
    return [
        f"{key}: expected {expected:.6g}, which {EXAMPLES_NAME} gives, found {found:.6g}"
        for key, expected, found in given
        if abs(expected - found) > EXACT
    ]


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


Given = Iterator[tuple[str, float, float]]  # the key, what the examples give, and what the record says


def _metrics(record: RunRecord, sums: Sums, count: int) -> Given:
    for name, found in record.scores.get("test", {}).items():
        if metric := metric_of(record, sums, name):
            yield f"scores.test.{name}", float(metric.score(sums, count)), found


def _counts(record: RunRecord, sums: Sums, count: int) -> Given:
    found = _numbers(record.data.get("test")) if record.limit is None else {}  # counts are of the whole split
    for name, columns in _COUNTS.items():
        if name in found and sums.keys() >= set(columns):
            yield f"data.test.{name}", sum(sums[column] for column in columns) if columns else count, found[name]


def _details(record: RunRecord, sums: Sums, count: int) -> Given:
    """Details have the shapes that the tasks of the suite give them; other ones are left alone."""
    gold = sums["tp"] + sums["fn"] if "fn" in sums else sums.get("tokens", count)
    right = sums["tp"] if "tp" in sums else sums.get("correct", 0)
    for name, value in record.details.items():
        group = {key: _numbers(own) for key, own in value.items()} if isinstance(value, Mapping) else {}
        parts = [own for own in group.values() if "gold" in own]
        if name in ("labels", "tags", "predicates") and parts:
            shares = [own.get("recall", own.get("accuracy", 0.0)) for own in parts]
            yield f"details.{name}, the sum of gold", gold, sum(own["gold"] for own in parts)
            found = sum(share * own["gold"] / 100 for share, own in zip(shares, parts, strict=True))
            yield f"details.{name}, the sum of right ones", right, found
            for key, own in group.items():
                yield from _label(f"details.{name}.{key}", own)
        elif name == "confusion" and isinstance(value, Mapping):
            yield from _confusion(record, value, right)
        elif name == "sets":
            for key, own in group.items():
                expected = {unit: sums[f"{key}_{unit}"] for unit in _UNITS if f"{key}_{unit}" in sums}
                yield from _senses(f"details.{name}.{key}", expected, own)
        elif name == "parts_of_speech":
            for unit in _UNITS:
                if unit in sums:
                    found = sum(own.get(unit, 0) for own in group.values())
                    yield f"details.{name}, the sum of {unit}", sums[unit], found
            for key, own in group.items():
                yield from _senses(f"details.{name}.{key}", own, own)
        elif name == "binary_examples" and "polar" in sums:
            yield f"details.{name}", sums["polar"], float(value) if isinstance(value, int | float) else 0.0
        elif (metric := record.metrics.get(name)) and len(metric.terms) == 1 and len(metric.terms[0]) == 2:
            for key, ratio in zip(("precision", "recall"), metric.terms[0], strict=True):
                own = _numbers(value)
                if key in own:
                    yield f"details.{name}.{key}", float(Metric([[ratio]]).score(sums, count)), own[key]


def _label(key: str, own: Mapping[str, float]) -> Given:
    """F1 follows from precision and recall; the right and the guessed ones are whole numbers."""
    if {"f1", "precision", "recall", "gold"} <= own.keys():
        precision, recall = own["precision"], own["recall"]
        yield f"{key}.f1", 2 * precision * recall / (precision + recall) if precision + recall else 0.0, own["f1"]
        right = recall * own["gold"] / 100
        yield f"{key}.recall, times gold", round(right), right
        if precision and right:
            yield f"{key}.precision, of the guessed", round(100 * right / precision), 100 * right / precision


def _senses(key: str, expected: Mapping[str, float], own: Mapping[str, float]) -> Given:
    for unit in expected.keys() & own.keys() & set(_UNITS):
        yield f"{key}.{unit}", expected[unit], own[unit]
    whole = expected.get("answered", 0) + expected.get("instances", 0)
    if whole and "f1" in own:
        yield f"{key}.f1", 200 * expected.get("correct", 0) / whole, own["f1"]


def _confusion(record: RunRecord, value: Mapping[str, object], right: float) -> Given:
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
