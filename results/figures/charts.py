"""Charts of runs: scores, learning curves, classes, confusions, kinds of examples, layers, training set sizes."""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results.analysis.interval import Interval, seed_intervals
from results.analysis.names import arm_title, metric_title
from results.analysis.panels import (
    OF_WHOLE,
    Efficiency,
    class_metric,
    class_runs,
    class_scores,
    confusion,
    curve,
    layer_name,
    mixes,
    speeds,
)
from results.analysis.rows import Group, Row, Table, as_stem
from results.breakdown import FEWEST, Kind
from results.figures import axes
from results.figures.marks import Area, Arm, Arms, Box, ChartLine, Dot, Figure, Label, Mark, arms_of, titled
from results.tables.fill import is_measured


def seed_scatter(panel: Row, arms: Arms) -> Figure:
    """One dot for each run's test score, a lane for each arm, a bar at the mean."""
    scale = axes.spread([score for group in panel.groups for score in group.scores], axes.LEFT + 4, axes.RIGHT - 4)
    bottom = axes.LANE * len(panel.groups)
    marks, numbers = axes.vertical_ticks(scale, 0, bottom, f"test {panel.metric_title()} (%)"), []
    for lane, group in enumerate(panel.groups):
        arm, y, mean = arms[group.features], lane * axes.LANE + 30, scale.at(group.mean)
        deviation = "" if group.std is None else f" ± {group.std:.2f}"
        marks += axes.lane_title(y - 14, arm.title, f"{group.mean:.2f}{deviation}")
        marks.append(arm.line([(mean, y - 8), (mean, y + 8)], 2.5, f"mean {group.mean:.2f}"))
        for record in group.records:
            title = f"{arm.title}, seed {record.identity.seed}: {record.score:.2f}"
            marks.append(arm.dot(scale.at(record.score), y, title=title))
        scores = ", ".join(f"{score:.1f}" for score in group.scores)
        numbers.append(f"{arm.title}: {scores}; mean {group.mean:.2f}.")
    caption = f"Test {panel.metric_title()} of every run; the bar is the mean."
    return Figure(f"seeds-{panel.stem}", panel.title, caption, bottom + axes.BELOW, marks, numbers=" ".join(numbers))


def learning_curves(panel: Row, arms: Arms) -> Figure | None:
    """The mean dev score by epoch with the range of the runs, and the best epoch of each; None if no run has epochs."""
    curves = [[(record, dict(curve(record))) for record in group.runs if curve(record)] for group in panel.groups]
    points = [point for runs in curves for _, run in runs for point in run.items()]
    if not points:
        return None
    epochs = axes.Scale(min(x for x, _ in points), max(x for x, _ in points), axes.AXES_LEFT, axes.RIGHT)
    scores = axes.score_scale([y for _, y in points])
    ticks = {float(round(tick)): axes.shown_tick(round(tick)) for tick in epochs.ticks()}
    marks = axes.both_axes(scores, f"dev {panel.metric_title()} (%)", epochs, "epoch", ticks)
    lines, bests, numbers = list[Mark](), list[Mark](), []  # lines are above all bands
    for group, runs in zip(panel.groups, curves, strict=True):
        arm = arms[group.features]
        reached_by_all = sorted(set.intersection(*(set(run) for _, run in runs))) if runs else []
        if reached_by_all:
            each = {epoch: [run[epoch] for _, run in runs] for epoch in reached_by_all}
            means = {epoch: statistics.fmean(of_epoch) for epoch, of_epoch in each.items()}
            best = max(means, key=means.__getitem__)
            title = f"{arm.title}: best mean {means[best]:.2f} in epoch {best:g}"
            numbers.append(f"{title}.")
            lines.append(arm.line([(epochs.at(x), scores.at(y)) for x, y in means.items()], 2, title, arm.dash))
            if len(runs) > 1:
                upper = [(epochs.at(epoch), scores.at(max(of_epoch))) for epoch, of_epoch in each.items()]
                lower = [(epochs.at(epoch), scores.at(min(of_epoch))) for epoch, of_epoch in each.items()]
                title = f"{arm.title}: range of the runs"
                marks.append(Area([*upper, *reversed(lower)], arm.colour, opacity=0.15, title=title))
                marks += [arm.line(upper, 0.6), arm.line(lower, 0.6)]
        for record, run in runs:
            best = max(run, key=run.__getitem__)
            name = f"{arm.title}{record.identity.in_fold}, seed {record.identity.seed}"
            title = f"{name}: best dev {run[best]:.2f} in epoch {best:g}"
            bests.append(arm.dot(epochs.at(best), scores.at(run[best]), 3.5, title))
    caption = (
        f"Dev {panel.metric_title()} by epoch: the mean and the range of the runs, up to the last epoch that all of "
        "them reached. Marks: each run's best epoch."
    )
    shown = [arms[group.features] for group in panel.groups]
    name, marks = f"curves-{panel.stem}", [*marks, *lines, *bests]
    return Figure(name, panel.title, caption, axes.AXES_HEIGHT, marks, numbers=" ".join(numbers), legend=shown)


def convergence(panels: Sequence[Row], compared: tuple[str, str]) -> Figure | None:
    """The epochs until the first arm's best dev score, a lane for each task; None if no task has pairs of runs."""
    lanes = [(panel, pairs) for panel in panels if (pairs := speeds(panel))]
    if not lanes:
        return None
    first, second = arms_of({features: arm_title(features) for features in compared}).values()
    most = max(epoch for _, pairs in lanes for pair in pairs for epoch in (pair.best, pair.reached))
    scale, bottom = axes.Scale(1, max(most, 2), axes.LEFT + 8, axes.RIGHT - 8, log=True), axes.LANE * len(lanes)
    marks, numbers = axes.vertical_ticks(scale, 0, bottom, "epochs (log scale)"), []
    for lane, (panel, pairs) in enumerate(lanes):
        y = lane * axes.LANE + 30
        sides = [(first, [pair.best for pair in pairs]), (second, [pair.reached for pair in pairs])]
        before, after = (statistics.fmean(epochs) for _, epochs in sides)
        text, missed = f"{before:.1f} → {after:.1f}", sum(pair.censored for pair in pairs)
        marks += axes.lane_title(y - 14, panel.title, text)
        marks.append(ChartLine([(scale.at(before), y), (scale.at(after), y)], "muted"))
        for (arm, epochs), mean in zip(sides, (before, after), strict=True):
            marks += [Dot(scale.at(epoch), y, arm.colour, "circle", 2, opacity=0.7) for epoch in epochs]
            marks.append(arm.dot(scale.at(mean), y, title=f"{arm.title}: {mean:.1f}"))
        never = f", {missed} never" if missed else ""
        numbers.append(f"{panel.title}: {text} ({len(pairs)} pairs of runs{never}).")
    caption = (
        f"Epochs until the best dev score of {first.title}, which {second.title} reaches earlier or later: marks are "
        "means, dots runs. A run that never reaches it counts with its last epoch."
    )
    title, text = f"Epochs until the best dev score of {first.title}", " ".join(numbers)
    return Figure("convergence", title, caption, bottom + axes.BELOW, marks, numbers=text, legend=[first, second])


def sample_efficiency(sizes: Efficiency, arms: Arms) -> Figure:
    """Test score by the number of training examples, on a logarithmic scale: the paper's Figure 1.

    A line ends where the recipe changes, and sizes with runs of an older recipe have a star.
    """
    panel = sizes.row
    groups = [group for points in sizes.series.values() for _, group in points]
    mixed = len({group.recipe for group in groups}) > 1
    arms = titled(arms, groups, recipes=not mixed)
    values = sorted({size for points in sizes.series.values() for size, _ in points})
    across = axes.Scale(values[0], values[-1], axes.AXES_LEFT + 10, axes.RIGHT - 14, log=True)
    scale = axes.score_scale([score for group in groups for score in group.scores])
    metric = metric_title(groups[0].metric, groups[0].records[0])
    digits = ".2g" if sizes.unit == OF_WHOLE else ".4g"  # 549 of 549,367 are 0.1 %
    counted = sizes.unit == "training examples"
    texts = {value: f"{value:,.0f}" if counted else f"{100 * value:{digits}}%" for value in values}
    old = {size: group.old_recipe for points in sizes.series.values() for size, group in points if group.old_recipe}
    star = f"; * {', '.join(sorted(set(old.values())))}" if mixed else ""
    texts |= {size: f"{texts[size]}*" for size in old if star}
    marks = axes.both_axes(scale, f"test {metric} (%)", across, f"{sizes.unit} (log){star}", texts)
    numbers = []
    for features, points in sizes.series.items():
        arm = arms[features]
        for _, same in itertools.groupby(points, key=lambda point: point[1].recipe):
            line = [(across.at(size), scale.at(group.mean)) for size, group in same]
            marks.append(arm.line(line, dash=arm.dash))
        for size, group in points:
            x = across.at(size)
            for score in group.scores:
                title = f"{arm.title}: {score:.2f}"
                marks.append(Dot(x, scale.at(score), arm.colour, "circle", 2, title=title))
            title = f"{arm.title}, {texts[size]}: {group.mean:.2f} ({len(group.records)} seeds)"
            marks.append(arm.dot(x, scale.at(group.mean), title=title))
        means = ", ".join(f"{texts[size]}: {group.mean:.1f}" for size, group in points)
        numbers.append(f"{arm.title}, by {sizes.unit}: {means}.")
    caption = f"Test {metric} by training set size; line and mark: mean, dots: seeds{star}."
    name, shown = f"efficiency-{panel.stem}", [arms[features] for features in sizes.series]
    return Figure(name, panel.title, caption, axes.AXES_HEIGHT, marks, numbers=" ".join(numbers), legend=shown)


def gains_by_perplexity(table: Table) -> list[Figure]:
    """A panel for each task with runs of two biLMs or more whose perplexity is known, and of the first arm compared."""
    return [figure for line in table.rows if (figure := _by_perplexity(table, line))]


def _by_perplexity(table: Table, line: Row) -> Figure | None:
    base, base_title = line.group(table.base), table.titles[table.base]
    if base is None:
        return None
    known = table.experiment.perplexities
    gains = {
        arm: [score - base.mean for score in group.scores]
        for arm, perplexity in known.items()
        if (group := line.group(arm)) and is_measured(perplexity, group) and group.recipe == base.recipe
    }
    if len(gains) < 2:  # one biLM is no relation
        return None
    of_base = [score - base.mean for score in base.scores]
    perplexities = [known[arm].mean for arm in gains]
    margin = 1.02 * (max(perplexities) / min(perplexities)) ** 0.1
    # Lower perplexities, of better biLMs, are at the right.
    across = axes.Scale(min(perplexities) / margin, max(perplexities) * margin, axes.RIGHT, axes.AXES_LEFT, log=True)
    up = axes.score_scale([gain for of_arm in gains.values() for gain in of_arm] + of_base, zero=True)
    metric = metric_title(base.metric, base.records[0])
    up_title = f"gain in {line.spec.split} {metric} over {base_title} (points)"
    ticks = {tick: axes.shown_tick(tick) for tick in across.ticks()}
    marks = axes.both_axes(up, up_title, across, "held-out perplexity (log scale), lower to the right", ticks)
    low, zero, high = up.at(min(of_base)), up.at(0), up.at(max(of_base))
    band = [(axes.AXES_LEFT, low), (axes.RIGHT, low), (axes.RIGHT, high), (axes.AXES_LEFT, high)]
    name = f"{base_title} ({len(of_base)})"
    marks += [
        Area(band, "grey", opacity=0.2, title=name),
        ChartLine([(axes.AXES_LEFT, zero), (axes.RIGHT, zero)], "grey", title=name),
        Label(axes.RIGHT - 4, zero + 13, name, "muted", 11, "end"),
    ]
    looks, numbers = arms_of({arm: f"{table.titles[arm]} ({len(of_arm)})" for arm, of_arm in gains.items()}), []
    for arm in gains:
        look, perplexity, mean = looks[arm], known[arm], statistics.fmean(gains[arm])
        runs = ", ".join(f"{gain:+.2f}" for gain in gains[arm])
        text = f"perplexity {perplexity.mean:.2f} ({perplexity.unknown:.2f} % of the words are <UNK>)"
        text = axes.with_minus(f"{text}, gain {mean:+.2f} ({len(gains[arm])} runs: {runs})")
        numbers.append(f"{table.titles[arm]}: {text}")
        x, ys = across.at(perplexity.mean), [up.at(gain) for gain in gains[arm]]
        marks += [look.line([(x, max(ys)), (x, min(ys))], 1.5)]
        marks += [Dot(x, y, look.colour, "circle", 2, title=numbers[-1]) for y in ys]
        marks.append(look.dot(x, up.at(mean), title=numbers[-1]))
    caption = (
        f"Large marks: mean gain of a biLM; dots: its runs (in brackets: their number); band: {base_title}'s own runs "
        f"around their mean. Perplexity on the same {known[arm].predictions:,} held-out predictions, as the biLMs' "
        "cards state."
    )
    title = ", ".join(filter(None, [line.title, base.old_recipe]))
    name, text = f"{table.experiment.sweep_name}-{as_stem(f'{line.data}-{line.task}')}", f"{'; '.join(numbers)}."
    return Figure(name, title, caption, axes.AXES_HEIGHT, marks, numbers=text, legend=[looks[arm] for arm in gains])


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
        return axes.with_minus(f"{self.value:+.1f}{between}")

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
            scores = statistics.fmean(before[name]), statistics.fmean(after[name])
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
    scale = axes.spread([end for gain in each for end in gain.ends], axes.LEFT, axes.RIGHT, zero=True)
    marks, numbers, y = list[Mark](), list[str](), 0.0
    for distinction, of_name in gains.items():
        if distinction:
            y += 18
            marks.append(Label(axes.LEFT, y, distinction, "ink", 12, bold=True))
        numbers.append(f"{distinction}: " * bool(distinction) + "; ".join(gain.numbers for gain in of_name))
        for gain in of_name:
            sure = gain.interval is not None and gain.interval.sign != 0
            room = axes.RIGHT - axes.LEFT - axes.text_width(gain.count + gain.text, 11) - 8
            marks += [
                ChartLine([(scale.at(0), y + 19), (scale.at(0), y + 29)], "muted"),
                Label(axes.LEFT, y + 16, axes.fitted(gain.name, room, 11) + gain.count, "ink", 11),
                Label(axes.RIGHT, y + 16, gain.text, "ink" if sure else "muted", 11, "end", sure),
            ]
            if gain.interval:
                line = [(scale.at(end), y + 24) for end in gain.ends]
                marks.append(ChartLine(line, arm.colour, 3, "" if sure else "3 3", title=gain.numbers))
            marks.append(Dot(scale.at(gain.value), y + 24, arm.colour, arm.shape, 4.0, title=gain.numbers))
            y += 30
        y += 6
    marks = [*axes.vertical_ticks(scale, 0, y, f"gain, points of {metric}"), *marks]
    return Figure(name, title, caption, y + axes.BELOW, marks, numbers=". ".join(numbers) + ".")


def confusions(panel: Row, arms: Arms) -> Figure | None:
    """What the second arm changes in the confusion matrix, in points; None if the compared arms have no counts."""
    pair = panel.pair
    counted = [counts for group in pair or () if (counts := confusion(group))]
    if pair is None or len(counted) < 2 or counted[0][0] != counted[1][0]:
        return None
    classes, (before, after) = counted[0][0], (_shares(counts) for _, counts in counted)
    left, top = min(8 + max(axes.text_width(name, 11) for name in classes), 120.0), 46.0
    width = (axes.RIGHT - left) / len(classes)
    height = min(width, 40.0)
    marks: list[Mark] = [
        Label((left + axes.RIGHT) / 2, 12, "predicted", "muted", 11, "middle"),
        Label(axes.LEFT, 12, "gold"),
    ]
    numbers = []
    for i, gold in enumerate(classes):
        words = gold.split(" ", 1) if axes.text_width(gold, 10) > width else [gold]
        for line, word in enumerate(reversed(words)):
            x = left + (i + 0.5) * width
            marks.append(Label(x, top - 8 - 12 * line, axes.fitted(word, width, 10), "muted", 10, "middle"))
        y = top + i * height
        marks.append(Label(left - 6, y + height / 2 + 4, axes.fitted(gold, left - 8, 11), "muted", 11, "end"))
        for j, predicted in enumerate(classes):
            x, change = left + j * width, 100 * (after[i][j] - before[i][j])
            numbers.append(f"{gold} as {predicted} {change:+.1f}")
            title = f"{gold} taken for {predicted}: {before[i][j]:.1%} to {after[i][j]:.1%}"
            colour, strength = "blue" if (change > 0) == (i == j) else "orange", min(abs(change) / 20, 1.0)
            marks.append(Box(x + 1, y + 1, width - 2, height - 2, colour, opacity=axes.tint(strength), title=title))
            shown = "0" if abs(change) < 0.5 else axes.with_minus(f"{change:+.0f}")
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
    width = (axes.RIGHT - axes.LEFT - gap * (len(layers) - 1)) / sum(layers.values())
    marks, numbers, left = list[Mark](), list[str](), axes.LEFT
    for place, count in layers.items():
        marks.append(
            Label(left + count * width / 2, 11, axes.fitted(place, count * width), "ink", 12, "middle", bold=True)
        )
        for layer in range(count):
            shown = axes.fitted(layer_name(layer, count), width, 9)
            marks.append(Label(left + (layer + 0.5) * width, 26, shown, "muted", 9, "middle"))
        for number, (lane, _, by_place) in enumerate(lanes):
            runs, gamma = by_place.get(place, ([], 0.0))
            y = top + number * height + 18
            for layer, each in enumerate(zip(*runs, strict=True)):
                mean, x = statistics.fmean(each), left + layer * width
                text = f"{lane}, {place}, {layer_name(layer, len(runs[0]))}: {mean:.3f}"
                numbers.append(text)
                text += f", runs {min(each):.3f} to {max(each):.3f}, gamma {gamma:.2f}"
                marks.append(Box(x + 1, y, width - 2, 22, "blue", opacity=axes.tint(mean), title=text))
                bold, shown = mean > 1 / len(runs[0]), axes.fitted(f"{mean:.2f}", width, 11)
                marks.append(Label(x + width / 2, y + 15, shown, "ink", 11, "middle", bold, halo=0))
        left += count * width + gap
    for number, (lane, group, _) in enumerate(lanes):
        y, runs_text = top + number * height + 13, "1 run" if len(group.runs) == 1 else f"{len(group.runs)} runs"
        marks.append(
            Label(
                axes.LEFT, y, axes.fitted(lane, axes.RIGHT - axes.LEFT - axes.text_width(runs_text, 11) - 8), "ink", 12
            )
        )
        marks.append(Label(axes.RIGHT, y, runs_text, "muted", 11, "end"))
    caption = "Weight of each layer after the softmax, mean over runs; bold: above an even share."
    return Figure(name, title, caption, top + height * len(lanes) + 4, marks, numbers="; ".join(numbers) + ".")
