"""Figures as lists of marks, which svg.py and image_files.py write.

Coordinates are pixels, y downwards. Most figures are as wide as a phone's screen, so that text keeps its size there,
and several fit next to each other on a larger screen. Colours are names of PALETTE: the page uses the light or dark
value, a file the light one unless it is for dark pages.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_lowercase
from typing import Literal

from results.analysis.names import Shape, common_title, load_names
from results.analysis.rows import Group

WIDTH = 360.0
TITLE_SIZE, TITLE_LINE = 14.0, 20.0
GAP = 24.0  # between panels
MOST_PANELS = 12  # of one figure: as many as a page of a paper can hold
Point = tuple[float, float]

# name -> (light, dark)
PALETTE = {
    "ink": ("#1b1f24", "#e8eaed"),
    "muted": ("#5b6470", "#9aa4b2"),
    "grid": ("#e3e6ea", "#2d343e"),
    "card": ("#ffffff", "#171b21"),
    "grey": ("#7a8594", "#8d99a9"),
    "blue": ("#0b69d4", "#5aa9ff"),
    "orange": ("#c96f12", "#f0a35a"),
    "green": ("#1f8a50", "#4fc384"),
    "violet": ("#8b46bd", "#c38bea"),
    "red": ("#c62f63", "#f279a2"),
}
# of an arm's lines, by its marker
DASHES: Mapping[Shape, str] = {
    "diamond": "", "circle": "7 4", "square": "2 4", "triangle": "9 3 2 3", "plus": "12 3", "cross": "4 2 1 2",
}  # fmt: skip
# for features that names.toml does not know
SPARE_LOOKS: Sequence[tuple[str, Shape]] = (
    ("violet", "plus"), ("red", "cross"), ("green", "triangle"),
    ("violet", "square"), ("red", "triangle"), ("green", "plus"), ("orange", "cross"),
    ("violet", "circle"), ("red", "square"), ("green", "diamond"), ("orange", "triangle"),
    ("violet", "cross"), ("red", "plus"), ("green", "square"), ("orange", "diamond"),
    ("violet", "triangle"), ("red", "diamond"), ("green", "circle"), ("orange", "plus"),
)  # fmt: skip


@dataclass(frozen=True)
class ChartLine:
    """A line through points.

    Of all marks, `title` is the tooltip, and `arm` the features that it belongs to: the page can hide an arm's marks.
    `dash` has the lengths of strokes and gaps, as in SVG.
    """

    points: Sequence[Point]
    colour: str
    width: float = 1.5
    opacity: float = 1.0
    title: str = ""
    arm: str = ""
    dash: str = ""


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    points: Sequence[Point]
    colour: str
    opacity: float = 1.0
    title: str = ""
    arm: str = ""


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float = 1.0
    title: str = ""
    arm: str = ""


@dataclass(frozen=True)
class Dot:
    """A marker around a point, filled or hollow."""

    x: float
    y: float
    colour: str
    shape: Shape = "circle"
    radius: float = 4.0
    opacity: float = 1.0
    title: str = ""
    hollow: bool = False
    arm: str = ""


@dataclass(frozen=True)
class Label:
    """A line of text; `anchor` says which part of it is at x, y is the baseline."""

    x: float
    y: float
    text: str
    colour: str = "muted"
    size: float = 12.0
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    halo: float = 3.0
    arm: str = ""


Mark = ChartLine | Area | Box | Dot | Label


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes:
        name: Its file name without suffix.
        title: Its heading, above the drawing.
        caption: A sentence that explains it.
        height: In pixels.
        marks: In the order of drawing.
        width: In pixels.
        numbers: What it shows, for readers who do not see it.
        narrow: The same for a phone or for one column of a paper, if this one is too wide for them.
        legend: Marks above the drawing that name the arms, from y = 0. The page has one legend for all figures.
    """

    name: str
    title: str
    caption: str
    height: float
    marks: Sequence[Mark] = field(default_factory=list)
    width: float = WIDTH
    numbers: str = ""
    narrow: "Figure | None" = None
    legend: Sequence[Mark] = ()

    @property
    def description(self) -> str:
        """The alternative text below the title."""
        return f"{self.caption} {self.numbers}".strip()


@dataclass(frozen=True)
class Arm:
    """Colour and marker of one kind of features in every figure; the marker helps readers who cannot tell colours."""

    title: str
    colour: str
    shape: Shape
    features: str = ""

    @property
    def dash(self) -> str:
        """The dashes of its lines."""
        return DASHES[self.shape]


def arms_of(features: Mapping[str, str]) -> dict[str, Arm]:
    """Title, colour and marker by features, given their titles: the known ones have fixed looks, others those left."""
    known = {name: arm for name, arm in load_names().arms.items() if name in features and arm.colour}
    looks = {name: Arm(features[name], arm.colour, arm.shape, name) for name, arm in known.items()}
    taken = {(arm.colour, arm.shape) for arm in looks.values()}
    colours = {colour for colour, _ in taken}
    left = sorted((look for look in SPARE_LOOKS if look not in taken), key=lambda look: look[0] in colours)
    others = [name for name in features if name not in looks]
    return looks | {name: Arm(features[name], *left[i % len(left)], name) for i, name in enumerate(others)}


def titled(arms: Mapping[str, Arm], groups: Sequence[Group], *, recipes: bool = True) -> dict[str, Arm]:
    """The arms with the titles of these groups: the size of their vectors, and the recipe if it is an older one.

    Arms that an experiment's file names, not their features, keep their titles.
    """
    found = dict(arms)
    for name in {group.features for group in groups} & arms.keys():
        own = [group for group in groups if group.features == name]
        records = [group.records[0] for group in own]
        by_features = all(record.identity.features == name for record in records)
        title = common_title(name, records) if by_features else arms[name].title
        old = [group.old_recipe for group in own if group.old_recipe and recipes]
        found[name] = replace(arms[name], title=", ".join([title, *old[-1:]]))
    return found


@dataclass(frozen=True)
class Scale:
    """Maps values to pixels, linearly or by their logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value."""
        low, high, value = (
            (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values within the scale, about `count` of them."""
        rough = (self.high - self.low) / max(count, 1)
        if rough <= 0:
            return [self.low]
        power = 10 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def spread(values: Sequence[float], start: float, end: float, *, zero: bool = False) -> Scale:
    """A linear scale with a margin around all values, and optionally zero."""
    low, high = min([*values, 0.0] if zero else values), max([*values, 0.0] if zero else values)
    margin = (high - low) * 0.06 or 1.0
    return Scale(low - margin, high + margin, start, end)


def shown_tick(value: float) -> str:
    """A tick's number: 0.5, 80, 14,041."""
    return f"{value:,.10g}" if abs(value) >= 1000 else f"{value:.4g}"


def text_width(text: str, size: float = 12.0) -> float:
    """The approximate width of a text, rather too wide, since fonts differ."""
    return 0.58 * size * len(text)


def with_minus(numbers: str) -> str:
    """A text of numbers alone, with minus signs instead of hyphens."""
    return numbers.replace("-0.0 ", "0.0 ").replace("-", "\N{MINUS SIGN}")


def tint(strength: float) -> float:
    """The opacity of a box below a text, for a strength from 0 to 1: low enough to read `ink` on any colour."""
    return 0.06 + 0.44 * strength


def fitted(text: str, width: float, size: float = 12.0) -> str:
    """The text, shortened with an ellipsis if it does not fit."""
    most = max(int(width / text_width("x", size)), 2)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def with_legend(figure: Figure) -> Figure:
    """The figure with its legend above the drawing."""
    if not figure.legend:
        return figure
    room = 10 + max(mark.y for mark in figure.legend if isinstance(mark, Dot))
    marks = [*figure.legend, *_moved(figure.marks, 0, room)]
    return replace(figure, height=figure.height + room, marks=marks, legend=())


def with_title(figure: Figure) -> Figure:
    """The figure with its title and its legend above the drawing, the title on as many lines as it needs."""
    figure = with_legend(figure)
    lines = textwrap.wrap(figure.title, int((figure.width - 16) / (0.59 * TITLE_SIZE))) or [""]
    titles = [Label(8, 18 + i * TITLE_LINE, line, "ink", TITLE_SIZE, bold=True) for i, line in enumerate(lines)]
    room = 14 + TITLE_LINE * len(lines)
    return replace(figure, height=figure.height + room, marks=[*titles, *_moved(figure.marks, 0, room)])


def joined(figures: Sequence[Figure], name: str, caption: str) -> Figure:
    """One figure with these as panels, each below its letter and title; two or three in a line."""
    columns = 2 if len(figures) in (2, 4) else 3
    marks: list[Mark] = []
    top = 0.0
    for start in range(0, len(figures), columns):
        line = [
            with_title(replace(figure, title=f"({ascii_lowercase[start + i]}) {figure.title}"))
            for i, figure in enumerate(figures[start : start + columns])
        ]
        for column, panel in enumerate(line):
            marks += _moved(panel.marks, column * (WIDTH + GAP), top)
        top += max(panel.height for panel in line) + GAP
    return Figure(name, name, caption, top - GAP, marks, columns * (WIDTH + GAP) - GAP)


def _moved(marks: Sequence[Mark], right: float, down: float) -> list[Mark]:
    """The marks at another place."""
    found: list[Mark] = []
    for mark in marks:
        if isinstance(mark, ChartLine | Area):
            found.append(replace(mark, points=[(x + right, y + down) for x, y in mark.points]))
        else:
            found.append(replace(mark, x=mark.x + right, y=mark.y + down))
    return found
