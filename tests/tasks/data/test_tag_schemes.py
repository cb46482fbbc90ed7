"""Tag schemes: tags to spans and back, compared with seqeval and with enumeration."""

import itertools
import random

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from tasks.data.text import Span, bioes, iob2, may_follow, may_follow_in_iob2, parse_tag, scheme_of, spans_of

ALL_TAGS = ["O", *(f"{prefix}-{label}" for label in ("PER", "LOC") for prefix in "BIES")]


class TestParseTag:
    @pytest.mark.parametrize(
        ("tag", "expected"),
        [
            ("O", ("O", "")),
            ("B-PER", ("B", "PER")),
            ("L-PER", ("E", "PER")),
            ("U-PER", ("S", "PER")),
            ("I-creative-work", ("I", "creative-work")),
        ],
    )
    def test_prefix_and_label(self, tag, expected):
        assert parse_tag(tag) == expected

    @pytest.mark.parametrize("tag", ["", "B", "B-", "-PER", "X-PER", "PER", "BPER", "o", "b-PER", "0"])
    def test_any_other_tag_is_an_error_that_shows_it(self, tag):
        with pytest.raises(ValueError, match=r"expected a tag such as O, B-PER or I-PER, found") as caught:
            parse_tag(tag)
        assert repr(tag) in str(caught.value)


class TestSpansOf:
    @pytest.mark.parametrize(
        ("tags", "expected"),
        [
            # IOB1: B only where an entity follows another of its label at once
            ("I-PER I-PER O I-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
            ("I-PER B-PER I-PER", [("PER", 0, 1), ("PER", 1, 3)]),
            ("I-PER I-LOC I-LOC", [("PER", 0, 1), ("LOC", 1, 3)]),
            # IOB2
            ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
            ("B-PER B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2), ("PER", 2, 3)]),
            ("B-PER I-PER B-LOC I-LOC", [("PER", 0, 2), ("LOC", 2, 4)]),
            # BIOES
            ("S-PER S-PER O B-LOC I-LOC E-LOC", [("PER", 0, 1), ("PER", 1, 2), ("LOC", 3, 6)]),
            ("B-PER E-PER B-PER E-PER", [("PER", 0, 2), ("PER", 2, 4)]),
            # BIOUL
            ("U-PER O B-LOC I-LOC L-LOC", [("PER", 0, 1), ("LOC", 2, 5)]),
            ("B-PER L-PER U-PER", [("PER", 0, 2), ("PER", 2, 3)]),
            # broken sequences, as conlleval takes them
            ("O I-PER", [("PER", 1, 2)]),
            ("B-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
            ("B-PER O I-PER", [("PER", 0, 1), ("PER", 2, 3)]),
            ("E-PER", [("PER", 0, 1)]),
            ("E-PER E-PER", [("PER", 0, 1), ("PER", 1, 2)]),
            ("I-PER E-PER I-PER", [("PER", 0, 2), ("PER", 2, 3)]),
            ("S-PER I-PER", [("PER", 0, 1), ("PER", 1, 2)]),
            ("B-PER S-PER", [("PER", 0, 1), ("PER", 1, 2)]),
            ("B-PER", [("PER", 0, 1)]),
            ("O O", []),
            ("", []),
        ],
    )
    def test_by_hand(self, tags, expected):
        assert spans_of(tags.split()) == [Span(*span) for span in expected]

    def test_agrees_with_seqeval_on_every_short_sequence(self):
        for length in range(1, 5):
            for tags in itertools.product(ALL_TAGS, repeat=length):
                theirs = [Span(label, start, end + 1) for label, start, end in get_entities(list(tags))]
                assert spans_of(tags) == theirs, tags

    def test_agrees_with_seqeval_on_long_random_sequences(self):
        draw = random.Random(0)
        for _ in range(500):
            tags = draw.choices(ALL_TAGS, k=draw.randrange(1, 40))
            assert spans_of(tags) == [Span(label, start, end + 1) for label, start, end in get_entities(tags)]


def random_spans(draw, length):
    """Spans of any length and label, many of them adjacent."""
    spans, position = [], 0
    while position < length:
        end = min(length, position + draw.randrange(1, 4))
        if draw.random() < 0.6:
            spans.append(Span(draw.choice(["PER", "LOC", "MISC"]), position, end))
        position = end
    return spans


class TestWriting:
    def test_by_hand(self):
        spans = [Span("PER", 0, 1), Span("LOC", 1, 3), Span("ORG", 4, 7)]
        assert bioes(spans, 8) == ["S-PER", "B-LOC", "E-LOC", "O", "B-ORG", "I-ORG", "E-ORG", "O"]
        assert iob2(spans, 8) == ["B-PER", "B-LOC", "I-LOC", "O", "B-ORG", "I-ORG", "I-ORG", "O"]

    @pytest.mark.parametrize("write", [bioes, iob2])
    def test_what_is_written_is_read_back(self, write):
        draw = random.Random(1)
        for length in range(60):
            spans = random_spans(draw, length)
            tags = write(spans, length)
            assert len(tags) == length
            assert spans_of(tags) == spans


class TestSchemeOf:
    @pytest.mark.parametrize(
        ("sentences", "expected"),
        [
            (["I-PER O", "B-LOC"], "IOB1"),
            (["B-PER I-PER", "O I-LOC"], "IOB1"),
            (["I-PER I-LOC"], "IOB1"),
            (["B-PER I-LOC"], "IOB1"),
            (["B-PER I-PER O", "B-LOC B-LOC"], "IOB2"),
            (["O O"], "IOB2"),
            ([], "IOB2"),
            (["B-PER E-PER"], "BIOES"),
            (["O S-PER"], "BIOES"),
            (["O U-PER"], "BIOES"),
            (["B-PER I-PER L-PER"], "BIOES"),
            (["B-PER", "I-PER"], "IOB1"),  # a sentence's end ends its entities
        ],
    )
    def test_by_hand(self, sentences, expected):
        assert scheme_of(tags.split() for tags in sentences) == expected


def bioes_piece(label, size):
    return (f"S-{label}",) if size == 1 else (f"B-{label}", *[f"I-{label}"] * (size - 2), f"E-{label}")


def iob2_piece(label, size):
    return (f"B-{label}", *[f"I-{label}"] * (size - 1))


def valid_sequences(length, labels, piece):
    """All sequences of a length in a scheme, built from its pieces rather than from rules about neighbours."""
    if length == 0:
        yield ()
        return
    for rest in valid_sequences(length - 1, labels, piece):
        yield ("O", *rest)
    for size in range(1, length + 1):
        for label in labels:
            for rest in valid_sequences(length - size, labels, piece):
                yield (*piece(label, size), *rest)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("allowed", "piece", "tags_of_scheme"),
    [
        (may_follow, bioes_piece, ALL_TAGS),
        (may_follow_in_iob2, iob2_piece, [tag for tag in ALL_TAGS if tag[0] in "OBI"]),
    ],
)
def test_may_follow_allows_exactly_the_valid_sequences(length, allowed, piece, tags_of_scheme):
    valid = set(valid_sequences(length, ["PER", "LOC"], piece))
    for tags in itertools.product(tags_of_scheme, repeat=length):
        path = ["", *tags, ""]
        assert all(allowed(a, b) for a, b in itertools.pairwise(path)) == (tags in valid), tags
