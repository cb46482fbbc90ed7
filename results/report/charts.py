"""Charts of the report: each function draws one Figure. Every mark has its number as a tooltip."""

from collections.abc import Iterable, Mapping, Sequence

from results.analysis.names import metric_title
from results.analysis.panels import (
    Efficiency,
    Panel,
    as_stem,
    class_metric,
    class_scores,
    confusion,
    curve,
    layer_name,
    mixes,
)
from results.analysis.rows import Group
from results.breakdown.gains import Kind
from results.report.figures import (
    WIDTH,
    Arm,
    Box,
    ChartLine,
    Dot,
    Figure,
    Label,
    Mark,
    Scale,
    fitted,
    shown_tick,
    spread,
    text_width,
)

Arms = Mapping[str, Arm]
LANE = 44.0
LEFT, RIGHT = 8.0, WIDTH - 8.0
BELOW = 40.0  # for an axis' numbers and label
AXES_LEFT, AXES_TOP, AXES_BOTTOM = 40.0, 40.0, 218.0


def group_gains(panel: Panel, kinds: Mapping[str, Sequence[Kind]], compared: Sequence[str]) -> Figure:
    """The gain on each kind of test examples with its 95 % interval; kinds of one distinction below its name."""
    each = [kind for own in kinds.values() for kind in own]
    found = {id(kind): (kind.row.gain(panel.label) or 0.0, kind.row.interval(panel.label)) for kind in each}
    ends = [(interval.low, interval.high) if interval else (gain,) for gain, interval in found.values()]
    scale = spread([end for both in ends for end in both], LEFT, RIGHT, zero=True)
    marks: list[Mark] = []
    y = 0.0
    for name, own in kinds.items():
        y += 18
        marks.append(Label(LEFT, y, name.replace("_", " "), "ink", 12, bold=True))
        for kind in own:
            gain, interval = found[id(kind)]
            text = f"{gain:+.1f}" + (f", {interval.low:+.1f} to {interval.high:+.1f}" if interval else "")
            sure = interval is not None and not interval.low <= 0 <= interval.high
            room = RIGHT - LEFT - text_width(text, 11) - 8
            marks.append(Label(LEFT, y + 16, fitted(f"{kind.label} · {kind.examples:,}", room, 11), "muted", 11))
            marks.append(Label(RIGHT, y + 16, text, "ink" if sure else "muted", 11, "end"))
            scores = " to ".join(f"{group.features} {group.mean:.2f}" for group in kind.row.groups)
            title = f"{kind.label}, {kind.examples:,} examples: {scores}, {text}"
            if interval:
                line = [(scale.at(interval.low), y + 24), (scale.at(interval.high), y + 24)]
                marks.append(ChartLine(line, "blue", 3, opacity=0.9 if sure else 0.45, title=title))
            marks.append(Dot(scale.at(gain), y + 24, "blue", "diamond", 4.0, title=title))
            y += 30
        y += 6
    zero = ChartLine([(scale.at(0), 0), (scale.at(0), y)], "muted", 1)
    marks = [*_vertical_ticks(scale, 0, y, f"gain, points of {panel.metric_title()}"), zero, *marks]
    caption = (
        f"Gain of {compared[1]} over {compared[0]} on each kind of test examples, in points of {panel.metric_title()}, "
        "with 95 % interval, and the number of examples."
    )
    return Figure(f"kinds-{panel.stem}", panel.title, caption, y + BELOW, marks)


def seed_scatter(panel: Panel, arms: Arms) -> Figure:
    """One dot for each run's test score, a lane for each arm, a bar at the mean."""
    groups = panel.groups
    scale = spread([score for group in groups for score in group.scores], LEFT + 4, RIGHT - 4)
    bottom = LANE * len(groups)
    marks: list[Mark] = [*_vertical_ticks(scale, 0, bottom, f"test {panel.metric_title()} (%)")]
    for lane, group in enumerate(groups):
        arm, y = arms[group.features], lane * LANE + 30
        deviation = "" if group.std is None else f" ± {group.std:.2f}"
        mean = scale.at(group.mean)
        marks.append(Label(LEFT, y - 14, arm.title, "ink", 12, bold=True))
        marks.append(Label(RIGHT, y - 14, f"{group.mean:.2f}{deviation}", "muted", 12, "end"))
        marks.append(ChartLine([(mean, y - 8), (mean, y + 8)], arm.colour, 2.5, title=f"mean {group.mean:.2f}"))
        for record in group.records:
            title = f"{group.features} seed {record.identity.seed}: {record.score:.2f}"
            marks.append(Dot(scale.at(record.score), y, arm.colour, arm.shape, 4.5, 0.75, title))
    caption = f"Test {panel.metric_title()} of every run; the bar is the mean."
    return Figure(f"seeds-{panel.stem}", panel.title, caption, bottom + BELOW, marks)


def learning_curves(panel: Panel, arms: Arms) -> Figure | None:
    """Dev score by epoch, a line for each run in its arm's colour; None if no run has epochs."""
    runs = [(group, record, curve(record)) for group in panel.groups for record in group.runs]
    points = [point for _, _, own in runs for point in own]
    if not points:
        return None
    epochs = Scale(min(x for x, _ in points), max(x for x, _ in points), AXES_LEFT, RIGHT)
    scores = spread([y for _, y in points], AXES_BOTTOM, AXES_TOP)
    marks = [*_legend([group.features for group in panel.groups], arms)]
    marks += _horizontal_ticks(scores, f"dev {panel.metric_title()} (%)")
    whole = sorted({round(tick) for tick in epochs.ticks(5)})
    marks += _below((epochs.at(tick), shown_tick(tick)) for tick in whole)
    marks.append(Label((AXES_LEFT + RIGHT) / 2, AXES_BOTTOM + 32, "epoch", "muted", 11, "middle"))
    for group, record, own in runs:
        if not own:
            continue
        arm = arms[group.features]
        best = max(own, key=lambda point: point[1])
        name = f"{group.features}{record.identity.in_fold} seed {record.identity.seed}"
        title = f"{name}: best dev {best[1]:.2f} in epoch {best[0]:g}"
        marks.append(
            ChartLine([(epochs.at(x), scores.at(y)) for x, y in own], arm.colour, 1.8, opacity=0.85, title=title)
        )
        marks.append(Dot(epochs.at(best[0]), scores.at(best[1]), arm.colour, arm.shape, 3.5, title=title))
    caption = f"Dev {panel.metric_title()} by epoch; the mark is each run's best epoch."
    return Figure(f"curves-{panel.stem}", panel.title, caption, AXES_BOTTOM + 38, marks)


def layer_weights(panel: Panel, arms: Arms) -> Figure | None:
    """The weight of each layer by placement, as in the paper's Figure 2; None without learned mixes."""
    found = [(group, mixes(group)) for group in panel.groups]
    places = list(dict.fromkeys(place for _, own in found for place in own))
    users = [group.features for group, own in found if own]
    if not places:
        return None
    weights = [w for _, own in found for runs, _ in own.values() for run in runs for w in run]
    scale = Scale(0, max(0.5, *weights), 92, RIGHT - 42)
    marks: list[Mark] = [*_legend(users, arms)]
    y = 26.0
    for place in places:
        own_of = [(group, own[place]) for group, own in found if place in own]
        gammas = "gamma " + ", ".join(f"{gamma:.2f}" for _, (_, gamma) in own_of)
        y += 18
        marks.append(Label(LEFT, y, place, "ink", 12, bold=True))
        marks.append(Label(RIGHT, y, fitted(gammas, 260, 11), "muted", 11, "end"))
        layers = max(len(runs[0]) for _, (runs, _) in own_of)
        top = y + 6
        for layer in range(layers):
            y += 8
            marks.append(Label(LEFT, y + 6 + 5 * len(own_of), layer_name(layer, layers), "muted", 12))
            for group, (runs, _) in own_of:
                if layer >= len(runs[0]):
                    continue
                arm, each = arms[group.features], [run[layer] for run in runs]
                mean = sum(each) / len(each)
                title = f"{group.features}, {place}, {layer_name(layer, layers)}: {mean:.3f}"
                marks.append(Box(92, y, scale.at(mean) - 92, 10, arm.colour, 0.85, title))
                ends = (scale.at(min(each)), y + 5), (scale.at(max(each)), y + 5)
                if len(each) > 1:
                    marks.append(
                        ChartLine(ends, "ink", 1, opacity=0.6, title=f"seeds: {min(each):.3f} to {max(each):.3f}")
                    )
                marks.append(Label(RIGHT, y + 9, f"{mean:.2f}", "muted", 11, "end"))
                y += 13
        even = scale.at(1 / layers)
        marks.append(
            ChartLine([(even, top), (even, y)], "muted", 1, dashed=True, title=f"all layers alike: {1 / layers:.2f}")
        )
        y += 8
    marks.append(Label((scale.start + scale.end) / 2, y + 8, "weight of the layer", "muted", 11, "middle"))
    caption = "Weight of each biLM layer after the softmax, mean over seeds; thin line: their range; dashed: all alike."
    return Figure(f"layers-{panel.stem}", panel.title, caption, y + 16, marks)


def layer_map(found: Sequence[tuple[str, Group]]) -> Figure | None:
    """The weight of each layer at each place for several tasks, the paper's Figure 2; None without learned mixes.

    Args:
        found: Groups with their titles; those without mixes are left out.
    """
    known = [(title, group, mixes(group)) for title, group in found]
    known = [(title, group, own) for title, group, own in known if own]
    if not known:
        return None
    layers: dict[str, int] = {}  # by place
    for _, _, own in known:
        for place, (runs, _) in own.items():
            layers[place] = max(layers.get(place, 0), len(runs[0]))
    gap, top, lane = 10.0, 34.0, 46.0
    width = (RIGHT - LEFT - gap * (len(layers) - 1)) / sum(layers.values())
    marks: list[Mark] = []
    left = LEFT
    for place, count in layers.items():
        marks.append(Label(left + count * width / 2, 11, fitted(place, count * width), "ink", 12, "middle", bold=True))
        names = [fitted(layer_name(layer, count), width, 9) for layer in range(count)]
        marks += [Label(left + (j + 0.5) * width, 26, name, "muted", 9, "middle") for j, name in enumerate(names)]
        for lane_number, (title, _, own) in enumerate(known):
            runs, gamma = own.get(place, ([], 0.0))
            y = top + lane_number * lane + 18
            for layer, each in enumerate(zip(*runs, strict=True)):
                mean = sum(each) / len(each)
                text = f"{title}, {place}, {layer_name(layer, len(runs[0]))}: {mean:.3f}"
                text += f", runs {min(each):.3f} to {max(each):.3f}, gamma {gamma:.2f}"
                x = left + layer * width
                marks.append(Box(x + 1, y, width - 2, 22, "blue", 0.06 + 0.6 * mean, text))
                bold = mean > 1 / len(runs[0])
                shown = fitted(f"{mean:.2f}", width, 11)
                marks.append(Label(x + width / 2, y + 15, shown, "ink", 11, "middle", bold, halo=0))
        left += count * width + gap
    for lane_number, (title, group, _) in enumerate(known):
        y, number = top + lane_number * lane + 13, len(group.runs)
        runs_text = "1 run" if number == 1 else f"{number} runs"
        marks.append(Label(LEFT, y, fitted(title, RIGHT - LEFT - text_width(runs_text, 11) - 8), "ink", 12))
        marks.append(Label(RIGHT, y, runs_text, "muted", 11, "end"))
    caption = "Weight of each layer after the softmax, mean over runs; bold: above an even share."
    return Figure("layer-weights", "Weights of the layers", caption, top + lane * len(known) + 4, marks)


def sample_efficiency(sizes: Efficiency, arms: Arms) -> Figure:
    """Test score by the number of training examples, on a logarithmic scale: the paper's Figure 1."""
    panel = Panel(sizes.row, sizes.label)
    first = next(group for points in sizes.series.values() for _, group in points)
    values = sorted({size for points in sizes.series.values() for size, _ in points})
    across = Scale(values[0], values[-1], AXES_LEFT + 10, RIGHT - 14, log=True)
    scores = [score for points in sizes.series.values() for _, group in points for score in group.scores]
    scale = spread(scores, AXES_BOTTOM, AXES_TOP)
    metric = metric_title(first.metric, first.records[0])
    marks = [*_legend(list(sizes.series), arms), *_horizontal_ticks(scale, f"test {metric} (%)")]
    texts = {value: f"{value:,.0f}" if sizes.unit == "training examples" else f"{100 * value:.4g}%" for value in values}
    marks += _below((across.at(value), texts[value]) for value in values)
    marks.append(Label((AXES_LEFT + RIGHT) / 2, AXES_BOTTOM + 32, f"{sizes.unit} (log)", "muted", 11, "middle"))
    for features, points in sizes.series.items():
        arm = arms[features]
        marks.append(ChartLine([(across.at(size), scale.at(g.mean)) for size, g in points], arm.colour, 2))
        for size, group in points:
            marks += [
                Dot(across.at(size), scale.at(score), arm.colour, "circle", 2, 0.5, f"{features}: {score:.2f}")
                for score in group.scores
            ]
            title = f"{features}, {texts[size]}: {group.mean:.2f} ({len(group.records)} seeds)"
            marks.append(Dot(across.at(size), scale.at(group.mean), arm.colour, arm.shape, 4.5, title=title))
    caption = f"Test {metric} by training set size; line and mark: mean, dots: seeds."
    return Figure(f"efficiency-{panel.stem}", panel.title, caption, AXES_BOTTOM + 38, marks)


def per_class(panel: Panel, arms: Arms) -> Figure | None:
    """Score of each class, the arms on one line; None if the records have no classes."""
    metric = class_metric(panel.groups)
    found = [(group, class_scores(group, metric)) for group in panel.groups]
    names = list(dict.fromkeys(name for _, own in found for name in own))
    if not names:
        return None
    scale = spread([score for _, own in found for score, _ in own.values()], LEFT + 6, RIGHT - 6)
    marks = [*_legend([group.features for group, own in found if own], arms)]
    top = 28.0
    bottom = top + LANE * len(names)
    marks += _vertical_ticks(scale, top, bottom, f"test {panel.metric_title(metric)} (%)")
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
            marks.append(
                Dot(scale.at(score), y, arm.colour, arm.shape, 5, 0.9, f"{group.features}, {name}: {score:.1f}")
            )
    caption = f"Test {panel.metric_title(metric)} of each class in percent, mean over seeds."
    return Figure(f"classes-{panel.stem}", panel.title, caption, bottom + BELOW, marks)


def confusion_matrix(panel: Panel, group: Group) -> Figure | None:
    """The confusion matrix in percent of each gold class; None if the records have no counts."""
    found = confusion(group)
    if found is None:
        return None
    names, counts = found
    left, top = min(8 + max(text_width(name, 11) for name in names), 120.0), 46.0
    cell = (RIGHT - left) / len(names)
    height = min(cell, 40.0)
    marks: list[Mark] = [Label((left + RIGHT) / 2, 12, "predicted", "muted", 11, "middle"), Label(LEFT, 12, "gold")]
    for column, name in enumerate(names):
        words = name.split(" ", 1) if text_width(name, 10) > cell else [name]
        for line, word in enumerate(words):
            y = top - 8 - 12 * (len(words) - 1 - line)
            marks.append(Label(left + (column + 0.5) * cell, y, fitted(word, cell, 10), "muted", 10, "middle"))
    for i, (name, row) in enumerate(zip(names, counts, strict=True)):
        y = top + i * height
        marks.append(Label(left - 6, y + height / 2 + 4, fitted(name, left - 8, 11), "muted", 11, "end"))
        for j, count in enumerate(row):
            share = count / sum(row) if sum(row) else 0.0
            title = f"{name} taken for {names[j]}: {count:,.0f} of {sum(row):,.0f}"
            colour = "blue" if i == j else "orange"
            marks.append(Box(left + j * cell + 1, y + 1, cell - 2, height - 2, colour, 0.06 + 0.5 * share, title))
            x = left + (j + 0.5) * cell
            marks.append(Label(x, y + height / 2 + 4, f"{share:.0%}", "ink", 12, "middle", i == j, halo=0))
    title = f"{panel.title} · {group.features}"
    caption = f"{group.features}: predicted classes as a share of each gold class, over all seeds."
    return Figure(
        f"confusion-{panel.stem}-{as_stem(group.features)}", title, caption, top + height * len(names) + 8, marks
    )


def _legend(features: Sequence[str], arms: Arms) -> list[Mark]:
    """Marker and name of each arm, at the top left."""
    marks: list[Mark] = []
    x = LEFT
    for name in dict.fromkeys(features):
        arm = arms[name]
        marks += [Dot(x + 5, 10, arm.colour, arm.shape, 4.5), Label(x + 15, 14, arm.title, "ink", 12)]
        x += 15 + text_width(arm.title) + 14
    return marks


def _vertical_ticks(scale: Scale, top: float, bottom: float, axis: str) -> list[Mark]:
    """Faint vertical lines with their numbers below, and the axis label."""
    ticks = scale.ticks(5)
    lines: list[Mark] = [ChartLine([(scale.at(tick), top), (scale.at(tick), bottom)], "grid", 1) for tick in ticks]
    lines += [Label(scale.at(tick), bottom + 16, shown_tick(tick), "muted", 11, "middle") for tick in ticks]
    return [*lines, Label((scale.start + scale.end) / 2, bottom + 32, axis, "muted", 11, "middle")]


def _horizontal_ticks(scale: Scale, axis: str) -> list[Mark]:
    """Faint horizontal lines with their numbers at the left, and the axis label above."""
    ticks = scale.ticks(5)
    lines: list[Mark] = [ChartLine([(AXES_LEFT, scale.at(tick)), (RIGHT, scale.at(tick))], "grid", 1) for tick in ticks]
    lines += [Label(AXES_LEFT - 7, scale.at(tick) + 4, shown_tick(tick), "muted", 11, "end") for tick in ticks]
    return [*lines, Label(LEFT, AXES_TOP - 10, axis, "muted", 11)]


def _below(ticks: Iterable[tuple[float, str]]) -> list[Mark]:
    """Numbers under the axis, without those that would overlap; the last is always shown."""
    marks: list[Mark] = []
    free = WIDTH + 20
    for x, text in reversed(list(ticks)):
        half = text_width(text, 11) / 2
        if x + half <= free:
            marks.append(Label(x, AXES_BOTTOM + 16, text, "muted", 11, "middle"))
            free = x - half - 6
    return marks
