"""Tag schemes: conversion between labelled spans and IOB1, IOB2 and BIOES (or BIOUL) tags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from elmo.common.errors import excerpt

_PREFIXES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}


class Span(NamedTuple):
    """A labelled span of tokens; `end` is the position after its last one."""

    label: str
    start: int
    end: int


@cache  # there are few tags and many tokens
def parse_tag(tag: str) -> tuple[str, str]:
    """A tag's prefix (O, B, I, E or S) and its label ("" for O).

    Raises:
        ValueError: the tag is neither O nor PREFIX-LABEL.
    """
    if tag == "O":
        return "O", ""
    prefix, dash, label = str(tag).partition("-")
    if not dash or not label or prefix not in _PREFIXES:
        raise ValueError(f"expected a tag such as O, B-PER or I-PER, found {excerpt(tag)}")
    return _PREFIXES[prefix], label


def spans_of(tags: Sequence[str]) -> list[Span]:
    """The spans of tags in any scheme, by the rules of conlleval.

    A span begins at B or S, where the label changes, and after the end of another span. This works for all schemes, and
    reads malformed sequences as the official scorer does.
    """
    spans: list[Span] = []
    start, label, ended = 0, "", True
    for position, tag in enumerate([*tags, "O"]):
        prefix, next_label = parse_tag(tag)
        begins = prefix in ("B", "S") or ended or next_label != label
        if label and begins:
            spans.append(Span(label, start, position))
        if begins:
            start, label = position, next_label
        ended = prefix in ("E", "S", "O")
    return spans


def bioes(spans: Iterable[Span], length: int) -> list[str]:
    """The BIOES tags of these spans over `length` tokens."""
    tags = ["O"] * length
    for label, start, end in spans:
        if end - start == 1:
            tags[start] = f"S-{label}"
        else:
            tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 2), f"E-{label}"]
    return tags


def iob2(spans: Iterable[Span], length: int) -> list[str]:
    """The IOB2 (or BIO) tags of these spans over `length` tokens."""
    tags = ["O"] * length
    for label, start, end in spans:
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    """The scheme of the tags: BIOES, IOB1 or IOB2 (also if the tags fit both IOB1 and IOB2)."""
    scheme = "IOB2"
    for tags in sentences:
        before = ""
        for tag in tags:
            prefix, label = parse_tag(tag)
            if prefix in ("E", "S"):
                return "BIOES"
            if prefix == "I" and label != before:
                scheme = "IOB1"  # only in IOB1 may a span begin with I
            before = label
    return scheme


def may_follow(first: str, second: str) -> bool:
    """Whether BIOES allows the second tag right after the first; "" means the sentence's start and end."""
    before, before_label = parse_tag(first or "O")
    after, after_label = parse_tag(second or "O")
    if before in ("B", "I"):
        return after in ("I", "E") and before_label == after_label
    return after in ("O", "B", "S")


def may_follow_in_iob2(first: str, second: str) -> bool:
    """Whether IOB2 allows the second tag right after the first; "" means the sentence's start and end."""
    _, before_label = parse_tag(first or "O")  # of O it is "", which no I has
    after, after_label = parse_tag(second or "O")
    return after != "I" or before_label == after_label
