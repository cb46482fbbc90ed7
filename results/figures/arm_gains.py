"""Chart of an experiment by arm: the share of the baseline's errors that each arm removes from a task, and its cost."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from results.analysis.interval import Interval, corrected_signs
from results.analysis.names import metric_title
from results.analysis.paper_scores import relative_error_cut
from results.analysis.rows import WARNED, Row, Table
from results.experiments import ArmCost
from results.figures.axes import Scale, fitted, legend, spread, text_width, vertical_ticks, with_minus, with_notes
from results.figures.errors_removed import AXIS
from results.figures.marks import WIDTH, Arm, ChartLine, Dot, Figure, Label, Mark
from results.tables.sheet import FEW_SEEDS_NOTE, MARK, shown_interval, shown_milliseconds, shown_parameters

FEWEST = 3  # arms with runs, the baseline included: fewer are no comparison
WIDE, PHONE = 860.0, WIDTH
NAMES = 168.0  # pixels at the left, for names
COSTS = 106.0  # pixels of the column of costs
WIDE_LANE, PHONE_LANE = 36.0, 24.0
COST = "ms per 1,000 tokens"


@dataclass(frozen=True)
class _Share:
    """What an arm removes from one task's errors, in percent.

    Attributes:
        ours: By our runs; None if there are none.
        interval: Its 95 % interval.
        sign: 1 or -1 if the gain is beyond noise, corrected for all arms; else 0.
        published: By numbers that others printed; None if there are none.
        marks: Signs for few seeds and for a warning.
        missing: Why there is no share; empty if the experiment has no such runs.
    """

    ours: float | None
    interval: Interval | None
    sign: int
    published: float | None
    marks: str
    missing: str

    @property
    def number(self) -> str:
        """Our share, or in brackets the published one."""
        published = "" if self.published is None else f"({self.published:.1f})"
        return with_minus(published if self.ours is None else f"{self.ours:.1f}{self.marks}")

    @property
    def text(self) -> str:
        """All that is drawn, in words; empty if nothing is."""
        between = shown_interval(self.interval, sign="-").removesuffix(MARK)
        parts = [] if self.ours is None else [f"{self.ours:.1f} %{self.marks}" + f" ({between})" * bool(between)]
        parts += [] if self.published is None else [f"published {self.published:.1f} %"]
        return with_minus(", ".join(parts))


@dataclass(frozen=True)
class _Lane:
    """One arm: its name, its cost, and a share for each task; the baseline has scores instead."""

    title: str
    cost: ArmCost | None
    shares: list[_Share]
    scores: list[tuple[str, str]]  # number, metric

    @property
    def cost_text(self) -> str:
        if self.cost is None:
            return "cost not measured"
        return f"{shown_parameters(self.cost)} parameters, {self.measured} {COST}"

    @property
    def measured(self) -> str:
        """Its milliseconds as a number."""
        return shown_milliseconds(self.cost) if self.cost else "not measured"

    def numbers(self, tasks: Sequence[str]) -> str:
        """All that is drawn, as text."""
        texts = [" ".join(score) for score in self.scores] or [share.text for share in self.shares]
        shown = [f"{task} {text}" for task, text in zip(tasks, texts, strict=True) if text]
        return f"{self.title} ({self.cost_text}): {'; '.join(shown)}."


def arm_gains(table: Table) -> Figure | None:
    """The figure with its narrow form; None if the table has no costs, or fewer than three arms with runs."""
    experiment, base = table.experiment, table.base
    lines = [
        line for line in table.rows if (first := line.group(base)) and line.groups != [first]
    ]  # the others have nothing to compare
    with_runs = [arm for arm in experiment.arms if any(line.group(arm) for line in table.rows)]
    if not experiment.costs or len(with_runs) < FEWEST or not lines:
        return None
    lanes = {arm: _Lane(table.titles[arm], experiment.costs.get(arm), [], []) for arm in experiment.arms}
    for line in lines:
        rows = {arm: table.against_base(line, arm) for arm in experiment.arms}
        signs = corrected_signs({arm: row.interval for arm, row in rows.items()})
        for arm, row in rows.items():
            lanes[arm].shares.append(_share(table, line, arm, row, signs[arm]))
        if group := line.group(base):
            lanes[base].scores.append((f"{group.mean:.1f}", metric_title(group.metric, group.records[0])))
    shown = [lane for lane in lanes.values() if lane.scores or any(share.text for share in lane.shares)]
    shown.sort(key=lambda lane: lane.cost.milliseconds if lane.cost else float("inf"))
    tasks, base_title = [line.title for line in lines], table.titles[base]
    caption = (
        f"Errors removed: the gain over {base_title} as a share of 100 minus its score. Line: 95 % interval; grey: "
        f"not beyond noise by Holm's correction for all arms. Hollow: published by others, over the baseline that they "
        f"print. {experiment.note}."
    )
    below = _footnotes(table, lines, [lane.title for lane in lanes.values() if lane not in shown])
    wide, narrow = (
        Figure(
            f"{experiment.sweep_name}{'-phone' * (width == PHONE)}",
            f"{experiment.title} against {base_title}: errors removed, and cost",
            caption,
            *drawn(shown, tasks, below),
            width,
            " ".join([*(lane.numbers(tasks) for lane in shown), "What is not listed was not run.", *below]),
        )
        for width, drawn in ((WIDE, _drawn), (PHONE, _drawn_for_phones))
    )
    return replace(wide, narrow=narrow)


def _share(table: Table, line: Row, arm: str, runs: Row, sign: int) -> _Share:
    first, group = line.group(table.base), line.group(arm)
    printed = arm in line.spec.same_baseline and arm != table.base
    published = relative_error_cut(line.printed[table.base], line.printed[arm]) if printed else None
    few_seeds = any(runs_of and runs_of.few_seeds for runs_of in (first, group))
    marks = MARK * few_seeds + WARNED * bool(group and group.warnings)
    missing = "not run" if arm in (line.spec.arms or [arm]) else ""
    if first and group and first.recipe != group.recipe:
        missing = f"recipe {group.recipe}"
    return _Share(runs.error_cut, runs.cut_interval, sign, published, marks, missing)


def _footnotes(table: Table, lines: Sequence[Row], missing: Sequence[str]) -> list[str]:
    groups = [group for line in lines for group in line.groups]
    notes = [f"{FEW_SEEDS_NOTE}."] * any(group.few_seeds for group in groups)
    warned = {
        f"{WARNED} {table.titles[group.features]}: {text.rstrip('.')}." for group in groups for text in group.warnings
    }
    for line in lines:
        recipes = {group.features: group.old_recipe for group in line.groups}
        for recipe in sorted(set(recipes.values()) - {""}):
            arms = [table.titles[arm] for arm, of_arm in recipes.items() if of_arm == recipe]
            which = "" if len(arms) == len(recipes) else f", {', '.join(arms)}"
            notes.append(f"{line.title}{which}: {recipe}, an older one of the task.")
    return [*notes, *sorted(warned), *([f"Without runs: {', '.join(missing)}."] if missing else [])]


def _drawn(lanes: Sequence[_Lane], tasks: Sequence[str], below: Sequence[str]) -> tuple[float, list[Mark]]:
    """Height and marks: the cost and the tasks side by side."""
    left = NAMES + COSTS
    each = (WIDE - left - 8) / len(tasks)
    marks, height = _legend(lanes, WIDE)
    columns = [(COST, COSTS), *((task, each) for task in tasks)]
    headings = [textwrap.wrap(heading, int((width - 8) / (0.62 * 11))) for heading, width in columns]
    top = height + 6 + 14 * max(map(len, headings))
    bottom = top + WIDE_LANE * len(lanes)
    scales = [_cost_scale(lanes, NAMES + 4, left - 12 - _widest(lane.measured for lane in lanes))]
    for number in range(len(tasks)):
        scales.append(_share_scale(lanes, left + each * number + 12, left + each * (number + 1)))
    for heading, scale in zip(headings, scales, strict=True):
        for i, title in enumerate(reversed(heading)):
            marks.append(Label(scale.start, top - 8 - 14 * i, title, "ink", 11, bold=True))
        marks += vertical_ticks(scale, top, bottom)
    for place, lane in enumerate(lanes):
        y = top + WIDE_LANE * place
        marks.append(ChartLine([(8, y), (WIDE - 8, y)], "grid", 1))
        marks.append(Label(8, y + 16, fitted(lane.title, NAMES - 8, 13), "ink", 13, bold=True))
        if lane.cost:
            marks.append(Label(8, y + 30, f"{shown_parameters(lane.cost)} parameters", "muted", 11))
            marks.append(_cost_dot(lane, scales[0], y + 18))
        marks.append(Label(left - 4, y + 22, lane.measured, "muted", 11, "end"))
        for number, scale in enumerate(scales[1:]):
            share = lane.shares[number]
            marks += [*_shares(lane, tasks[number], share, scale, y + 25), *_above(share, scale, y + 15)]
            if lane.scores:
                score, metric = lane.scores[number]
                marks.append(Label(scale.at(0) + 5, y + 16, score, "muted", 11))
                marks.append(Label(scale.at(0) + 5, y + 30, metric, "muted", 11))
            elif share.missing and not share.text:
                marks.append(Label(scale.at(0) + 5, y + 22, share.missing, "muted", 11))
    marks.append(Label((scales[1].start + WIDE) / 2, bottom + 34, AXIS, "ink", 12, "middle"))
    cells = [share for lane in lanes if not lane.scores for share in lane.shares]
    empty = any(not share.text and not share.missing for share in cells)
    return with_notes(marks, bottom + 54, ["Empty: the experiment has no such runs."] * empty + [*below], WIDE)


def _above(share: _Share, scale: Scale, y: float) -> list[Mark]:
    """The number above a mark, on its side of the line at zero."""
    value = share.published if share.ours is None else share.ours
    if value is None:
        return []
    half, zero = text_width(share.number, 11) / 2, scale.at(0)
    x = max(scale.at(value), zero + half + 2) if value >= 0 else min(scale.at(value), zero - half - 2)
    colour = "muted" if share.ours is None else "ink"
    return [Label(min(x, scale.end - half), y, share.number, colour, 11, "middle")]


def _drawn_for_phones(lanes: Sequence[_Lane], tasks: Sequence[str], below: Sequence[str]) -> tuple[float, list[Mark]]:
    """Height and marks: the cost and the tasks one below the other, each with the arms that have a mark there."""
    base = next(lane for lane in lanes if lane.scores)
    costs = {lane.title: f"{shown_parameters(lane.cost)}, {lane.measured}" for lane in lanes if lane.cost}
    cost_scale = _cost_scale(lanes, NAMES, PHONE - 16 - _widest(costs.values()))
    marks, y = _legend(lanes, PHONE)
    for number, heading in enumerate([f"parameters, {COST}", *tasks], start=-1):
        cost = number < 0
        listed = [lane for lane in lanes if (lane.cost if cost else lane.shares[number].text)]
        title = heading if cost else f"{heading}; {base.title}: {' '.join(base.scores[number])}"
        top = y + 22
        bottom = top + PHONE_LANE * len(listed)
        scale = cost_scale if cost else _share_scale(lanes, NAMES, PHONE - 50)
        marks.append(Label(8, top - 8, fitted(title, PHONE - 16, 12), "ink", 11, bold=True))
        marks += vertical_ticks(scale, top, bottom)
        for place, lane in enumerate(listed):
            y = top + PHONE_LANE * place
            marks.append(ChartLine([(8, y), (PHONE - 8, y)], "grid", 1))
            marks.append(Label(8, y + 16, fitted(lane.title, NAMES - 24), "ink", 12))
            if lane.cost and cost:
                marks.append(_cost_dot(lane, scale, y + 12))
                text = costs[lane.title]
            else:
                marks += _shares(lane, heading, lane.shares[number], scale, y + 12)
                text = lane.shares[number].number
            marks.append(Label(PHONE - 8, y + 16, text, "muted" if cost else "ink", 11, "end"))
        y = bottom + 24
    marks.append(Label(PHONE / 2, y + 8, AXIS, "ink", 12, "middle"))
    return with_notes(marks, y + 28, ["Arms that a task does not show have no runs there.", *below], PHONE)


def _legend(lanes: Sequence[_Lane], width: float) -> tuple[list[Mark], float]:
    """What the looks of marks mean, and its height."""
    shares = [share for lane in lanes for share in lane.shares]
    ours = [share for share in shares if share.ours is not None]
    kinds = [
        (Arm("ours, 95 % interval", "blue", "circle"), "interval", any(share.sign for share in ours)),
        (Arm("not beyond noise", "grey", "circle"), "interval", any(not share.sign for share in ours)),
        (Arm("published by others", "ink", "circle"), "hollow", any(share.published is not None for share in shares)),
    ]
    marks = legend([(arm, kind) for arm, kind, is_drawn in kinds if is_drawn], width)
    return marks, 14 + max(mark.y for mark in marks if isinstance(mark, Dot))


def _share_scale(lanes: Sequence[_Lane], start: float, end: float) -> Scale:
    """The scale of shares, the same for all tasks."""
    shares = [share for lane in lanes for share in lane.shares]
    values = [value for share in shares for value in (share.ours, share.published) if value is not None]
    values += [end for share in shares if share.interval for end in share.interval.ends]
    return spread(values, start, end, zero=True)


def _widest(texts: Iterable[str]) -> float:
    """The pixels that small labels need."""
    return max(text_width(text, 11) for text in texts)


def _cost_scale(lanes: Sequence[_Lane], start: float, end: float) -> Scale:
    """A logarithmic scale of milliseconds."""
    known = [lane.cost.milliseconds for lane in lanes if lane.cost]
    return Scale(min(known) / 2, max(known) * 2, start, end, log=True)


def _cost_dot(lane: _Lane, scale: Scale, y: float) -> Dot:
    assert lane.cost is not None
    return Dot(scale.at(lane.cost.milliseconds), y, "ink", "square", 4, title=f"{lane.title}: {lane.cost_text}")


def _shares(lane: _Lane, task: str, share: _Share, scale: Scale, y: float) -> list[Mark]:
    """The marks of one arm on one task."""
    title = f"{lane.title}, {task}: {share.text}"
    marks: list[Mark] = []
    if share.published is not None:
        marks.append(Dot(scale.at(share.published), y, "ink", "circle", hollow=True, title=title))
    if share.ours is not None:
        colour = "blue" if share.sign else "grey"
        if share.interval:
            ends = [(scale.at(end), y) for end in share.interval.ends]
            marks.append(ChartLine(ends, colour, 2.5, title=title))
        marks.append(Dot(scale.at(share.ours), y, colour, "circle", title=title))
    return marks
