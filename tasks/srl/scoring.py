"""Scores of semantic roles by the rules of srl-eval, the official scorer of CoNLL-2005 and CoNLL-2012."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tasks.data.tag_schemes import Span
from tasks.metrics import SPAN_METRICS, Scores, span_scores

PREDICATE = "V"
CONTINUED = "C-"
# The predicates of a sentence share its words, so that intervals leave out whole sentences.
SRL_METRICS = {name: replace(metric, unit="sentence") for name, metric in SPAN_METRICS.items()}
OTHER = "other"
KINDS = {"V": "verbal", "N": "nominal", "J": "adjectival"}  # by the first letter of the predicate's part of speech


class Argument(NamedTuple):
    """An argument; `pieces` are start and end of each of its spans, more than one if it is discontinuous."""

    label: str
    pieces: tuple[tuple[int, int], ...]


def counted_arguments(spans: Iterable[Span]) -> list[Argument]:
    """The arguments that are counted, of spans in their order in the sentence.

    V is not counted. C-X continues the last X before it: together they are one argument X, which is right if all its
    pieces are. Without an X before it, C-X is an X. R-X is an argument of its own.
    """
    pieces: list[tuple[str, list[tuple[int, int]]]] = []
    last: dict[str, list[tuple[int, int]]] = {}  # label -> the pieces of its last argument
    for label, start, end in spans:
        continued = label.removeprefix(CONTINUED)
        if label != continued and continued in last:
            last[continued].append((start, end))
        else:
            last[continued] = [(start, end)]
            pieces.append((continued, last[continued]))
    return [Argument(label, tuple(own)) for label, own in pieces if label != PREDICATE]


def kind_of(pos: str) -> str:
    """Verbal, nominal, adjectival or other: the kind of a predicate by its part of speech in the Penn treebank."""
    return KINDS.get(pos[:1], OTHER)


def srl_scores(
    gold: Sequence[Iterable[Span]],
    predicted: Sequence[Iterable[Span]],
    sentences: Sequence[str],
    predicates: Sequence[str | None],
) -> Scores:
    """F1, precision and recall of arguments, also by label and by kind of predicate.

    Args:
        gold: the spans of each example.
        predicted: the predicted spans.
        sentences: what the examples of one sentence share; their number among the scores is `sentence`.
        predicates: the part of speech of each example's predicate; None for an example without one, which has no
            arguments for any prediction.
    """
    right = [counted_arguments(spans) for spans in gold]
    guessed = [
        [] if pos is None else counted_arguments(spans) for spans, pos in zip(predicted, predicates, strict=True)
    ]
    scores = span_scores(right, guessed)
    numbers: dict[str, int] = {}
    examples = [
        {**counts, "sentence": numbers.setdefault(sentence, len(numbers))}
        for counts, sentence in zip(scores.examples, sentences, strict=True)
    ]
    details = {**scores.details, "predicates": _by_kind(right, guessed, predicates)}
    return Scores(scores.values, details, examples)


def _by_kind(
    right: Sequence[list[Argument]], guessed: Sequence[list[Argument]], predicates: Sequence[str | None]
) -> Mapping[str, Mapping[str, float]]:
    """The scores of each kind of predicate, with its gold arguments and predicates."""
    kinds = [None if pos is None else kind_of(pos) for pos in predicates]
    found = {}
    for kind in (*KINDS.values(), OTHER):
        own = [number for number, other in enumerate(kinds) if other == kind]
        if own:
            values = span_scores([right[number] for number in own], [guessed[number] for number in own]).values
            found[kind] = {**values, "gold": sum(len(right[number]) for number in own), "predicates": len(own)}
    return found
