"""The measures of the mini data and their chance baselines, on texts for which the answer is known."""

import pytest

from tasks.data.text import Span
from tasks.srl import SrlExample
from tests.tasks.mini import chance
from tests.tasks.mini.mini_measures import Text, alike, equal, kappa, patterns, variety


def planted(*sentences):
    return [Text("sentence", "train", str(n), tuple(words.split())) for n, words in enumerate(sentences)]


def test_equal():
    first, _, third = texts = planted("A dog .", "A cat .", "a DOG .")
    assert equal(texts) == [(first, third)]


def test_similarity():
    first, second, *_ = texts = planted("a b c d E .", "a b c d e f g h ?", "a b c d x y", "a b c d")
    assert alike(texts, 5 / 8) == [(first, second)]
    assert alike(texts, 0.63) == []


def test_patterns():
    counts = patterns(planted("The red cat sat down", "a blue cat sat down , the red cat sat down", "The cat sat"))
    assert counts["the", "_", "cat", "sat", "down"] == counts["the", "red", "cat", "sat", "_"] == 2
    assert counts["_", "cat", "sat", "down", ","] == 1


def test_variety():
    assert variety(["Aa", "bB", "ab"], 6) == pytest.approx(1 / 3)
    assert variety(["abcd"], 2) == 1


def test_templates_are_found():
    """Four templates with a few hundred fillers: far below the variety and far above the repetition allowed."""
    frames = ["The {} was {} in the end .", "I liked the {} , but it was {} .", "A {} like this is {} .", "{} {} !"]
    texts = planted(*(frames[n % 4].format(f"noun{n % 331}", f"word{n % 97}") for n in range(900)))
    assert variety([text.words for text in texts], 2500) < 0.8 * 0.429
    assert max(patterns(texts).values()) > len(texts) / 100


def test_kappa():
    assert kappa("aabb", "aabb") == 1
    assert kappa("aabb", "abab") == 0
    assert kappa([0, 0, 1, 2], [0, 1, 1, 2]) == pytest.approx((0.75 - 5 / 16) / (1 - 5 / 16))


def test_naive_bayes():
    train = [(("good", "film"), "up"), (("bad", "film"), "down")]
    assert chance.naive_bayes(train, [(("Good", "play"), "up"), (("bad",), "up")]) == 50


def test_stretches_of_words():
    words = ["He", "met", "Ann", "Lee", "in", "May", "1990", "."]
    assert chance.capitals(words) == [(0, 1), (2, 4), (5, 6)]
    assert chance.longest(chance.capitals(words)) == (2, 4)
    assert chance.numbers(words) == [(6, 7)]
    assert chance.numbers(["none"]) == [(0, 1)]


def test_words_around_a_predicate():
    words = ("Well", ",", "she", "never", "gave", "up", "her", "seat", ".")
    spans = (Span("ARG0", 2, 3), Span("ARGM-NEG", 3, 4), Span("V", 4, 6), Span("ARG1", 6, 8))
    assert chance.around(SrlExample("", words, spans, predicate=4, pos="VBD")) == ((2, 4), (6, 8))
    assert chance.around(SrlExample("", ("Stop", "!"), (Span("V", 0, 1),), predicate=0, pos="VB")) == ((0, 0), (1, 1))
