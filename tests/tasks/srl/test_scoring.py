"""Scores of semantic roles: hand-made cases of the rules of srl-eval, counted by hand."""

import pytest

from tasks.data.text import Span
from tasks.srl import SRL_METRICS, counted_arguments, kind_of, srl_scores


def spans(text):
    """Spans from a text such as "ARG0:0-1 V:1-2"."""
    found = []
    for part in text.split():
        label, _, place = part.rpartition(":")
        start, end = map(int, place.split("-"))
        found.append(Span(label, start, end))
    return found


def pieces(text):
    return [(argument.label, list(argument.pieces)) for argument in counted_arguments(spans(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ARG0:0-1 V:1-2 ARG1:2-4", [("ARG0", [(0, 1)]), ("ARG1", [(2, 4)])]),
        ("V:0-1", []),
        ("V:0-1 ARG1:1-2 C-V:2-3", [("ARG1", [(1, 2)])]),
        ("C-V:0-1", []),  # a continuation of nothing is a V
        ("ARG1:0-1 V:1-2 C-ARG1:2-4", [("ARG1", [(0, 1), (2, 4)])]),
        ("ARG1:0-1 V:1-2 C-ARG1:2-4 C-ARG1:5-6", [("ARG1", [(0, 1), (2, 4), (5, 6)])]),
        # The last ARG1 before it is continued.
        ("ARG1:0-1 ARG1:2-3 V:3-4 C-ARG1:4-5", [("ARG1", [(0, 1)]), ("ARG1", [(2, 3), (4, 5)])]),
        # Other arguments in between do not matter.
        ("ARG1:0-1 ARG0:2-3 C-ARG1:4-5", [("ARG1", [(0, 1), (4, 5)]), ("ARG0", [(2, 3)])]),
        # Without an ARG1 before it, C-ARG1 is an ARG1, which others may continue.
        ("C-ARG1:0-1 V:1-2", [("ARG1", [(0, 1)])]),
        ("C-ARG1:0-1 C-ARG1:2-3", [("ARG1", [(0, 1), (2, 3)])]),
        ("C-ARG1:0-1 ARG1:2-3", [("ARG1", [(0, 1)]), ("ARG1", [(2, 3)])]),
        # A reference is an argument of its own, and so is one of another label.
        ("ARG0:0-1 R-ARG0:1-2 V:2-3", [("ARG0", [(0, 1)]), ("R-ARG0", [(1, 2)])]),
        ("ARG0:0-1 R-ARG0:1-2 C-ARG0:3-4", [("ARG0", [(0, 1), (3, 4)]), ("R-ARG0", [(1, 2)])]),
        ("R-ARG0:0-1 C-R-ARG0:3-4", [("R-ARG0", [(0, 1), (3, 4)])]),
        ("ARGM-TMP:0-1 C-ARGM-LOC:3-4", [("ARGM-TMP", [(0, 1)]), ("ARGM-LOC", [(3, 4)])]),
    ],
)
def test_arguments(text, expected):
    assert pieces(text) == expected


@pytest.mark.parametrize(
    ("gold", "predicted", "tp", "fp", "fn"),
    [
        # V is not counted, right, wrong or missing.
        ("ARG0:0-1 V:1-2", "ARG0:0-1 V:1-2", 1, 0, 0),
        ("ARG0:0-1 V:1-2", "ARG0:0-1 V:2-3", 1, 0, 0),
        ("ARG0:0-1 V:1-2", "ARG0:0-1", 1, 0, 0),
        ("V:1-2", "V:1-2", 0, 0, 0),
        ("V:1-2", "V:1-2 ARG1:2-3", 0, 1, 0),
        # A wrong border or a wrong label is one excess and one miss.
        ("ARG1:2-4", "ARG1:2-5", 0, 1, 1),
        ("ARG1:2-4", "ARG2:2-4", 0, 1, 1),
        ("ARG1:2-4", "R-ARG1:2-4", 0, 1, 1),
        ("ARG1:2-4", "", 0, 0, 1),
        # A discontinuous argument is right as a whole, or is one excess and one miss.
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1 C-ARG1:3-5", 1, 0, 0),
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1", 0, 1, 1),
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1 C-ARG1:3-4", 0, 1, 1),
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-5", 0, 1, 1),
        # Two excesses: without C- they are two arguments.
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1 ARG1:3-5", 0, 2, 1),
        # Not a continuation of ARG1, but an ARG2, and the ARG1 is not whole.
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1 C-ARG2:3-5", 0, 2, 1),
        # C-ARG1 alone is an ARG1.
        ("ARG1:3-5", "C-ARG1:3-5", 1, 0, 0),
    ],
)
def test_counts_of_one_predicate(gold, predicted, tp, fp, fn):
    scores = srl_scores([spans(gold)], [spans(predicted)], ["s"], ["VB"])
    assert scores.examples == [{"tp": tp, "fp": fp, "fn": fn, "sentence": 0}]


# Three predicates in two sentences, and a sentence without any.
GOLD = ["ARG0:0-1 V:1-2 ARG1:2-4", "ARG0:0-1 V:3-4", "V:0-1 ARG2:1-2 C-ARG2:3-4", ""]
GUESS = ["ARG0:0-1 V:1-2 ARG1:2-3", "ARG0:0-1 V:3-4", "V:0-1 ARG2:1-2 C-ARG2:3-4 ARG1:2-3", "ARG0:0-1 V:1-2"]


@pytest.fixture
def scores():
    gold, guess = ([spans(text) for text in texts] for texts in (GOLD, GUESS))
    return srl_scores(gold, guess, ["a", "a", "b", "c"], ["VBZ", "NN", "VB", None])


def test_scores_of_several_predicates(scores):
    # Right: ARG0 twice, ARG2. Excess: ARG1 of the first and of the third. Missed: ARG1 of the first.
    assert scores.examples == [
        {"tp": 1, "fp": 1, "fn": 1, "sentence": 0},
        {"tp": 1, "fp": 0, "fn": 0, "sentence": 0},
        {"tp": 1, "fp": 1, "fn": 0, "sentence": 1},
        {"tp": 0, "fp": 0, "fn": 0, "sentence": 2},  # nothing is scored without a predicate
    ]
    assert scores.values == pytest.approx({"precision": 60.0, "recall": 75.0, "f1": 200 / 3})


def test_details_by_label_and_kind_of_predicate(scores):
    assert {label: values["gold"] for label, values in scores.details["labels"].items()} == {
        "ARG0": 2,
        "ARG1": 1,
        "ARG2": 1,
    }
    assert scores.details["labels"]["ARG1"]["f1"] == 0
    # The two verbs: 2 right, 2 in excess, 1 missed. The noun: all right.
    verbal = {"precision": 50.0, "recall": 200 / 3, "f1": 400 / 7, "gold": 3, "predicates": 2}
    nominal = {"precision": 100.0, "recall": 100.0, "f1": 100.0, "gold": 1, "predicates": 1}
    assert scores.details["predicates"].keys() == {"verbal", "nominal"}
    assert scores.details["predicates"]["verbal"] == pytest.approx(verbal)
    assert scores.details["predicates"]["nominal"] == pytest.approx(nominal)


def test_metrics_follow_from_the_counts_and_leave_out_sentences(scores):
    for name, value in scores.values.items():
        assert SRL_METRICS[name].of_examples(scores.examples) == pytest.approx(value)
        assert SRL_METRICS[name].unit == "sentence"


def test_kinds_of_predicates():
    found = [kind_of(pos) for pos in ("VBD", "NN", "NNS", "JJ", "MD", "IN", "")]
    assert found == ["verbal", "nominal", "nominal", "adjectival", "other", "other", "other"]
