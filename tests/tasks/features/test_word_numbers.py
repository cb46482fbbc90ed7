import random

import numpy as np

from tasks.features.words import LONGEST_WORD, WordNumbers


def test_words_are_numbered_as_they_are_met():
    numbers = WordNumbers()
    assert numbers.meet([("a", "cat"), ("a", "a")]) == ["a", "cat"]
    assert numbers.meet([("a", "a")]) == []
    assert numbers.meet([("the", "cat"), ("the", "cat")]) == ["the"]
    assert numbers.meet([("cat",)]) == []
    words, lengths = numbers.padded([("cat",), ("the", "cat"), ("a", "cat")])
    assert words.tolist() == [[2, 0], [3, 2], [1, 2]]
    assert lengths.tolist() == [1, 2, 2]
    assert numbers.characters.tolist() == [0, 3, 5, 5], "two marks stand around each word"
    numbers.meet([("x" * 100,)])
    assert numbers.characters[-1] == LONGEST_WORD


def test_distinct_words_are_those_of_numpy():
    numbers, draw = WordNumbers(), random.Random(2)
    numbers.meet([tuple(f"w{i}" for i in range(300))])
    for shape in ((1, 1), (3, 7), (20, 40)):
        words = np.array([draw.randrange(301) for _ in range(shape[0] * shape[1])]).reshape(shape)
        found, places = numbers.distinct(words)
        expected = np.unique(words)
        assert found.tolist() == expected.tolist()
        assert np.array_equal(found[places], words)
