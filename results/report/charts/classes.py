"""Charts of where a gain comes from: classes, confusions, and kinds of test examples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from results.analysis.interval import Interval, seed_intervals
from results.analysis.panels import Panel, as_stem, class_metric, class_runs, class_scores, confusion
from results.analysis.rows import Group
from results.breakdown.gains import FEWEST, Kind
from results.report.charts.axes import BELOW, LANE, LEFT, RIGHT, Arms, legend_of, vertical_ticks
from results.report.figures import (
    Arm,
    Box,
    ChartLine,
    Dot,
    Figure,
    Label,
    Mark,
    fitted,
    spread,
    text_width,
    tint,
    with_minus,
)


@dataclass(frozen=True)
class _Gain:
    """One line of a chart of gains: a class or kind with its number of test examples, both scores, and the interval."""

    name: str
    examples: float | None
    scores: tuple[float, float]
    interval: Interval | None

    @property
    def value(self) -> float:
        return self.scores[1] - self.scores[0]

    @property
    def sure(self) -> bool:
        return self.interval is not None and self.interval.sign != 0

    @property
    def text(self) -> str:
        between = f", {self.interval.low:+.1f} to {self.interval.high:+.1f}" if self.interval else ""
        return with_minus(f"{self.value:+.1f}{between}")

    @property
    def count(self) -> str:
        return "" if self.examples is None else f" · {self.examples:,}"

    @property
    def numbers(self) -> str:
        return f"{self.name}{self.count}: {self.scores[0]:.1f} to {self.scores[1]:.1f}, {self.text}"


def kind_gains(panel: Panel, kinds: Mapping[str, Sequence[Kind]], arms: Arms) -> Figure:
    """The gain on each kind of test examples with its 95 % interval; kinds of one distinction below its name."""
    gains = {
        name.replace("_", " "): [
            _Gain(
                kind.label,
                kind.examples,
                (kind.row.groups[0].mean, kind.row.groups[1].mean),
                kind.row.interval(panel.label),
            )
            for kind in own
        ]
        for name, own in kinds.items()
    }
    first, second = (arms[features] for features in panel.row.compared)
    caption = (
        f"Gain of {second.title} over {first.title} on each kind of test examples, in points of "
        f"{panel.metric_title()}, with 95 % interval, and the number of examples."
    )
    height, marks = _gain_lines(gains, f"gain, points of {panel.metric_title()}", second)
    return Figure(f"kinds-{panel.stem}", panel.title, caption, height, marks, numbers=_numbers(gains))


def class_differences(panel: Panel, arms: Arms) -> Figure | None:
    """The gain of each class with its 95 % interval over seeds; None if the compared arms have no classes.

    Classes with few test examples are left out, as kinds of examples are.
    """
    pair = panel.row.pair(panel.label)
    if pair is None or not (metric := class_metric(pair)):
        return None
    runs = [class_runs(group, metric) for group in pair]
    counts = class_scores(pair[1], metric)
    gains = []
    for name in (name for name in runs[0] if name in runs[1]):
        before, after = (own[name] for own in runs)
        gold = counts[name][1]
        if gold is not None and gold < FEWEST:
            continue
        intervals = seed_intervals(before, after)
        scores = sum(before) / len(before), sum(after) / len(after)
        gains.append(_Gain(name, gold, scores, intervals.gain if intervals else None))
    if not gains:
        return None
    first, second = (arms[group.features] for group in pair)
    title = panel.metric_title(metric)
    caption = (
        f"Gain of {second.title} over {first.title} in each class, in points of {title}, with 95 % interval over "
        "seeds, and the number of test examples."
    )
    height, marks = _gain_lines({"": gains}, f"gain, points of {title}", second)
    return Figure(f"classes-{panel.stem}", panel.title, caption, height, marks, numbers=_numbers({"": gains}))


def _numbers(gains: Mapping[str, Sequence[_Gain]]) -> str:
    parts = [(f"{name}: " if name else "") + "; ".join(gain.numbers for gain in own) for name, own in gains.items()]
    return ". ".join(parts) + "."


def _gain_lines(gains: Mapping[str, Sequence[_Gain]], axis: str, arm: Arm) -> tuple[float, list[Mark]]:
    """Height and marks: a line for each gain, below the name of its distinction if it has one."""
    each = [gain for own in gains.values() for gain in own]
    ends = [end for own in each for end in (own.interval.ends if own.interval else [own.value])]
    scale = spread(ends, LEFT, RIGHT, zero=True)
    marks: list[Mark] = []
    y = 0.0
    for name, own in gains.items():
        if name:
            y += 18
            marks.append(Label(LEFT, y, name, "ink", 12, bold=True))
        for gain in own:
            marks.append(ChartLine([(scale.at(0), y + 19), (scale.at(0), y + 29)], "muted", 1.5))
            room = RIGHT - LEFT - text_width(gain.count + gain.text, 11) - 8
            marks.append(Label(LEFT, y + 16, fitted(gain.name, room, 11) + gain.count, "ink", 11))
            marks.append(Label(RIGHT, y + 16, gain.text, "ink" if gain.sure else "muted", 11, "end", gain.sure))
            if gain.interval:
                line = [(scale.at(end), y + 24) for end in gain.interval.ends]
                dash = "" if gain.sure else "3 3"
                marks.append(ChartLine(line, arm.colour, 3, title=gain.numbers, dash=dash))
            marks.append(Dot(scale.at(gain.value), y + 24, arm.colour, arm.shape, 4.0, title=gain.numbers))
            y += 30
        y += 6
    return y + BELOW, [*vertical_ticks(scale, 0, y, axis), *marks]


def per_class(panel: Panel, arms: Arms) -> Figure | None:
    """Score of each class, the arms on one line; None if the records have no classes."""
    metric = class_metric(panel.groups)
    found = [(group, class_scores(group, metric)) for group in panel.groups]
    names = list(dict.fromkeys(name for _, own in found for name in own))
    if not names:
        return None
    scale = spread([score for _, own in found for score, _ in own.values()], LEFT + 6, RIGHT - 6)
    top = 8.0
    bottom = top + LANE * len(names)
    marks = vertical_ticks(scale, top, bottom, f"test {panel.metric_title(metric)} (%)")
    numbers = []
    for lane, name in enumerate(names):
        y = top + lane * LANE + 30
        each = [(group, *own[name]) for group, own in found if name in own]
        gold = next((count for _, _, count in each if count is not None), None)
        marks.append(Label(LEFT, y - 13, fitted(name, 240), "ink", 12, bold=True))
        marks.append(Label(RIGHT, y - 13, "" if gold is None else f"{gold:,} in test", "muted", 11, "end"))
        ends = [scale.at(score) for _, score, _ in each]
        marks.append(ChartLine([(min(ends), y), (max(ends), y)], "grid", 4))
        for group, score, _ in each:
            arm = arms[group.features]
            title = f"{arm.title}, {name}: {score:.1f}"
            marks.append(Dot(scale.at(score), y, arm.colour, arm.shape, 5, title=title, arm=arm.features))
            numbers.append(title)
    caption = f"Test {panel.metric_title(metric)} of each class in percent, mean over seeds."
    legend = legend_of([group.features for group, own in found if own], arms)
    text = "; ".join(numbers) + "."
    return Figure(f"classes-{panel.stem}", panel.title, caption, bottom + BELOW, marks, numbers=text, legend=legend)


def confusion_difference(panel: Panel, arms: Arms) -> Figure | None:
    """What the second arm changes in the confusion matrix, in points; None if the compared arms have no counts."""
    pair = panel.row.pair(panel.label)
    if pair is None:
        return None
    found = [own for group in pair if (own := confusion(group))]
    if len(found) < 2 or found[0][0] != found[1][0]:
        return None
    names, (before, after) = found[0][0], (_shares(counts) for _, counts in found)

    def cell(i: int, j: int) -> _Cell:
        change = 100 * (after[i][j] - before[i][j])
        shown = "0" if abs(change) < 0.5 else with_minus(f"{change:+.0f}")
        title = f"{before[i][j]:.1%} to {after[i][j]:.1%}"
        better = (change > 0) == (i == j)
        return _Cell(shown, title, f"{change:+.1f}", "blue" if better else "orange", min(abs(change) / 20, 1.0))

    first, second = (arms[group.features] for group in pair)
    caption = (
        f"Predicted classes as a share of each gold class, over all seeds: {second.title} minus {first.title}, in "
        "points. Blue is better: more on the diagonal, less elsewhere."
    )
    height, marks, numbers = _matrix(names, cell)
    return Figure(f"confusion-{panel.stem}", panel.title, caption, height, marks, numbers=numbers)


def confusion_matrix(panel: Panel, group: Group, arms: Arms) -> Figure | None:
    """The confusion matrix in percent of each gold class; None if the records have no counts."""
    found = confusion(group)
    if found is None:
        return None
    names, counts = found
    shares = _shares(counts)

    def cell(i: int, j: int) -> _Cell:
        shown, title = f"{shares[i][j]:.0%}", f"{counts[i][j]:,.0f} of {sum(counts[i]):,.0f}"
        return _Cell(shown, title, shown, "blue" if i == j else "orange", shares[i][j])

    arm = arms[group.features].title
    caption = f"{arm}: predicted classes as a share of each gold class, over all seeds."
    height, marks, numbers = _matrix(names, cell)
    name = f"confusion-{panel.stem}-{as_stem(group.features)}"
    return Figure(name, f"{panel.title} · {arm}", caption, height, marks, numbers=numbers)


@dataclass(frozen=True)
class _Cell:
    """A cell of a matrix: text, tooltip, number for screen readers, colour, and how strong that is, from 0 to 1."""

    text: str
    title: str
    number: str
    colour: str
    strength: float


def _shares(counts: Sequence[Sequence[float]]) -> list[list[float]]:
    """The counts of each line as shares of their sum."""
    return [[count / sum(line) if sum(line) else 0.0 for count in line] for line in counts]


def _matrix(names: Sequence[str], cell: Callable[[int, int], _Cell]) -> tuple[float, list[Mark], str]:
    """Height, marks and numbers of a matrix; `cell` makes the one of a gold class, a line, and a predicted class."""
    left, top = min(8 + max(text_width(name, 11) for name in names), 120.0), 46.0
    width = (RIGHT - left) / len(names)
    height = min(width, 40.0)
    marks: list[Mark] = [Label((left + RIGHT) / 2, 12, "predicted", "muted", 11, "middle"), Label(LEFT, 12, "gold")]
    for column, name in enumerate(names):
        words = name.split(" ", 1) if text_width(name, 10) > width else [name]
        for line, word in enumerate(words):
            y = top - 8 - 12 * (len(words) - 1 - line)
            marks.append(Label(left + (column + 0.5) * width, y, fitted(word, width, 10), "muted", 10, "middle"))
    numbers = []
    for i, name in enumerate(names):
        y = top + i * height
        marks.append(Label(left - 6, y + height / 2 + 4, fitted(name, left - 8, 11), "muted", 11, "end"))
        for j, other in enumerate(names):
            own = cell(i, j)
            numbers.append(f"{name} as {other} {own.number}")
            box = left + j * width + 1, y + 1, width - 2, height - 2
            marks.append(Box(*box, own.colour, tint(own.strength), f"{name} taken for {other}: {own.title}"))
            x = left + (j + 0.5) * width
            marks.append(Label(x, y + height / 2 + 4, own.text, "ink", 12, "middle", i == j, halo=0))
    return top + height * len(names) + 8, marks, "; ".join(numbers) + "."
