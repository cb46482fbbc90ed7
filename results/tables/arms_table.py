"""The table of an experiment with a line for each arm: its score in every row of the file, and what it costs."""

from collections.abc import Sequence

from results.analysis.interval import FEW_SEEDS, Interval
from results.analysis.names import controls_legend
from results.analysis.rows import Group
from results.records.printing import printable
from results.tables.cells import (
    EMPTY,
    MARK,
    Sheet,
    findings_sections,
    folds_legend,
    interval_legend,
    shown_score,
)
from results.tables.experiment_rows import ExperimentLine, ExperimentTable

COSTS = [("frozen\nparameters", "r"), ("ms per\n1,000 tokens", "r")]


def arms_page(table: ExperimentTable) -> tuple[list[Sheet], list[tuple[str, list[str]]]]:
    """The table to lay out, and the text below it."""
    experiment = table.experiment
    base = experiment.compare[0] if experiment.compare else ""
    columns = [
        ("features", "l"),
        *(COSTS if experiment.costs else []),
        *((printable(own.title), "l") for own in table.lines),
    ]
    intervals = {arm: [_interval(line, base, arm) for line in table.lines] for arm in experiment.arms}
    lines = []
    for arm in experiment.arms:
        cells = [_cell(line, arm, interval) for line, interval in zip(table.lines, intervals[arm], strict=True)]
        lines.append([printable(cell) for cell in [table.titles[arm], *_costs(table, arm), *cells]])
    first = [next(filter(None, own), None) for own in zip(*intervals.values(), strict=True)]  # of each column
    notes = _notes(table, base, [(line.title, own) for line, own in zip(table.lines, first, strict=True)])
    title = f"{experiment.title}: scores in percent, mean±std (number of seeds)"
    return [Sheet(printable(title), columns, lines)], findings_sections(table.findings, notes)


def _notes(table: ExperimentTable, base: str, found: Sequence[tuple[str, Interval | None]]) -> list[str]:
    notes = [table.experiment.note] * bool(table.experiment.note)
    if any(own for _, own in found):
        notes.append(f"[low..high]: the 95 % interval of the difference to {table.titles[base]}")
    if any(_few(group) for line in table.lines for group in line.runs.groups):
        notes.append(f"{MARK}: fewer than {FEW_SEEDS} seeds")
    notes += interval_legend(found)
    notes += folds_legend((line.title, line.runs) for line in table.lines)
    notes += controls_legend(table.experiment.arms)
    return notes + [f"{line.title}: {line.spec.source}" for line in table.lines if line.spec.paper and line.spec.source]


def _few(group: Group) -> bool:
    return len(group.seeds) < FEW_SEEDS


def _interval(line: ExperimentLine, base: str, arm: str) -> Interval | None:
    """The interval of the arm's difference to the first of the two that are compared."""
    return line.runs.comparing(base, arm).interval() if base and arm != base else None


def _cell(line: ExperimentLine, arm: str, interval: Interval | None) -> str:
    """Our score, its interval, and the score that was published."""
    group = line.runs.group(arm)
    parts = [f"{shown_score(group)}{MARK * _few(group)}"] if group else []
    parts += [f"[{interval.low:+.1f}..{interval.high:+.1f}]"] if interval else []
    parts += [f"published {line.paper[arm]:g}"] if arm in line.paper else []
    return " ".join(parts) or EMPTY


def _costs(table: ExperimentTable, arm: str) -> list[str]:
    costs = table.experiment.costs
    if not costs:
        return []
    cost = costs.get(arm)
    if cost is None:
        return [EMPTY, EMPTY]
    digits = 0 if cost.milliseconds >= 10 else 2
    return [f"{cost.parameters / 1e6:.1f} M", f"{cost.milliseconds:,.{digits}f}"]
