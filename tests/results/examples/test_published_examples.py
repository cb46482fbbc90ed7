"""Published predictions of the mini suite: fixed and broken, by rules written here, agree with examples.json.gz."""

import re
from collections import Counter

import pytest

from elmo.common.files import read_json
from results.examples import compare_runs, read_run
from results.records.collect import PUBLISHED
from results.records.example_scores import read_predictions
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME

TASKS = ("ner", "sst5", "snli", "squad", "srl", "coref")


def folder(task, features):
    return PUBLISHED / "mini" / task / features / "seed-1"


def spans(side, field):
    """The spans by label; srl-eval takes a continuation C-X without an X before it for an X."""
    spans = [one for one in side[field] if one["label"] != "V"]
    return Counter((one["label"].removeprefix("C-"), one["start"], one["end"]) for one in spans)


def answer(text):
    """The words of an answer, as the rules of SQuAD compare them."""
    kept = re.sub(r"[^\w\s]|_", "", text.lower())
    return Counter(word for word in kept.split() if word not in ("a", "an", "the"))


def right_by_hand(task, gold, predicted):
    """Whether a prediction is right in all."""
    if task in ("ner", "srl"):
        return spans(gold, (field := "entities" if task == "ner" else "arguments")) == spans(predicted, field)
    if task == "squad":
        return answer(predicted["answer"]) in map(answer, gold["answers"])
    if task == "coref":
        sides = [
            {frozenset((m["start"], m["end"]) for m in own) for own in side["chains"]} for side in (gold, predicted)
        ]
        return sides[0] == sides[1]
    return gold["label"] == predicted["label"]


def right_by_counts(score):
    """The same from the counts in examples.json.gz alone."""
    if "tp" in score:
        return score["fp"] == score["fn"] == 0
    if "correct" in score:
        return score["correct"] == 1
    if "links" in score:
        return score["similarity"] == pytest.approx(max(score["gold_chains"], score["predicted_chains"]))
    return score["f1"] == 100


@pytest.mark.parametrize("task", TASKS)
def test_fixed_and_broken_agree_with_the_scores_of_single_examples(task):
    found = [read_run(folder(task, features)) for features in ("glove", "elmo")]
    comparison = compare_runs(*found)
    right = {one.predictions[0].id: one.right for one in comparison.examples}
    sides = []
    for run in found:
        kept = read_predictions(run.path.with_name(PREDICTIONS_NAME), run.record.fingerprint)
        scores = read_json(run.path.with_name(EXAMPLES_NAME))["scores"]
        by_hand = {one.id: right_by_hand(task, one.gold, one.predicted) for one in kept}
        by_counts = {one.id: right_by_counts(score) for one, score in zip(kept, scores, strict=True)}
        assert by_hand == by_counts
        sides.append(by_counts)
    assert right == {name: (sides[0][name], sides[1][name]) for name in sides[0]}
    fixed, broken = (sum(pair == (not first, first) for pair in right.values()) for first in (True, False))
    assert (comparison.counts["fixed"], comparison.counts["broken"]) == (fixed, broken)
    assert sum(comparison.counts.values()) == len(right)
    assert fixed - broken == sum(sides[1].values()) - sum(sides[0].values())
    if task != "coref":  # whose documents are long: none is right in all
        assert min(fixed, broken) > 10
