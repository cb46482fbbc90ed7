"""Tests of elmo.common.durations."""

import pytest

from elmo.common.files import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (100, "1.7 min"), (5300, "88.3 min"), (9000, "2.5 h"), (3_672_000, "1,020.0 h")],
)
def test_the_unit_fits_the_size(seconds, text):
    assert duration(seconds) == text
