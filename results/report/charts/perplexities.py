"""Chart of the gain of biLMs against their held-out perplexity."""

from collections.abc import Sequence
from dataclasses import dataclass

from results.analysis.names import metric_title
from results.analysis.panels import as_stem
from results.experiments.experiment import ArmPerplexity
from results.report.charts.axes import AXES_BOTTOM, AXES_LEFT, AXES_TOP, RIGHT, horizontal_ticks, numbers_below
from results.report.figures import (
    Area,
    ChartLine,
    Dot,
    Figure,
    Label,
    Mark,
    Scale,
    joined,
    shown_tick,
    spread,
    text_width,
    with_minus,
)
from results.tables.experiment_rows import ExperimentLine, ExperimentTable, is_measured

FEWEST = 2  # biLMs: one is no relation
TICKS = [factor * power for power in (1, 10, 100, 1_000, 10_000) for factor in (1, 1.5, 2, 3, 4, 5, 6, 8)]
COLOUR = "blue"
SIZE = 11.0  # of the names


@dataclass(frozen=True)
class _Point:
    """A biLM: its name, its perplexity, and the scores of its runs less the mean of the baseline's."""

    name: str
    perplexity: ArmPerplexity
    gains: Sequence[float]

    @property
    def mean(self) -> float:
        return sum(self.gains) / len(self.gains)

    @property
    def text(self) -> str:
        """All that is drawn, in words."""
        gain = with_minus(f"{self.mean:+.2f}")
        runs = with_minus(", ".join(f"{own:+.2f}" for own in self.gains))
        of = f"perplexity {self.perplexity.mean:.2f} ({self.perplexity.unknown:.2f} % of the words are <UNK>)"
        return f"{self.name}: {of}, gain {gain} ({len(self.gains)} runs: {runs})"


def gains_by_perplexity(table: ExperimentTable) -> list[Figure]:
    """A panel for each task with runs of two biLMs or more whose perplexity is known, and of the first arm compared."""
    if not table.experiment.perplexities:
        return []
    return [figure for line in table.lines if (figure := _panel(table, line))]


def joined_panels(table: ExperimentTable) -> list[Figure]:
    """The panels, and if there are several also one figure with all of them: files for a paper."""
    panels = gains_by_perplexity(table)
    together = joined(panels, table.experiment.sweep_name, table.experiment.title) if len(panels) > 1 else None
    return [*panels, *([together] if together else [])]


def _panel(table: ExperimentTable, line: ExperimentLine) -> Figure | None:
    experiment = table.experiment
    base = line.runs.group(table.base)
    if base is None:
        return None
    points = [
        _Point(table.titles[arm], own, [score - base.mean for score in group.scores])
        for arm, own in experiment.perplexities.items()
        if (group := line.runs.group(arm)) and is_measured(own, group) and group.recipe == base.recipe
    ]
    if len(points) < FEWEST:
        return None
    own_spread = [score - base.mean for score in base.scores]
    perplexities = [point.perplexity.mean for point in points]
    # Lower perplexities, of better biLMs, are at the right.
    across = Scale(min(perplexities) / 1.02, max(perplexities) * 1.02, RIGHT - 28, AXES_LEFT + 20, log=True)
    up = spread([gain for point in points for gain in point.gains] + own_spread, AXES_BOTTOM, AXES_TOP, zero=True)
    metric = metric_title(base.metric, base.records[0])
    title = ", ".join(filter(None, [line.title, base.old_recipe]))
    base_title = table.titles[table.base]
    marks = horizontal_ticks(up, f"gain in {line.spec.split} {metric} over {base_title} (points)")
    ticks = TICKS if across.high > 2 * across.low else across.ticks()
    places = [(across.at(tick), shown_tick(tick)) for tick in sorted(ticks, reverse=True)]
    shown = [(x, text) for x, text in places if AXES_LEFT <= x <= RIGHT]
    marks += numbers_below(shown, "held-out perplexity (log scale), lower to the right")
    counts = {len(gains) for gains in (own_spread, *(point.gains for point in points))}
    marks += _baseline(up, own_spread, f"{base_title} ({len(own_spread)})" if len(counts) > 1 else base_title)
    marks += _points(points, across, up, with_counts=len(counts) > 1)
    runs = "in brackets: their number" if len(counts) > 1 else f"{counts.pop()} in each arm"
    caption = (
        f"Large marks: mean gain of a biLM; dots: its runs ({runs}); band: {base_title}'s own runs around their mean. "
        f"Perplexity on the same {points[0].perplexity.predictions:,} held-out predictions, as the biLMs' cards state."
    )
    numbers = "; ".join(point.text for point in points) + "."
    name = f"{experiment.sweep_name}-{as_stem(f'{line.runs.data}-{line.runs.task}')}"
    return Figure(name, title, caption, AXES_BOTTOM + 38, marks, numbers=numbers)


def _baseline(up: Scale, gains: Sequence[float], title: str) -> list[Mark]:
    """A line at zero, and a band from the lowest to the highest run of the baseline."""
    low, high = up.at(min(gains)), up.at(max(gains))
    corners = [(AXES_LEFT, low), (RIGHT, low), (RIGHT, high), (AXES_LEFT, high)]
    line = [(AXES_LEFT, up.at(0)), (RIGHT, up.at(0))]
    name = Label(RIGHT - 4, up.at(0) + 13, title, "muted", SIZE, "end")
    return [Area(corners, "grey", 0.2, title), ChartLine(line, "grey", 1.5, title=title), name]


def _points(points: Sequence[_Point], across: Scale, up: Scale, *, with_counts: bool) -> list[Mark]:
    """The runs and the mean of each biLM, with its name at a free place."""
    marks, labels = list[Mark](), list[Mark]()
    taken = [room for own in points for room in _rooms(own, across, up)]
    for point in points:
        mean, line = _rooms(point, across, up)
        x, y = mean.x, mean.y
        marks.append(ChartLine([(x, up.at(end)) for end in (min(point.gains), max(point.gains))], COLOUR, 1.5))
        marks += [Dot(x, up.at(gain), COLOUR, "circle", 2, title=point.text) for gain in point.gains]
        marks.append(Dot(x, y, COLOUR, "diamond", 4.5, title=point.text))
        name = f"{point.name} ({len(point.gains)})" if with_counts else point.name
        near, away = _places(mean, line, text_width(name, SIZE))
        places = [room for room in (*near, *away) if room.inside]
        free = [room for room in places if not any(room.touches(other) for other in taken)]
        room = (free or places)[0]
        taken.append(room)
        if room not in near:
            labels.append(ChartLine([(x, y), (room.x, room.y)], "muted", 0.8))
        labels.append(Label(room.x, room.y + SIZE * 0.36, name, "ink", SIZE, "middle"))
    return [*marks, *labels]


def _rooms(point: _Point, across: Scale, up: Scale) -> tuple["_Room", "_Room"]:
    """What the marks of a biLM cover: that of the mean, and the line between its runs."""
    x, low, high = across.at(point.perplexity.mean), up.at(min(point.gains)), up.at(max(point.gains))
    return _Room(x, up.at(point.mean), 12, 12), _Room(x, (low + high) / 2, 5, abs(high - low) + 5)


def _places(mean: "_Room", line: "_Room", width: float) -> list[list["_Room"]]:
    """Where the name of a biLM may be, the best first: at its sides, above and below; and further away."""
    aside, half = width / 2 + 9, max(line.height, mean.height) / 2 + SIZE / 2 + 1
    near = [(-aside, 0.0), (aside, 0.0), (0.0, line.y - half - mean.y), (0.0, line.y + half - mean.y)]
    sides = (-aside, aside, -aside / 2, aside / 2, 0.0)
    away = [(side, down) for far in range(12, 66, 6) for down in (-far, far) for side in sides]
    return [[_Room(mean.x + right, mean.y + down, width, SIZE) for right, down in own] for own in (near, away)]


@dataclass(frozen=True)
class _Room:
    """A rectangle by its middle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def inside(self) -> bool:
        """Whether it is between the axes."""
        left, right = self.x - self.width / 2, self.x + self.width / 2
        return left >= AXES_LEFT and right <= RIGHT and AXES_TOP <= self.y <= AXES_BOTTOM

    def touches(self, other: "_Room") -> bool:
        """Whether the two overlap."""
        across = abs(self.x - other.x) < (self.width + other.width) / 2
        return across and abs(self.y - other.y) < (self.height + other.height) / 2
