"""Text as tasks read it: files of lines and of columns, rows of the hub, tag schemes, and raw text for a trained model.

Columns are those of CoNLL-2003 and alike, a word and its tag, or of CoNLL-2012: document, part, word number, word, POS,
parse, lemma, frameset, word sense, speaker, named entities, then one column of arguments for each predicate, then
coreference. OntoNotes separates them by spaces, other files by tabs.

The words of raw text are those of the biLM's tokeniser (`elmo.tokenise`: Penn Treebank style, plain quotes), by default
split further at hyphens, dashes and slashes, where answers begin and end ("1990-2000", "Anglo-Saxon"). Their places are
found in the raw text itself, so they are exact even if the word for the model is spelled differently.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar

from elmo.common.errors import InputError, excerpt
from elmo.common.files import STYLES, UNDECODED, parse_json, places_of, raw_rows, utf8_lines
from elmo.tokeniser import INVISIBLE, MAX_WORD_BYTES, TYPOGRAPHIC, Tokeniser
from tasks.task import Sentence

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

_PREFIXES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}

_PAIRS = ("''", "``")  # LaTeX's double quotes
# Where answers may begin or end within a word. This also splits web addresses, which is harmless.
_INNER_CUT = re.compile(r"([-‐-―−/~°])")  # noqa: RUF001
_LONG = re.compile(rf"\S{{{MAX_WORD_BYTES // 4},}}")

Offsets = tuple[tuple[int, int], ...]

TOKENISER = Tokeniser()  # caches the chunks of earlier texts


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


def parsed_lines(
    lines: Iterable[str], path: Path, remedy: str, parse: Callable[[str, str], Parsed]
) -> Iterator[Parsed]:
    """The result of `parse` for each line of a file, given the line's name, FILE:NUMBER, and text.

    Raises:
        InputError: `parse` raised a ValueError; file, line and remedy are added to its message.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield parse(f"{path.name}:{number}", line)
        except ValueError as error:
            quoted = f": {excerpt(line)}" if line else ""
            raise InputError(f"{path}, line {number}: {error}{quoted}. {remedy}") from error


def json_object(line: str) -> dict[str, Any]:
    """The JSON object in a line.

    Raises:
        ValueError: there is none.
    """
    try:
        content = parse_json(line)
    except ValueError as error:
        raise ValueError(f"expected a JSON object, found no JSON ({error})") from error
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, found a {type(content).__name__}")
    return content


def parsed_rows(
    rows: Iterable[Mapping[str, Any]], split: str, parse: Callable[[str, Mapping[str, Any]], Parsed]
) -> Iterator[Parsed]:
    """The result of `parse` for each row of the hub, given the row's name, SPLIT:NUMBER, and its columns.

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
        """The error for this line."""
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


@dataclass(frozen=True)
class Tokens:
    """The words of a text and where each begins and ends in it; no places if the text was given in words."""

    words: Sentence
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.words)

    @property
    def offsets(self) -> Offsets:
        """The first character of each word and the one after its last."""
        return tuple(zip(self.begins, self.ends, strict=True))

    def aligned(self, begin: int, end: int) -> bool:
        """Whether tokens begin and end exactly at these characters."""
        first, past = self.covering(begin, end)
        return self.place(first, past) == (begin, end)

    def covering(self, begin: int, end: int) -> tuple[int, int]:
        """The smallest span of tokens, (first, one past the last), around these characters; the nearest if none."""
        first = min(bisect_right(self.ends, begin), len(self) - 1)
        return first, max(bisect_left(self.begins, end), first + 1)

    def place(self, first: int, past: int) -> tuple[int, int]:
        """The characters from the first to the last of these tokens."""
        return self.begins[first], self.ends[past - 1]


def tokens_of(text: str, inner_cuts: bool = True) -> Tokens:
    """The tokens of a text. Each character is in exactly one, except white space and invisible characters.

    Args:
        text: raw text.
        inner_cuts: whether words are split at hyphens, dashes and slashes.
    """
    words: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    visible = [place for place, sign in enumerate(text) if sign not in INVISIBLE]
    plain = "".join(TYPOGRAPHIC.get(text[place], text[place]) for place in visible)
    position = 0
    # Split long chunks first: the tokeniser would truncate them.
    for sentence in TOKENISER.paragraph(_LONG.sub(_shorter, text)):
        for part in (part for word in sentence for part in (_parts(word) if inner_cuts else (word,))):
            begin = _skip(plain, position)
            end = _walk(plain, begin, part)
            if end is None:  # the tokeniser adds a full stop after "U.S." at the end of a sentence
                continue
            words.append(part)
            begins.append(visible[begin])
            ends.append(visible[end - 1] + 1)
            position = end
    if _skip(plain, position) < len(plain):
        raise RuntimeError(f"tokens and text differ at {plain[position : position + 60]!r}")
    return Tokens(tuple(words), tuple(begins), tuple(ends))


@lru_cache(maxsize=200_000)
def _parts(word: str) -> tuple[str, ...]:
    """A word split at hyphens and the like; a word of nothing else ("--") stays whole."""
    if not any(map(str.isalnum, word)):
        return (word,)
    return tuple(filter(None, _INNER_CUT.split(word)))


def _shorter(chunk: re.Match[str]) -> str:
    """A chunk that fits into one word, or its pieces that do, joined by spaces."""
    if len(chunk[0].encode()) <= MAX_WORD_BYTES:
        return chunk[0]
    return " ".join(re.findall(rf".{{1,{MAX_WORD_BYTES // 4}}}", chunk[0]))


def _skip(plain: str, position: int) -> int:
    """The position after white space."""
    while plain[position : position + 1].isspace():
        position += 1
    return position


def _walk(plain: str, position: int, word: str) -> int | None:
    """The end of the word if it begins at this position, else None."""
    for sign in word:
        if plain[position : position + 1] != sign:
            if sign != '"' or plain[position : position + 2] not in _PAIRS:
                return None
            position += 1
        position += 1
    return position


def raw_items(
    path: Path, kind: str, columns: Sequence[str]
) -> Iterator[tuple[int, str | dict[str, str], Sequence[str], str]]:
    """The lines of a file to predict, or rows of a table.

    Each is its line number (of a row the last one), the line or the row's texts by column, all cells of a row, as many
    as the header has, and what is wrong with it, if something is.

    Args:
        path: the file.
        kind: csv or tsv, or anything else for lines.
        columns: those of a table to read; a column `id` is read, too.
    """
    if f".{kind}" not in STYLES:
        for number, text in enumerate(utf8_lines(path, tolerant=True), start=1):
            yield number, text, (), _undecoded(text)
        return
    rows = raw_rows(path, f".{kind}", tolerant=True)
    header = next(rows, None)
    names = header[1] if header else []
    wanted = [*columns, *(["id"] if "id" in names else [])]
    places = places_of(path, header, wanted)
    for line, row, problem in rows:
        # A longer row keeps all of its cells in the last one.
        cells = [*row[: len(names) - 1], STYLES[f".{kind}"][0].join(row[len(names) - 1 :])]
        cells += [""] * (len(names) - len(cells))
        problem = problem or _undecoded("".join(row))
        item = {} if problem else {name: row[place] for name, place in zip(wanted, places, strict=True)}
        yield line, item, [UNDECODED.sub("\N{REPLACEMENT CHARACTER}", cell) for cell in cells], problem


def _undecoded(text: str) -> str:
    """The fault in the bytes of a text."""
    return "expected UTF-8 text, found other bytes. Convert them" if UNDECODED.search(text) else ""


def fields_of_line(line: str, names: Sequence[str]) -> dict[str, str]:
    """The fields of a line: all of it, or as many texts between tabs as there are names; none without a name.

    Raises:
        ValueError: there are more or fewer.
    """
    cells = line.split("\t") if len(names) > 1 else [line][: len(names)]
    if len(cells) != len(names):
        raise ValueError(f"expected {' TAB '.join(names)}, found {len(cells)} texts between tabs")
    return dict(zip(names, cells, strict=True))


def raw_text(fields: Mapping[str, Any], name: str) -> str:
    """The text of a field.

    Raises:
        ValueError: there is none, or it has no words.
    """
    text = fields.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"expected words as {name}, found {'none' if text is None else excerpt(text)}")
    return text


def raw_words(fields: Mapping[str, Any]) -> Tokens:
    """The words of `text`, with their places in it; or `tokens`, if the text is in words already.

    Raises:
        ValueError: there is neither.
    """
    if "tokens" in fields:
        return Tokens(word_list(fields["tokens"], "tokens"))
    return tokens_of(raw_text(fields, "text"), inner_cuts=False)


def word_list(words: object, name: str) -> Sentence:
    """A list of words, checked."""
    if not is_texts(words):
        raise ValueError(f"expected a list of words as {name}, found {excerpt(words)}")
    return tuple(words)


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Whether this is a list of at least one string, none of them empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) and item for item in value)


def span_fields(words: Sequence[str], offsets: Offsets, start: int, end: int) -> dict[str, Any]:
    """A span of tokens as the fields of a JSON object: its text, its tokens, and its characters in raw text."""
    fields: dict[str, Any] = {"text": " ".join(words[start:end]), "start": start, "end": end}
    return fields | ({"characters": [offsets[start][0], offsets[end - 1][1]]} if offsets else {})


def tag_columns(words: Sequence[str], tags: Sequence[str]) -> str:
    """Words and tags in two columns, one word per line."""
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
