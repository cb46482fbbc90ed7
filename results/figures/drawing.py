"""Drawings: marks, scales, axes and legends, and their SVG for a page or as files.

Coordinates are pixels, y downwards. Most figures are as wide as a phone's screen, so that text keeps its size there,
and several fit next to each other on a larger screen. Colours are names of PALETTE. Files have one colour scheme, since
GitHub's may differ from the reader's system, and other programs do not know CSS variables.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise, product
from typing import Literal

from results.names import Shape, load_names
from results.records.printing import printable_on_pages, without_markup
from results.tables.rows import Group, arm_titles

WIDTH = 360.0
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


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The options of all marks: opacity, and a tooltip."""

    opacity: float = 1.0
    title: str = ""


@dataclass(frozen=True)
class ChartLine(Mark):
    """A line through points; `dash` has the lengths of strokes and gaps, as in SVG."""

    points: Sequence[Point]
    colour: str
    width: float = 1.5
    dash: str = ""


@dataclass(frozen=True)
class Area(Mark):
    """A filled polygon."""

    points: Sequence[Point]
    colour: str


@dataclass(frozen=True)
class Box(Mark):
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: str


@dataclass(frozen=True)
class Dot(Mark):
    """A marker around a point, filled or hollow."""

    x: float
    y: float
    colour: str
    shape: Shape = "circle"
    radius: float = 4.5
    hollow: bool = False


@dataclass(frozen=True)
class Label(Mark):
    """A line of text; `anchor` says which part of it is at x, y is the baseline."""

    x: float
    y: float
    text: str
    colour: str = "muted"
    size: float = 12.0
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    halo: float = 3.0


@dataclass(frozen=True)
class Arm:
    """Colour and marker of one kind of features in every figure; the marker helps readers who cannot tell colours."""

    title: str
    colour: str
    shape: Shape

    @property
    def dash(self) -> str:
        """The dashes of its lines."""
        return DASHES[self.shape]

    def dot(self, x: float, y: float, radius: float = 4.5, title: str = "") -> Dot:
        """Its marker."""
        return Dot(x, y, self.colour, self.shape, radius, title=title)

    def line(self, points: Sequence[Point], width: float = 2.0, title: str = "", dash: str = "") -> ChartLine:
        """A line in its colour."""
        return ChartLine(points, self.colour, width, dash, title=title)


Arms = Mapping[str, Arm]  # by features


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
        legend: The arms that a file names above the drawing. The page has one legend for all figures.
    """

    name: str
    title: str
    caption: str
    height: float
    marks: Sequence[Mark] = field(default_factory=list)
    width: float = WIDTH
    numbers: str = ""
    narrow: "Figure | None" = None
    legend: Sequence[Arm] = ()

    @property
    def description(self) -> str:
        """The alternative text below the title."""
        return f"{self.caption} {self.numbers}".strip()


def arms_of(features: Mapping[str, str]) -> dict[str, Arm]:
    """Title, colour and marker by features, given their titles: the known ones have fixed looks, others those left."""
    known = {name: arm for name, arm in load_names().arms.items() if name in features and arm.colour}
    looks = {name: Arm(features[name], arm.colour, arm.shape) for name, arm in known.items()}
    taken = {(arm.colour, arm.shape) for arm in looks.values()}
    colours = {colour for colour, _ in taken}
    left = sorted((look for look in SPARE_LOOKS if look not in taken), key=lambda look: look[0] in colours)
    others = [name for name in features if name not in looks]
    return looks | {name: Arm(features[name], *left[i % len(left)]) for i, name in enumerate(others)}


def titled(arms: Arms, groups: Sequence[Group], *, recipes: bool = True) -> dict[str, Arm]:
    """The arms with the titles of these groups: the size of their vectors, and the recipe if it is an older one.

    Arms that an experiment's file names, not their features, keep their titles.
    """
    old = {group.features: group.old_recipe for group in groups if group.old_recipe and recipes}
    by_features = {group.features for group in groups if group.features == group.records[0].identity.features}
    titles = {name: arm.title for name, arm in arms.items()} | arm_titles(by_features & arms.keys(), groups)
    titles |= {name: f"{title}, {old[name]}" for name, title in titles.items() if name in old}
    return {name: replace(arm, title=titles[name]) for name, arm in arms.items()}


LEFT, RIGHT = 8.0, WIDTH - 8.0
BELOW = 40.0  # for an axis' numbers and label
AXES_LEFT, AXES_TOP, AXES_BOTTOM = 40.0, 20.0, 198.0
AXES_HEIGHT = AXES_BOTTOM + 38


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
        low, high, value = map(math.log if self.log else float, (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values within the scale, about `count` of them; on a wide logarithmic scale powers of ten."""
        if self.log and self.high >= 5 * self.low:
            powers = [10.0**power for power in range(-3, 8)]
            decades = sum(self.low <= power <= self.high for power in powers)
            steps = [power * factor for power in powers for factor in ((1,) if decades > 2 else (1, 2, 3, 5))]
            inside = [step for step in steps if self.low <= step <= self.high]
            return inside[:: math.ceil(len(inside) / max(count, 1)) if decades > 2 else 1]
        rough = (self.high - self.low) / max(count, 1)
        if rough <= 0:
            return [self.low]
        power = 10 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def spread(values: Sequence[float], start: float = AXES_BOTTOM, end: float = AXES_TOP, *, zero: bool = False) -> Scale:
    """A linear scale with a margin around all values, and optionally zero; by default the vertical one of two axes."""
    shown = [*values, 0.0] if zero else values
    low, high = min(shown), max(shown)
    margin = (high - low) * 0.06 or 1.0
    return Scale(low - margin, high + margin, start, end)


def shown_tick(value: float) -> str:
    """A tick's number: 0.5, 80, 14,041."""
    return with_minus(f"{value + 0.0:,.10g}" if abs(value) >= 1000 else f"{value + 0.0:.4g}")


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


def legend(arms: Iterable[tuple[Arm, str]], width: float = WIDTH) -> list[Mark]:
    """The legend of marks, on as many lines as they need.

    Args:
        arms: Looks and their titles, each as a "dot", as a "hollow" one, or with the line of its "interval".
        width: Of the figure.
    """
    marks: list[Mark] = []
    x, y = 12.0, 10.0
    for arm, kind in arms:
        room = 20 + text_width(arm.title) + 14
        if marks and x + room > width:
            x, y = 12.0, y + 20
        if kind == "interval":
            marks.append(ChartLine([(x - 4, y), (x + 14, y)], arm.colour, 3))
        marks.append(Dot(x + 5, y, arm.colour, arm.shape, 5, hollow=kind == "hollow"))
        marks.append(Label(x + 20, y + 4, fitted(arm.title, width - 36), "ink"))
        x += room
    return marks


def vertical_ticks(scale: Scale, top: float, bottom: float, axis: str = "") -> list[Mark]:
    """Faint vertical lines with their numbers below, as many as have room, and the axis label."""
    for count in range(6, 0, -1):
        ends = [(scale.at(tick), text_width(shown_tick(tick), 11) / 2) for tick in scale.ticks(count)]
        if all(left + half + 8 <= right - other for (left, half), (right, other) in pairwise(ends)):
            break
    marks: list[Mark] = []
    for tick in scale.ticks(count):
        x = scale.at(tick)
        marks.append(ChartLine([(x, top), (x, bottom)], "muted" if tick == 0 else "grid", 1.5 if tick == 0 else 1))
        marks.append(Label(x, bottom + 16, shown_tick(tick), "muted", 11, "middle"))
    return [*marks, Label((scale.start + scale.end) / 2, bottom + 32, axis, "muted", 11, "middle")] if axis else marks


@dataclass(frozen=True)
class LaneDot:
    """A number in a lane, with the ends of its interval or range, if any; hollow for a second kind."""

    arm: Arm
    value: float
    ends: Sequence[float] = ()
    hollow: bool = False


@dataclass(frozen=True)
class Lane:
    """A line of a figure with some numbers, such as those of a task.

    Attributes:
        title: Its name.
        dots: The numbers, one below the other.
        count: Follows the name, which is cut where there is no room for both.
        text: What is at its end.
        sure: Whether the numbers are beyond noise; else lines are dashed, and the text is pale.
        words: All that it shows; by default the title and each number.
        heading: Above it, where several lanes begin that belong together.
    """

    title: str
    dots: Sequence[LaneDot]
    count: str = ""
    text: str = ""
    sure: bool = True
    words: str = ""
    heading: str = ""


def lanes(
    name: str, title: str, caption: str, rows: Sequence[Lane], axis: str, scale: Scale | None = None, zero: bool = False
) -> Figure:
    """A figure of lanes over one axis, with a legend of their arms if there are several.

    Args:
        name: As of `Figure`.
        title: The same.
        caption: The same.
        rows: The lanes.
        axis: Its label.
        scale: Of the axis; by default a linear one around all numbers and ends.
        zero: Whether that includes zero.
    """
    shown = [x for row in rows for dot in row.dots for x in (dot.value, *dot.ends)]
    scale = scale or spread(shown, LEFT + 8, RIGHT - 8, zero=zero)
    marks, numbers, y = list[Mark](), list[str](), 0.0
    for row in rows:
        if row.heading:
            y += 24
            marks.append(Label(LEFT, y - 6, row.heading, "ink", 12, bold=True))
        room = RIGHT - LEFT - text_width(row.count + row.text, 11) - 8 * bool(row.text)
        marks.append(Label(LEFT, y + 14, fitted(row.title, room) + row.count, "ink", 11))
        if row.text:
            marks.append(Label(RIGHT, y + 14, row.text, "ink" if row.sure else "muted", 11, "end", row.sure))
        for at, dot in enumerate(row.dots):
            down = y + 26 + 10 * at
            words = row.words or f"{row.title}, {dot.arm.title}{' (hollow)' * dot.hollow}: {dot.value:.2f}"
            numbers.append(words)
            if dot.ends:
                ends = [(scale.at(end), down) for end in dot.ends]
                marks.append(dot.arm.line(ends, 1.5, words, "" if row.sure else "3 3"))
            marks.append(replace(dot.arm.dot(scale.at(dot.value), down, 4, words), hollow=dot.hollow))
        y += 32 + 10 * len(row.dots)
    text = f"{'; '.join(dict.fromkeys(numbers))}."
    arms = list(dict.fromkeys(dot.arm for row in rows for dot in row.dots))
    marks = [*vertical_ticks(scale, 0, y, axis), *marks]
    return Figure(name, title, caption, y + BELOW, marks, numbers=text, legend=arms if len(arms) > 1 else [])


def both_axes(up: Scale, up_title: str, across: Scale, across_title: str, ticks: Mapping[float, str]) -> list[Mark]:
    """Faint horizontal lines with their numbers at the left, numbers below, and the titles of both axes.

    Args:
        up: The vertical scale.
        up_title: Its title, above it.
        across: The horizontal scale.
        across_title: Its title.
        ticks: The text of each number below; those that would overlap are left out (the last is always shown).
    """
    lines = [(up.at(tick), shown_tick(tick)) for tick in up.ticks()]
    colours = {"0": "muted"}
    marks: list[Mark] = [ChartLine([(AXES_LEFT, y), (RIGHT, y)], colours.get(text, "grid"), 1) for y, text in lines]
    marks += [Label(AXES_LEFT - 7, y + 4, text, "muted", 11, "end") for y, text in lines]
    marks.append(Label(LEFT, AXES_TOP - 10, up_title, "muted", 11))
    free = WIDTH + 20
    for x, text in sorted(((across.at(tick), text) for tick, text in ticks.items()), reverse=True):
        half = text_width(text, 11) / 2
        if x + half <= free:
            middle = min(x, WIDTH - half)
            marks.append(Label(middle, AXES_BOTTOM + 16, text, "muted", 11, "middle"))
            free = middle - half - 6
    return [*marks, Label((AXES_LEFT + RIGHT) / 2, AXES_BOTTOM + 32, across_title, "muted", 11, "middle")]


def with_notes(marks: Sequence[Mark], y: float, notes: Sequence[str], width: float) -> tuple[float, list[Mark]]:
    """The height, and the marks with the notes below them."""
    lines = [line for note in notes for line in textwrap.wrap(note, int((width - 16) / text_width("x", 11)))]
    labels = [Label(8, y + 16 * i, line, "muted", 11) for i, line in enumerate(lines)]
    return y + 16 * len(lines) - (4 if lines else 12), [*marks, *labels]


VARIABLES = {name: f"var(--{name})" for name in PALETTE}
PHONE_WIDTH = 600  # pixels of a page: up to here the narrow form of a figure is shown
TITLE_SIZE, TITLE_LINE = 14.0, 20.0
_PLUS = ((1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4),
         (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4))  # fmt: skip
# corners of markers around (0, 0) with radius 1; all have about the area of the circle
CORNERS: Mapping[Shape, Sequence[Point]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    "triangle": ((0, -1.2), (1.2, 0.96), (-1.2, 0.96)),
    "plus": _PLUS,
    "cross": [((x - y) / math.sqrt(2), (x + y) / math.sqrt(2)) for x, y in _PLUS],
}


def with_legend(figure: Figure) -> Figure:
    """The figure with its legend above the drawing."""
    if not figure.legend:
        return figure
    marks = legend((arm, "dot") for arm in figure.legend)
    return _below(figure, marks, 10 + max(mark.y for mark in marks if isinstance(mark, Dot)))


def with_title(figure: Figure) -> Figure:
    """The figure with its title and its legend above the drawing, the title on as many lines as it needs."""
    lines = textwrap.wrap(figure.title, int((figure.width - 16) / (0.59 * TITLE_SIZE))) or [""]
    titles = [Label(8, 18 + i * TITLE_LINE, line, "ink", TITLE_SIZE, bold=True) for i, line in enumerate(lines)]
    return _below(with_legend(figure), titles, 14 + TITLE_LINE * len(lines))


def _below(figure: Figure, heading: Sequence[Mark], room: float) -> Figure:
    """The figure with these marks above it, in place of its legend."""
    return replace(figure, height=figure.height + room, marks=[*heading, *shifted(figure.marks, 0, room)], legend=())


def shifted(marks: Iterable[Mark], right: float, down: float) -> list[Mark]:
    """The marks elsewhere."""
    moved = list[Mark]()
    for mark in marks:
        if isinstance(mark, ChartLine | Area):
            moved.append(replace(mark, points=[(x + right, y + down) for x, y in mark.points]))
        elif isinstance(mark, Box | Dot | Label):
            moved.append(replace(mark, x=mark.x + right, y=mark.y + down))
    return moved


def inline_svg(figure: Figure) -> str:
    """The drawing for the page, without its title and legend: the page has them elsewhere."""
    marks = "".join(_drawn(mark, VARIABLES) for mark in figure.marks)
    return (
        f'<svg viewBox="0 0 {figure.width:g} {figure.height:g}" role="img" '
        f'aria-label="{escape(f"{figure.title}. {figure.description}")}">{marks}</svg>'
    )


def captioned(figure: Figure) -> str:
    """The drawing for the page, in a card with its legend and caption; one as wide as a table can be scrolled."""
    drawing, name = inline_svg(with_legend(figure)), "card"
    if figure.width > WIDTH:
        drawing = f'<div tabindex="0" role="region" aria-label="{escape(figure.title)}">{drawing}</div>'
        name = "card broad"
    return f'<figure class="{name}">{drawing}<figcaption>{escape(figure.caption)}</figcaption></figure>'


def both_forms(figure: Figure, caption: str) -> str:
    """The drawing for the page in the form that fits the screen, above the caption if there is one."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure class="card answers"><div class="wide">{inline_svg(figure)}</div>'
        f'<div class="narrow">{inline_svg(figure.narrow or figure)}</div>{below}</figure>'
    )


def swatch(arm: Arm) -> str:
    """The line and the marker of an arm, for the page's legend."""
    line, dot = ChartLine([(1, 8), (35, 8)], arm.colour, 2, arm.dash), Dot(18, 8, arm.colour, arm.shape, 5)
    drawn = _drawn(line, VARIABLES) + _drawn(dot, VARIABLES)
    return f'<svg viewBox="0 0 36 16" width="36" height="16" aria-hidden="true">{drawn}</svg>'


def standalone_svg(figure: Figure, *, dark: bool = False) -> str:
    """The drawing as a file, with its legend."""
    figure = with_legend(figure)
    colours = {name: pair[dark] for name, pair in PALETTE.items()}
    marks = "".join(_drawn(mark, colours) for mark in figure.marks)
    size = f'width="{figure.width:g}" height="{figure.height:g}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {figure.width:g} {figure.height:g}" '
        'role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif">'
        f'<title id="title">{escape(figure.title)}</title><desc id="desc">{escape(figure.description)}</desc>'
        f'<rect width="100%" height="100%" fill="{colours["card"]}"/>{marks}</svg>\n'
    )


def published_files(figure: Figure) -> dict[str, str]:
    """File name -> SVG with its title and caption.

    A figure with a narrow form explains itself without a caption, and has files for phones and dark pages.
    """
    if not figure.narrow:
        below = with_title(figure)
        height, marks = with_notes(below.marks, below.height + 12, [figure.caption], figure.width)
        return {f"{figure.name}.svg": standalone_svg(replace(below, height=height, marks=marks))}
    files = product((figure, figure.narrow), (False, True))
    return {f"{form.name}{'-dark' * dark}.svg": standalone_svg(with_title(form), dark=dark) for form, dark in files}


def picture(figure: Figure, folder: str) -> str:
    """The Markdown or HTML that shows a figure's published files on GitHub; `folder` is where they are."""
    place = f"{folder}/{escape(figure.name)}"
    text = escape(printable_on_pages(f"{figure.title}. Its numbers are in results/tables.md, and in the file itself."))
    if figure.narrow is None:
        return f"![{without_markup(figure.title)}]({folder}/{figure.name}.svg)"
    phone, dark = f"(max-width: {PHONE_WIDTH}px)", "(prefers-color-scheme: dark)"
    return (
        f'<picture>\n<source media="{phone} and {dark}" srcset="{place}-phone-dark.svg">\n'
        f'<source media="{phone}" srcset="{place}-phone.svg">\n<source media="{dark}" srcset="{place}-dark.svg">\n'
        f'<img src="{place}.svg" alt="{text}">\n</picture>'
    )


def _drawn(mark: Mark, colours: Mapping[str, str]) -> str:
    """The SVG element of a mark, without styles: a page's content security policy may refuse these."""
    title = f"<title>{escape(mark.title)}</title>" if mark.title else ""
    more = f' opacity="{mark.opacity:.2g}"' * (mark.opacity != 1)
    if isinstance(mark, Label):
        weight = ' font-weight="600"' if mark.bold else ""
        anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size:g}"'
        halo = f'stroke="{colours["card"]}" stroke-width="{mark.halo:g}"'  # keeps text readable on top of lines
        style = f'fill="{colours[mark.colour]}" {halo} paint-order="stroke" stroke-linejoin="round"'
        return f"<text {place}{anchor}{weight}{more} {style}>{escape(mark.text)}</text>"
    if isinstance(mark, ChartLine):
        dashes = f' stroke-dasharray="{mark.dash}"' if mark.dash else ""
        style = f'fill="none" stroke-width="{mark.width:g}" stroke-linejoin="round" stroke-linecap="round"'
        style = f'{style}{dashes}{more} stroke="{colours[mark.colour]}"'
        return f'<polyline points="{_points(mark.points)}" {style}>{title}</polyline>'
    if isinstance(mark, Area):
        return f'<polygon points="{_points(mark.points)}"{more} fill="{colours[mark.colour]}">{title}</polygon>'
    if isinstance(mark, Box):
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" width="{max(mark.width, 0):.1f}" height="{mark.height:.1f}" rx="2"'
        return f'<rect {place}{more} fill="{colours[mark.colour]}">{title}</rect>'
    assert isinstance(mark, Dot)
    x, y, r, colour = mark.x, mark.y, mark.radius, colours[mark.colour]
    corners = _points([(x + r * right, y + r * down) for right, down in CORNERS.get(mark.shape, ())])
    circle = f"M{x - r:.1f},{y:.1f}a{r:g},{r:g} 0 1,0 {2 * r:g},0a{r:g},{r:g} 0 1,0 {-2 * r:g},0z"
    style = f'fill="{colours["card"]}" stroke="{colour}" stroke-width="2"' if mark.hollow else f'fill="{colour}"'
    return f'<path d="{f"M{corners}z" if corners else circle}"{more} {style}>{title}</path>'


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
