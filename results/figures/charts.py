"""Charts of runs: learning curves, classes, kinds of examples, layers, training set sizes, gains by perplexity."""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from results.breakdown import FEWEST, Kind
from results.figures import drawing
from results.names import load_names, metric_title
from results.records.record import RunRecord, mapping_of
from results.stats import Interval, seed_intervals
from results.tables.rows import Group, Row, Table, as_label, train_fraction

# The keys under which tasks count their training examples; the first that a record has counts. With train_fraction it
# is the number drawn.
COUNTS = ("used", "questions", "pairs", "examples", "sentences")
OF_WHOLE = "share of the official training examples"
LAYERS = ("characters", "LSTM 1", "LSTM 2")
CHOSEN = 0.995  # the weight of a layer that has no other next to it


def curve(record: RunRecord) -> list[tuple[float, float]]:
    """The dev score by epoch; epochs without one are left out."""
    points = [(_number(epoch.get("epoch")), _number(epoch.get(record.metric))) for epoch in record.epochs]
    return [(epoch, score) for epoch, score in points if epoch is not None and score is not None]


def learning_curves(panel: Row, arms: drawing.Arms) -> drawing.Figure | None:
    """Dev scores by epoch over the baseline's best mean: means, ranges of the runs, and their best epochs.

    The scale is that of the best scores; what is far below is left out. None if no run has epochs.
    """
    read = {group.features: [(record, dict(curve(record))) for record in group.runs] for group in panel.groups}
    curves = {name: [one for one in runs if one[1]] for name, runs in read.items() if any(run for _, run in runs)}
    each: dict[str, dict[float, list[float]]] = {}  # by features and epoch, the scores of the runs
    for name, runs in curves.items():
        if reached_by_all := sorted(set.intersection(*(set(run) for _, run in runs))):
            each[name] = {epoch: [run[epoch] for _, run in runs] for epoch in reached_by_all}
    if not each:
        return None
    best = {name: max((statistics.fmean(of), -epoch) for epoch, of in by.items()) for name, by in each.items()}
    first = panel.compared[0] if panel.compared[0] in best else next(iter(best))
    zero, every = best[first][0], [run for name in each for _, run in curves[name]]
    tops = [score - zero for score in (*(mean for mean, _ in best.values()), *(max(run.values()) for run in every))]
    low = max(2 * min(tops) - max(tops), min(min(run.values()) for run in every) - zero)
    epochs = drawing.Scale(min(map(min, every)), max(map(max, every)), drawing.AXES_LEFT, drawing.RIGHT)
    scores = drawing.spread([low, *tops])
    ticks = {float(round(tick)): drawing.shown_tick(round(tick)) for tick in epochs.ticks()}
    axis = f"dev {panel.metric_title()}, points over the baseline's best"
    marks = drawing.both_axes(scores, axis, epochs, "epoch", ticks)
    lines, bests, numbers = list[drawing.Mark](), list[drawing.Mark](), []  # lines are above all bands

    def path(of_epochs: Mapping[float, list[float]], chosen: Callable[[list[float]], float]) -> list[drawing.Point]:
        points = [(epochs.at(epoch), scores.at(chosen(runs) - zero)) for epoch, runs in of_epochs.items()]
        return _risen(points, drawing.AXES_BOTTOM)

    for features, of_epochs in each.items():
        arm, (mean, epoch) = arms[features], best[features]
        title = f"{arm.title}: best mean {mean:.2f} in epoch {-epoch:g}"
        numbers.append(f"{title}{drawing.with_minus(f', {mean - zero:+.2f}') * (features != first)}.")
        lines.append(arm.line(path(of_epochs, statistics.fmean), 2, title, arm.dash))
        if max(map(len, of_epochs.values())) > 1 and (upper := path(of_epochs, max)):
            lower = path(of_epochs, min)
            corners = [*upper, *reversed(lower or [(upper[-1][0], drawing.AXES_BOTTOM)])]
            marks.append(drawing.Area(corners, arm.colour, opacity=0.15, title=f"{arm.title}: range of the runs"))
            marks += [arm.line(upper, 0.6), arm.line(lower, 0.6)]
        for record, run in curves[features]:
            at = max(run, key=run.__getitem__)
            name = f"{arm.title}{record.identity.in_fold}, seed {record.identity.seed}"
            title = f"{name}: best dev {run[at]:.2f} in epoch {at:g}"
            bests.append(arm.dot(epochs.at(at), scores.at(run[at] - zero), 3.5, title))
    caption = (
        f"Dev {panel.metric_title()} by epoch, minus the best mean of {arms[first].title}: lines are means, up to the "
        "last epoch that all runs reached, and areas the range of the runs. Marks: each run's best epoch."
    )
    shown, text = [arms[features] for features in each], " ".join(numbers)
    name, marks = f"curves-{panel.stem}", [*marks, *lines, *bests]
    return drawing.Figure(name, panel.title, caption, drawing.AXES_HEIGHT, marks, numbers=text, legend=shown)


def _risen(points: Sequence[drawing.Point], bottom: float) -> list[drawing.Point]:
    """The end of a curve from where it last comes up through the bottom; y is downwards."""
    below = [number for number, (_, y) in enumerate(points) if y > bottom]
    if not below or below[-1] + 1 == len(points):
        return [] if below else list(points)
    (x, y), (right, up) = points[below[-1]], points[below[-1] + 1]
    return [(x + (right - x) * (y - bottom) / (y - up), bottom), *points[below[-1] + 1 :]]


def training_examples(record: RunRecord) -> float | None:
    """The number of examples the run was trained on, if its record has it."""
    counts = mapping_of(record.data.get("train"))
    return next((number for name in COUNTS if (number := _number(counts.get(name)))), None)


@dataclass(frozen=True)
class Speed:
    """The epoch in which a run of the second arm is as good on dev as the best of the first arm's run of the seed.

    Attributes:
        best: The first arm's best epoch.
        reached: The second arm's first epoch with at least that dev score; its last epoch if it has none.
        censored: Whether it has none.
    """

    best: float
    reached: float
    censored: bool


def speeds(row: Row) -> list[Speed]:
    """One for each pair of runs, of the two arms that are compared, with the same seed and fold and with epochs.

    Epochs stand for updates: records do not count them, and both arms have the same training examples and batches.
    """
    if row.pair is None:
        return []
    first, second = (
        {(record.identity.seed, record.identity.fold): points for record in group.runs if (points := curve(record))}
        for group in row.pair
    )
    speeds_of_runs = []
    for run in [run for run in first if run in second]:
        best, score = max(first[run], key=lambda point: point[1])
        reached = [epoch for epoch, dev_score in second[run] if dev_score >= score]
        speeds_of_runs.append(Speed(best, (reached or [second[run][-1][0]])[0], not reached))
    return speeds_of_runs


def convergence(panels: Sequence[Row], arms: drawing.Arms) -> drawing.Figure | None:
    """Epochs until the first arm's best dev score, in both arms, a lane for each task; None without pairs of runs."""
    lanes = [(panel, pairs) for panel in panels if (pairs := speeds(panel))]
    if not lanes:
        return None
    first, second = (arms[features] for features in lanes[0][0].compared)
    most = max(epoch for _, pairs in lanes for pair in pairs for epoch in (pair.best, pair.reached))
    rows = []
    for panel, pairs in lanes:
        epochs = {first: [pair.best for pair in pairs], second: [pair.reached for pair in pairs]}
        dots = [drawing.LaneDot(arm, statistics.fmean(of), (min(of), max(of))) for arm, of in epochs.items()]
        before, after = (dot.value for dot in dots)
        text = f"{before:.1f} → {after:.1f}, {100 * after / before:.0f} %"
        count = sum(pair.censored for pair in pairs)
        never = f", {count} never" * bool(count)
        words = f"{panel.title}: {text} ({len(pairs)} pairs of runs{never})"
        rows.append(drawing.Lane(panel.title, dots, f" · {len(pairs)}{never}", text, words=words))
    scale = drawing.Scale(1, max(most, 2), drawing.LEFT + 8, drawing.RIGHT - 8, log=True)
    title = f"Epochs until the best dev score of {first.title}"
    caption = (
        f"{title}, and until {second.title} is as good: marks are means, lines the range of the runs, after each task "
        "the number of pairs of runs. A run that never is as good counts with its last epoch."
    )
    return drawing.lanes("convergence", title, caption, rows, "epochs (log scale)", scale)


@dataclass(frozen=True)
class Efficiency:
    """Scores by the size of the training set: what fewer labels cost.

    Attributes:
        row: The task and data, and the settings that all sizes share.
        unit: "training examples"; "share of the training examples" where records do not count them, and OF_WHOLE where
            the data are a part of a known whole.
        series: Features -> (size, group) by ascending size.
    """

    row: Row
    unit: str
    series: Mapping[str, Sequence[tuple[float, Group]]]


def efficiencies(rows: Sequence[Row]) -> list[Efficiency]:
    """One for each setting that a task was run under with more than one share of its training examples."""
    by_label: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.record and row.record.limit is None:
            shared = {key: value for key, value in row.settings.items() if key != "train_fraction"}
            by_label[as_label(shared)].append(replace(row, settings=shared))
    return [known for rows in by_label.values() if (known := efficiency(rows))]


def efficiency(rows: Sequence[Row]) -> Efficiency | None:
    """Scores of rows by the size of their training sets; None if there is only one size."""
    row, groups = rows[0], [group for row in rows for group in row.groups]
    if len({train_fraction(group.records[0]) for group in groups}) < 2:
        return None
    sizes = [(train_fraction(group.records[0]), training_examples(group.records[0]) or 0.0) for group in groups]
    counted, (share, most) = all(count for _, count in sizes), max(sizes)
    # a task may count its whole training set in other units: then counts have not the ratios of the shares
    counted = counted and all(abs(count - part / share * most) <= 1 for part, count in sizes)
    known = load_names().tasks.get(row.task)
    whole = known.whole.get(row.data) if known and counted else None
    series: dict[str, list[tuple[float, Group]]] = defaultdict(list)
    for group, (part, count) in zip(groups, sizes, strict=True):
        size = count if counted else part
        series[group.features].append((size / whole if whole else size, group))
    unit = OF_WHOLE if whole else "training examples" if counted else "share of the training examples"
    ordered = {name: sorted(points, key=lambda point: point[0]) for name, points in series.items()}
    return Efficiency(row, unit, ordered)


def sample_efficiency(sizes: Efficiency, arms: drawing.Arms) -> drawing.Figure:
    """Test score by the number of training examples, on a logarithmic scale: the paper's Figure 1.

    A line ends where the recipe changes, and sizes with runs of an older recipe have a star.
    """
    panel = sizes.row
    groups = [group for points in sizes.series.values() for _, group in points]
    mixed = len({group.recipe for group in groups}) > 1
    arms = drawing.titled(arms, groups, recipes=not mixed)
    values = sorted({size for points in sizes.series.values() for size, _ in points})
    across = drawing.Scale(values[0], values[-1], drawing.AXES_LEFT + 10, drawing.RIGHT - 14, log=True)
    scale = drawing.spread([score for group in groups for score in group.scores])
    metric = metric_title(groups[0].metric, groups[0].records[0])
    digits = ".2g" if sizes.unit == OF_WHOLE else ".4g"  # 549 of 549,367 are 0.1 %
    counted = sizes.unit == "training examples"
    texts = {value: f"{value:,.0f}" if counted else f"{100 * value:{digits}} %" for value in values}
    old = {size: group.old_recipe for points in sizes.series.values() for size, group in points if group.old_recipe}
    star = f"; * {', '.join(sorted(set(old.values())))}" if mixed else ""
    texts |= {size: f"{texts[size]}*" for size in old if star}
    marks = drawing.both_axes(scale, f"test {metric} (%)", across, f"{sizes.unit} (log){star}", texts)
    numbers = []
    for features, points in sizes.series.items():
        arm = arms[features]
        for _, same in itertools.groupby(points, key=lambda point: point[1].recipe):
            marks.append(arm.line([(across.at(size), scale.at(group.mean)) for size, group in same], dash=arm.dash))
        for size, group in points:
            x = across.at(size)
            for score in group.scores:
                title = f"{arm.title}: {score:.2f}"
                marks.append(drawing.Dot(x, scale.at(score), arm.colour, "circle", 2, title=title))
            title = f"{arm.title}, {texts[size]}: {group.mean:.2f} ({len(group.records)} seeds)"
            marks.append(arm.dot(x, scale.at(group.mean), title=title))
        means = ", ".join(f"{texts[size]}: {group.mean:.1f}" for size, group in points)
        numbers.append(f"{arm.title}, by {sizes.unit}: {means}.")
    caption = f"Test {metric} by training set size; line and mark: mean, dots: seeds{star}."
    name, shown, text = f"efficiency-{panel.stem}", [arms[features] for features in sizes.series], " ".join(numbers)
    return drawing.Figure(name, panel.title, caption, drawing.AXES_HEIGHT, marks, numbers=text, legend=shown)


def _gain(
    arm: drawing.Arm, name: str, count: str, means: Sequence[float], interval: Interval | None, heading: str = ""
) -> drawing.Lane:
    """The gain on a class or kind, given its number of test examples, if known, both mean scores, and the interval."""
    before, after = means
    between = f", {interval.low:+.1f} to {interval.high:+.1f}" if interval else ""
    text = drawing.with_minus(f"{after - before:+.1f}{between}")
    words = f"{heading}: " * bool(heading) + f"{name}{count}: {before:.1f} to {after:.1f}, {text}"
    dots = [drawing.LaneDot(arm, after - before, interval.ends if interval else ())]
    return drawing.Lane(name, dots, count, text, interval is not None and interval.sign != 0, words, heading)


def kind_gains(panel: Row, kinds: Sequence[Kind], arms: drawing.Arms) -> drawing.Figure:
    """The gain on each kind of test examples with its 95 % interval; kinds of one distinction below its name."""
    first, second = (arms[features] for features in panel.compared)
    gains, distinction = list[drawing.Lane](), ""
    for kind in kinds:
        heading, distinction = kind.by * (kind.by != distinction), kind.by
        means = [group.mean for group in kind.row.groups]
        gains.append(_gain(second, kind.label, f" · {kind.examples:,}", means, kind.row.interval, heading))
    caption = (
        f"Gain of {second.title} over {first.title} on each kind of test examples, in points of "
        f"{panel.metric_title()}, with 95 % interval, and the number of examples."
    )
    axis = f"gain, points of {panel.metric_title()}"
    return drawing.lanes(f"kinds-{panel.stem}", panel.title, caption, gains, axis, zero=True)


def class_metric(groups: Sequence[Group]) -> str:
    """The metric of single classes to show: the main one if they have it, else their first; empty if there is none."""
    for group in groups:
        for scores in _classes(group.records[0]).values():
            return group.metric if group.metric in scores else next((name for name in scores if name != "gold"), "")
    return ""


def class_runs(group: Group, metric: str) -> dict[str, list[float]]:
    """Class -> the score of each seed in percent, for classes that all seeds have."""
    runs = [_classes(record) for record in group.records]
    by_class = {name: [_number(run.get(name, {}).get(metric)) for run in runs] for name in runs[0]}
    known = {name: [score for score in scores if score is not None] for name, scores in by_class.items()}
    return {name: scores for name, scores in known.items() if len(scores) == len(runs)}


def _classes(record: RunRecord) -> dict[str, Mapping[str, object]]:
    """Class -> its scores by metric, and under "gold" the number of its examples."""
    labels = mapping_of(record.details.get("labels"))
    return {str(name): scores for name, scores in labels.items() if isinstance(scores, Mapping)}


def class_differences(panel: Row, arms: drawing.Arms) -> drawing.Figure | None:
    """The gain of each class with its 95 % interval over seeds; None if the compared arms have no classes.

    Classes with few test examples are left out, as kinds of examples are.
    """
    pair = panel.pair
    if pair is None or not (metric := class_metric(pair)):
        return None
    first, second = (arms[group.features] for group in pair)
    (before, after), classes = (class_runs(group, metric) for group in pair), _classes(pair[1].records[0])
    gains = []
    for name in after:
        gold = _number(classes[name].get("gold"))
        if name in before and (gold is None or gold >= FEWEST):
            intervals = seed_intervals(before[name], after[name])
            count = "" if gold is None else f" · {gold:,.0f}"
            means = statistics.fmean(before[name]), statistics.fmean(after[name])
            gains.append(_gain(second, name, count, means, intervals.gain if intervals else None))
    if not gains:
        return None
    title = panel.metric_title(metric)
    caption = (
        f"Gain of {second.title} over {first.title} in each class, in points of {title}, with 95 % interval over "
        "seeds, and the number of test examples."
    )
    return drawing.lanes(f"classes-{panel.stem}", panel.title, caption, gains, f"gain, points of {title}", zero=True)


def layer_name(index: int, layers: int) -> str:
    """The layer's name; the paper's biLM has three."""
    return LAYERS[index] if layers == len(LAYERS) else f"layer {index}"


def mixes(group: Group) -> dict[str, tuple[list[list[float]], float]]:
    """Placement -> (for each run the weights, bottom layer first; mean gamma), where all runs have as many layers."""
    places = dict.fromkeys(place for record in group.runs for place in record.mixes)
    by_place = {}
    for place in places:
        of_runs = [record.mixes[place] for record in group.runs if place in record.mixes]
        if of_runs[0].weights and len({len(mix.weights) for mix in of_runs}) == 1:
            gamma = statistics.fmean(mix.gamma for mix in of_runs)
            by_place[place] = ([list(mix.weights) for mix in of_runs], gamma)
    return by_place


def layer_map(
    groups: Sequence[tuple[str, Group]], name: str = "layer-weights", title: str = "Figure 2: weights of the layers"
) -> drawing.Figure | None:
    """The weight of each layer and gamma at each place, the paper's Figure 2; None without learned mixes.

    Args:
        groups: Tasks or arms with their titles; those without mixes, or of a single layer, are left out.
        name: Of the file.
        title: Of the figure.
    """
    lanes = [
        (lane if group.old_recipe in lane else f"{lane}, {group.old_recipe}", group, by_place)
        for lane, group in groups
        if (by_place := mixes(group)) and any(max(mix) < CHOSEN for runs, _ in by_place.values() for mix in runs)
    ]
    if not lanes:
        return None
    layers: dict[str, int] = {}  # by place
    for _, _, by_place in lanes:
        for place, (runs, _) in by_place.items():
            layers[place] = max(layers.get(place, 0), len(runs[0]))
    gap, top, height = 10.0, 34.0, 46.0
    width = (drawing.RIGHT - drawing.LEFT - gap * (len(layers) - 1)) / sum(count + 1 for count in layers.values())
    marks, numbers, left = list[drawing.Mark](), list[str](), drawing.LEFT
    for place, count in layers.items():
        heading = drawing.fitted(place, count * width)
        marks.append(drawing.Label(left + (count + 1) * width / 2, 11, heading, "ink", 12, "middle", bold=True))
        titles = [layer_name(layer, count).replace("characters", "chars") for layer in range(count)]
        for layer, shown in enumerate([*titles, "gamma"]):
            shown = shown if drawing.text_width(shown, 11) + 6 <= width else shown.split()[-1]
            marks.append(drawing.Label(left + (layer + 0.5) * width, 26, shown, "muted", 11, "middle"))
        for number, (lane, _, by_place) in enumerate(lanes):
            runs, gamma = by_place.get(place, ([], 0.0))
            y = top + number * height + 18
            for layer, each in enumerate(zip(*runs, strict=True)):
                mean, x = statistics.fmean(each), left + layer * width
                text = f"{lane}, {place}, {layer_name(layer, len(runs[0]))}: {mean:.3f}"
                numbers.append(text)
                text += f", runs {min(each):.3f} to {max(each):.3f}"
                marks.append(drawing.Box(x + 1, y, width - 2, 22, "blue", opacity=drawing.tint(mean), title=text))
                bold, shown = mean > 1 / len(runs[0]), drawing.fitted(f"{mean:.2f}", width, 11)
                marks.append(drawing.Label(x + width / 2, y + 15, shown, "ink", 11, "middle", bold, halo=0))
            if runs:
                numbers.append(f"{lane}, {place}, gamma: {gamma:.2f}")
                marks.append(drawing.Label(left + (count + 0.5) * width, y + 15, f"{gamma:.2f}", "ink", 11, "middle"))
        left += (count + 1) * width + gap
    for number, (lane, group, _) in enumerate(lanes):
        y, runs_text = top + number * height + 13, f"{len(group.runs)} run{'s' * (len(group.runs) > 1)}"
        room = drawing.RIGHT - drawing.LEFT - drawing.text_width(runs_text, 11) - 8
        marks.append(drawing.Label(drawing.LEFT, y, drawing.fitted(lane, room), "ink", 12))
        marks.append(drawing.Label(drawing.RIGHT, y, runs_text, "muted", 11, "end"))
    caption = (
        "Weight of each layer after the softmax, mean over runs; bold: above an even share. chars: the layer of "
        "characters alone; gamma: what the weighted mean is multiplied by. Arms of a single layer are left out."
    )
    return drawing.Figure(name, title, caption, top + height * len(lanes) + 4, marks, numbers="; ".join(numbers) + ".")


def ladder(table: Table, rungs: Sequence[str]) -> drawing.Figure | None:
    """The gain of each rung of the context ladder over the baseline, by task; None if no task has runs of two."""
    arms = drawing.arms_of({arm: table.titles[arm] for arm in rungs})
    lanes = []
    for row in table.rows:
        rows = [(arms[arm], table.against_base(row, arm)) for arm in rungs]
        gains = [(arm, of.gain, of.interval.ends if of.interval else ()) for arm, of in rows]
        dots = [drawing.LaneDot(arm, gain, ends) for arm, gain, ends in gains if gain is not None]
        lanes += [drawing.Lane(row.title, dots)] * (len(dots) > 1)
    base = table.titles[table.compared[0]]
    caption = f"Gain over {base} with 95 % interval, in points. A rung without runs is left out."
    return drawing.lanes("ladder", "Context ladder", caption, lanes, f"over {base}", zero=True) if lanes else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
