"""The paper's tables in the report: experiments of which some comparison was run."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from results.analysis.panels import Efficiency, efficiency
from results.analysis.rows import Group, Row, Table
from results.breakdown import break_down
from results.experiments.experiment import Experiment
from results.experiments.experiment_file import load_experiment
from results.figures.arm_gains import arm_gains
from results.figures.curves import gains_by_perplexity
from results.figures.marks import Figure, arms_of
from results.figures.parts import kind_gains
from results.figures.svg import both_forms, captioned
from results.records.collect import Collection, FoundRecord
from results.report.page import PagePart
from results.tables.fill import fill, typed_sweep
from results.tables.page_texts import HEADLINE, TABLE1, load_texts
from results.tables.sheet import SCORES, Sheet, explanations, sheets_of


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
        shown = _table(replace(sheet, title=SCORES), title)
        figure = arm_gains(table)
        drawn = both_forms(figure, figure.caption) if figure else _figures(gains_by_perplexity(table))
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
            figure = kind_gains(panel, kinds, arms_of(table.titles))
            figures.append(replace(figure, title=line.title, caption=f"{line.title}. {figure.caption}"))
    return figures


def _figures(figures: Sequence[Figure]) -> str:
    """The figures as HTML, next to each other where there is room."""
    return f'<div class="figures">{"".join(map(captioned, figures))}</div>' if figures else ""


def _table(sheet: Sheet, name: str) -> str:
    """The sheet as HTML, in a frame that the keyboard can scroll."""
    headers = [escape(header.replace("_", " ")) for header in sheet.headers]
    rows = ""
    for line in sheet.lines:
        cells = "".join(
            f'<td data-label="{header}"><span>{escape(cell)}</span></td>'
            for header, cell in zip(headers[1:], line[1:], strict=True)
        )
        rows += f'<tr><th scope="row">{escape(line[0])}</th>{cells}</tr>'
    head = "".join(f'<th scope="col">{header}</th>' for header in headers)
    return (
        f'<div class="scores" tabindex="0" role="region" aria-label="{escape(name)}"><table>'
        f"<caption>{escape(sheet.title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
