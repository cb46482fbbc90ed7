"""Readers of text: lines, rows of the hub, and columns, with errors that name the place; treebank escapes.

Columns are those of CoNLL-2003 and alike, a word and its tag, or of CoNLL-2012: document, part, word number, word, POS,
parse, lemma, frameset, word sense, speaker, named entities, then one column of arguments for each predicate, then
coreference. OntoNotes separates them by spaces, other files by tabs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic_core import from_json

from elmo.common.errors import InputError, excerpt
from elmo.common.files import utf8_lines
from tasks.data.tag_schemes import Span

Parsed = TypeVar("Parsed")

DOCUMENT_START = "-DOCSTART-"  # in CoNLL column files

# Treebanks escape brackets and quotes. Word vectors and biLMs are trained on plain text, which has no escapes.
TREEBANK_ESCAPES = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    **{"``": '"', "''": '"'},
}

COLUMNS = 12  # of a sentence without predicates
NUMBER, WORD, POS, SENSE, SPEAKER, FIRST_ARGUMENTS = 2, 3, 4, 7, 9, 11
EMPTY = ("-", "_")
ESCAPES = {**TREEBANK_ESCAPES, "/.": ".", "/?": "?", "/-": "-"}  # the last three in OntoNotes' conversations
NO_WORD = "[WORD]"  # in place of every word in the files that may be given away

BEGIN = re.compile(r"#begin document \((.*)\); part (\d{1,9})\s*")
END = "#end document"
# A start, its label and an end, any of which may be missing.
ARGUMENT = re.compile(r"(?:(\()([^()*\s]+))?\*(\))?")
MENTION = re.compile(r"[-_]?|(?=.*[()])(\()?(\d{1,9})(\))?")
REMEDY = "Correct the line, or check data.splits: files for this task have CoNLL-2012 columns"


def parsed_lines(
    lines: Iterable[str], path: Path, remedy: str, parse: Callable[[str, str], Parsed]
) -> Iterator[Parsed]:
    """What `parse` makes of each line of a file, given the line's name, FILE:NUMBER, and text.

    Raises:
        InputError: `parse` raised a ValueError; file, line and remedy are added to its message.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield parse(f"{path.name}:{number}", line)
        except ValueError as error:
            found = f": {excerpt(line)}" if line else ""
            raise InputError(f"{path}, line {number}: {error}{found}. {remedy}") from error


def json_object(line: str) -> dict[str, Any]:
    """The JSON object in a line.

    Raises:
        ValueError: there is none.
    """
    try:
        content = from_json(line)  # unlike json, it rejects half of a surrogate pair, which UTF-8 cannot encode
    except ValueError as error:
        raise ValueError(f"expected a JSON object, found no JSON ({error})") from error
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, found a {type(content).__name__}")
    return content


def parsed_rows(
    rows: Iterable[Mapping[str, Any]], split: str, parse: Callable[[str, Mapping[str, Any]], Parsed]
) -> Iterator[Parsed]:
    """What `parse` makes of each row of the hub, given the row's name, SPLIT:NUMBER, and its columns.

    Raises:
        InputError: `parse` raised a ValueError; the row and a remedy are added to its message.
    """
    for number, row in enumerate(rows):
        try:
            yield parse(f"{split}:{number}", row)
        except ValueError as error:
            raise InputError(f"{split}, row {number}: {error}. Check data.hub.columns") from error


@dataclass
class Columns:
    """The differences between CoNLL column files: one word per line with its tag, a blank line after each sentence.

    Attributes:
        word_column: column of the word.
        tag_column: column of the tag; -1 is the last one.
        comments: whether lines that begin with "# " are comments.
        ragged: whether lines may have more or fewer columns than the first, as long as these two are there.
    """

    word_column: int = 0
    tag_column: int = -1
    comments: bool = False
    ragged: bool = False


def column_sentences(
    path: Path,
    reader: Columns,
    check_tag: Callable[[str], object],
    is_word: Callable[[Sequence[str]], bool] = lambda cells: True,
) -> Iterator[tuple[list[str], list[str], int]]:
    """The words and the tags of each sentence, and the number of its document; columns are split by tabs, if any.

    Documents begin with a line DOCUMENT_START and count from 1; 0 is before the first one.

    Args:
        path: the file.
        reader: its columns.
        check_tag: raises a ValueError for a wrong tag; file and line are added to its message.
        is_word: whether the cells of a line are those of a word; other lines are left out.
    """
    words: list[str] = []
    tags: list[str] = []
    columns = documents = 0
    needed = max(column + 1 if column >= 0 else -column for column in (reader.word_column, reader.tag_column))
    for number, line in enumerate(chain(utf8_lines(path), [""]), start=1):  # the last line ends the last sentence
        begins_document = line.startswith(DOCUMENT_START)
        if not line.strip() or begins_document:
            if words:
                yield words, tags, documents
                words, tags = [], []
            documents += begins_document
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if (reader.comments and line.startswith("# ")) or not is_word(cells):
            continue
        columns = columns or len(cells)
        try:
            if len(cells) < max(needed, 2) or (len(cells) != columns and not reader.ragged):
                places = f"word_column={reader.word_column} and tag_column={reader.tag_column}"
                raise ValueError(f"expected {max(columns, needed, 2)} columns, with {places}, found {len(cells)}")
            tag = cells[reader.tag_column].strip()
            check_tag(tag)
        except ValueError as error:
            remedy = "Correct the line, or data.reader"
            raise InputError(f"{path}, line {number}: {error}: {excerpt(line)}. {remedy}") from error
        words.append(cells[reader.word_column])
        tags.append(tag)


@dataclass(frozen=True)
class ConllSentence:
    """A sentence.

    Attributes:
        line: the number of its first line in the file, from 1.
        words: without treebank escapes.
        pos: part of speech of each word; "" where there is none, as for `speakers`.
        speakers: speaker or author of each word.
        predicates: their positions.
        arguments: of each predicate, spans that do not overlap, in their order; V is the words of the predicate itself.
        mentions: labelled by the number of their chain, in the order of their starts and ends.
    """

    line: int
    words: tuple[str, ...]
    pos: tuple[str, ...]
    speakers: tuple[str, ...]
    predicates: tuple[int, ...]
    arguments: tuple[tuple[Span, ...], ...]
    mentions: tuple[Span, ...]


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
        return InputError(f"{self.path}, line {self.number}: expected {expected}: {excerpt(self.text)}. {remedy}")


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
        begin, end = BEGIN.fullmatch(text), text.strip() == END
        if text.strip() and (begin is None) == (opened is None):
            raise line.malformed(f"'#begin document (ID); part 000' and, before the next document, '{END}'")
        if text.strip() and not begin and not end:
            _check_columns(line, rows)
            rows.append(line)
            continue
        if rows:
            sentences.append(_sentence(rows))
            rows = []
        if begin is not None:
            opened, sentences = (begin[1], int(begin[2])), []
        elif end and opened is not None:
            yield ConllDocument(*opened, tuple(sentences))
            opened = None
    if opened is not None:
        raise InputError(f"{path}, line {number}: expected '{END}', found the end of the file. Copy the file again")


def _check_columns(line: _Line, before: Sequence[_Line]) -> None:
    """Raises an InputError unless a line continues the lines of its sentence before it."""
    cells = line.cells
    columns = len(before[0].cells) if before else max(COLUMNS, len(cells))
    if len(cells) != columns or cells[NUMBER] != str(len(before)) or not cells[WORD].strip():
        raise line.malformed(
            f"{columns} columns, with the number {len(before)} of a word in column {NUMBER + 1} and the word in the "
            f"next, found {len(cells)} columns",
            f"{REMEDY}, and a blank line between sentences",
        )
    if cells[WORD] == NO_WORD:
        raise line.malformed(
            f"a word in column {WORD + 1}, found {NO_WORD}",
            "Make the files with words from your copy of OntoNotes, with the script skeleton2conll.sh of CoNLL-2012",
        )


def _sentence(rows: Sequence[_Line]) -> ConllSentence:
    cells = [row.cells for row in rows]
    predicates = [position for position, row in enumerate(cells) if row[SENSE] not in EMPTY]
    # LitBank has one column of placeholders.
    columns = [column for column in range(FIRST_ARGUMENTS, len(cells[0]) - 1) if cells[0][column] not in EMPTY]
    if len(columns) != len(predicates):
        raise rows[0].malformed(
            f"one column of arguments for each predicate, found {len(columns)} columns and {len(predicates)} words "
            f"with a frameset in column {SENSE + 1}"
        )
    return ConllSentence(
        rows[0].number,
        tuple(ESCAPES.get(row[WORD], row[WORD]) for row in cells),
        tuple("" if row[POS] in EMPTY else row[POS] for row in cells),
        tuple("" if row[SPEAKER] in EMPTY else row[SPEAKER] for row in cells),
        tuple(predicates),
        tuple(_spans(rows, column, ARGUMENT) for column in columns),
        tuple(sorted(_spans(rows, len(cells[0]) - 1, MENTION), key=lambda it: (it.start, it.end, int(it.label)))),
    )


def _spans(rows: Sequence[_Line], column: int, form: re.Pattern[str]) -> tuple[Span, ...]:
    """The spans of a column of arguments, such as (ARG0*, *) and (V*), or of mentions, such as (3|(11, 11) and (7)."""
    spans: list[Span] = []
    opened: list[tuple[str, int]] = []  # labels and starts; of equal labels, the last one closes first
    example = "arguments such as (ARG0*, *, *) or (V*)" if form is ARGUMENT else "mentions such as (7), (7 or 7)"
    expected = f"{example} in column {column + 1}, each with its start and its end in the sentence"
    for position, row in enumerate(rows):
        for part in row.cells[column].split("|"):
            cell = form.fullmatch(part)
            if cell is None or (form is ARGUMENT and cell[1] and opened):
                raise row.malformed(f"{expected}, found {excerpt(part)}")
            if cell[1]:
                opened.append((cell[2], position))
            if cell[3]:
                same = [place for place, (label, _) in enumerate(opened) if cell[2] in (None, label)]
                if not same:
                    raise row.malformed(f"{expected}, found only the end of one")
                spans.append(Span(*opened.pop(same[-1]), position + 1))
    if opened:
        label, start = opened[-1]
        raise rows[start].malformed(f"{expected}, found only the start of {excerpt(label)}")
    return tuple(spans)
