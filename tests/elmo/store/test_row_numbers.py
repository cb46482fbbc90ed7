"""Tests of row numbers, against a loop that counts them."""

import pytest

from elmo.store.row_numbers import (
    NOWHERE,
    first_within,
    in_batches,
    joined_numbers,
    padded_numbers,
    running_numbers,
    starts_from,
)

A, B, C, EMPTY = ("a",), ("b", "b"), ("c", "c", "c"), ()


def test_sentences_follow_each_other_from_a_row_on():
    assert starts_from(5, [B, C, A]) == {B: 5, C: 7, A: 10}
    assert starts_from(5, []) == {}


@pytest.mark.parametrize(
    "starts",
    [[4, 9, 1, 20], [4, NOWHERE, 1, 20], [NOWHERE] * 4],
    ids=["all", "one is nowhere", "none"],
)
def test_numbers_of_rows_are_0_for_padding_and_for_what_is_nowhere(starts):
    sentences = [B, C, EMPTY, A]
    counted = [
        [0 if start == NOWHERE else start + step for step in range(len(sentence))]
        for start, sentence in zip(starts, sentences, strict=True)
    ]
    assert running_numbers(starts, sentences).tolist() == [number for row in counted for number in row]
    assert padded_numbers(starts, sentences).tolist() == [row + [0] * (3 - len(row)) for row in counted]
    texts = [counted[0] + counted[1], counted[2], counted[3]]
    assert joined_numbers(starts, sentences, [2, 1, 1]).tolist() == [row + [0] * (5 - len(row)) for row in texts]
    assert joined_numbers(starts, sentences, [1] * 4).tolist() == padded_numbers(starts, sentences).tolist()


def test_no_sentence_has_no_rows():
    assert running_numbers([], []).shape == (0,)
    assert padded_numbers([], []).shape == (0, 0)
    assert padded_numbers([7], [EMPTY]).shape == (1, 0)


@pytest.mark.parametrize(("tokens", "fitting"), [(0, []), (2, [A]), (3, [A, B]), (5, [A, B]), (6, [A, B, C])])
def test_what_fits_is_taken_from_the_front(tokens, fitting):
    assert first_within(tokens, [A, B, C]) == fitting


def test_a_batch_has_so_many_tokens_at_most_or_one_longer_sentence():
    assert list(in_batches(3, [A, B, B, C, ("d",) * 9])) == [[A, B], [B], [C], [("d",) * 9]]
    assert list(in_batches(3, [])) == []
