"""Parts of the report: blocks of tasks with their charts, and the paper's tables of which some comparison was run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from results.analysis.panels import Efficiency, efficiencies, efficiency
from results.analysis.rows import MINI, Row, Table
from results.breakdown import break_down
from results.experiments import Experiment, load_experiment
from results.figures import charts
from results.figures.drawing import Arms, Figure, arms_of, captioned, titled, with_legend
from results.figures.errors_removed import errors_removed
from results.records.collect import Collection, FoundRecord
from results.tables.fill import fill, typed_sweep
from results.tables.page_texts import HEADLINE, TABLE1, load_texts
from results.tables.sheet import SCORES, explanations, marks_in, sheets_of
from results.tables.writers import html_table

CHARTS: Mapping[str, str] = {  # kind -> its heading
    "curves": "Learning curves",
    "classes": "Classes",
    "layers": "Layers",
    "efficiency": "Fewer labels",
    "kinds": "Kinds of examples",
}
Chart = tuple[str, Figure]  # its kind, a key of CHARTS


@dataclass(frozen=True)
class TaskBlock:
    """A task on a data set.

    Attributes:
        panel: Its runs.
        charts: What is drawn of them.
        notes: What is missing, and how to get it.
    """

    panel: Row
    charts: Sequence[Chart]
    notes: Sequence[str] = ()


def blocks_of(
    summary: Table, known_sizes: Sequence[Efficiency] = (), records: Sequence[FoundRecord] = ()
) -> list[TaskBlock]:
    """All blocks, in the order of the table.

    Args:
        summary: The runs.
        known_sizes: Scores by training set size of some rows, in place of what the settings of these rows give.
        records: Those that the summary was made from, for breakdowns; without them there are none.
    """
    arms = arms_of(summary.titles)
    blocks = []
    for first, others in summary.by_task():
        sizes = [known for known in known_sizes if known.row.key == first[0].key] or efficiencies([*first, *others])
        of_row = [("efficiency", charts.sample_efficiency(size, arms)) for size in sizes]
        for panel in first:
            with_titles = titled(arms, panel.groups)
            of_panel, missing = break_down([panel] if records else [], records)
            shown = [*_charts(panel, with_titles), *of_row]
            shown += [("kinds", charts.kind_gains(own, kinds, with_titles)) for own, kinds in of_panel]
            old = "; ".join(with_titles[group.features].title for group in panel.groups if group.old_recipe)
            notes = [*missing, *([f"Of an older recipe of the task: {old}."] if old else [])]
            blocks.append(TaskBlock(panel, shown, notes))
            of_row = []  # that of the row is in its first block
    return blocks


def _charts(panel: Row, arms: Arms) -> list[Chart]:
    """The charts of one panel's runs."""
    layers = [(arms[group.features].title, group) for group in panel.groups]
    figures = {
        "curves": charts.learning_curves(panel, arms),
        "classes": charts.class_differences(panel, arms),
        "layers": charts.layer_map(layers, f"layers-{panel.stem}", panel.title),
    }
    return [(kind, figure) for kind, figure in figures.items() if figure]


def main_figures(summary: Table) -> list[Figure]:
    """The share of errors removed, of the full data sets and of the mini data, and how soon the baseline is reached."""
    by_size = [[row for row in summary.rows if (row.data == MINI) is mini] for mini in (False, True)]
    figures = [errors_removed(rows, summary.compared, summary.main_arms) for rows in by_size]
    arms = arms_of(summary.titles)
    figures.append(next(filter(None, (charts.convergence(rows, arms) for rows in by_size)), None))
    return [figure for figure in figures if figure]


def layers_of_tasks(collection: Collection, data: Sequence[str]) -> Figure | None:
    """The paper's Figure 2, also at other places than a task's own; None if fewer than two rows have runs.

    Args:
        collection: The records to take runs from.
        data: Only rows of these data sets; all if empty.
    """
    rows = [row for experiment in _layer_experiments() for row in fill(collection, experiment).rows]
    groups = [(row.title, group) for row in rows for group in row.groups if not data or row.data in data]
    return charts.layer_map(groups) if len(groups) > 1 else None


def paper_tables(collection: Collection, data: Sequence[str], chosen: str | None) -> list[Table]:
    """The tables but Table 1, which the page itself is; rows without runs are left out.

    Args:
        collection: The records to take runs from.
        data: Only rows of these data sets; all if empty.
        chosen: An experiment that a user has named; it may be their own.
    """
    names = [chapter.experiment for chapter in load_texts().paper] + [chosen or ""]
    tables = []
    for name in (name for name in dict.fromkeys(names) if name not in ("", TABLE1, HEADLINE)):
        table = fill(collection, load_experiment(name))
        lines = [line for line in table.rows if line.groups and (not data or line.data in data)]
        if any(line.pair for line in lines):
            tables.append(replace(table, rows=lines, findings=[]))
    return tables


def is_shown(table: Table, summary: Table) -> bool:
    """Whether the page's table of scores has all that this one says."""
    shown = {record.fingerprint for panel in summary.rows for group in panel.groups for record in group.records}
    runs = [record.fingerprint for line in table.rows for group in line.groups for record in group.records]
    more = table.experiment.costs or table.experiment.perplexities
    return not more and table.experiment.compare == summary.compared and shown.issuperset(runs)


def table_efficiencies(table: Table) -> list[Efficiency]:
    """Scores by training set size, one for each task of which the table has several sizes.

    A share may have settings of its own, such as more epochs: the rows of a table say what belongs together.
    """
    rows: dict[tuple[str, str], list[Row]] = {}
    for line in table.rows:
        rows.setdefault(line.key, []).append(line)
    sizes = [efficiency([replace(row, name="") for row in same]) for same in rows.values()]
    return [size for size in sizes if size]


def paper_part(tables: Sequence[Table], layers: Figure | None) -> str:
    """The paper's tables, with the figures of their experiments, as HTML.

    Args:
        tables: What to show.
        layers: The figure of all tasks' layers, if there is one.
    """
    together = ""
    for table in tables:
        (sheet,) = sheets_of(table, wide=True)
        title = table.experiment.title  # the heading has it, the table need not
        drawn = [
            with_legend(figure) for figure in [charts.arm_gains(table), *charts.gains_by_perplexity(table)] if figure
        ]
        items = "".join(f"<li>{escape(line)}</li>" for line in [*marks_in(table, [sheet]), *explanations(table)])
        together += (
            f"<h3>{escape(title)}</h3>{_figures(drawn)}{html_table(replace(sheet, title=SCORES), title)}"
            f'{_command(table.experiment)}<details><summary>Notes</summary><ul class="notes">{items}</ul></details>'
        )
    if layers:
        commands = "".join(map(_command, _layer_experiments()))
        together += f"<h3>{escape(layers.title)}</h3>{_figures([layers])}{commands}"
    return together


def _layer_experiments() -> list[Experiment]:
    """The experiments whose figure has the weights of layers."""
    return [load_experiment(chapter.experiment) for chapter in load_texts().paper if chapter.figure == "layers"]


def _command(experiment: Experiment) -> str:
    """The command that makes its runs, as HTML."""
    return f"<p>Runs what is missing: <code>{escape(typed_sweep(experiment, []))}</code></p>"


def _figures(figures: Sequence[Figure]) -> str:
    """The figures as HTML, next to each other where there is room."""
    return f'<div class="figures">{"".join(map(captioned, figures))}</div>' if figures else ""
