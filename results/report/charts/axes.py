"""Shared parts of charts: positions in pixels, ticks with their numbers, and the legend of a file."""

from collections.abc import Mapping, Sequence

from results.report.figures import (
    WIDTH,
    Arm,
    ChartLine,
    Dot,
    Label,
    Mark,
    Scale,
    fitted,
    shown_tick,
    text_width,
    with_minus,
)

Arms = Mapping[str, Arm]
LANE = 44.0
LEFT, RIGHT = 8.0, WIDTH - 8.0
BELOW = 40.0  # for an axis' numbers and label
AXES_LEFT, AXES_TOP, AXES_BOTTOM = 40.0, 20.0, 198.0


def legend_of(features: Sequence[str], arms: Arms) -> list[Mark]:
    """Marker and name of each arm, on as many lines as they need."""
    marks: list[Mark] = []
    x, y = LEFT, 10.0
    for arm in (arms[name] for name in dict.fromkeys(features)):
        room = 15 + text_width(arm.title) + 14
        if marks and x + room > WIDTH:
            x, y = LEFT, y + 20
        title = fitted(arm.title, RIGHT - LEFT - 15)
        marks += [Dot(x + 5, y, arm.colour, arm.shape, 4.5), Label(x + 15, y + 4, title, "ink", 12)]
        x += room
    return marks


def vertical_ticks(scale: Scale, top: float, bottom: float, axis: str) -> list[Mark]:
    """Faint vertical lines with their numbers below, and the axis label."""
    ticks = scale.ticks(5)
    lines: list[Mark] = [ChartLine([(scale.at(tick), top), (scale.at(tick), bottom)], "grid", 1) for tick in ticks]
    lines += [Label(scale.at(tick), bottom + 16, with_minus(shown_tick(tick)), "muted", 11, "middle") for tick in ticks]
    return [*lines, Label((scale.start + scale.end) / 2, bottom + 32, axis, "muted", 11, "middle")]


def horizontal_ticks(scale: Scale, axis: str) -> list[Mark]:
    """Faint horizontal lines with their numbers at the left, and the axis label above."""
    ticks = scale.ticks(5)
    lines: list[Mark] = [ChartLine([(AXES_LEFT, scale.at(tick)), (RIGHT, scale.at(tick))], "grid", 1) for tick in ticks]
    for tick in ticks:
        lines.append(Label(AXES_LEFT - 7, scale.at(tick) + 4, with_minus(shown_tick(tick)), "muted", 11, "end"))
    return [*lines, Label(LEFT, AXES_TOP - 10, axis, "muted", 11)]


def numbers_below(ticks: Sequence[tuple[float, str]], axis: str) -> list[Mark]:
    """Numbers under the axis, without those that would overlap (the last is always shown), and the axis label."""
    marks: list[Mark] = []
    free = WIDTH + 20
    for x, text in reversed(ticks):
        half = text_width(text, 11) / 2
        if x + half <= free:
            middle = min(x, WIDTH - half)
            marks.append(Label(middle, AXES_BOTTOM + 16, text, "muted", 11, "middle"))
            free = middle - half - 6
    return [*marks, Label((AXES_LEFT + RIGHT) / 2, AXES_BOTTOM + 32, axis, "muted", 11, "middle")]
