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
