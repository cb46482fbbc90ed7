"""Marks, arms and figures: what a drawing consists of.

Coordinates are pixels, y downwards. Most figures are as wide as a phone's screen, so that text keeps its size there,
and several fit next to each other on a larger screen. Colours are names of PALETTE.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from results.analysis.names import Shape, common_title, load_names
from results.analysis.rows import Group

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
    """What all marks may have: opacity, and a tooltip."""

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
    shown = dict(arms)
    for name in {group.features for group in groups} & arms.keys():
        of_arm = [group for group in groups if group.features == name]
        records = [group.records[0] for group in of_arm]
        by_features = all(record.identity.features == name for record in records)
        title = common_title(name, records) if by_features else arms[name].title
        old = [group.old_recipe for group in of_arm if group.old_recipe and recipes]
        shown[name] = replace(arms[name], title=", ".join([title, *old[-1:]]))
    return shown
