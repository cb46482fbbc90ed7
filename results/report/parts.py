"""Parts of the report: blocks of tasks with their charts, and the paper's tables of which some comparison was run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from results.analysis.panels import Efficiency, efficiencies, efficiency
from results.analysis.rows import MINI, Group, Row, Table
from results.breakdown import FEWEST, break_down
from results.experiments.experiment import Experiment
from results.experiments.experiment_file import load_experiment
from results.figures import charts
from results.figures.arm_gains import arm_gains
from results.figures.errors_removed import errors_removed
from results.figures.marks import Arms, Figure, arms_of, titled
from results.figures.svg import both_forms, captioned
from results.records.collect import Collection, FoundRecord
from results.tables.fill import fill, typed_sweep
from results.tables.page_texts import HEADLINE, TABLE1, load_texts
from results.tables.sheet import SCORES, explanations, sheets_of
from results.tables.writers import html_table

CHARTS: Mapping[str, tuple[str, str]] = {  # kind -> its heading, and how to read it
    "seeds": ("Seeds", "One mark is one run, the bar is their mean: how much do scores vary between seeds?"),
    "curves": (
        "Learning curves",
        "Scores on the dev set, on which each run chose its epoch; the test set was read once, afterwards. Line and "
        "band: the mean and the range of the runs, up to the last epoch that all of them reached. Marks: each run's "
        "best epoch.",
    ),
    "classes": (
        "Classes",
        f"The gain in each class that has at least {FEWEST} test examples, with their number. Line: 95 % interval over "
        "seeds, dashed if it includes zero.",
    ),
    "confusion": (
        "Confusions",
        "How much more often a gold class is taken for another, in points: the second arm minus the first. Blue is "
        "better: more on the diagonal, less elsewhere.",
    ),
    "layers": (
        "Layers",
        "How a task weights the biLM's layers, at each place where it uses them (the paper's Figure 2). Mean of the "
        "runs; bold: above an even share.",
    ),
    "efficiency": ("Fewer labels", "What a smaller training set costs each arm (the paper's Figure 1). Dots: seeds."),
    "kinds": (
        "Kinds of examples",
        "The gain on kinds of test examples, with their number; python -m results.breakdown prints both scores. Of "
        "twenty intervals without a true gain, one is expected to exclude zero: one line is a hint, not a finding.",
    ),
}


Chart = tuple[str, Figure]  # its kind, a key of CHARTS


@dataclass(frozen=True)
class PagePart:
    """A part of the page.

    Attributes:
        key: Its anchor.
        title: Its heading.
        html: What it shows; with headings from h3 on if it is a section of its own, else without.
        task: The task whose block it ends; empty if it is a section of its own.
        data: The data set of that task whose charts it follows, if it belongs to one.
    """

    key: str
    title: str
    html: str
    task: str = ""
    data: str = ""


@dataclass(frozen=True)
class TaskBlock:
    """A task on a data set.

    Attributes:
        panel: Its runs.
        charts: Those shown directly.
        more: Those of other settings, shown on demand.
        notes: What is missing, and how to get it.
    """

    panel: Row
    charts: Sequence[Chart]
    more: Sequence[Chart] = ()
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
        more = [chart for panel in others for chart in _charts(panel, titled(arms, panel.groups))]
        for panel in first:
            with_titles = titled(arms, panel.groups)
            of_panel, missing = break_down([panel] if records else [], records)
            shown = [*_charts(panel, with_titles), *of_row]
            shown += [("kinds", charts.kind_gains(own, kinds, with_titles)) for own, kinds in of_panel]
            old = "; ".join(with_titles[group.features].title for group in panel.groups if group.old_recipe)
            notes = [*missing, *([f"Of an older recipe of the task: {old}."] if old else [])]
            blocks.append(TaskBlock(panel, shown, more, notes))
            of_row, more = [], []  # those of the row are in its first block
    return blocks


def _charts(panel: Row, arms: Arms) -> list[Chart]:
    """The charts of one panel's runs."""
    layers = [(arms[group.features].title, group) for group in panel.groups]
    figures = {
        "seeds": charts.seed_scatter(panel, arms),
        "curves": charts.learning_curves(panel, arms),
        "classes": charts.class_differences(panel, arms),
        "confusion": charts.confusions(panel, arms),
        "layers": charts.layer_map(layers, f"layers-{panel.stem}", panel.title),
    }
    return [(kind, figure) for kind, figure in figures.items() if figure]


def main_figures(summary: Table) -> list[Figure]:
    """The share of errors removed, of the full data sets and of the mini data."""
    figures = [errors_removed(panels, summary.compared, summary.main_arms) for panels in _by_size(summary)]
    return [figure for figure in figures if figure]


def convergence_of(summary: Table) -> Figure | None:
    """The epochs until the baseline's best dev score, of the full data sets or, without them, of the mini data."""
    full_size, mini = _by_size(summary)
    return charts.convergence(full_size, summary.compared) or charts.convergence(mini, summary.compared)


def _by_size(summary: Table) -> list[list[Row]]:
    """The panels that are shown first, of the full data sets and of the mini data."""
    first = summary.rows
    return [[panel for panel in first if (panel.data == MINI) is mini] for mini in (False, True)]


def layers_of_all(summary: Table, known: Sequence[tuple[str, Group]]) -> Figure | None:
    """The layers' weights of all tasks; None if fewer than two have them, since a single task has a chart of its own.

    Args:
        summary: The runs.
        known: Runs with titles, in place of the summary's on the same data: those of the paper's figure, also at other
            places than a task's own.
    """
    covered = {group.records[0].identity.row for _, group in known}
    weighted = [
        (panel.title, group)
        for panel in summary.rows
        for group in panel.groups
        if group.features == summary.compared[1] and panel.key not in covered
    ]
    return charts.layer_map([*known, *weighted]) if len(known) + len(weighted) > 1 else None


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


def layer_groups(collection: Collection, data: Sequence[str], arm: str) -> list[tuple[str, Group]]:
    """The runs of the paper's figure of layers, with the names of its rows: tasks at all places.

    Args:
        collection: The records to take runs from.
        data: Only rows of these data sets; all if empty.
        arm: The arm with layers.
    """
    lines = [line for experiment in _layer_experiments() for line in fill(collection, experiment).rows]
    return [
        (line.title, group)
        for line in lines
        for group in line.groups
        if group.features == arm and (not data or line.data in data)
    ]


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


def table_parts(tables: Sequence[Table], layers: Figure | None, records: Sequence[FoundRecord]) -> list[PagePart]:
    """A table of one task belongs to that task; the others are one section, with the figure of all tasks' layers.

    Args:
        tables: What to show.
        layers: That figure, if there is one.
        records: For kinds of examples.
    """
    parts, together = [], ""
    for number, table in enumerate(tables):
        (sheet,) = sheets_of(table, wide=True)
        items = "".join(f"<li>{escape(line)}</li>" for line in explanations(table))
        title = table.experiment.title  # the heading has it, the table need not
        shown = html_table(replace(sheet, title=SCORES), title)
        figure = arm_gains(table)
        drawn = both_forms(figure, figure.caption) if figure else _figures(charts.gains_by_perplexity(table))
        below = f'<details><summary>Notes</summary><ul class="notes">{items}</ul></details>'
        html = f"{drawn}{shown}{_command(table.experiment)}{below}"
        tasks = {line.task for line in table.rows}
        if len(tasks) == 1:
            parts.append(PagePart(f"paper-{number}", title, html + _figures(_kinds(table, records)), tasks.pop()))
        else:
            together += f"<h3>{escape(title)}</h3>{html}"
    if layers:
        commands = "".join(map(_command, _layer_experiments()))
        together += f"<h3>{escape(layers.title)}</h3>{_figures([layers])}{commands}"
    return [*parts, PagePart("paper", "The paper's tables and figures", together)] if together else parts


def _layer_experiments() -> list[Experiment]:
    """The experiments whose figure has the weights of layers."""
    return [load_experiment(chapter.experiment) for chapter in load_texts().paper if chapter.figure == "layers"]


def _command(experiment: Experiment) -> str:
    """The command that makes its runs, as HTML."""
    return f"<p>Runs what is missing: <code>{escape(typed_sweep(experiment, []))}</code></p>"


def _kinds(table: Table, records: Sequence[FoundRecord]) -> list[Figure]:
    """The gain on kinds of test examples, of rows with the task's own metric; other tasks have it in their blocks."""
    lines = [line for line in table.rows if line.spec.split == "test" and not line.spec.metric]
    figures = []
    for line in lines:
        for panel, kinds in break_down([line], records)[0]:
            figure = charts.kind_gains(panel, kinds, arms_of(table.titles))
            figures.append(replace(figure, title=line.title, caption=f"{line.title}. {figure.caption}"))
    return figures


def _figures(figures: Sequence[Figure]) -> str:
    """The figures as HTML, next to each other where there is room."""
    return f'<div class="figures">{"".join(map(captioned, figures))}</div>' if figures else ""
