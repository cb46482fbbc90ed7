"""SNLI jsonl files: one pair of sentences per line, with the label on which the annotators agreed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.common.errors import excerpt
from elmo.common.files import utf8_lines
from elmo.tokeniser import Tokeniser
from tasks.batch import Sentence, Split
from tasks.data.text_files import TREEBANK_ESCAPES, json_object, parsed_lines, parsed_rows

LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"  # the annotators did not agree
FIELDS = ("gold_label", "sentence1", "sentence2")


@dataclass
class PairReader:
    """The differences between files of pairs.

    Attributes:
        parses: whether to take the tokens from sentence1_binary_parse and sentence2_binary_parse if a line has them.
            Otherwise sentence1 and sentence2 are tokenised in the style of the Penn Treebank.
    """

    parses: bool = True


@dataclass(frozen=True)
class PairExample:
    """A premise, a hypothesis and their label; None if the annotators did not agree."""

    id: str
    premise: Sentence
    hypothesis: Sentence
    label: str | None


def read_pairs(path: Path, reader: PairReader) -> list[PairExample]:
    """The pairs of a jsonl file, including those without a label."""
    words = _Words(reader)

    def pair(name: str, line: str) -> PairExample | None:
        return _example(name, json_object(line), words) if line.strip() else None

    return list(filter(None, parsed_lines(utf8_lines(path), path, "Is this a file of SNLI's format?", pair)))


def read_rows(rows: Sequence[Mapping[str, Any]], split: Split, reader: PairReader) -> list[PairExample]:
    """The pairs in rows of the hub with `gold_label`, `sentence1` and `sentence2`."""
    words = _Words(reader)

    def pair(name: str, row: Mapping[str, Any]) -> PairExample:
        label = row["gold_label"]
        return _example(name, {**row, "gold_label": NO_LABEL if label is None else label}, words)

    return list(parsed_rows(rows, split, pair))


def raw_pair(name: str, fields: Mapping[str, Any]) -> PairExample:
    """A pair of raw texts without a label: `sentence1`, the premise, and `sentence2`, the hypothesis."""
    return _example(name, {**fields, "gold_label": NO_LABEL}, _Words(PairReader()))


def _example(name: str, row: Mapping[str, Any], words: _Words) -> PairExample:
    absent = [field for field in FIELDS if field not in row]
    if absent:
        raise ValueError(f"expected the fields {', '.join(FIELDS)}, found no {', '.join(absent)}")
    for field in FIELDS:
        if not isinstance(row[field], str):
            raise ValueError(f"expected text in {field}, found {excerpt(row[field])}")
    label = row["gold_label"]
    if label not in (*LABELS, NO_LABEL):
        raise ValueError(f"expected the label {', '.join(LABELS)} or {NO_LABEL}, found {excerpt(label)}")
    premise, hypothesis = (words.of(row[field], row.get(f"{field}_binary_parse")) for field in FIELDS[1:])
    for field, sentence in (("sentence1", premise), ("sentence2", hypothesis)):
        if not sentence and label != NO_LABEL:
            raise ValueError(f"expected words in {field}, found none")
    return PairExample(name, premise, hypothesis, None if label == NO_LABEL else label)


class _Words:
    """Tokenises texts. Equal sentences and words share one object: each premise occurs three times."""

    def __init__(self, reader: PairReader) -> None:
        self._parses = reader.parses
        self._tokeniser = Tokeniser()
        self._known: dict[str, Sentence] = {}

    def of(self, text: str, parse: object) -> Sentence:
        """The words of the binary parse, "( ( A man ) sleeps )", if there is one, else of the text."""
        source = parse if self._parses and isinstance(parse, str) and parse.strip() else text
        if source not in self._known:
            if source is text:
                words = [word for part in self._tokeniser.paragraph(" ".join(text.split())) for word in part]
            else:
                words = [TREEBANK_ESCAPES.get(word, word) for word in source.split() if word not in ("(", ")")]
            self._known[source] = tuple(map(sys.intern, words))
        return self._known[source]
