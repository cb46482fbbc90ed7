"""Kinds of test examples: numbers between edges, by enumeration, and casing, by lines written here."""

import pytest

from tasks.metrics import by_number, casing


def test_every_number_has_the_label_that_names_it():
    grouping = by_number(range(1, 41), (10, 20, 30), "tokens")
    ranges = {
        "under 10 tokens": range(10),
        "10 to 19 tokens": range(10, 20),
        "20 to 29 tokens": range(20, 30),
        "30 tokens or more": range(30, 99),
    }
    assert list(grouping.labels) == list(ranges)
    for number, label in zip(range(1, 41), grouping.of, strict=True):
        assert number in ranges[grouping.labels[label]]


def test_what_follows_the_decimal_point_does_not_count():
    assert by_number([19.99, 20.0, 24.99, 25.0], (20, 25), "%").of == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("The ferry left at noon .", "prose"),
        ("ROWING - Larsen wins by a boat length", "prose"),
        ("ROWING - LARSEN WINS", "ALL CAPS"),
        ("ROWING - LARSEN BEATS FIELD OF 46 BOATS AGAIN", "ALL CAPS"),
        ("RESULTS", "ALL CAPS"),
        ("BERGEN 2021-03-04", "table or dateline"),
        ("NEW BERGEN 2021-03-04", "table or dateline"),
        ("PORT ELM 11 14 4 99", "table or dateline"),
        ("3. Ada Moss ( Norway ) 1:22.4", "table or dateline"),
        ("Ada Moss", "no lower-case word"),
        ("a B", "no lower-case word"),  # a letter alone is no word: "v" stands between teams
        (". . .", "no lower-case word"),
        ("我们 打 篮球", "no lower-case word"),
    ],
)
def test_casing(line, expected):
    assert casing(line.split()) == expected
