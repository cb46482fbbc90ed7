"""CoNLL-2012 columns: documents with predicates, their arguments, and mentions in coreference chains.

Columns: document, part, word number, word, POS, parse, lemma, frameset, word sense, speaker, named entities, then one
column of arguments for each predicate, then coreference. OntoNotes separates them by spaces, other files by tabs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmo.common.errors import InputError, excerpt
from elmo.common.files import utf8_lines
from tasks.data.tag_schemes import Span
from tasks.data.text_files import TREEBANK_ESCAPES

COLUMNS = 12  # of a sentence without predicates
NUMBER, WORD, POS, SENSE, SPEAKER, FIRST_ARGUMENTS = 2, 3, 4, 7, 9, 11
EMPTY = ("-", "_")
ESCAPES = {**TREEBANK_ESCAPES, "/.": ".", "/?": "?", "/-": "-"}  # the last three in OntoNotes' conversations
NO_WORD = "[WORD]"  # in place of every word in the files that may be given away

BEGIN = re.compile(r"#begin document \((.*)\); part (\d{1,9})\s*")
END = "#end document"
ARGUMENT = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")
MENTION = re.compile(r"(\()?(\d{1,9})(\))?")
REMEDY = "Correct the line, or check data.splits: files for this task have CoNLL-2012 columns"


class Mention(NamedTuple):
    """A span of words in a coreference chain; `end` is the position after its last word."""

    start: int
    end: int
    chain: int


@dataclass(frozen=True)
class Frame:
    """A predicate and its arguments.

    Attributes:
        predicate: its position in the sentence.
        arguments: spans that do not overlap, in their order, among them V: the words of the predicate itself.
    """

    predicate: int
    arguments: tuple[Span, ...]


@dataclass(frozen=True)
class ConllSentence:
    """A sentence; `line` is its first line in the file.

    Attributes:
        line: from 1.
        words: without treebank escapes.
        pos: part of speech of each word; "" where there is none, as for `speakers`.
        speakers: speaker or author of each word.
        frames: one for each predicate, in their order.
        mentions: sorted.
    """

    line: int
    words: tuple[str, ...]
    pos: tuple[str, ...]
    speakers: tuple[str, ...]
    frames: tuple[Frame, ...]
    mentions: tuple[Mention, ...]


@dataclass(frozen=True)
class ConllDocument:
    """One part of a document; the chains of two parts are independent."""

    id: str
    part: int
    sentences: tuple[ConllSentence, ...]

    @property
    def genre(self) -> str:
        """The first part of an id such as nw/wsj/00/wsj_0001; "" for an id of one part."""
        genre, slash, _ = self.id.partition("/")
        return genre if slash else ""


class _Line(NamedTuple):
    path: Path
    number: int
    text: str
    cells: list[str]

    def malformed(self, expected: str, remedy: str = REMEDY) -> InputError:
        """What to raise for this line."""
        return InputError(f"{self.path}, line {self.number}: {expected}: {excerpt(self.text)}. {remedy}")


def read_documents(path: Path) -> Iterator[ConllDocument]:
    """The documents of a file, read line by line.

    Raises:
        InputError: a line is malformed; the message names file, line and remedy.
    """
    opened: tuple[str, int] | None = None
    sentences: list[ConllSentence] = []
    rows: list[_Line] = []
    number = 0
    for number, text in enumerate(utf8_lines(path), start=1):
        line = _Line(path, number, text, text.split("\t") if "\t" in text else text.split())
        begin = BEGIN.fullmatch(text)
        if text.strip() and begin is None and text.strip() != END:
            if opened is None:
                raise line.malformed("expected '#begin document (ID); part 000', found another line")
            _check_columns(line, rows)
            rows.append(line)
            continue
        if rows:
            sentences.append(_sentence(rows))
            rows = []
        if begin is not None:
            if opened is not None:
                raise line.malformed(f"expected '{END}', found the next document")
            opened, sentences = (begin[1], int(begin[2])), []
        elif text.strip():
            if opened is None:
                raise line.malformed("expected '#begin document (ID); part 000', found an end")
            yield ConllDocument(*opened, tuple(sentences))
            opened = None
    if opened is not None:
        raise InputError(
            f"{path}, line {number}: expected '{END}', found the end of the file. Part of the file seems to be lost: "
            "copy it again"
        )


def _check_columns(line: _Line, before: Sequence[_Line]) -> None:
    """Raises an InputError unless a line continues the lines of its sentence before it."""
    cells = line.cells
    if len(cells) < COLUMNS:
        raise line.malformed(f"expected at least {COLUMNS} columns, found {len(cells)}")
    if before and len(cells) != len(before[0].cells):
        first = len(before[0].cells)
        raise line.malformed(f"expected {first} columns as in the sentence's first line, found {len(cells)}")
    if cells[NUMBER] != str(len(before)):
        expected = f"expected word number {len(before)} in column {NUMBER + 1}, found {excerpt(cells[NUMBER])}"
        raise line.malformed(expected, "Put a blank line between sentences and none within them")
    word = cells[WORD]
    if not word or word.isspace():
        raise line.malformed(f"expected a word in column {WORD + 1}, found none")
    if word == NO_WORD:
        raise line.malformed(
            f"expected a word in column {WORD + 1}, found {NO_WORD}",
            "Make the files with words from your copy of OntoNotes, with the script skeleton2conll.sh of CoNLL-2012",
        )


def _sentence(rows: Sequence[_Line]) -> ConllSentence:
    cells = [row.cells for row in rows]
    predicates = [position for position, row in enumerate(cells) if row[SENSE] not in EMPTY]
    # LitBank has one column of placeholders.
    columns = [column for column in range(FIRST_ARGUMENTS, len(cells[0]) - 1) if cells[0][column] not in EMPTY]
    if len(columns) != len(predicates):
        raise rows[0].malformed(
            f"expected one column of arguments for each predicate, found {len(columns)} columns and {len(predicates)} "
            f"words with a frameset in column {SENSE + 1}"
        )
    frames = [Frame(predicate, _arguments(rows, column)) for predicate, column in zip(predicates, columns, strict=True)]
    return ConllSentence(
        rows[0].number,
        tuple(ESCAPES.get(row[WORD], row[WORD]) for row in cells),
        tuple("" if row[POS] in EMPTY else row[POS] for row in cells),
        tuple("" if row[SPEAKER] in EMPTY else row[SPEAKER] for row in cells),
        tuple(frames),
        _mentions(rows),
    )


def _arguments(rows: Sequence[_Line], column: int) -> tuple[Span, ...]:
    """The spans of a column such as (ARG0*, *), (V*)."""
    spans: list[Span] = []
    label, start = "", 0
    for position, row in enumerate(rows):
        if row.cells[column] == "*":  # most are
            continue
        cell = ARGUMENT.fullmatch(row.cells[column])
        where = f"in column {column + 1}"
        if cell is None:
            found = excerpt(row.cells[column])
            raise row.malformed(f"expected an argument such as (ARG0*, *, *) or (V*) {where}, found {found}")
        if cell[1] and label:
            raise row.malformed(f"expected {excerpt(label)} to end before {excerpt(cell[1])} begins {where}")
        if cell[1]:
            label, start = cell[1], position
        if cell[2] and not label:
            raise row.malformed(f"expected an open argument {where}, found only the end of one")
        if cell[2]:
            spans.append(Span(label, start, position + 1))
            label = ""
    if label:
        expected = f"expected the end of {excerpt(label)} in column {column + 1}, found the end of the sentence"
        raise rows[start].malformed(expected)
    return tuple(spans)


def _mentions(rows: Sequence[_Line]) -> tuple[Mention, ...]:
    """The mentions in the last column, such as (3|(11, 11) or (7)."""
    mentions: list[Mention] = []
    opened: dict[int, list[int]] = {}  # chain -> the starts of its open mentions; the last one closes first
    for position, row in enumerate(rows):
        if row.cells[-1] in ("", *EMPTY):
            continue
        for part in row.cells[-1].split("|"):
            found = MENTION.fullmatch(part)
            if found is None or not (found[1] or found[3]):
                expected = f"expected mentions such as (7), (7 or 7) in the last column, found {excerpt(part)}"
                raise row.malformed(expected)
            chain = int(found[2])
            if found[1]:
                opened.setdefault(chain, []).append(position)
            if found[3]:
                if not opened.get(chain):
                    raise row.malformed(f"expected the start of a mention of chain {chain} before its end, found none")
                mentions.append(Mention(opened[chain].pop(), position + 1, chain))
    for chain, starts in opened.items():
        if starts:
            expected = f"expected the end of a mention of chain {chain}, found the end of the sentence"
            raise rows[starts[-1]].malformed(expected)
    return tuple(sorted(mentions))
