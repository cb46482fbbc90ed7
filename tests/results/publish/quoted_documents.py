"""Numbers of results in documents: which of a text's numbers are, and what they are about."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

NO_RECORD = "no record"
_MARK = re.compile(rf"<!-- {NO_RECORD}\b.*?-->", re.DOTALL)
_HIDDEN = (
    re.compile(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", re.DOTALL),  # generated
    re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE),
    re.compile(r"`[^`]*`"),
    re.compile(r"\]\([^)]*\)"),  # where a link goes
    re.compile(r"<!--.*?-->", re.DOTALL),
)
_SEEDS = re.compile(r"\bseeds? (\d+)(?: (to|and) (\d+))?")

# A number of a result has a decimal point and one of these forms. Others are settings, versions or counts.
_NUMBER, _START, _END = r"\d+\.\d+", r"(?<![\w.+-])", r"(?!\.?\w|-\w)"
_SIGNED, _ERRORS = rf"[+-]{_NUMBER}", r"of (?:the|its|[\w-]+'s) errors"
_EITHER = r"-?\d+(?:\.\d+)?"  # the ends of a share's interval may be whole
_FORMS = {
    kind: re.compile(form)
    for kind, form in {
        "mean and deviation": rf"{_START}({_NUMBER}) (?:±|\+-) ({_NUMBER}){_END}",
        "share of errors and interval": rf"{_START}({_EITHER}) %(?: {_ERRORS})?,? \(?({_EITHER}) to ({_EITHER}){_END}",
        "gain and interval": rf"{_START}({_SIGNED}),? \(?([+-]?{_NUMBER}) to ([+-]?{_NUMBER}){_END}",
        "range": rf"{_START}between ({_NUMBER}) and ({_NUMBER}){_END}",
        "score without and with": rf"{_START}({_NUMBER}) (?:->|→|to) ({_NUMBER}){_END}",
        "gain": rf"{_START}({_SIGNED}){_END}(?! ?%)",
        "share of errors": rf"{_START}(-?{_NUMBER}|-?\d+(?= % {_ERRORS})) %",
        "score": rf"{_START}({_NUMBER}){_END}",
    }.items()
}
_SCORES = ("mean and deviation", "range", "score without and with", "score")
LEAST_SCORE = 10.0
_UNIT = re.compile(r" (?:[MBk]|[kMG]B|m?s|minutes|seconds|times)\b")


@dataclass(frozen=True)
class Block:
    """A paragraph, a list's item, a line of a table or a comment.

    Attributes:
        path: Its file.
        start: Where it begins in the file's text.
        text: Its text, without what is hidden.
        heading: The heading above it.
        columns: The first line of its table; empty if it is in none.
    """

    path: Path
    start: int
    text: str
    heading: str
    columns: str = ""

    @property
    def seeds(self) -> frozenset[int]:
        """The seeds that it names, "seed 1" or "seeds 1 to 3"; none if it names none."""
        found = set[int]()
        for first, word, last in _SEEDS.findall(self.text):
            found |= set(range(int(first), int(last) + 1)) if word == "to" else {int(first), int(last or first)}
        return frozenset(found)


@dataclass(frozen=True)
class Quoted:
    """Numbers of a result, as a document has them: "90.11 ± 0.31" is two."""

    block: Block
    line: int
    kind: str
    text: str
    printed: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...]:
        return tuple(map(float, self.printed))

    def is_rounded(self, values: tuple[float, ...]) -> bool:
        """Whether all its numbers are these, as far as they are printed."""
        if len(values) < len(self.printed):
            return False
        digits = [len(own.partition(".")[2]) for own in self.printed]
        both = zip(self.numbers, values, digits, strict=False)
        return all(abs(own - value) <= 0.5 * 10**-places + 1e-6 for own, value, places in both)


def quoted_numbers(path: Path, text: str, section: str = "") -> Iterator[Quoted]:
    """The numbers of results in a Markdown file, or in the comments of a YAML file.

    Args:
        path: The file.
        text: What it contains.
        section: Only below this heading.
    """
    marks = {match.start() for match in _MARK.finditer(text)}
    masked = text
    for pattern in _HIDDEN:
        masked = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), masked)
    blocks = _comments(path, text) if path.suffix == ".yaml" else _paragraphs(path, text, masked)
    for block in blocks:
        if section and section not in block.heading:
            continue
        for kind, match in sorted(_forms(block.text), key=lambda own: own[1].start()):
            start, end = block.start + match.start(), block.start + match.end()
            if not {end, end + len(" %")} & marks:
                line = text.count("\n", 0, start) + 1
                yield Quoted(block, line, kind, match.group(), match.groups())


def _forms(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The forms of results in a text; a number that is part of one is not also another."""
    for kind, form in _FORMS.items():
        for match in form.finditer(text):
            small = kind in _SCORES and float(match[1]) < LEAST_SCORE
            measured = _UNIT.match(text, match.end()) or text.endswith("perplexity ", 0, match.start())
            if not small and not measured:
                yield kind, match
        text = form.sub(lambda match: "~" * len(match.group()), text)


def _paragraphs(path: Path, text: str, masked: str) -> Iterator[Block]:
    """The blocks of a Markdown file, without what follows a mark that stands alone."""
    heading, marked = "", False
    for chunk in re.finditer(r"(?:.*\S.*\n?)+", text):  # lines without an empty one between them
        shown = masked[chunk.start() : chunk.end()]
        if title := re.match(r"#+ (.*)", shown):
            heading = title[1]
        if not marked:
            breaks = re.finditer(r"^\s*(?:\||[-*] |\d+\. )", shown, re.MULTILINE)  # lines of tables, items of lists
            starts = [0, *(own.start() for own in breaks), len(shown)]
            columns = ""
            for start, end in pairwise(starts):
                block = Block(path, chunk.start() + start, shown[start:end].replace("\n", " "), heading, columns)
                columns = columns or (block.text if block.text.startswith("|") else "")
                yield block
        marked = bool(_MARK.fullmatch(chunk.group().strip()))


def _comments(path: Path, text: str) -> Iterator[Block]:
    """The comments of a YAML file, those of adjacent lines together; the first line is the heading of all."""
    masked = re.sub(rf"^.*{NO_RECORD}.*$", lambda match: " " * len(match.group()), text, flags=re.MULTILINE)
    found = re.finditer(r"(?:^#.*\n?)+|#.*", text, re.MULTILINE)
    heading = ""
    for match in found:
        heading = heading or match.group()[:300]
        shown = masked[match.start() : match.end()]
        yield Block(path, match.start(), re.sub(r"[#\n]", " ", shown), heading)
