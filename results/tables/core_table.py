"""The core of the results table: scores, gain and errors removed, one line per task, in 80 columns."""

import re
import textwrap
from collections.abc import Sequence

from results.analysis.names import controls_legend
from results.analysis.panels import Panel
from results.analysis.rows import Summary
from results.records.printing import printable
from results.tables.cells import (
    EMPTY,
    GAIN_COLUMNS,
    Page,
    Sheet,
    best_legend,
    best_sheets,
    compared_groups,
    findings_for_people,
    findings_sections,
    gain_cells,
    panels_legend,
    shown_panels,
    shown_score,
)
from results.tables.formats import text_width

WIDTH = 80  # of a terminal
HEADER_WIDTH = 9  # longer titles of arms are broken at their spaces

_LAST_KEY = re.compile(r"\S+\.(?=[^.\s=]+=)")  # what comes before the last part of a setting's key

Column = tuple[str, str, Sequence[str]]  # header, alignment, cells


def core_page(summary: Summary) -> Page:
    """The table to lay out, and the text below it; the paper's share of errors and other arms where there is room."""
    panels, others = shown_panels(summary)
    below = [_below(panel, summary) for panel in panels]
    settings = list(dict.fromkeys(filter(None, below)))
    marks = [f" [{settings.index(text) + 1}]" if text else "" for text in below]
    scores = [[shown_score(own, brief=True) for own in compared_groups(panel, summary)] for panel in panels]
    gains = [dict(zip(GAIN_COLUMNS, gain_cells(panel.row, panel.label), strict=False)) for panel in panels]

    def of_arm(arm: str) -> Column:
        short = _LAST_KEY.sub("", printable(summary.titles[arm]))
        header = textwrap.wrap(short, HEADER_WIDTH, break_long_words=False, break_on_hyphens=False)
        return "\n".join(header), "r", [own[summary.features.index(arm)] for own in scores]

    def of_gain(name: str) -> Column:
        header, align = GAIN_COLUMNS[name]
        return header, align, [own[name].partition(" ")[0] for own in gains]

    names = [panel.task + mark for panel, mark in zip(panels, marks, strict=True)]
    columns: list[Column] = [("task", "l", names), *map(of_arm, summary.compared), of_gain("gain")]
    columns += [column for column in map(of_gain, ("interval", "cut")) if set(column[2]) != {EMPTY}]
    paper = ("paper", "r", of_gain("paper cut")[2])
    hidden = []
    for arm in ("", *summary.features[2:]):  # the paper's first
        column = of_arm(arm) if arm else paper
        if set(column[2]) != {EMPTY} and text_width(_sheet([*columns, column], panels)) <= WIDTH:
            columns.append(column)
        elif arm:
            hidden.append(arm)
    notes = [f"[{number}] {label}" for number, label in enumerate(settings, start=1)]
    notes += [*_metrics(panels), *panels_legend(panels)]
    notes += ["paper: the share of errors removed in the paper"] * (paper in columns)
    notes += [*controls_legend(arm for arm in summary.features if arm not in hidden), *best_legend(summary)]
    more = [summary.titles[arm] for arm in hidden] + [f"{len(others)} rows of other settings"] * bool(others)
    notes.append("; ".join(["--wide shows deviations, p and the paper's numbers", *more]))
    return [_sheet(columns, panels), *best_sheets(summary)], findings_sections(findings_for_people(summary), notes)


def _below(panel: Panel, summary: Summary) -> str:
    """What a note says about a row: its settings, and the arms of an older recipe."""
    groups = [group for group in compared_groups(panel, summary) if group]
    old = [f"{summary.titles[group.features]}: {group.old_recipe}" for group in groups if group.old_recipe]
    return ", ".join(filter(None, [panel.label, *old]))


def _sheet(columns: Sequence[Column], panels: Sequence[Panel]) -> Sheet:
    lines = [[printable(cell) for cell in line] for line in zip(*(cells for _, _, cells in columns), strict=True)]
    headers = [(header, align) for header, align, _ in columns]
    signs = [panel.row.gain_sign(panel.label) for panel in panels]
    return Sheet("Test scores in percent: mean (number of seeds)", headers, lines, signs)


def _metrics(panels: Sequence[Panel]) -> list[str]:
    """Which metric the scores of each task are."""
    tasks: dict[str, list[str]] = {}
    for panel in panels:
        if panel.metric and panel.task not in tasks.setdefault(panel.metric_title(), []):
            tasks[panel.metric_title()].append(panel.task)
    if len(tasks) == 1:
        return [f"metric: {next(iter(tasks))}"]
    return [f"{metric}: {'; '.join(own)}" for metric, own in tasks.items()]
