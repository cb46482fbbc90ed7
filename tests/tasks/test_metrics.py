"""Metrics, compared with conlleval, seqeval, scikit-learn and values worked out by hand."""

import random

import pytest
from seqeval.metrics import classification_report
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from tasks.data.text import Span
from tasks.metrics import class_scores, span_scores
from tests.tasks.data.test_tag_schemes import iob2, random_spans

LABELS = ["PER", "LOC", "MISC"]


def conlleval(gold_tags, guessed_tags):
    """Counts of right, guessed and gold chunks by label: conlleval's state machine, line by line over both columns.

    Written from the Perl script: a correct chunk starts in both columns at once with one type and ends in both.
    """
    right, guessed, gold = (dict.fromkeys(LABELS, 0) for _ in range(3))
    for gold_sentence, guessed_sentence in zip(gold_tags, guessed_tags, strict=True):
        both = False
        last_gold = last_guess = ("O", "")
        for gold_tag, guess_tag in zip([*gold_sentence, "O"], [*guessed_sentence, "O"], strict=True):
            this_gold, this_guess = split(gold_tag), split(guess_tag)
            gold_ends, guess_ends = ends(last_gold, this_gold), ends(last_guess, this_guess)
            gold_starts, guess_starts = starts(last_gold, this_gold), starts(last_guess, this_guess)
            if both:
                if gold_ends and guess_ends and last_gold[1] == last_guess[1]:
                    both = False
                    right[last_gold[1]] += 1
                elif gold_ends != guess_ends or this_gold[1] != this_guess[1]:
                    both = False
            if gold_starts and guess_starts and this_gold[1] == this_guess[1]:
                both = True
            if gold_starts:
                gold[this_gold[1]] += 1
            if guess_starts:
                guessed[this_guess[1]] += 1
            last_gold, last_guess = this_gold, this_guess
    return right, guessed, gold


def split(tag):
    prefix, _, label = tag.partition("-")
    return prefix, label


def starts(before, now):
    if now[0] == "O":
        return False
    return now[0] == "B" or before[0] == "O" or before[1] != now[1]


def ends(before, now):
    if before[0] == "O":
        return False
    return now[0] in ("B", "O") or before[1] != now[1]


def percent(right, guessed, gold):
    precision = 100 * right / guessed if guessed else 0.0
    recall = 100 * right / gold if gold else 0.0
    return {
        "f1": 2 * precision * recall / (precision + recall) if right else 0.0,
        "precision": precision,
        "recall": recall,
    }


def noisy(draw, spans, length):
    """A guess at the spans: some missing, some relabelled, some cut short, and a few more where there is room."""
    guess, taken = [], set()
    for label, start, end in spans:
        kind = draw.random()
        if kind < 0.6:
            span = Span(label, start, end)
        elif kind < 0.75:
            span = Span(draw.choice(LABELS), start, end)
        elif kind < 0.9:
            span = Span(label, start, max(start + 1, end - 1))
        else:
            continue
        guess.append(span)
        taken.update(range(span.start, span.end))
    guess += [Span(draw.choice(LABELS), i, i + 1) for i in range(length) if i not in taken and draw.random() < 0.05]
    return sorted(guess, key=lambda span: span.start)


@pytest.fixture(scope="module")
def sample():
    draw = random.Random(0)
    lengths = [draw.randrange(1, 30) for _ in range(200)]
    gold = [random_spans(draw, length) for length in lengths]
    return gold, [noisy(draw, spans, length) for spans, length in zip(gold, lengths, strict=True)], lengths


def test_by_hand():
    gold = [[Span("PER", 0, 2), Span("LOC", 3, 4)], [Span("PER", 0, 1)], []]
    guess = [[Span("PER", 0, 2), Span("ORG", 3, 4)], [], [Span("PER", 1, 2)]]
    scores = span_scores(gold, guess)
    # 1 right of 3 guessed, of 3 gold
    assert scores.values == pytest.approx({"f1": 100 / 3, "precision": 100 / 3, "recall": 100 / 3})
    assert scores.examples == [{"tp": 1, "fp": 1, "fn": 1}, {"tp": 0, "fp": 0, "fn": 1}, {"tp": 0, "fp": 1, "fn": 0}]
    assert scores.details["labels"]["PER"] == pytest.approx({"f1": 50, "precision": 50, "recall": 50, "gold": 2})
    assert scores.details["labels"]["LOC"] == {"f1": 0, "precision": 0, "recall": 0, "gold": 1}
    assert scores.details["labels"]["ORG"] == {"f1": 0, "precision": 0, "recall": 0, "gold": 0}


def test_a_boundary_off_by_one_is_wrong_twice():
    scores = span_scores([[Span("PER", 0, 3)]], [[Span("PER", 0, 2)]])
    assert scores.values["f1"] == 0
    assert scores.examples == [{"tp": 0, "fp": 1, "fn": 1}]


def test_agrees_with_conlleval(sample):
    gold, guess, lengths = sample
    gold_tags, guessed_tags = (list(map(iob2, spans, lengths)) for spans in (gold, guess))
    right, guessed, golden = conlleval(gold_tags, guessed_tags)
    scores = span_scores(gold, guess)
    assert 30 < scores.values["f1"] < 90
    expected = percent(sum(right.values()), sum(guessed.values()), sum(golden.values()))
    assert scores.values == pytest.approx(expected)
    for label in LABELS:
        expected = {**percent(right[label], guessed[label], golden[label]), "gold": golden[label]}
        assert scores.details["labels"][label] == pytest.approx(expected)


def test_agrees_with_seqeval_to_the_last_digit(sample):
    gold, guess, lengths = sample
    gold_tags, guessed_tags = (list(map(iob2, spans, lengths)) for spans in (gold, guess))
    report = classification_report(gold_tags, guessed_tags, output_dict=True, zero_division=0)
    expected = {
        name: {"f1": 100 * scores["f1-score"], "precision": 100 * scores["precision"], "recall": 100 * scores["recall"]}
        for name, scores in report.items()
    }
    scores = span_scores(gold, guess)
    assert scores.values == expected["micro avg"]
    assert scores.details["labels"] == {
        label: {**expected[label], "gold": report[label]["support"]} for label in sorted(LABELS)
    }


def test_the_score_follows_from_the_examples_counts(sample):
    scores = span_scores(*sample[:2])
    tp, fp, fn = (sum(example[key] for example in scores.examples) for key in ("tp", "fp", "fn"))
    assert scores.values == pytest.approx(percent(tp, tp + fp, tp + fn))


def test_gold_scores_100(sample):
    gold = sample[0]
    scores = span_scores(gold, gold)
    assert scores.values == {"f1": 100.0, "precision": 100.0, "recall": 100.0}


def test_labels_with_dashes_stay_whole():
    scores = span_scores([[Span("creative-work", 0, 2)]], [[Span("creative-work", 0, 2)]])
    assert list(scores.details["labels"]) == ["creative-work"]


def test_no_gold_and_no_predicted_spans():
    scores = span_scores([[]], [[]])
    assert scores.values == {"f1": 0, "precision": 0, "recall": 0}
    assert scores.details == {"labels": {}}


def test_a_missing_prediction_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        span_scores([[], []], [[]])


class TestClassScores:
    @pytest.mark.parametrize("seed", range(5))
    def test_against_scikit_learn(self, seed):
        draw = random.Random(seed)
        gold, predicted = ([draw.choice([0, 0, 1, 2]) for _ in range(50)] for _ in range(2))
        names = ["no", "maybe", "yes", "never met"]
        scores = class_scores(*([names[number] for number in numbers] for numbers in (gold, predicted)), names)
        assert scores.values["accuracy"] == pytest.approx(2 * sum(map(int.__eq__, gold, predicted)))
        assert scores.details["confusion"]["gold_by_predicted"] == (
            confusion_matrix(gold, predicted, labels=range(4)).tolist()
        )
        columns = precision_recall_fscore_support(gold, predicted, labels=range(4), zero_division=0)
        for name, precision, recall, f1, count in zip(scores.details["labels"], *columns, strict=True):
            expected = {"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall, "gold": count}
            assert scores.details["labels"][name] == pytest.approx(expected)

    def test_an_example_is_right_or_wrong(self):
        assert class_scores(["no", "yes", "yes"], ["no", "no", "yes"], ["no", "yes"]).examples == [
            {"correct": 1},
            {"correct": 0},
            {"correct": 1},
        ]
