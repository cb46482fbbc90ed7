"""SQuAD's scores against torchmetrics' and against a reference written another way."""

import random
import string

import pytest

from tasks.squad.task import answer_scores, exact_match, normalised, word_f1

ODD = [
    ("", ""),
    ("the", "the"),
    ("The", "a"),
    ("the", ""),
    ("a an the", "x"),
    ("U.S.", "US"),
    ("u s", "U.S."),
    ("a-b", "ab"),
    ("the-cat", "cat"),
    ("“quoted”", "quoted"),
    ("theory of an", "theory"),
    ("cat cat cat", "cat"),
    ("cat cat dog", "dog dog cat"),
    ("An  apple\ta day", "apple day"),
    ("!!!", "..."),
    ("a.", "a"),
    ("A.M.", "am"),
    ("50 %", "50%"),
    ("naïve", "naive"),
    ("İstanbul", "istanbul"),
    ("ß", "SS"),
    ("_under_", "under"),
    ("the\u00a0cat", "cat"),
]


def drawn_pairs(count=400):
    draw = random.Random(11)
    words = [
        "the",
        "The",
        "a",
        "an",
        "A",
        "cat",
        "Cat",
        "cats",
        "dog.",
        "U.S.",
        "1,000",
        "1000",
        "\u2013",
        "-",
        "an-",
        "é",
    ]
    for _ in range(count):
        yield tuple(" ".join(draw.choices(words, k=draw.randint(0, 5))) for _ in range(2))


PAIRS = [*ODD, *((second, first) for first, second in ODD), *drawn_pairs()]


def reference(predicted, gold):
    """EM and F1 without regular expressions, counters or precision: F1 is 2 * common / (words of both)."""

    def words(text):
        kept = "".join(sign for sign in text.lower() if sign not in string.punctuation)
        runs, run = [], ""
        for sign in kept + " ":  # an article is one only between signs that belong to no word
            if sign.isalnum() or sign == "_":
                run += sign
                continue
            runs += [run] if run not in ("a", "an", "the") else [" "]
            runs.append(sign)
            run = ""
        return "".join(runs).split()

    guess, right = words(predicted), words(gold)
    left = list(right)
    common = 0
    for word in guess:
        if word in left:
            left.remove(word)
            common += 1
    return float(guess == right), 2 * common / (len(guess) + len(right)) if common else 0.0


def test_against_a_reference_written_another_way():
    assert len(PAIRS) > 400
    for predicted, gold in PAIRS:
        if predicted.isascii() and gold.isascii():
            assert (exact_match(predicted, gold), word_f1(predicted, gold)) == pytest.approx(reference(predicted, gold))


def test_against_torchmetrics():
    squad = pytest.importorskip("torchmetrics.functional.text", reason="needs torchmetrics").squad
    for predicted, gold in PAIRS:
        theirs = squad(
            [{"prediction_text": predicted, "id": "x"}],
            [{"answers": {"answer_start": [0], "text": [gold]}, "id": "x"}],
        )
        ours = answer_scores([[gold]], [predicted]).values
        assert ours["em"] == pytest.approx(theirs["exact_match"].item(), abs=1e-4), (predicted, gold)
        if normalised(predicted) == normalised(gold) == "":  # the one rule in which theirs is that of SQuAD 2.0
            assert (ours["f1"], theirs["f1"]) == (0, 100)
        else:
            assert ours["f1"] == pytest.approx(theirs["f1"].item(), abs=1e-4), (predicted, gold)


def test_all_questions_against_torchmetrics():
    squad = pytest.importorskip("torchmetrics.functional.text", reason="needs torchmetrics").squad
    draw = random.Random(3)
    answers = [gold for _, gold in PAIRS if normalised(gold)]
    gold = [draw.choices(answers, k=draw.randint(1, 4)) for _ in range(200)]
    predicted = [draw.choice(right) if draw.random() < 0.5 else draw.choice(PAIRS)[0] for right in gold]
    theirs = squad(
        [{"prediction_text": text, "id": str(i)} for i, text in enumerate(predicted)],
        [{"answers": {"answer_start": [0] * len(a), "text": a}, "id": str(i)} for i, a in enumerate(gold)],
    )
    ours = answer_scores(gold, predicted)
    assert ours.values["em"] == pytest.approx(theirs["exact_match"].item(), abs=1e-3)
    assert ours.values["f1"] == pytest.approx(theirs["f1"].item(), abs=1e-3)


def test_no_common_word_is_zero_also_for_two_empty_answers():
    """The official script of version 1.1 says so; that of 2.0, for questions without an answer, does not."""
    assert (exact_match("the", "A."), word_f1("the", "A.")) == (1.0, 0.0)


def test_by_hand():
    assert normalised("The  Cat's (a) hat!") == "cats hat"
    assert normalised("theory an-x") == "theory anx"
    assert word_f1("the cat sat", "a cat sat down") == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))
    assert exact_match("The cat.", "cat") == 1.0
    scores = answer_scores([["cat", "cat sat"], ["dog"]], ["the cat sat down", "Dog!"])
    assert scores.examples == [{"em": 0.0, "f1": pytest.approx(80.0)}, {"em": 100.0, "f1": 100.0}]
    assert scores.values == {"f1": pytest.approx(90.0), "em": 50.0}
