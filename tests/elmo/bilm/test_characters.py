import numpy as np
import pytest

from elmo.bilm.sentences import character_ids, spell

START, END, PAD = 258, 259, 260


@pytest.mark.parametrize(
    ("word", "middle"),
    [
        ("cat", [99, 97, 116]),
        ("U.S.", [85, 46, 83, 46]),
        ("é", [0xC3, 0xA9]),
        ("😀", [0xF0, 0x9F, 0x98, 0x80]),
        ("中文", [0xE4, 0xB8, 0xAD, 0xE6, 0x96, 0x87]),
        ("", []),
        ("a\ud800b", [97, 98]),  # a lone surrogate has no bytes
        ("\x00", [0]),
        ("<S>", [256]),
        ("</S>", [257]),
        ("<s>", [60, 115, 62]),
        ("x" * 48, [120] * 48),
        ("x" * 49, [120] * 48),
        ("x" * 47 + "é", [120] * 47 + [0xC3]),  # bytes are cut, not characters
    ],
)
def test_spelling(word, middle):
    assert spell(word) == [START, *middle, END]
    assert character_ids([word]).tolist() == [[START, *middle, END] + [PAD] * (48 - len(middle))]


def test_width_follows_the_longest_word_and_the_room():
    ids = character_ids(["a", "abcd"], room=3)
    assert ids.tolist() == [
        [START, 97, END, PAD, PAD, PAD, PAD, PAD, PAD],
        [START, 97, 98, 99, 100, END, PAD, PAD, PAD],
    ]


@pytest.mark.parametrize(("length", "width"), [(0, 9), (40, 49), (41, 50), (42, 50), (48, 50), (60, 50)])
def test_room_is_limited_to_the_width_of_the_model(length, width):
    assert character_ids(["x" * length], room=7).shape == (1, width)


def test_another_width():
    assert character_ids(["abcdef"], max_characters=6).tolist() == [[START, 97, 98, 99, 100, END]]


def test_no_words():
    assert character_ids([]).shape == (0, 50)
    assert character_ids(["a"]).dtype == np.int64
