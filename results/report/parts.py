"""Parts of the report: blocks of tasks with their charts, and the paper's tables of which some comparison was run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from results.breakdown import break_down, with_parts
from results.experiments import TABLE1, Experiment, load_experiment
from results.figures import charts
from results.figures.charts import Efficiency, efficiencies, efficiency
from results.figures.drawing import Arms, Figure, arms_of, titled
from results.figures.errors_removed import arm_gains, errors_removed
from results.names import arm_title
from results.records.collect import Collection, RecordFile
from results.records.typed_json import read_toml
from results.report.board import BOARD, filled, shows_board
from results.tables.fill import fill
from results.tables.rows import MINI, Row, Table

CHARTS: Mapping[str, str] = {  # kind -> its heading
    "curves": "Learning curves",
    "classes": "Classes",
    "layers": "Layers",
    "efficiency": "Fewer labels",
    "kinds": "Kinds of examples",
}
Chart = tuple[str, Figure]  # its kind, a key of CHARTS


@dataclass(frozen=True)
class Chapter:
    """A heading with what is below it: a text, and a table or figure of the paper, or an experiment of ours.

    Attributes:
        title: The heading; that of an experiment is in its file.
        text: What the chapter says first.
        experiment: The experiment that it shows.
        figure: What is drawn of it: "efficiency", "layers", "ladder", or else its arms if it has their costs.
        arms: The rungs of the ladder.
        command: What makes it, where there is no experiment.
        file: A Markdown file next to the records that is shown as it is, where there is no experiment.
    """

    title: str = ""
    text: str = ""
    experiment: str = ""
    figure: str = ""
    arms: Sequence[str] = ()
    command: str = ""
    file: str = ""


@dataclass(frozen=True)
class PageTexts:
    """The text of results/tables.md, from `paper/tables_page.toml`, and the experiments that it and the report show."""

    introduction: str
    rerun: str
    paper: Sequence[Chapter]
    board: Chapter
    speed: Chapter


@cache
def load_texts() -> PageTexts:
    """The texts, read once."""
    return read_toml(PageTexts, "tables_page.toml")


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
    summary: Table, known_sizes: Sequence[Efficiency] = (), records: Sequence[RecordFile] = ()
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
            shown += [("kinds", charts.kind_gains(row, kinds, with_titles)) for row, kinds in of_panel]
            old = "; ".join(with_titles[group.features].title for group in panel.groups if group.old_recipe)
            notes = [*missing, *([f"Of an older recipe of the task: {old}."] if old else [])]
            blocks.append(TaskBlock(panel, shown, notes))
            of_row = []  # that of the row is in its first block
    return blocks


def _charts(panel: Row, arms: Arms) -> list[Chart]:
    """The charts of one panel's runs."""
    groups = [(arms[group.features].title, group) for group in panel.groups]
    layers = charts.layer_map(groups, f"layers-{panel.stem}", panel.title)
    curves, classes = charts.learning_curves(panel, arms), charts.class_differences(panel, arms)
    figures = {"curves": curves, "classes": classes, "layers": layers}
    return [(kind, figure) for kind, figure in figures.items() if figure]


def main_figures(summary: Table, records: Sequence[RecordFile]) -> list[Figure]:
    """The share of errors removed, of the full data sets and of the mini data, and how soon the baseline is reached."""
    by_size = [[row for row in summary.rows if (row.data == MINI) is mini] for mini in (False, True)]
    figures = [errors_removed(with_parts(rows, records), summary.compared, summary.main_arms) for rows in by_size]
    arms = arms_of(summary.titles)
    figures.append(next(filter(None, (charts.convergence(rows, arms) for rows in by_size)), None))
    return [figure for figure in figures if figure]


def task_layers(collection: Collection, data: Sequence[str]) -> Figure | None:
    """The paper's Figure 2, also at other places than a task's own; None if fewer than two rows have runs.

    Args:
        collection: The records to take runs from.
        data: Only rows of these data sets; all if empty.
    """
    rows = [row for experiment in layer_experiments() for row in fill(collection, experiment).rows]
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
    names += [BOARD] * shows_board(collection, BOARD)
    tables = []
    for name in (name for name in dict.fromkeys(names) if name not in ("", TABLE1)):
        table = filled(collection, load_experiment(name))
        lines = [line for line in table.rows if line.groups and (not data or line.data in data)]
        if any(line.pair for line in lines):
            tables.append(replace(table, rows=lines, findings=[]))
    return tables


def is_shown(table: Table, summary: Table) -> bool:
    """Whether the page's table of scores has all that this one says."""
    shown = {record.fingerprint for panel in summary.rows for group in panel.groups for record in group.records}
    runs = [record.fingerprint for line in table.rows for group in line.groups for record in group.records]
    return not table.experiment.by_arm and table.experiment.compare == summary.compared and shown.issuperset(runs)


def table_efficiencies(table: Table) -> list[Efficiency]:
    """Scores by training set size, one for each task of which the table has several sizes.

    A share may have settings of its own, such as more epochs: the rows of a table say what belongs together.
    """
    rows: dict[tuple[str, str], list[Row]] = {}
    for line in table.rows:
        rows.setdefault(line.key, []).append(line)
    sizes = [efficiency([replace(row, name="") for row in same]) for same in rows.values()]
    return [size for size in sizes if size]


def figures_of(chapter: Chapter, table: Table) -> list[Figure]:
    """What a chapter draws of its experiment."""
    if chapter.figure == "efficiency":
        looks = arms_of({arm: arm_title(arm) for arm in table.experiment.arms})
        return [charts.sample_efficiency(sizes, looks) for sizes in table_efficiencies(table)]
    groups = [(row.title, group) for row in table.rows for group in row.groups]
    drawn = {"layers": lambda: charts.layer_map(groups), "ladder": lambda: charts.ladder(table, chapter.arms)}
    figure = drawn.get(chapter.figure, lambda: arm_gains(table))()
    return [figure] if figure else []


def layer_experiments() -> list[Experiment]:
    """The experiments whose figure has the weights of layers."""
    return [load_experiment(chapter.experiment) for chapter in load_texts().paper if chapter.figure == "layers"]
