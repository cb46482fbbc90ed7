"""Outputs of a run as short pieces of text, with marks where they differ from gold.

Outputs are JSON of any task, so what is shown follows from their shape: labels, tags of words, spans, chains of spans.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Fields = Mapping[str, object]
Mark = Literal["", "wrong", "missing"]
Spans = Mapping[tuple[str, int, int], Mapping[str, Any]]  # by label, start and end
WORDS = "tokens"  # the field with the words of an example, which spans count


@dataclass(frozen=True)
class OutputPiece:
    """A piece of an output: a label, a span or a mention; "missing" if gold has it and the output has not."""

    text: str
    mark: Mark = ""


def example_texts(example: Fields) -> list[tuple[str, str]]:
    """The texts of an example, each with its name: all words, words at a position, and other texts."""
    words = _words(example)
    found = [("text", " ".join(words))] if words else []
    for name, value in example.items():
        if isinstance(value, str):
            found.append((name, value))
        elif isinstance(value, int) and 0 <= value < len(words):
            found.append((name, words[value]))
    return found


def output_lines(example: Fields, output: Fields, gold: Fields, right: bool) -> list[list[OutputPiece]]:
    """The pieces of an output, in lines: one for each chain, otherwise one for each field.

    Args:
        example: The words or texts.
        output: What is shown.
        gold: What it is compared with.
        right: Whether the output scores as right; it then has no marks, though it may differ from gold.
    """
    lines: list[list[OutputPiece]] = []
    for name, value in output.items():
        lines += _field_lines(value, gold.get(name), _words(example), len(output) == 1)
    if right:
        lines = [[replace(piece, mark="") for piece in line if piece.mark != "missing"] for line in lines]
    elif not any(piece.mark for line in lines for piece in line):  # gold has another form, such as several answers
        lines = [[replace(piece, mark="wrong") for piece in line] for line in lines]
    return [line for line in lines if line] or [[OutputPiece("(none)", "" if right else "wrong")]]


def _field_lines(value: object, gold: object, words: Sequence[str], alone: bool) -> list[list[OutputPiece]]:
    if isinstance(value, list):
        other = gold if isinstance(gold, list) else []
        kinds = [*value, *other]
        if all(map(_is_span, kinds)):
            return [_pieces(_by_key(value), _by_key(other))]
        if all(isinstance(item, list) and all(map(_is_span, item)) for item in kinds):
            return _chain_lines(value, other)
        if all(isinstance(item, str) for item in kinds):
            return [_text_pieces(value, gold, words, alone)]
        if all(isinstance(item, int | float) for item in kinds):
            return []  # a place in a text that another field has
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return [[OutputPiece(text, "wrong" if gold is not None and gold != value else "")]]


def _text_pieces(texts: Sequence[str], gold: object, words: Sequence[str], alone: bool) -> list[OutputPiece]:
    """Tags of words, unless another field says the same by spans; otherwise texts of which any is right."""
    if len(texts) != len(words):
        return [OutputPiece(text) for text in texts]
    if not alone:
        return []
    right = gold if isinstance(gold, list) and len(gold) == len(texts) else texts
    return [
        OutputPiece(f"{word}/{tag}", "" if tag == own else "wrong")
        for word, tag, own in zip(words, texts, right, strict=True)
    ]


def _chain_lines(chains: Sequence[Any], gold: Sequence[Any]) -> list[list[OutputPiece]]:
    """A line for each chain, paired with the gold chain that shares most mentions with it; gold chains without one."""
    found, correct = (list(filter(None, map(_by_key, own))) for own in (chains, gold))  # without empty chains
    shared = [(len(own.keys() & other.keys()), i, j) for i, own in enumerate(found) for j, other in enumerate(correct)]
    partner: dict[int, int] = {}
    for count, i, j in sorted(shared, key=lambda one: (-one[0], one[1:])):
        if count and i not in partner and j not in partner.values():
            partner[i] = j
    pairs = [(own, correct[partner[i]] if i in partner else {}) for i, own in enumerate(found)]
    pairs += [({}, other) for j, other in enumerate(correct) if j not in partner.values()]
    pairs.sort(key=lambda pair: min(key[1:] for key in (*pair[0], *pair[1])))
    return [_pieces(own, other) for own, other in pairs]


def _by_key(spans: Sequence[Any]) -> Spans:
    """The spans by label and place; two are the same if these are."""
    return {(str(span.get("label", "")), span["start"], span["end"]): span for span in spans}


def _pieces(found: Spans, correct: Spans) -> list[OutputPiece]:
    """The spans in the order of the text, with those of gold that are missing."""
    every = sorted({**correct, **found}.items(), key=lambda item: item[0][1:])
    return [OutputPiece(_named(span), _mark(key in found, key in correct)) for key, span in every]


def _mark(found: bool, correct: bool) -> Mark:
    if found and not correct:
        return "wrong"
    return "" if found else "missing"


def _is_span(value: object) -> bool:
    return isinstance(value, Mapping) and {"text", "start", "end"} <= value.keys()


def _named(span: Mapping[str, Any]) -> str:
    return f"{span.get('label', '')} {span['text']}".strip()


def _words(example: Fields) -> list[str]:
    words = example.get(WORDS)
    return [str(word) for word in words] if isinstance(words, list) else []
