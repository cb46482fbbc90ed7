"""Charts of runs: their test scores, their curves, and their scores by the size of the training set."""

import itertools
import statistics
from collections.abc import Sequence

from results.analysis.names import arm_title, metric_title
from results.analysis.panels import OF_WHOLE, Efficiency, Panel, curve, speeds
from results.analysis.rows import Group
from results.report.charts.axes import (
    AXES_BOTTOM,
    AXES_LEFT,
    AXES_TOP,
    BELOW,
    LANE,
    LEFT,
    RIGHT,
    Arms,
    horizontal_ticks,
    legend_of,
    numbers_below,
    vertical_ticks,
)
from results.report.figures import (
    Area,
    ChartLine,
    Dot,
    Figure,
    Label,
    Mark,
    Point,
    Scale,
    arms_of,
    fitted,
    shown_tick,
    spread,
    text_width,
    titled,
)


def seed_scatter(panel: Panel, arms: Arms) -> Figure:
    """One dot for each run's test score, a lane for each arm, a bar at the mean."""
    groups = panel.groups
    scale = spread([score for group in groups for score in group.scores], LEFT + 4, RIGHT - 4)
    bottom = LANE * len(groups)
    marks: list[Mark] = [*vertical_ticks(scale, 0, bottom, f"test {panel.metric_title()} (%)")]
    numbers = []
    for lane, group in enumerate(groups):
        arm, y = arms[group.features], lane * LANE + 30
        deviation = "" if group.std is None else f" ± {group.std:.2f}"
        mean = scale.at(group.mean)
        score = f"{group.mean:.2f}{deviation}"
        name = fitted(arm.title, RIGHT - LEFT - text_width(score) - 8, 14)  # bold is wider
        marks.append(Label(LEFT, y - 14, name, "ink", 12, bold=True, arm=arm.features))
        marks.append(Label(RIGHT, y - 14, score, "muted", 12, "end", arm=arm.features))
        bar, title = [(mean, y - 8), (mean, y + 8)], f"mean {group.mean:.2f}"
        marks.append(ChartLine(bar, arm.colour, 2.5, title=title, arm=arm.features))
        for record in group.records:
            title = f"{arm.title}, seed {record.identity.seed}: {record.score:.2f}"
            marks.append(Dot(scale.at(record.score), y, arm.colour, arm.shape, 4.5, 0.9, title, arm=arm.features))
        scores = ", ".join(f"{score:.1f}" for score in group.scores)
        numbers.append(f"{arm.title}: {scores}; mean {group.mean:.2f}.")
    caption = f"Test {panel.metric_title()} of every run; the bar is the mean."
    return Figure(f"seeds-{panel.stem}", panel.title, caption, bottom + BELOW, marks, numbers=" ".join(numbers))


def mean_curve(group: Group) -> list[tuple[float, list[float]]]:
    """The epochs that all runs of a group reached, each with the dev scores of the runs."""
    runs = [dict(own) for record in group.runs if (own := curve(record))]
    shared = set(runs[0]).intersection(*runs[1:]) if runs else set()
    return [(epoch, [run[epoch] for run in runs]) for epoch in sorted(shared)]


def learning_curves(panel: Panel, arms: Arms) -> Figure | None:
    """The mean dev score by epoch with the range of the runs, and the best epoch of each; None if no run has epochs."""
    points = [point for group in panel.groups for record in group.runs for point in curve(record)]
    if not points:
        return None
    epochs = Scale(min(x for x, _ in points), max(x for x, _ in points), AXES_LEFT, RIGHT)
    scores = spread([y for _, y in points], AXES_BOTTOM, AXES_TOP)
    marks = horizontal_ticks(scores, f"dev {panel.metric_title()} (%)")
    whole = sorted({round(tick) for tick in epochs.ticks(5)})
    marks += numbers_below([(epochs.at(tick), shown_tick(tick)) for tick in whole], "epoch")
    lines: list[Mark] = []  # above all bands
    bests: list[Mark] = []
    numbers = []
    for group in panel.groups:
        arm, found = arms[group.features], mean_curve(group)
        if found:
            means = [(epoch, statistics.fmean(own)) for epoch, own in found]
            epoch, best = max(means, key=lambda point: point[1])
            title = f"{arm.title}: best mean {best:.2f} in epoch {epoch:g}"
            numbers.append(f"{title}.")
            line = [(epochs.at(x), scores.at(y)) for x, y in means]
            lines.append(ChartLine(line, arm.colour, 2, title=title, arm=arm.features, dash=arm.dash))
            if len(found[0][1]) > 1:
                ends: list[Sequence[Point]] = [
                    [(epochs.at(x), scores.at(end(own))) for x, own in found] for end in (max, min)
                ]
                band = [*ends[0], *reversed(ends[1])]
                marks.append(Area(band, arm.colour, 0.15, f"{arm.title}: range of the runs", arm.features))
                marks += [ChartLine(end, arm.colour, 0.6, arm=arm.features) for end in ends]
        for record in group.runs:
            if own := curve(record):
                epoch, best = max(own, key=lambda point: point[1])
                name = f"{arm.title}{record.identity.in_fold}, seed {record.identity.seed}"
                title = f"{name}: best dev {best:.2f} in epoch {epoch:g}"
                place = epochs.at(epoch), scores.at(best)
                bests.append(Dot(*place, arm.colour, arm.shape, 3.5, title=title, arm=arm.features))
    caption = (
        f"Dev {panel.metric_title()} by epoch: the mean and the range of the runs, up to the last epoch that all of "
        "them reached. Marks: each run's best epoch."
    )
    legend = legend_of([group.features for group in panel.groups], arms)
    name, marks = f"curves-{panel.stem}", [*marks, *lines, *bests]
    return Figure(name, panel.title, caption, AXES_BOTTOM + 38, marks, numbers=" ".join(numbers), legend=legend)


def convergence(panels: Sequence[Panel], compared: tuple[str, str]) -> Figure | None:
    """The epochs until the first arm's best dev score, a lane for each task; None if no task has pairs of runs."""
    lanes = [(panel, found) for panel in panels if (found := speeds(panel))]
    if not lanes:
        return None
    looks = arms_of({features: arm_title(features) for features in compared})
    first, second = (looks[features] for features in compared)
    most = max(epoch for _, found in lanes for speed in found for epoch in (speed.best, speed.reached))
    scale, bottom = Scale(1, max(most, 2), LEFT + 8, RIGHT - 8, log=True), LANE * len(lanes)
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= scale.high]
    marks: list[Mark] = [ChartLine([(scale.at(tick), 0), (scale.at(tick), bottom)], "grid", 1) for tick in ticks]
    marks += [Label(scale.at(tick), bottom + 16, shown_tick(tick), "muted", 11, "middle") for tick in ticks]
    marks.append(Label((LEFT + RIGHT) / 2, bottom + 32, "epochs (log scale)", "muted", 11, "middle"))
    numbers = []
    for lane, (panel, found) in enumerate(lanes):
        y = lane * LANE + 30
        sides = [(first, [own.best for own in found]), (second, [own.reached for own in found])]
        before, after = (statistics.fmean(epochs) for _, epochs in sides)
        text, missed = f"{before:.1f} → {after:.1f}", sum(own.censored for own in found)
        name = fitted(panel.title, RIGHT - LEFT - text_width(text) - 8, 14)  # bold is wider
        marks += [Label(LEFT, y - 14, name, "ink", 12, bold=True), Label(RIGHT, y - 14, text, "muted", 12, "end")]
        marks.append(ChartLine([(scale.at(before), y), (scale.at(after), y)], "muted", 1.5))
        for (arm, epochs), mean in zip(sides, (before, after), strict=True):
            marks += [Dot(scale.at(epoch), y, arm.colour, "circle", 2, 0.7) for epoch in epochs]
            marks.append(Dot(scale.at(mean), y, arm.colour, arm.shape, 4.5, title=f"{arm.title}: {mean:.1f}"))
        never = f", {missed} never" if missed else ""
        numbers.append(f"{panel.title}: {text} ({len(found)} pairs of runs{never}).")
    caption = (
        f"Epochs until the best dev score of {first.title}, which {second.title} reaches earlier or later: marks are "
        "means, dots runs. A run that never reaches it counts with its last epoch."
    )
    title = f"Epochs until the best dev score of {first.title}"
    legend = legend_of(compared, looks)
    return Figure("convergence", title, caption, bottom + BELOW, marks, numbers=" ".join(numbers), legend=legend)


def sample_efficiency(sizes: Efficiency, arms: Arms) -> Figure:
    """Test score by the number of training examples, on a logarithmic scale: the paper's Figure 1.

    A line ends where the recipe changes, and sizes with runs of an older recipe have a star.
    """
    panel = Panel(sizes.row, sizes.label)
    groups = [group for points in sizes.series.values() for _, group in points]
    mixed = len({group.recipe for group in groups}) > 1
    arms = titled(arms, groups, recipes=not mixed)
    first = groups[0]
    values = sorted({size for points in sizes.series.values() for size, _ in points})
    across = Scale(values[0], values[-1], AXES_LEFT + 10, RIGHT - 14, log=True)
    scores = [score for points in sizes.series.values() for _, group in points for score in group.scores]
    scale = spread(scores, AXES_BOTTOM, AXES_TOP)
    metric = metric_title(first.metric, first.records[0])
    marks = horizontal_ticks(scale, f"test {metric} (%)")
    digits = ".2g" if sizes.unit == OF_WHOLE else ".4g"  # 549 of 549,367 are 0.1 %
    texts = {
        value: f"{value:,.0f}" if sizes.unit == "training examples" else f"{100 * value:{digits}}%" for value in values
    }
    old = {size: group.old_recipe for points in sizes.series.values() for size, group in points if group.old_recipe}
    star = f"; * {', '.join(sorted(set(old.values())))}" if mixed else ""
    texts |= {size: f"{texts[size]}*" for size in old if star}
    marks += numbers_below([(across.at(value), texts[value]) for value in values], f"{sizes.unit} (log){star}")
    numbers = []
    for features, points in sizes.series.items():
        arm = arms[features]
        for _, same in itertools.groupby(points, key=lambda point: point[1].recipe):
            line = [(across.at(size), scale.at(group.mean)) for size, group in same]
            marks.append(ChartLine(line, arm.colour, 2, arm=arm.features, dash=arm.dash))
        for size, group in points:
            for score in group.scores:
                title, place = f"{arm.title}: {score:.2f}", (across.at(size), scale.at(score))
                marks.append(Dot(*place, arm.colour, "circle", 2, title=title, arm=arm.features))
            title = f"{arm.title}, {texts[size]}: {group.mean:.2f} ({len(group.records)} seeds)"
            place = across.at(size), scale.at(group.mean)
            marks.append(Dot(*place, arm.colour, arm.shape, 4.5, title=title, arm=arm.features))
        means = ", ".join(f"{texts[size]}: {group.mean:.1f}" for size, group in points)
        numbers.append(f"{arm.title}, by {sizes.unit}: {means}.")
    caption = f"Test {metric} by training set size; line and mark: mean, dots: seeds{star}."
    legend = legend_of(list(sizes.series), arms)
    name = f"efficiency-{panel.stem}"
    return Figure(name, panel.title, caption, AXES_BOTTOM + 38, marks, numbers=" ".join(numbers), legend=legend)
