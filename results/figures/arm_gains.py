"""Chart of an experiment by arm: the share of the baseline's errors that each arm removes from a task, and its cost."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results.analysis.interval import Interval, corrected_signs
from results.analysis.names import metric_title
from results.analysis.paper_scores import relative_error_cut
from results.analysis.rows import WARNED, Row, Table
from results.figures.axes import Scale, fitted, legend, spread, text_width, vertical_ticks, with_minus, with_notes
from results.figures.errors_removed import AXIS
from results.figures.marks import Arm, ChartLine, Dot, Figure, Label, Mark
from results.tables.sheet import FEW_SEEDS_NOTE, MARK, shown_interval, shown_milliseconds, shown_parameters

FEWEST = 3  # arms with runs, the baseline included: fewer are no comparison
WIDE = 860.0
NAMES = 188.0  # pixels at the left, for names and costs
LANE = 36.0


@dataclass(frozen=True)
class _Cell:
    """What an arm removes from one task's errors, in percent.

    Attributes:
        ours: By our runs; None if there are none.
        interval: Its 95 % interval.
        sign: 1 or -1 if the gain is beyond noise, corrected for all arms; else 0.
        published: By numbers that others printed; None if there are none.
        label: The number above the marks; without a share the score of the baseline, or why there is none.
        words: All that is drawn, in words; empty if nothing is.
    """

    ours: float | None
    interval: Interval | None
    sign: int
    published: float | None
    label: str
    words: str

    @property
    def values(self) -> list[float]:
        """All that the scale has to have room for."""
        ends = self.interval.ends if self.interval else ()
        return [value for value in (self.ours, self.published, *ends) if value is not None]


def arm_gains(table: Table) -> Figure | None:
    """The figure; None if the table has no costs, or fewer than three arms with runs."""
    experiment, base = table.experiment, table.base
    lines = [line for line in table.rows if (first := line.group(base)) and line.groups != [first]]
    with_runs = [arm for arm in experiment.arms if any(line.group(arm) for line in table.rows)]
    if not experiment.costs or len(with_runs) < FEWEST or not lines:
        return None
    cells: dict[str, list[_Cell]] = {arm: [] for arm in experiment.arms}
    for line in lines:
        rows = {arm: table.against_base(line, arm) for arm in experiment.arms}
        signs = corrected_signs({arm: row.interval for arm, row in rows.items()})
        for arm, row in rows.items():
            cells[arm].append(_cell(table, line, row, arm, signs[arm]))
    shown = [arm for arm, own in cells.items() if any(cell.words for cell in own)]
    shown.sort(key=lambda arm: experiment.costs[arm].milliseconds if arm in experiment.costs else float("inf"))
    lanes = {table.titles[arm]: cells[arm] for arm in shown}
    costs = {
        table.titles[arm]: f"{shown_parameters(cost)}, {shown_milliseconds(cost)} ms"
        for arm, cost in experiment.costs.items()
    }
    caption = (
        f"Errors removed: the gain over {table.titles[base]} as a share of 100 minus its score. Line: 95 % interval; "
        "grey: not beyond noise by Holm's correction for all arms. Hollow: published by others, over the baseline that "
        "they print. Below each name: frozen parameters, and milliseconds for 1,000 tokens. "
        f"{experiment.note}."
    )
    below = _footnotes(table, lines, [table.titles[arm] for arm in experiment.arms if arm not in shown])
    tasks = [line.title for line in lines]
    height, marks = _drawn(lanes, costs, tasks, below)
    numbers = [
        f"{name} ({costs.get(name, 'cost not measured')}): "
        f"{'; '.join(f'{task} {cell.words}' for task, cell in zip(tasks, own, strict=True) if cell.words)}."
        for name, own in lanes.items()
    ]
    title = f"{experiment.title} against {table.titles[base]}: errors removed, and cost"
    text = " ".join([*numbers, "What is not listed was not run.", *below])
    return Figure(experiment.sweep_name, title, caption, height, marks, WIDE, text)


def _cell(table: Table, line: Row, compared: Row, arm: str, sign: int) -> _Cell:
    first, group = line.group(table.base), line.group(arm)
    if arm == table.base and group:
        score = f"{group.mean:.1f} {metric_title(group.metric, group.records[0])}"
        return _Cell(None, None, 0, None, score, score)
    ours, interval, published = compared.error_cut, compared.cut_interval, None
    if arm in line.spec.same_baseline:
        published = relative_error_cut(line.printed[table.base], line.printed[arm])
    few_seeds = any(own and own.few_seeds for own in (first, group))
    marks = MARK * few_seeds + WARNED * bool(group and group.warnings)
    between = shown_interval(interval, sign="-").removesuffix(MARK)
    words = [] if ours is None else [f"{ours:.1f} %{marks}" + f" ({between})" * bool(between)]
    words += [] if published is None else [f"published {published:.1f} %"]
    label = "not run" if arm in (line.spec.arms or [arm]) else ""
    if ours is not None:
        label = f"{ours:.1f}{marks}"
    elif published is not None:
        label = f"({published:.1f})"
    elif first and group and first.recipe != group.recipe:
        label = f"recipe {group.recipe}"
    return _Cell(ours, interval, sign, published, with_minus(label), with_minus(", ".join(words)))


def _footnotes(table: Table, lines: Sequence[Row], missing: Sequence[str]) -> list[str]:
    groups = [group for line in lines for group in line.groups]
    notes = [f"{FEW_SEEDS_NOTE}."] * any(group.few_seeds for group in groups)
    recipes = {f"{line.title} ({own.old_recipe})": None for line in lines for own in line.groups if own.old_recipe}
    notes += [f"Older recipes than the task's: {', '.join(recipes)}."] * bool(recipes)
    notes += sorted(
        {f"{WARNED} {table.titles[own.features]}: {text.rstrip('.')}." for own in groups for text in own.warnings}
    )
    return [*notes, *([f"Without runs: {', '.join(missing)}."] if missing else [])]


def _drawn(
    lanes: Mapping[str, Sequence[_Cell]], costs: Mapping[str, str], tasks: Sequence[str], below: Sequence[str]
) -> tuple[float, list[Mark]]:
    """Height and marks: a lane for each arm, and a plot for each task, all on one scale."""
    cells = [cell for own in lanes.values() for cell in own]
    kinds = [
        (Arm("ours, 95 % interval", "blue", "circle"), "interval", any(cell.sign for cell in cells)),
        (
            Arm("not beyond noise", "grey", "circle"),
            "interval",
            any(cell.ours is not None and not cell.sign for cell in cells),
        ),
        (Arm("published by others", "ink", "circle"), "hollow", any(cell.published is not None for cell in cells)),
    ]
    marks = legend([(arm, kind) for arm, kind, is_drawn in kinds if is_drawn], WIDE)
    each = (WIDE - NAMES - 8) / len(tasks)
    headings = [textwrap.wrap(task, int((each - 8) / (0.62 * 11))) for task in tasks]
    top = 20 + max(mark.y for mark in marks if isinstance(mark, Dot)) + 14 * max(map(len, headings))
    bottom = top + LANE * len(lanes)
    values = [value for cell in cells for value in cell.values]
    scales = [spread(values, NAMES + each * i + 12, NAMES + each * (i + 1), zero=True) for i in range(len(tasks))]
    for heading, scale in zip(headings, scales, strict=True):
        for i, line in enumerate(reversed(heading)):
            marks.append(Label(scale.start, top - 8 - 14 * i, line, "ink", 11, bold=True))
        marks += vertical_ticks(scale, top, bottom)
    for number, (name, own) in enumerate(lanes.items()):
        y = top + LANE * number
        marks.append(ChartLine([(8, y), (WIDE - 8, y)], "grid", 1))
        marks.append(Label(8, y + 16, fitted(name, NAMES - 8, 13), "ink", 13, bold=True))
        marks.append(Label(8, y + 30, costs.get(name, "not measured"), "muted", 11))
        for task, cell, scale in zip(tasks, own, scales, strict=True):
            marks += _marks(cell, scale, y, f"{name}, {task}: {cell.words}")
    marks.append(Label((NAMES + WIDE) / 2, bottom + 34, AXIS, "ink", 12, "middle"))
    empty = ["Empty: the experiment has no such runs."] * any(not cell.label for cell in cells)
    return with_notes(marks, bottom + 54, [*empty, *below], WIDE)


def _marks(cell: _Cell, scale: Scale, y: float, title: str) -> list[Mark]:
    """The marks of one arm on one task, with the number above them."""
    value = cell.published if cell.ours is None else cell.ours
    if value is None:
        x = min(scale.at(0) + 5, scale.end - text_width(cell.label, 11))
        return [Label(x, y + 22, cell.label, "muted", 11)] if cell.label else []
    marks: list[Mark] = []
    if cell.published is not None:
        marks.append(Dot(scale.at(cell.published), y + 25, "ink", "circle", hollow=True, title=title))
    if cell.ours is not None:
        colour = "blue" if cell.sign else "grey"
        if cell.interval:
            marks.append(ChartLine([(scale.at(end), y + 25) for end in cell.interval.ends], colour, 2.5, title=title))
        marks.append(Dot(scale.at(cell.ours), y + 25, colour, "circle", title=title))
    half, zero = text_width(cell.label, 11) / 2, scale.at(0)  # on its side of the line at zero
    x = max(scale.at(value), zero + half + 2) if value >= 0 else min(scale.at(value), zero - half - 2)
    return [
        *marks,
        Label(min(x, scale.end - half), y + 15, cell.label, "muted" if cell.ours is None else "ink", 11, "middle"),
    ]
