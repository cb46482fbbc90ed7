"""The tokens of SQuAD: the offsets of every token are exact for any text."""
# ruff: noqa: RUF001 - characters that look alike are tested

import random
from itertools import pairwise

import pytest

from elmo.tokeniser import tokenise
from tasks.data.text import tokens_of

INVISIBLE = "\u200b\ufeff\u00ad"


def pieces(text):
    """The words of a text and, for each, the characters that it stands for."""
    tokens = tokens_of(text)
    return list(tokens.words), [text[begin:end] for begin, end in zip(tokens.begins, tokens.ends, strict=True)]


@pytest.mark.parametrize(
    ("text", "words", "raw"),
    [
        ("He said “don’t”.", ["He", "said", '"', "do", "n't", '"', "."], ["He", "said", "“", "do", "n’t", "”", "."]),
        ("1990–2000, Anglo-Saxon", ["1990", "–", "2000", ",", "Anglo", "-", "Saxon"], None),
        ("a -- b 5/6 $5.6 50%", ["a", "--", "b", "5", "/", "6", "$", "5.6", "50", "%"], None),
        ("``Old'' quotes", ['"', "Old", '"', "quotes"], ["``", "Old", "''", "quotes"]),
        ("soft\u00adhyphen  and\n\ttabs", ["softhyphen", "and", "tabs"], ["soft\u00adhyphen", "and", "tabs"]),
        # The biLM's tokeniser gives a sentence that ends in an abbreviation a full stop that the text does not have.
        ("in the U.S. The end in the U.S.", ["in", "the", "U.S.", "The", "end", "in", "the", "U.S."], None),
        ("", [], None),
        (" \u200b ", [], None),
    ],
)
def test_words_and_their_characters(text, words, raw):
    assert pieces(text) == (words, raw or words)


def test_plain_words_are_those_of_the_bilm():
    text = "Mr. Smith's dog can't have eaten 1,000 bones (or 3.5 pounds) at 3:30 p.m., said the U.S. Army. Why not?"
    bilm = [word for sentence in tokenise(text) for word in sentence]
    assert list(tokens_of(text).words) == bilm


def test_a_chunk_longer_than_any_word_loses_nothing():
    for text in ("x" * 500, "http://a.b/" + "c" * 300 + ". Then .5", "中文" * 100 + "。好", "é" * 65 + "."):
        words, raw = pieces(text)
        assert "".join(words) == "".join(raw) == text.replace(" ", "")
        assert max(len(word.encode()) for word in words) <= 64


def test_random_texts_are_covered_exactly_once():
    draw = random.Random(5)
    signs = "abcXYZ019   \n.,.,''``\"“”‘’„-–—−/~°%$£€()[]&@#…!?;:\u200b\u00ad\ufeffé中。।'s"
    words = ["U.S.", "Mr.", "don't", "p.m.", "The", "...", "--", "''", "cannot", "http://x.y/z", "e.g.", "Inc.", "'90s"]
    for _ in range(1500):
        parts = [draw.choice(words) if draw.random() < 0.3 else draw.choice(signs) for _ in range(draw.randint(0, 40))]
        text = "".join(parts) if draw.random() < 0.5 else " ".join(parts)
        tokens = tokens_of(text)
        places = list(zip(tokens.begins, tokens.ends, strict=True))
        assert all(begin < end for begin, end in places)
        assert all(before[1] <= after[0] for before, after in pairwise(places))
        covered = {i for begin, end in places for i in range(begin, end)}
        left = [text[i] for i in range(len(text)) if i not in covered]
        assert all(sign.isspace() or sign in INVISIBLE for sign in left), repr(text)


def test_spans_of_tokens_and_characters():
    text = "The Anglo-Saxon king, he died."
    tokens = tokens_of(text)  # The Anglo - Saxon king , he died .
    assert tokens.covering(4, 15) == (1, 4)
    assert tokens.aligned(4, 15)
    assert text[slice(*tokens.place(1, 4))] == "Anglo-Saxon"
    assert tokens.covering(5, 12) == (1, 4)  # from within one token to within another
    assert not tokens.aligned(5, 12)
    assert tokens.covering(3, 4) == (1, 2)  # white space alone: the token behind it
    assert tokens.covering(len(text), len(text) + 1) == (8, 9)  # nothing there: the nearest
    for first in range(len(tokens)):
        for past in range(first + 1, len(tokens) + 1):
            assert tokens.covering(*tokens.place(first, past)) == (first, past)
            assert tokens.aligned(*tokens.place(first, past))
