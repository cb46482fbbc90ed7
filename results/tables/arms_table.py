"""The table of an experiment with a line for each arm: its score in every row of the file, and what it costs."""

from collections.abc import Sequence

from results.analysis.interval import FEW_SEEDS, Interval, corrected_signs
from results.experiments.experiment import ArmCost, Experiment, values_of
from results.records.printing import printable
from results.tables.cells import (
    EMPTY,
    MARK,
    Page,
    Sheet,
    findings_sections,
    rows_legend,
    shown_score,
)
from results.tables.experiment_rows import ExperimentLine, ExperimentTable, typed_sweep

LINES = "Commands, one for each line; features alone choose all lines with these features"
COSTS = [("frozen\nparameters", "r"), ("ms per\n1,000 tokens", "r")]
UNCLEAR = "¶"  # marks intervals that exclude zero, where Holm's correction does not
PERPLEXITY = [("held-out\nperplexity", "r"), ("words that\nare <UNK>", "r")]


def arms_page(table: ExperimentTable) -> Page:
    """The table to lay out, and the text below it."""
    experiment = table.experiment
    columns = [
        ("features", "l"),
        *(COSTS if experiment.costs else []),
        *(PERPLEXITY if experiment.perplexities else []),
        *((printable(own.title), "l") for own in table.lines),
    ]
    chosen = {cell.arm for cell in experiment.cells}
    arms = [arm for arm in experiment.arms if arm in chosen]
    intervals = {arm: [table.against_base(own, arm).interval() for own in table.lines] for arm in arms}
    signs = [corrected_signs({arm: intervals[arm][i] for arm in arms}) for i in range(len(table.lines))]
    lines = []
    for arm in arms:
        found = zip(table.lines, intervals[arm], signs, strict=True)
        cells = [_cell(line, arm, interval, own[arm]) for line, interval, own in found]
        lines.append([printable(cell) for cell in [table.titles[arm], *_facts(experiment, arm), *cells]])
    known = [(line.title, own[i]) for i, line in enumerate(table.lines) for own in intervals.values()]
    notes = _notes(table, known, "".join(cell for line in lines for cell in line))
    title = f"{experiment.title}: scores in percent, mean±std (number of seeds)"
    commands = [printable(f"{_command(table, arm)}  # {table.titles[arm]}") for arm in arms]
    sections = [(LINES, commands), *findings_sections(table.findings, notes)]
    return [Sheet(printable(title), columns, lines)], sections


def _command(table: ExperimentTable, arm: str) -> str:
    """What runs the line of an arm, or what was chosen of it."""
    own = table.experiment.arms[arm]
    keys = {key for key, _ in map(values_of, own)}
    given = [typed for typed in table.experiment.given if values_of(typed)[0] not in keys]
    return typed_sweep(table.experiment, [*own, *given, *table.where])


def _notes(table: ExperimentTable, found: Sequence[tuple[str, Interval | None]], shown: str) -> list[str]:
    """Explains the cells, whose text is `shown`."""
    notes = table.experiment.notes
    if any(own for _, own in found):
        notes.append(f"[low..high]: the 95 % interval of the difference to {table.titles[table.base]}")
    if UNCLEAR in shown:
        text = "the interval excludes zero, but not after Holm's correction for all arms of the column"
        notes.append(f"{UNCLEAR} {text}")
    few = any(group.few_seeds for line in table.lines for group in line.runs.groups)
    if few and not any(own and own.few_seeds for _, own in found):  # else the legend of intervals says it
        notes.append(f"{MARK}: fewer than {FEW_SEEDS} seeds")
    notes += rows_legend([(line.title, line.runs) for line in table.lines], found, table.experiment.arms)
    return notes + [f"{line.title}: {line.spec.source}" for line in table.lines if line.spec.paper and line.spec.source]


def _cell(line: ExperimentLine, arm: str, interval: Interval | None, sign: int) -> str:
    """Our score, its interval, and the score that was published; `sign`: that of the difference, after correction."""
    group = line.runs.group(arm)
    parts = [f"{shown_score(group)}{MARK * group.few_seeds}"] if group else []
    if interval:
        parts.append(f"[{interval.low:+.1f}..{interval.high:+.1f}]{UNCLEAR * (interval.sign != sign)}")
    parts += [f"published {line.paper[arm]}"] if arm in line.paper else []
    return " ".join(parts) or EMPTY


def _facts(experiment: Experiment, arm: str) -> list[str]:
    """What an arm costs, and the perplexity of its biLM; empty cells where only other arms have these."""
    cost, own = experiment.costs.get(arm), experiment.perplexities.get(arm)
    costs = [shown_parameters(cost), shown_milliseconds(cost)] if cost else [EMPTY, EMPTY]
    perplexity = [f"{own.mean:.2f}", f"{own.unknown:.2f} %"] if own else [EMPTY, EMPTY]
    return [*(costs if experiment.costs else []), *(perplexity if experiment.perplexities else [])]


def shown_parameters(cost: ArmCost) -> str:
    """Frozen parameters in millions."""
    return f"{cost.parameters / 1e6:.1f} M"


def shown_milliseconds(cost: ArmCost) -> str:
    """Milliseconds for 1,000 tokens."""
    return f"{cost.milliseconds:,.{0 if cost.milliseconds >= 10 else 1}f}"
