"""Predictions scored again: gold and predicted outputs of the suite's tasks, by rules of their own.

The rules are written here once more and not imported, because results/ does not know the tasks, and an audit by the
code that made the scores would repeat its mistakes.
"""

import hashlib
import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from results.analysis.names import load_names
from results.audit.scores import EXACT, load_rules
from results.records.example_scores import Example, Prediction
from results.records.identity import PREDICTIONS_NAME
from results.records.record import RunRecord
from results.records.settings import settings_of

Fields = Mapping[str, Any]
Mentions = frozenset[tuple[int, int]]
_ALONE = "_without_singletons"


def unlike_predictions(record: RunRecord, examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[str]:
    """Where the scores of the examples are not those of the predictions; the first such example."""
    if len(predictions) != len(examples):
        return [
            f"{PREDICTIONS_NAME}: expected {len(examples)} predictions, one for each score, found {len(predictions)}"
        ]
    if record.identity.task not in load_names().tasks:
        return []  # outputs of any form
    pairs = Counter[tuple[str, str]]()
    for number, (one, scores) in enumerate(zip(predictions, examples, strict=True)):
        try:
            counted = rescored(one.gold, one.predicted)
            pairs[str(one.gold.get("label")), str(one.predicted.get("label"))] += 1
        except (AttributeError, KeyError, TypeError, ValueError):
            return [
                f"{PREDICTIONS_NAME}: prediction {number}: expected outputs of {record.identity.task}, found others"
            ]
        for name, expected in counted.items():
            if name in scores and abs(scores[name] - expected) > EXACT:
                found = f"found {scores[name]:.6g} among the scores"
                return [f"{PREDICTIONS_NAME}: example {number}, {name}: expected {expected:.6g}, as predicted, {found}"]
    return _unlike_confusion(record, pairs)


def tested(record: RunRecord, predictions: Sequence[Prediction]) -> tuple[str, str]:
    """What names the test examples of a run, and the hash of their texts and gold outputs: equal for equal names."""
    named = {
        key: value for key, value in settings_of(record).items() if key.startswith(("data.reader", "limit", "task"))
    }
    which = [record.identity.task, record.data_hashes.get("test"), sorted(named.items())]
    content = [[one.id, one.example, one.gold] for one in predictions]
    name, digest = (hashlib.sha256(json.dumps(own).encode()).hexdigest() for own in (which, content))
    return name, digest


def rescored(gold: Fields, predicted: Fields) -> dict[str, float]:
    """The counts of one example, by the names that they have in examples.json.gz; those that its outputs determine."""
    if "label" in gold:
        return {"correct": float(gold["label"] == predicted["label"])}
    if "answers" in gold:
        both = [_answer(str(predicted["answer"]), str(right)) for right in gold["answers"]]
        return dict(zip(load_rules().answers, map(max, zip(*both, strict=True)), strict=True))
    if "chains" in gold:
        return _chains(*([_mentions(chain) for chain in side["chains"]] for side in (gold, predicted)))
    for name in ("entities", "arguments"):
        if name in gold:
            right, guessed = (set(_arguments(side[name])) for side in (gold, predicted))
            return {"tp": len(right & guessed), "fp": len(guessed - right), "fn": len(right - guessed)}
    return {}


def _unlike_confusion(record: RunRecord, pairs: Mapping[tuple[str, str], int]) -> list[str]:
    """Where the confusion matrix has other counts than the predicted labels."""
    found = record.details.get("confusion")
    names, rows = (found.get("labels"), found.get("gold_by_predicted")) if isinstance(found, Mapping) else (None, None)
    if not isinstance(names, list) or not isinstance(rows, list):
        return []
    expected = [[pairs.get((str(gold), str(guess)), 0) for guess in names] for gold in names]
    if expected == rows:
        return []
    return [f"details.confusion: expected {expected}, as in {PREDICTIONS_NAME}, found {rows}"[:300]]


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
    """The counts of MUC, B-cubed and CEAF-e, with singletons and without."""
    shared = [len(own & other) for own in gold for other in predicted]
    links = {"links": sum(count - 1 for count in shared if count)}
    for name, side in (("gold", gold), ("predicted", predicted)):
        links[f"{name}_links"] = sum(len(chain) - 1 for chain in side)
    several = [[chain for chain in side if len(chain) > 1] for side in (gold, predicted)]
    without = {f"{name}{_ALONE}": count for name, count in _of_mentions(*several).items()}
    return {**links, **_of_mentions(gold, predicted), **without}


def _of_mentions(gold: Sequence[Mentions], predicted: Sequence[Mentions]) -> dict[str, float]:
    both = [[(len(own & other), len(own), len(other)) for other in predicted] for own in gold]
    flat = [counts for row in both for counts in row]
    return {
        "b_cubed_precision": sum(shared**2 / size for shared, _, size in flat),
        "b_cubed_recall": sum(shared**2 / size for shared, size, _ in flat),
        "gold_mentions": sum(map(len, gold)),
        "predicted_mentions": sum(map(len, predicted)),
        "gold_chains": len(gold),
        "predicted_chains": len(predicted),
        **_best_pairs([[2 * shared / (one + other) for shared, one, other in row] for row in both]),
    }


def _best_pairs(similarity: Sequence[Sequence[float]]) -> dict[str, float]:
    """The largest sum of similarities of paired chains, each in one pair at most; nothing where scipy is missing."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        return {}
    rows, columns = linear_sum_assignment(similarity, maximize=True) if similarity and similarity[0] else ([], [])
    return {"similarity": sum(similarity[row][column] for row, column in zip(rows, columns, strict=True))}
