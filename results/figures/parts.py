"""Charts of where a gain comes from: classes, confusions, kinds of test examples, and weights of layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from results.analysis.interval import Interval, seed_intervals
from results.analysis.panels import class_metric, class_runs, class_scores, confusion, layer_name, mixes
from results.analysis.rows import Group, Row
from results.breakdown import FEWEST, Kind
from results.figures.axes import (
    BELOW,
    LEFT,
    RIGHT,
    fitted,
    spread,
    text_width,
    tint,
    vertical_ticks,
    with_minus,
)
from results.figures.marks import Arm, Arms, Box, ChartLine, Dot, Figure, Label, Mark


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
    def ends(self) -> Sequence[float]:
        """Of its interval, or the value alone."""
        return self.interval.ends if self.interval else [self.value]

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


def kind_gains(panel: Row, kinds: Sequence[Kind], arms: Arms) -> Figure:
    """The gain on each kind of test examples with its 95 % interval; kinds of one distinction below its name."""
    gains: dict[str, list[_Gain]] = {}
    for kind in kinds:
        before, after = (group.mean for group in kind.row.groups)
        gains.setdefault(kind.by, []).append(_Gain(kind.label, kind.examples, (before, after), kind.row.interval))
    first, second = (arms[features] for features in panel.compared)
    caption = (
        f"Gain of {second.title} over {first.title} on each kind of test examples, in points of "
        f"{panel.metric_title()}, with 95 % interval, and the number of examples."
    )
    return _gains_figure(f"kinds-{panel.stem}", panel.title, caption, gains, panel.metric_title(), second)


def class_differences(panel: Row, arms: Arms) -> Figure | None:
    """The gain of each class with its 95 % interval over seeds; None if the compared arms have no classes.

    Classes with few test examples are left out, as kinds of examples are.
    """
    pair = panel.pair
    if pair is None or not (metric := class_metric(pair)):
        return None
    before, after = (class_runs(group, metric) for group in pair)
    gains = []
    for name, (_, gold) in class_scores(pair[1], metric).items():
        if name in before and (gold is None or gold >= FEWEST):
            intervals = seed_intervals(before[name], after[name])
            scores = fmean(before[name]), fmean(after[name])
            gains.append(_Gain(name, gold, scores, intervals.gain if intervals else None))
    if not gains:
        return None
    first, second = (arms[group.features] for group in pair)
    title = panel.metric_title(metric)
    caption = (
        f"Gain of {second.title} over {first.title} in each class, in points of {title}, with 95 % interval over "
        "seeds, and the number of test examples."
    )
    return _gains_figure(f"classes-{panel.stem}", panel.title, caption, {"": gains}, title, second)


def _gains_figure(
    name: str, title: str, caption: str, gains: Mapping[str, Sequence[_Gain]], metric: str, arm: Arm
) -> Figure:
    """A line for each gain, below the name of its distinction if it has one."""
    each = [gain for of_name in gains.values() for gain in of_name]
    scale = spread([end for gain in each for end in gain.ends], LEFT, RIGHT, zero=True)
    marks, numbers, y = list[Mark](), list[str](), 0.0
    for distinction, of_name in gains.items():
        if distinction:
            y += 18
            marks.append(Label(LEFT, y, distinction, "ink", 12, bold=True))
        numbers.append(f"{distinction}: " * bool(distinction) + "; ".join(gain.numbers for gain in of_name))
        for gain in of_name:
            sure = gain.interval is not None and gain.interval.sign != 0
            room = RIGHT - LEFT - text_width(gain.count + gain.text, 11) - 8
            marks += [
                ChartLine([(scale.at(0), y + 19), (scale.at(0), y + 29)], "muted"),
                Label(LEFT, y + 16, fitted(gain.name, room, 11) + gain.count, "ink", 11),
                Label(RIGHT, y + 16, gain.text, "ink" if sure else "muted", 11, "end", sure),
            ]
            if gain.interval:
                line = [(scale.at(end), y + 24) for end in gain.ends]
                marks.append(ChartLine(line, arm.colour, 3, "" if sure else "3 3", title=gain.numbers))
            marks.append(Dot(scale.at(gain.value), y + 24, arm.colour, arm.shape, 4.0, title=gain.numbers))
            y += 30
        y += 6
    marks = [*vertical_ticks(scale, 0, y, f"gain, points of {metric}"), *marks]
    return Figure(name, title, caption, y + BELOW, marks, numbers=". ".join(numbers) + ".")


def confusions(panel: Row, arms: Arms) -> Figure | None:
    """What the second arm changes in the confusion matrix, in points; None if the compared arms have no counts."""
    pair = panel.pair
    counted = [counts for group in pair or () if (counts := confusion(group))]
    if pair is None or len(counted) < 2 or counted[0][0] != counted[1][0]:
        return None
    classes, (before, after) = counted[0][0], (_shares(counts) for _, counts in counted)
    left, top = min(8 + max(text_width(name, 11) for name in classes), 120.0), 46.0
    width = (RIGHT - left) / len(classes)
    height = min(width, 40.0)
    marks: list[Mark] = [Label((left + RIGHT) / 2, 12, "predicted", "muted", 11, "middle"), Label(LEFT, 12, "gold")]
    numbers = []
    for i, gold in enumerate(classes):
        words = gold.split(" ", 1) if text_width(gold, 10) > width else [gold]
        for line, word in enumerate(reversed(words)):
            x = left + (i + 0.5) * width
            marks.append(Label(x, top - 8 - 12 * line, fitted(word, width, 10), "muted", 10, "middle"))
        y = top + i * height
        marks.append(Label(left - 6, y + height / 2 + 4, fitted(gold, left - 8, 11), "muted", 11, "end"))
        for j, predicted in enumerate(classes):
            x, change = left + j * width, 100 * (after[i][j] - before[i][j])
            numbers.append(f"{gold} as {predicted} {change:+.1f}")
            title = f"{gold} taken for {predicted}: {before[i][j]:.1%} to {after[i][j]:.1%}"
            colour, strength = "blue" if (change > 0) == (i == j) else "orange", min(abs(change) / 20, 1.0)
            marks.append(Box(x + 1, y + 1, width - 2, height - 2, colour, opacity=tint(strength), title=title))
            shown = "0" if abs(change) < 0.5 else with_minus(f"{change:+.0f}")
            marks.append(Label(x + width / 2, y + height / 2 + 4, shown, "ink", 12, "middle", i == j, halo=0))
    first, second = (arms[group.features] for group in pair)
    caption = (
        f"Predicted classes as a share of each gold class, over all seeds: {second.title} minus {first.title}, in "
        "points. Blue is better: more on the diagonal, less elsewhere."
    )
    name, text = f"confusion-{panel.stem}", "; ".join(numbers) + "."
    return Figure(name, panel.title, caption, top + height * len(classes) + 8, marks, numbers=text)


def _shares(counts: Sequence[Sequence[float]]) -> list[list[float]]:
    """The counts of each line as shares of their sum."""
    return [[count / sum(line) if sum(line) else 0.0 for count in line] for line in counts]


def layer_map(
    groups: Sequence[tuple[str, Group]],
    name: str = "layer-weights",
    title: str = "Figure 2: weights of the layers",
) -> Figure | None:
    """The weight of each layer at each place, the paper's Figure 2; None without learned mixes.

    Args:
        groups: Tasks or arms with their titles; those without mixes are left out.
        name: Of the file.
        title: Of the figure.
    """
    lanes = [
        (lane if group.old_recipe in lane else f"{lane}, {group.old_recipe}", group, by_place)
        for lane, group in groups
        if (by_place := mixes(group))
    ]
    if not lanes:
        return None
    layers: dict[str, int] = {}  # by place
    for _, _, by_place in lanes:
        for place, (runs, _) in by_place.items():
            layers[place] = max(layers.get(place, 0), len(runs[0]))
    gap, top, height = 10.0, 34.0, 46.0
    width = (RIGHT - LEFT - gap * (len(layers) - 1)) / sum(layers.values())
    marks, numbers, left = list[Mark](), list[str](), LEFT
    for place, count in layers.items():
        marks.append(Label(left + count * width / 2, 11, fitted(place, count * width), "ink", 12, "middle", bold=True))
        for layer in range(count):
            shown = fitted(layer_name(layer, count), width, 9)
            marks.append(Label(left + (layer + 0.5) * width, 26, shown, "muted", 9, "middle"))
        for number, (lane, _, by_place) in enumerate(lanes):
            runs, gamma = by_place.get(place, ([], 0.0))
            y = top + number * height + 18
            for layer, each in enumerate(zip(*runs, strict=True)):
                mean, x = fmean(each), left + layer * width
                text = f"{lane}, {place}, {layer_name(layer, len(runs[0]))}: {mean:.3f}"
                numbers.append(text)
                text += f", runs {min(each):.3f} to {max(each):.3f}, gamma {gamma:.2f}"
                marks.append(Box(x + 1, y, width - 2, 22, "blue", opacity=tint(mean), title=text))
                bold, shown = mean > 1 / len(runs[0]), fitted(f"{mean:.2f}", width, 11)
                marks.append(Label(x + width / 2, y + 15, shown, "ink", 11, "middle", bold, halo=0))
        left += count * width + gap
    for number, (lane, group, _) in enumerate(lanes):
        y, runs_text = top + number * height + 13, "1 run" if len(group.runs) == 1 else f"{len(group.runs)} runs"
        marks.append(Label(LEFT, y, fitted(lane, RIGHT - LEFT - text_width(runs_text, 11) - 8), "ink", 12))
        marks.append(Label(RIGHT, y, runs_text, "muted", 11, "end"))
    caption = "Weight of each layer after the softmax, mean over runs; bold: above an even share."
    return Figure(name, title, caption, top + height * len(lanes) + 4, marks, numbers="; ".join(numbers) + ".")
