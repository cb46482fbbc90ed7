"""Charts of where a gain comes from: classes, confusions, kinds of test examples, and weights of layers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from results.analysis.interval import Interval, seed_intervals
from results.analysis.panels import Panel, as_stem, class_metric, class_runs, class_scores, confusion, layer_name, mixes
from results.analysis.rows import Group
from results.breakdown.gains import FEWEST, Kind
from results.figures.axes import (
    BELOW,
    LANE,
    LEFT,
    RIGHT,
    Scale,
    fitted,
    lane_title,
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


def kind_gains(panel: Panel, kinds: Mapping[str, Sequence[Kind]], arms: Arms) -> Figure:
    """The gain on each kind of test examples with its 95 % interval; kinds of one distinction below its name."""
    gains = {
        name.replace("_", " "): [
            _Gain(kind.label, kind.examples, (first.mean, second.mean), kind.row.interval(panel.label))
            for kind in of_name
            for first, second in [kind.row.groups]
        ]
        for name, of_name in kinds.items()
    }
    first, second = (arms[features] for features in panel.row.compared)
    caption = (
        f"Gain of {second.title} over {first.title} on each kind of test examples, in points of "
        f"{panel.metric_title()}, with 95 % interval, and the number of examples."
    )
    return _gains_figure(f"kinds-{panel.stem}", panel.title, caption, gains, panel.metric_title(), second)


def class_differences(panel: Panel, arms: Arms) -> Figure | None:
    """The gain of each class with its 95 % interval over seeds; None if the compared arms have no classes.

    Classes with few test examples are left out, as kinds of examples are.
    """
    pair = panel.row.pair(panel.label)
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


def per_class(panel: Panel, arms: Arms) -> Figure | None:
    """Score of each class, the arms on one line; None if the records have no classes."""
    metric = class_metric(panel.groups)
    scored = [(arms[group.features], class_scores(group, metric)) for group in panel.groups]
    names = list(dict.fromkeys(name for _, scores in scored for name in scores))
    if not names:
        return None
    scale = spread([score for _, scores in scored for score, _ in scores.values()], LEFT + 6, RIGHT - 6)
    bottom = 8 + LANE * len(names)
    marks, numbers = vertical_ticks(scale, 8, bottom, f"test {panel.metric_title(metric)} (%)"), []
    for lane, name in enumerate(names):
        y, each = 38 + lane * LANE, [(arm, *scores[name]) for arm, scores in scored if name in scores]
        gold = next((count for _, _, count in each if count is not None), None)
        marks += lane_title(y - 13, name, "" if gold is None else f"{gold:,} in test")
        ends = [scale.at(score) for _, score, _ in each]
        marks.append(ChartLine([(min(ends), y), (max(ends), y)], "grid", 4))
        for arm, score, _ in each:
            numbers.append(f"{arm.title}, {name}: {score:.1f}")
            marks.append(arm.dot(scale.at(score), y, 5, numbers[-1]))
    caption = f"Test {panel.metric_title(metric)} of each class in percent, mean over seeds."
    shown, text = [arm for arm, scores in scored if scores], "; ".join(numbers) + "."
    return Figure(f"classes-{panel.stem}", panel.title, caption, bottom + BELOW, marks, numbers=text, legend=shown)


def confusion_difference(panel: Panel, arms: Arms) -> Figure | None:
    """What the second arm changes in the confusion matrix, in points; None if the compared arms have no counts."""
    pair = panel.row.pair(panel.label)
    if pair is None:
        return None
    counted = [own for group in pair if (own := confusion(group))]
    if len(counted) < 2 or counted[0][0] != counted[1][0]:
        return None
    names, (before, after) = counted[0][0], (_shares(counts) for _, counts in counted)

    def cell(i: int, j: int) -> _Cell:
        change = 100 * (after[i][j] - before[i][j])
        shown = "0" if abs(change) < 0.5 else with_minus(f"{change:+.0f}")
        title = f"{before[i][j]:.1%} to {after[i][j]:.1%}"
        return _Cell(shown, title, f"{change:+.1f}", (change > 0) == (i == j), min(abs(change) / 20, 1.0))

    first, second = (arms[group.features] for group in pair)
    caption = (
        f"Predicted classes as a share of each gold class, over all seeds: {second.title} minus {first.title}, in "
        "points. Blue is better: more on the diagonal, less elsewhere."
    )
    return _matrix(f"confusion-{panel.stem}", panel.title, caption, names, cell)


def confusion_matrix(panel: Panel, group: Group, arms: Arms) -> Figure | None:
    """The confusion matrix in percent of each gold class; None if the records have no counts."""
    counted = confusion(group)
    if counted is None:
        return None
    names, counts = counted
    shares = _shares(counts)

    def cell(i: int, j: int) -> _Cell:
        shown, title = f"{shares[i][j]:.0%}", f"{counts[i][j]:,.0f} of {sum(counts[i]):,.0f}"
        return _Cell(shown, title, shown, i == j, shares[i][j])

    arm = arms[group.features].title
    caption = f"{arm}: predicted classes as a share of each gold class, over all seeds."
    name = f"confusion-{panel.stem}-{as_stem(group.features)}"
    return _matrix(name, f"{panel.title} · {arm}", caption, names, cell)


@dataclass(frozen=True)
class _Cell:
    """A cell of a matrix: text, tooltip, number for screen readers, whether it is good, and how strong, from 0 to 1."""

    text: str
    title: str
    number: str
    good: bool
    strength: float


def _shares(counts: Sequence[Sequence[float]]) -> list[list[float]]:
    """The counts of each line as shares of their sum."""
    return [[count / sum(line) if sum(line) else 0.0 for count in line] for line in counts]


def _matrix(name: str, title: str, caption: str, classes: Sequence[str], cell: Callable[[int, int], _Cell]) -> Figure:
    """A matrix; `cell` makes the one of a gold class, a line, and a predicted class."""
    left, top = min(8 + max(text_width(own, 11) for own in classes), 120.0), 46.0
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
            own, x = cell(i, j), left + j * width
            numbers.append(f"{gold} as {predicted} {own.number}")
            text, colour = f"{gold} taken for {predicted}: {own.title}", "blue" if own.good else "orange"
            marks.append(Box(x + 1, y + 1, width - 2, height - 2, colour, opacity=tint(own.strength), title=text))
            marks.append(Label(x + width / 2, y + height / 2 + 4, own.text, "ink", 12, "middle", i == j, halo=0))
    return Figure(name, title, caption, top + height * len(classes) + 8, marks, numbers="; ".join(numbers) + ".")


def layer_weights(panel: Panel, arms: Arms) -> Figure | None:
    """The weight of each layer by placement, as in the paper's Figure 2; None without learned mixes."""
    mixed = [(arms[group.features], mixes(group)) for group in panel.groups]
    places = list(dict.fromkeys(place for _, by_place in mixed for place in by_place))
    if not places:
        return None
    weights = [w for _, by_place in mixed for runs, _ in by_place.values() for run in runs for w in run]
    scale = Scale(0, max(0.5, *weights), 92, RIGHT - 42)
    marks, numbers, y = list[Mark](), list[str](), 6.0
    for place in places:
        at_place = [(arm, *by_place[place]) for arm, by_place in mixed if place in by_place]
        gammas = "gamma " + ", ".join(f"{gamma:.2f}" for _, _, gamma in at_place)
        counts = {len(runs[0]) for _, runs, _ in at_place}
        layers, top = max(counts), y + 24
        y += 18
        marks += lane_title(y, place, fitted(gammas, 260, 11))
        for layer in range(layers):
            y += 8
            with_layer = [(arm, [run[layer] for run in runs]) for arm, runs, _ in at_place if layer < len(runs[0])]
            marks.append(Label(LEFT, y + 6 + 5 * len(with_layer), layer_name(layer, layers), "muted", 12))
            for arm, each in with_layer:
                mean, title = fmean(each), f"{arm.title}, {place}, {layer_name(layer, layers)}"
                numbers.append(f"{title}: {mean:.2f}")
                title, features = f"{title}: {mean:.3f}", arm.features
                marks.append(arm.dot(84, y + 5, 3.5))
                marks.append(Box(92, y, scale.at(mean) - 92, 10, arm.colour, title=title, arm=features))
                if len(each) > 1:
                    ends = [(scale.at(end), y + 5) for end in (min(each), max(each))]
                    title = f"seeds: {min(each):.3f} to {max(each):.3f}"
                    marks.append(ChartLine(ends, "ink", title=title, arm=features))
                marks.append(Label(RIGHT, y + 9, f"{mean:.2f}", "muted", 11, "end", arm=features))
                y += 13
        if len(counts) == 1:  # else it differs between arms
            even, title = scale.at(1 / layers), f"all layers alike: {1 / layers:.2f}"
            marks.append(ChartLine([(even, top), (even, y)], "muted", 1, "4 3", title=title))
        y += 8
    marks.append(Label((scale.start + scale.end) / 2, y + 8, "weight of the layer", "muted", 11, "middle"))
    caption = "Weight of each biLM layer after the softmax, mean over seeds; thin line: their range; dashed: all alike."
    shown, text = [arm for arm, by_place in mixed if by_place], "; ".join(numbers) + "."
    return Figure(f"layers-{panel.stem}", panel.title, caption, y + 16, marks, numbers=text, legend=shown)


def layer_map(groups: Sequence[tuple[str, Group]]) -> Figure | None:
    """The weight of each layer at each place for several tasks, the paper's Figure 2; None without learned mixes.

    Args:
        groups: Groups with their titles; those without mixes are left out.
    """
    titled = [(", ".join(filter(None, [title, group.old_recipe])), group, mixes(group)) for title, group in groups]
    lanes = [(title, group, by_place) for title, group, by_place in titled if by_place]
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
            name = fitted(layer_name(layer, count), width, 9)
            marks.append(Label(left + (layer + 0.5) * width, 26, name, "muted", 9, "middle"))
        for lane, (title, _, by_place) in enumerate(lanes):
            runs, gamma = by_place.get(place, ([], 0.0))
            y = top + lane * height + 18
            for layer, each in enumerate(zip(*runs, strict=True)):
                mean, x = fmean(each), left + layer * width
                text = f"{title}, {place}, {layer_name(layer, len(runs[0]))}: {mean:.3f}"
                numbers.append(text)
                text += f", runs {min(each):.3f} to {max(each):.3f}, gamma {gamma:.2f}"
                marks.append(Box(x + 1, y, width - 2, 22, "blue", opacity=tint(mean), title=text))
                bold, shown = mean > 1 / len(runs[0]), fitted(f"{mean:.2f}", width, 11)
                marks.append(Label(x + width / 2, y + 15, shown, "ink", 11, "middle", bold, halo=0))
        left += count * width + gap
    for lane, (title, group, _) in enumerate(lanes):
        y, runs_text = top + lane * height + 13, "1 run" if len(group.runs) == 1 else f"{len(group.runs)} runs"
        marks.append(Label(LEFT, y, fitted(title, RIGHT - LEFT - text_width(runs_text, 11) - 8), "ink", 12))
        marks.append(Label(RIGHT, y, runs_text, "muted", 11, "end"))
    caption = "Weight of each layer after the softmax, mean over runs; bold: above an even share."
    title, text = "Figure 2: weights of the layers", "; ".join(numbers) + "."
    return Figure("layer-weights", title, caption, top + height * len(lanes) + 4, marks, numbers=text)
