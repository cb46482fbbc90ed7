"""Shares of the baseline's errors that are removed: the main figure, of the second arm in each task, and all arms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from results.experiments import sweep_name
from results.figures import drawing
from results.names import default_pair, load_names, metric_title, relative_error_cut
from results.stats import Interval, corrected_signs
from results.tables.rows import MINI, WARNED, Row, Table, arm_titles
from results.tables.sheet import FEW_SEEDS_NOTE, MARK, arms_title, shown_interval, shown_milliseconds, shown_parameters

MAIN_FIGURE = "errors-removed"
AXIS = "share of the baseline's errors removed (%)"
PAPER = drawing.Arm("the paper", "ink", "circle")  # hollow
NO_BREAK = "\N{NO-BREAK SPACE}"
EPOCHS = "trainer.epochs"
HEADER = 24.0  # pixels above the first comparison
PALE = 0.45  # opacity of marks that stand for few seeds
FEWEST_ARMS = 3  # arms with runs, the baseline included: fewer are no comparison
ACROSS, APART = 2, 8.0  # plots next to each other, and pixels between marks of equal cost


@dataclass(frozen=True)
class _Value:
    """The share of errors that one arm removes, in percent, and how it is drawn."""

    arm: drawing.Arm
    share: float
    hollow: bool = False
    few_seeds: bool = False

    def __str__(self) -> str:
        share = drawing.with_minus(f"{self.share:.1f} %")
        return f"{self.arm.title} {share}{MARK * self.few_seeds}"


@dataclass(frozen=True)
class _Comparison:
    """One task on one data set: the texts, the main share with its interval, and those of the paper and other arms.

    `sign`: 1 or -1 if the interval of the gain, which tables show, excludes zero; else 0. `shortened`: the
    epochs, if they are not those of the recipe; the sentence above the figure then names the share by itself. `part`:
    whether it is of a part of a test set, which that sentence leaves out.
    """

    name: str
    below: str
    scores: str
    main: _Value
    interval: Interval | None
    sign: int
    others: Sequence[_Value]
    shortened: str = ""
    part: bool = False

    @property
    def shown_share(self) -> str:
        """The share with its interval, as text."""
        between = shown_interval(self.interval, sign="-")
        return drawing.with_minus(f"{self.main.share:.1f} %" + f" ({between})" * bool(between))

    @property
    def numbers(self) -> str:
        """All that is drawn, as text."""
        parts = [self.scores.replace("→", "to"), f"{self.main.arm.title} {self.shown_share}", *map(str, self.others)]
        return f"{self.name}, {self.below}: {', '.join(parts)}."


@dataclass(frozen=True)
class _Layout:
    """Places in pixels: the plot from left to right, the two lines of marks in a lane, and the lane's height."""

    width: float
    left: float
    right: float
    first: float
    second: float
    lane: float
    names: float  # left of the plot, or above it together with the scores


WIDE = _Layout(width=820, left=244, right=664, first=16, second=32, lane=50, names=208)
PHONE = _Layout(
    width=drawing.WIDTH, left=12, right=drawing.WIDTH - 12, first=53, second=69, lane=86, names=drawing.WIDTH - 130
)


def errors_removed(
    panels: Sequence[Row], compared: tuple[str, str], main_arms: Mapping[str, str] | None = None
) -> drawing.Figure | None:
    """The figure with its narrow form, of the panels that have both arms; None if there are none.

    Marks are drawn for the second arm, the paper, and those other arms whose looks are in names.toml.

    Args:
        panels: The comparisons.
        compared: The two arms.
        main_arms: Their settings, if they are not the suite's defaults.
    """
    known = load_names().arms
    features = [arm for arm in dict.fromkeys([*compared, *known]) if arm in compared or known[arm].colour]
    titles = arm_titles(features, [group for panel in panels for group in (*panel.groups, *(panel.pair or ()))])
    first, second = (titles[arm] for arm in compared)
    arms = drawing.arms_of(titles | {compared[1]: second.removeprefix("+ ")})
    lanes = [lane for panel in panels if (lane := _comparison(panel, arms, compared))]
    if not lanes:
        return None
    mini = all(panel.data == MINI for panel in panels)
    caption = f"Test scores: {first} → {second}. Errors removed: the gain as a share of 100 minus the baseline's score."
    if any(lane.interval for lane in lanes):
        caption += " Line: 95 % interval. A gain whose own interval includes zero is unclear."
    pale = any(value.few_seeds for lane in lanes for value in lane.others)
    few = pale or any(lane.interval and lane.interval.few_seeds for lane in lanes)
    notes = arms_title(main_arms or {}, panels)
    below = [FEW_SEEDS_NOTE.replace(MARK, f"{MARK} and pale marks:" if pale else MARK)] * few + notes
    numbers = " ".join([*(lane.numbers for lane in lanes), *(f"{note}." for note in notes)])
    found = _finding([lane for lane in lanes if not lane.part])
    title, forms = "Mini data: " * mini + found, list[drawing.Figure]()
    for layout in (WIDE, PHONE):
        name = f"{MAIN_FIGURE}{'-mini' * mini}{'-phone' * (layout is PHONE)}"
        height, marks = _drawn(lanes, layout, f"{first} → {second}", below)
        forms.append(drawing.Figure(name, title, caption, height, marks, layout.width, numbers))
    return replace(forms[0], narrow=forms[1])


def _comparison(panel: Row, arms: drawing.Arms, compared: tuple[str, str]) -> _Comparison | None:
    """The drawing of a panel; None if it does not have both arms, or no errors to remove."""
    pair, share, paper = panel.pair, panel.error_cut, panel.paper
    if pair is None or share is None:
        return None
    (baseline, second), others = pair, list[_Value]()
    if paper and compared == default_pair() and paper.metric == baseline.metric and not baseline.partial:
        cut = paper.error_cut(compared)
        others += [_Value(PAPER, cut, hollow=True)] if cut is not None else []
    for group in panel.groups:
        alike = (group.metric, group.recipe) == (baseline.metric, baseline.recipe)
        if group.features in arms and group not in pair and alike:
            cut = relative_error_cut(baseline.mean, group.mean)
            others += [_Value(arms[group.features], cut, few_seeds=group.few_seeds)] if cut is not None else []
    counted = f"{len(baseline.examples[0] or ()):,} test examples" if panel.part else ""
    below = ", ".join(filter(None, [panel.metric_title(), panel.settings_title, baseline.old_recipe, counted]))
    scores, main = f"{baseline.mean:.1f} → {second.mean:.1f}", _Value(arms[second.features], share)
    shortened = panel.settings_title if EPOCHS in {**panel.shown_names, **panel.settings} else ""
    name, part = panel.part or panel.task_title, bool(panel.part)
    return _Comparison(name, below, scores, main, panel.cut_interval, panel.sign, others, shortened, part)


def _finding(lanes: Sequence[_Comparison]) -> str:
    """The message of the intervals, in a sentence."""
    name, size = lanes[0].main.arm.title, len(lanes)
    better = [lane for lane in lanes if lane.sign > 0]
    apart = [lane for lane in better if lane.shortened]
    apart = apart if len(apart) < len(better) else []
    shares = [round(lane.main.share) for lane in better if lane not in apart]
    parts = []
    if shares:
        between = " to ".join(map(str, dict.fromkeys([min(shares), max(shares)])))
        number = f"all {size}" if len(shares) == size else f"{len(shares)} of {size}"
        where = lanes[0].name if size == 1 else f"{number} data sets"
        parts.append(f"{name} removes {between}{NO_BREAK}% of the baseline's errors on {where}")
    if apart:
        named = [f"{round(lane.main.share)}{NO_BREAK}% on {lane.name} ({lane.shortened})" for lane in apart]
        parts.append(", ".join(named))
    if down := [lane.name for lane in lanes if lane.sign < 0]:
        parts.append(f"{'it' if parts else name} adds errors on {_listed(down)}")
    if unclear := [lane.name for lane in lanes if not lane.sign]:
        where = _listed(unclear)
        parts.append(f"unclear on {where}" if parts else f"The effect of {name} on {where} is unclear")
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} data sets"


def _drawn(
    lanes: Sequence[_Comparison], layout: _Layout, scores_header: str, below: Sequence[str]
) -> tuple[float, list[drawing.Mark]]:
    """Height and marks, with these lines below the axis."""
    low, high = _limits(lanes)
    scale = drawing.Scale(low, high, layout.left, layout.right)
    outside = [f"{lane.name}: {value}" for lane in lanes for value in lane.others if not low <= value.share <= high]
    below = [*below, *([f"Off the scale: {'; '.join(outside)}"] if outside else [])]
    marks = _legend(lanes, layout.width)
    top = max(mark.y for mark in marks if isinstance(mark, drawing.Label)) + HEADER
    bottom = top + layout.lane * len(lanes)
    header = drawing.fitted(scores_header, layout.width / 2, 11)
    marks.append(drawing.Label(layout.width - 8, top - 4, header, "muted", 11, "end"))
    for tick in scale.ticks():
        marks.append(drawing.Label(scale.at(tick), bottom + 16, drawing.shown_tick(tick), "muted", 11, "middle"))
    marks.append(drawing.Label((layout.left + layout.right) / 2, bottom + 34, AXIS, "ink", 12, "middle"))
    for number, lane in enumerate(lanes):
        marks += _lane(lane, layout, scale, top + number * layout.lane)
    return drawing.with_notes(marks, bottom + 54, below, layout.width)


def _limits(lanes: Sequence[_Comparison]) -> tuple[float, float]:
    """The ends of the scale: with zero, the main arm, its intervals and the paper; other arms only if they are near."""
    ends = [0.0, *(lane.main.share for lane in lanes)]
    ends += [end for lane in lanes if lane.interval for end in lane.interval.ends]
    ends += [value.share for lane in lanes for value in lane.others if value.hollow]
    low, high = max(min(ends), -100.0), min(max(ends), 100.0)
    near = (high - low) / 2 or 10.0
    inside = [v.share for lane in lanes for v in lane.others if low - near <= v.share <= high + near]
    low, high = min([low, *inside]), max([high, *inside])
    margin = (high - low) * 0.04 or 1.0
    first, second, *_ = drawing.Scale(low - margin, high + margin, 0, 1).ticks()
    if low < 0 <= first:  # so that what is left of zero has a number
        low = min(low, first - (second - first))
    return low - margin, high + margin


def _legend(lanes: Sequence[_Comparison], width: float) -> list[drawing.Mark]:
    """All that is drawn: the main arm first, then the paper."""
    main = lanes[0].main.arm, "dot"
    others = {value.arm: "hollow" if value.hollow else "dot" for lane in lanes for value in lane.others}
    if any(lane.interval for lane in lanes):
        main = replace(main[0], title=f"{main[0].title}, 95 % interval"), "interval"
    return drawing.legend([main, *sorted(others.items(), key=lambda item: item[1] != "hollow")], width)


def _lane(lane: _Comparison, layout: _Layout, scale: drawing.Scale, top: float) -> list[drawing.Mark]:
    """The texts and marks of one comparison."""
    end = layout.width - 8
    marks: list[drawing.Mark] = [drawing.ChartLine([(8, top), (end, top)], "grid", 1)]
    for tick in scale.ticks():  # only behind the marks: names may be above them
        line = [(scale.at(tick), top + layout.first - 14), (scale.at(tick), top + layout.lane)]
        marks.append(drawing.ChartLine(line, "grid" if tick else "muted", 1 if tick else 1.5))
    marks.append(drawing.Label(8, top + 20, drawing.fitted(lane.name, layout.names, 13), "ink", 13, bold=not lane.part))
    marks.append(drawing.Label(8, top + 36, drawing.fitted(lane.below, layout.names, 11), "muted", 11))
    marks.append(drawing.Label(end, top + 20, lane.scores, "ink", 13, "end", bold=True))
    marks.append(drawing.Label(end, top + 36, lane.shown_share, "muted", 11, "end"))
    first, second = top + layout.first, top + layout.second
    if lane.interval:
        ends = [min(max(end, scale.low), scale.high) for end in lane.interval.ends]
        title = f"{lane.name}: 95 % interval {shown_interval(lane.interval, sign='-')} %"
        marks.append(lane.main.arm.line([(scale.at(end), first) for end in ends], 3, title))
    taken: list[float] = []
    for value in (*lane.others, lane.main):
        if not scale.low <= value.share <= scale.high:
            continue
        x, y = scale.at(value.share), first
        if value is not lane.main:
            y = second + 9 * any(abs(x - other) < 10 for other in taken)  # next to a marker, not on it
            taken.append(x)
        dot = replace(value.arm.dot(x, y, 5, f"{lane.name}: {value}"), hollow=value.hollow)
        marks.append(replace(dot, opacity=PALE) if value.few_seeds else dot)
    return marks


@dataclass(frozen=True)
class _Cell:
    """The share of one task's errors that an arm removes, in percent.

    Attributes:
        ours: By our runs; None if there are none.
        interval: Its 95 % interval.
        sign: 1 or -1 if the gain is beyond noise, corrected for all arms; else 0.
        published: By numbers that others printed; None if there are none.
        words: All that is drawn, or the score of the baseline, in words; empty if there is nothing.
    """

    ours: float | None
    interval: Interval | None
    sign: int
    published: float | None
    words: str

    @property
    def values(self) -> list[float]:
        """All that the scale has to have room for."""
        ends = self.interval.ends if self.interval else ()
        return [value for value in (self.ours, self.published, *ends) if value is not None]


def arm_gains(table: Table) -> drawing.Figure | None:
    """The figure; None if the table has no costs, or fewer than three arms with runs."""
    experiment, base = table.experiment, table.compared[0]
    lines = [line for line in table.rows if (first := line.group(base)) and line.groups != [first]]
    with_runs = [arm for arm in experiment.arms if any(line.group(arm) for line in table.rows)]
    if not experiment.costs or len(with_runs) < FEWEST_ARMS or not lines:
        return None
    cells: dict[str, list[_Cell]] = {arm: [] for arm in experiment.arms}
    for line in lines:
        rows = {arm: table.against_base(line, arm) for arm in experiment.arms}
        signs = corrected_signs({arm: row.interval for arm, row in rows.items()})
        for arm, row in rows.items():
            cells[arm].append(_cell(table, line, row, arm, signs[arm]))
    shown = [arm for arm, of_arm in cells.items() if any(cell.words for cell in of_arm)]
    shown.sort(key=lambda arm: experiment.costs[arm].milliseconds if arm in experiment.costs else float("inf"))
    caption = (
        f"Errors removed: the gain over {table.titles[base]} as a share of 100 minus its score. Line: 95 % interval; "
        "pale: not beyond noise by Holm's correction for all arms. Hollow: published by others, over the baseline that "
        "they print. Marks of equal cost stand next to each other. "
        f"{experiment.note}."
    )
    below = _footnotes(table, lines, shown)
    looks = drawing.arms_of({arm: table.titles[arm] for arm in shown})
    placed = {looks[arm]: (experiment.costs[arm].milliseconds, cells[arm]) for arm in shown if arm in experiment.costs}
    if not any(cell.values for _, of_arm in placed.values() for cell in of_arm):
        return None
    tasks = [line.title for line in lines]
    drawn = [note.removeprefix(f"{WARNED} ") for note in below if not note.startswith(MARK)]  # no mark has these
    height, marks = _against_cost(placed, tasks, [cell.words for cell in cells[base]], drawn)
    numbers = []
    for arm in shown:
        cost, scores = experiment.costs.get(arm), zip(tasks, cells[arm], strict=True)
        words = f"{shown_parameters(cost)}, {shown_milliseconds(cost)} ms" if cost else "cost not measured"
        listed = "; ".join(f"{task} {cell.words}" for task, cell in scores if cell.words)
        numbers.append(f"{table.titles[arm]} ({words}): {listed}.")
    title = f"{experiment.title} against {table.titles[base]}: errors removed, and cost"
    text = " ".join([*numbers, "What is not listed was not run.", *below])
    return drawing.Figure(sweep_name(experiment.name), title, caption, height, marks, ACROSS * drawing.WIDTH, text)


def _cell(table: Table, line: Row, compared: Row, arm: str, sign: int) -> _Cell:
    first, group = line.group(table.compared[0]), line.group(arm)
    if arm == table.compared[0] and group:
        return _Cell(None, None, 0, None, f"{group.mean:.1f} {metric_title(group.metric, group.records[0])}")
    ours, interval, published = compared.error_cut, compared.cut_interval, None
    if arm in line.spec.same_baseline:
        published = relative_error_cut(line.printed[table.compared[0]], line.printed[arm])
    few_seeds = any(runs_of_arm and runs_of_arm.few_seeds for runs_of_arm in (first, group))
    marks = MARK * few_seeds + WARNED * bool(group and group.warnings)
    between = shown_interval(interval, sign="-").removesuffix(MARK)
    words = [] if ours is None else [f"{ours:.1f} %{marks}" + f" ({between})" * bool(between)]
    words += [] if published is None else [f"published {published:.1f} %"]
    return _Cell(ours, interval, sign, published, drawing.with_minus(", ".join(words)))


def _footnotes(table: Table, lines: Sequence[Row], shown: Sequence[str]) -> list[str]:
    groups = [group for line in lines for group in line.groups]
    notes = [f"{FEW_SEEDS_NOTE}."] * any(group.few_seeds for group in groups)
    recipes = {f"{line.title} ({arm.old_recipe})": None for line in lines for arm in line.groups if arm.old_recipe}
    notes += [f"Older recipes than the task's: {', '.join(recipes)}."] * bool(recipes)
    warnings = {(table.titles[group.features], text) for group in groups for text in group.warnings}
    notes += sorted({f"{WARNED} {title}: {text.rstrip('.')}." for title, text in warnings})
    without_cost = [table.titles[arm] for arm in shown if arm not in table.experiment.costs]
    without_runs = [table.titles[arm] for arm in table.experiment.arms if arm not in shown]
    absent = {"runs": without_runs, "a cost": without_cost}
    return [*notes, *(f"Without {what}: {', '.join(arms)}." for what, arms in absent.items() if arms)]


def _against_cost(
    placed: Mapping[drawing.Arm, tuple[float, Sequence[_Cell]]],
    tasks: Sequence[str],
    scores: Sequence[str],
    below: Sequence[str],
) -> tuple[float, list[drawing.Mark]]:
    """Height and marks: for each task with the baseline's score, shares by milliseconds, which rise from arm to arm."""
    values = [value for _, cells in placed.values() for cell in cells for value in cell.values]
    costs = [cost for cost, cells in placed.values() if any(cell.values for cell in cells)]
    across = drawing.Scale(min(costs), max(costs), drawing.AXES_LEFT + 12, drawing.RIGHT - 14, log=True)
    up, ticks = drawing.spread(values, zero=True), {tick: drawing.shown_tick(tick) for tick in across.ticks()}
    drawn = [(arm, "dot") for arm, (_, cells) in placed.items() if any(cell.values for cell in cells)]
    hollow = any(cell.published is not None for _, cells in placed.values() for cell in cells)
    drawn += [(drawing.Arm("published by others", "ink", "circle"), "hollow")] * hollow
    marks = drawing.legend(drawn, ACROSS * drawing.WIDTH)
    top = 14 + max(mark.y for mark in marks if isinstance(mark, drawing.Dot))
    for number, (task, score) in enumerate(zip(tasks, scores, strict=True)):
        title = f"errors removed (%); the baseline has {score}"
        panel = drawing.both_axes(up, title, across, "ms per 1,000 tokens (log)", ticks)
        x = 0.0
        for arm, (cost, cells) in placed.items():
            if cells[number].values:
                x = max(across.at(cost), x + APART)
                panel += _cell_marks(cells[number], arm, x, up, f"{arm.title}, {task}: {cells[number].words}")
        titled = drawing.with_title(drawing.Figure("", task, "", drawing.AXES_HEIGHT, panel))
        row, column = divmod(number, ACROSS)
        marks += drawing.shifted(titled.marks, column * drawing.WIDTH, top + row * (titled.height + 8))
    bottom = top + math.ceil(len(tasks) / ACROSS) * (titled.height + 8)
    return drawing.with_notes(marks, bottom + 12, below, ACROSS * drawing.WIDTH)


def _cell_marks(cell: _Cell, arm: drawing.Arm, x: float, up: drawing.Scale, title: str) -> list[drawing.Mark]:
    """The marks of one arm on one task."""
    marks, opacity = list[drawing.Mark](), 1 if cell.sign else PALE
    if cell.interval:
        ends = [(x, up.at(end)) for end in cell.interval.ends]
        marks.append(drawing.ChartLine(ends, arm.colour, 2, opacity=opacity, title=title))
    if cell.published is not None:
        marks.append(replace(arm.dot(x, up.at(cell.published), 4.5, title), hollow=True))
    if cell.ours is not None:
        marks.append(replace(arm.dot(x, up.at(cell.ours), 4.5, title), opacity=opacity))
    return marks
