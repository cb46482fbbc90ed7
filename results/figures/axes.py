"""What charts share: scales, numbers and texts that fit, ticks with their numbers, and legends."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from results.figures.marks import WIDTH, Arm, ChartLine, Dot, Label, Mark

LANE = 44.0
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
        low, high, value = (
            (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
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


def score_scale(scores: Sequence[float], *, zero: bool = False) -> Scale:
    """The vertical scale of a chart with both axes."""
    return spread(scores, AXES_BOTTOM, AXES_TOP, zero=zero)


def spread(values: Sequence[float], start: float, end: float, *, zero: bool = False) -> Scale:
    """A linear scale with a margin around all values, and optionally zero."""
    low, high = min([*values, 0.0] if zero else values), max([*values, 0.0] if zero else values)
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


def lane_title(y: float, name: str, text: str) -> list[Mark]:
    """A name in bold at the left, shortened to its room, and a text at the right."""
    shown = fitted(name, RIGHT - LEFT - text_width(text, 11) - 8, 14)  # bold is wider
    return [Label(LEFT, y, shown, "ink", 12, bold=True), Label(RIGHT, y, text, "muted", 11, "end")]


def legend(arms: Iterable[tuple[Arm, str]], width: float = WIDTH) -> list[Mark]:
    """What the looks of marks mean, on as many lines as they need.

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
    middle = (scale.start + scale.end) / 2
    return [*marks, Label(middle, bottom + 32, axis, "muted", 11, "middle")] if axis else marks


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
    marks: list[Mark] = [ChartLine([(AXES_LEFT, y), (RIGHT, y)], "grid", 1) for y, _ in lines]
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
