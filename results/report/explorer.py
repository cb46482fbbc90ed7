"""The explorer of the report: uses of a word in two dimensions, coloured by sense, and the one point of static vectors.

`python -m tasks.probes.table4 --write DIR` makes its data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from elmo.common.errors import InputError
from elmo.common.files import read_json
from results.analysis.names import Shape
from results.figures.drawing import SPARE_LOOKS, WIDTH, Dot, Figure, Label, Mark, Scale, captioned, fitted, text_width
from results.records.typed_json import decode

FILE = "senses.json"
LOOKS: Sequence[tuple[str, Shape]] = (("blue", "circle"), ("orange", "square"), *SPARE_LOOKS, ("grey", "cross"))
HEIGHT, TOP, SIDE = 300.0, 40.0, 14.0
SPLIT = 250.0  # where the part of static vectors begins


@dataclass(frozen=True)
class ShownUse:
    """A use of a word.

    Attributes:
        text: The words around it; stars mark the word.
        x: From -1 to 1.
        y: From -1 to 1.
        sense: Its own, or if that is not known that of the nearest use with a known one.
        known: Whether the sense is its own.
        nearest: The number of the nearest other use.
    """

    text: str
    x: float
    y: float
    sense: str
    known: bool
    nearest: int


@dataclass(frozen=True)
class ShownWord:
    """A word: its senses, its uses, the nearest words by static vectors, and how well uses of one sense cluster."""

    word: str
    senses: Sequence[str]
    static: Sequence[str]
    summary: str
    uses: Sequence[ShownUse]

    def __post_init__(self) -> None:
        if not all(0 <= use.nearest < len(self.uses) for use in self.uses):
            raise ValueError(f"uses.nearest: expected numbers of {len(self.uses)} uses")


@dataclass(frozen=True)
class Senses:
    """The content of the file: the name of the biLM, and the words."""

    weights: str
    words: Sequence[ShownWord]


def read_senses(path: Path) -> Senses:
    """The content of a file.

    Raises:
        InputError: It is no such file; the message says why.
    """
    try:
        senses: Senses = decode(Senses, read_json(path))
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        remedy = "Make it with: python -m tasks.probes.table4 --write DIR"
        raise InputError(f"{path}: expected uses of words, found: {reason}. {remedy}") from error
    return senses


def explorer(senses: Senses) -> str:
    """The HTML: for each word its picture, and its uses with the nearest use of each."""
    parts = ""
    for word in senses.words:
        opened = " open" * (word is senses.words[0])
        shown = f'<div class="uses">{captioned(word_figure(word))}{_uses(word)}</div>'
        parts += f'<details class="more"{opened}><summary>{escape(word.word)}</summary>{shown}</details>'
    intro = (
        f"Every dot is one use of the word in a sentence, by the top layer of the biLM {senses.weights}, in the two "
        "directions in which the uses differ most. Static vectors have one point for all of them. Large: the sense is "
        "known; small: it is that of the nearest use whose sense is known. Rest the pointer on a dot to read it. "
        "Another word, with the nearest uses of each sense:"
    )
    command = "<code>python -m tasks.probes.table4 WORD</code>"
    return f"<p>{escape(intro)} {command}</p>{parts}"


def word_figure(word: ShownWord) -> Figure:
    """The uses of a word in two dimensions, and the point of static vectors with its neighbours."""
    across, down = Scale(-1, 1, SIDE, SPLIT - SIDE), Scale(-1, 1, HEIGHT - SIDE, TOP + SIDE)
    look_of = {sense: LOOKS[i % len(LOOKS)] for i, sense in enumerate(word.senses)}
    marks: list[Mark] = []
    x = 0.0
    for sense, look in look_of.items():
        marks += [Dot(x + 5, 10, *look, radius=4.5), Label(x + 14, 14, sense, "ink", 12)]
        x += 24 + text_width(sense)
    for use in sorted(word.uses, key=lambda use: use.known):  # those with a sense of their own on top
        look, radius = look_of.get(use.sense, ("grey", "circle")), 5.0 if use.known else 3.0
        title = use.text.replace("*", "") + f" ({use.sense})" * bool(use.sense)
        marks.append(Dot(across.at(use.x), down.at(use.y), *look, radius, title=title))
    middle = (SPLIT + WIDTH) / 2
    marks.append(Label(across.start, TOP, f"biLM, {len(word.uses)} uses", "muted", 11))
    marks.append(Label(middle, TOP, "static vectors, one point", "muted", 11, "middle"))
    marks.append(Dot(middle, TOP + 40, "ink", "circle", 6, title=f"{word.word}: one vector for all uses"))
    for line, near in enumerate(word.static):
        room = WIDTH - SPLIT - 4
        marks.append(Label(middle, TOP + 72 + 20 * line, fitted(near, room), "muted", 12, "middle"))
    name = f"senses-{word.word}" if word.word.isascii() and word.word.isalnum() else "senses"
    caption = f"{word.summary}. Below the other point: its nearest words."
    counts = [f"{sum(use.sense == sense for use in word.uses)} {sense}" for sense in word.senses]
    numbers = f"{len(word.uses)} uses: {', '.join(counts)}. Static vectors are nearest to {', '.join(word.static)}."
    return Figure(name, f"Uses of {word.word}", caption, HEIGHT, marks, numbers=numbers)


def _uses(word: ShownWord) -> str:
    rows = "".join(
        f"<li>{_marked(use)}<br><small>nearest: {_marked(word.uses[use.nearest])}</small></li>"
        for use in word.uses
        if use.known
    )
    return f"<ul>{rows}</ul>"


def _marked(use: ShownUse) -> str:
    """The use with the marked word in bold, and its sense if that is known."""
    before, word, after, *_ = [*map(escape, use.text.split("*", 2)), "", ""]
    return f"{before}<b>{word}</b>{after}" + f" ({escape(use.sense)})" * use.known
