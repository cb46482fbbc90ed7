"""The page of published tables, results/tables.md, the SVG figures that it shows, and README's table."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from results.analysis.names import arm_title, default_pair, load_names, load_paper
from results.analysis.panels import arms_note, speeds
from results.analysis.rows import MINI, Group, Row, Table, arm_titles
from results.experiments import load_experiment, only_cells
from results.figures.charts import arm_gains, convergence, gains_by_perplexity, layer_map, sample_efficiency
from results.figures.drawing import Figure, arms_of, picture
from results.figures.errors_removed import errors_removed
from results.records.collect import Collection
from results.records.printing import printable, without_markup
from results.records.typed_json import PAPER, read_toml
from results.report.parts import blocks_of, table_efficiencies
from results.tables.fill import fill, typed_sweep
from results.tables.page_texts import HEADLINE, Chapter, PaperChapter, load_texts
from results.tables.rerun_commands import commands_of, commit_of
from results.tables.sheet import (
    EMPTY,
    Column,
    Sheet,
    gain_columns,
    gains_sheet,
    marks_in,
    metric_column,
    note_line,
    score_columns,
    sheet_of,
    sheets_of,
    shown_score,
)
from results.tables.writers import markdown_table

OTHERS = PAPER / "others.toml"


@dataclass(frozen=True)
class TablesPage:
    """The Markdown text, and the figures it refers to."""

    text: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class ShownChapter:
    """A chapter of the paper's tables with what it shows, as Markdown.

    Attributes:
        title: Its heading.
        text: What it says first.
        runs: The command that makes it; empty if there is nothing to train.
        shows: The command that shows it.
        filled: How many of its cells have a score.
        figures: What it draws.
        table: Its table; empty if it has none.
        notes: Lines below the table: what is compared, and how many findings and explanations there are.
        missing: How to fill its empty cells; empty if there are none.
    """

    title: str
    text: str
    runs: str
    shows: str
    filled: str = ""
    figures: Sequence[Figure] = ()
    table: str = ""
    notes: Sequence[str] = ()
    missing: str = ""


def tables_page(collection: Collection, table: Table, published: Path) -> TablesPage:
    """All published tables: the paper's, the mini data, controls, other metrics, other settings.

    Args:
        collection: All published records.
        table: The table of `main_runs`.
        published: The records' folder, next to the page; figures go there, too.
    """
    texts = load_texts()
    in_order = [PaperChapter(HEADLINE), *texts.paper]
    chapters = {own.experiment: shown_chapter(own, collection, published) for own in in_order}
    chapters[HEADLINE] = replace(chapters[HEADLINE], title=texts.gains.title)
    # by arm: without dev scores; Table 1: its other runs are those of rows that show the suite's defaults
    shown = [name for name in chapters if name not in ("", HEADLINE) and not load_experiment(name).by_arm]
    others = _without_runs_of(_without_baselines(table.others), collection, shown)
    blocks, figures = ["# Tables", texts.introduction, contents(list(chapters.values()))], dict[str, Figure]()

    def show(found: Sequence[Figure]) -> None:
        found = [figure for figure in found if figure.name not in figures]  # the paper's Figures 1 and 2 come first
        if found:
            figures.update({figure.name: figure for figure in found})
            blocks.append(" ".join(picture(figure, published.name) for figure in found))

    def show_gains(chapter: Chapter, rows: Sequence[Row], data: str = "") -> None:
        blocks.extend(_heading(chapter))
        if figure := errors_removed(rows, table.compared, table.main_arms):
            show([figure])
        if rows:
            sheet = gains_sheet(table, rows, "", default_pair(), wide=True)
            noted = replace(table, rows=rows)
            if data:
                others = [row for row in table.others if row.data == data]
                findings = [own for own in table.findings if own.row and own.row[0] == data]
                noted = replace(table, rows=rows, others=others, findings=findings)
            option = f"--data {data} --notes" if data else "--notes"
            line = note_line(noted, [sheet], f"`python -m results.table --published {option}`")
            blocks.extend([markdown_table(sheet), without_markup(line)])
            blocks.extend([texts.rerun] * (texts.rerun not in blocks))
            blocks.append(rerun_block(rows))

    full_size, mini = ([row for row in table.rows if (row.data == MINI) is own] for own in (False, True))
    for experiment, chapter in chapters.items():
        if experiment == HEADLINE:
            show_gains(replace(texts.gains, text=table.experiment.note), full_size)
        else:
            blocks += [f"## {chapter.title}", chapter.text]
            show(chapter.figures)
            blocks += filter(None, [chapter.table])
            blocks += [without_markup(line) for line in chapter.notes]
        blocks += filter(None, [chapter.missing])
    if mini:
        show_gains(texts.demo, mini, MINI)
    if controls := controls_sheet(table, texts.controls.arms, texts.controls.compared):
        blocks += [*_heading(texts.controls), markdown_table(controls)]
    if speed := speed_sheet(full_size):
        blocks += _heading(texts.speed)
        show(list(filter(None, [convergence(full_size, arms_of(table.titles))])))
        blocks.append(markdown_table(speed))
    published_scores = read_toml(Others, OTHERS)
    blocks += [*_heading(texts.anchors), markdown_table(anchors_sheet(published_scores))]
    blocks += [*_heading(texts.costs), markdown_table(costs_sheet(published_scores))]
    if by_others := other_metrics_sheet(table, table.rows):
        blocks += ["## By other metrics", markdown_table(by_others)]
    if others:
        arms = [arm for arm in table.arms if arm in table.compared or any(row.group(arm) for row in others)]
        sheet = gains_sheet(table, others, "", arms, wide=True, dev=True)
        blocks += [
            *_heading(texts.settings),
            markdown_table(sheet),
            *filter(None, ["; ".join(marks_in(table, [sheet]))]),
        ]
        blocks.append(rerun_block(others))
    charts = blocks_of(replace(table, rows=full_size, others=[row for row in table.others if row.data != MINI]))
    for kind, heading in {"curves": texts.curves, "layers": texts.layers}.items():  # the report has the other charts
        drawn = [figure for block in charts for of_kind, figure in block.charts if of_kind == kind]
        if not {figure.name for figure in drawn} <= figures.keys():
            blocks += _heading(heading)
            show(drawn)
    return TablesPage("\n\n".join(blocks) + "\n", list(figures.values()))


def main_runs(collection: Collection) -> Collection:
    """The collection without the tasks that only other tables than the first have, such as probes."""
    experiments = filter(None, [HEADLINE, *(chapter.experiment for chapter in load_texts().paper)])
    tasks = {name: {cell.named["task"] for cell in load_experiment(name).cells} for name in experiments}
    others = set().union(*tasks.values()) - tasks[HEADLINE]
    return replace(collection, found=[item for item in collection.found if item.record.identity.task not in others])


def readme_table(table: Table) -> str:
    """README's first table: one line for each task at full size. The mini data have a table in the demo section."""
    rows = [row for row in table.rows if row.data != MINI]
    sheet = gains_sheet(table, rows, "", table.compared, wide=False)
    name, *others = sheet.columns
    lines = [f"{text[0].upper()}{text[1:]}." for text in arms_note(table.main_arms, rows)]
    how = "[how they are computed and what the marks mean](results/reading.md#intervals)"
    note = " ".join([f"Mean±std (seeds), and 95 % intervals: {how}.", *lines])
    shown = markdown_table(replace(sheet, columns=[name, metric_column(rows), *others]))
    return "\n\n".join(filter(None, [shown, note, table.experiment.note])) + "\n"


def shown_chapter(chapter: PaperChapter, collection: Collection, published: Path) -> ShownChapter:
    """The chapter, filled with the published records.

    Args:
        chapter: What the page's texts say about it.
        collection: All published records.
        published: The folder with the records, for a chapter that shows a file.
    """
    if not chapter.experiment:
        file = published / chapter.file
        content = file.read_text(encoding="utf-8").strip() if file.exists() else ""
        missing = "" if content else f"```sh\n{chapter.command}\n```"
        return ShownChapter(chapter.title, chapter.text, "", chapter.command, table=content, missing=missing)
    experiment = load_experiment(chapter.experiment)
    table = fill(collection, experiment)
    cells = [row.group(arm) for row in table.rows for arm in row.spec.arms or experiment.arms]
    runs = "" if experiment.published_only else typed_sweep(experiment, [])
    empty = sum(group is None for group in cells)
    shows = f"python -m results.table --experiment {experiment.name}"
    if chapter.figure:
        shows = f"python -m results.report --experiment {experiment.name} --figures DIR"
    of_scores = chapter.figure != "layers"  # scores say nothing about weights
    sheet, findings = (
        sheets_of(table, wide=True)[0],
        [own for own in table.findings if own.kind not in ("empty", "seeds")],
    )
    option = f"`python -m results.table --published --experiment {experiment.name} --notes`"
    line = note_line(replace(table, findings=findings), [sheet], option)
    return ShownChapter(
        title=experiment.title,
        text=chapter.text,
        runs=runs,
        shows=shows,
        filled=f"{len(cells) - empty} of {len(cells)}",
        figures=_figures(chapter.figure, table),
        table=markdown_table(sheet) if of_scores else experiment.note,
        notes=list(filter(None, [experiment.note, line])) if of_scores else [],
        missing=f"{empty} of {len(cells)} cells are empty: `{runs}` fills them." if empty and runs else "",
    )


def _figures(kind: str, table: Table) -> Sequence[Figure]:
    if kind == "efficiency":
        looks = arms_of({arm: arm_title(arm) for arm in table.experiment.arms})
        return [sample_efficiency(own, looks) for own in table_efficiencies(table)]
    if kind == "perplexity":
        return gains_by_perplexity(table)
    figure = None
    if kind == "layers":
        figure = layer_map([(row.title, group) for row in table.rows for group in row.groups])
    elif kind == "arms":
        figure = arm_gains(table)
    return [figure] if figure else []


def contents(chapters: Sequence[ShownChapter]) -> str:
    """The list of chapters: how much of each has runs, and its commands."""
    anchors = [re.sub(r"[^\w -]", "", own.title.lower()).replace(" ", "-") for own in chapters]  # as GitHub makes them
    columns: list[Column] = [
        ("", "l", [f"[{own.title}](#{anchor})" for own, anchor in zip(chapters, anchors, strict=True)]),
        ("cells with runs", "l", [own.filled for own in chapters]),
        ("runs it", "l", [f"`{own.runs}`" if own.runs else "" for own in chapters]),
        ("shows it", "l", [f"`{own.shows}`" for own in chapters]),
    ]
    return markdown_table(Sheet("", columns))


def _heading(chapter: Chapter) -> list[str]:
    return [f"## {chapter.title}", chapter.text] if chapter.text else [f"## {chapter.title}"]


def _without_baselines(rows: Sequence[Row]) -> list[Row]:
    """The rows without those that have only a baseline which is next to another arm in another row."""
    baselines = {id(row.pair[0]) for row in rows if row.pair and row.group(row.compared[0]) is None}
    return [row for row in rows if not all(id(group) in baselines for group in row.groups)]


def _without_runs_of(rows: Sequence[Row], collection: Collection, experiments: Sequence[str]) -> list[Row]:
    """The rows that have runs of their own, which none of these experiments shows."""
    cells = [cell for name in experiments for cell in load_experiment(name).cells]
    shown = {item.record.identity.title for item in only_cells(collection, cells).found}
    return [row for row in rows if any(run.identity.title not in shown for own in _groups(row) for run in own.runs)]


def _groups(row: Row) -> list[Group]:
    """The groups of a row, with the baseline that its gain is over."""
    borrowed = [row.pair[0]] if row.pair and row.pair[0] not in row.groups else []
    return [*borrowed, *row.groups]


def controls_sheet(table: Table, arms: Sequence[str], pairs: Sequence[Sequence[str]]) -> Sheet | None:
    """These arms, and the gain of one over another for each of the pairs; None without arms but the usual two."""
    further = set(arms) - set(default_pair())
    rows = [row for row in table.rows if any(group.features in further for group in row.groups)]
    columns: list[Column] = [("task", "l", [row.title for row in rows]), metric_column(rows)]
    columns += score_columns(table, rows, arms)
    for first, second in pairs:
        titles = arm_titles([first, second], [group for row in rows for group in row.groups])
        header = f"{titles[second]} over {titles[first]}"
        columns += gain_columns([row.comparing(first, second) for row in rows], header)
    return sheet_of("", columns) if rows else None


def speed_sheet(rows: Sequence[Row]) -> Sheet | None:
    """The epochs until the baseline's best dev score, of both arms; with those of runs that never reach it."""
    found = {row.title: own for row in rows if (own := speeds(row))}
    before = [statistics.fmean(speed.best for speed in own) for own in found.values()]
    after = [statistics.fmean(speed.reached for speed in own) for own in found.values()]
    first, second = arm_titles(default_pair(), [group for row in rows for group in row.groups]).values()
    columns: list[Column] = [
        ("task", "l", list(found)),
        (f"{first}, its best epoch", "l", [f"{mean:.1f}" for mean in before]),
        (f"{second}, first epoch as good", "l", [f"{mean:.1f}" for mean in after]),
        ("share", "l", [f"{100 * late / early:.0f} %" for early, late in zip(before, after, strict=True)]),
        ("pairs of runs", "l", [str(len(own)) for own in found.values()]),
        (
            "never as good (last epoch counts)",
            "l",
            [str(sum(speed.censored for speed in own) or EMPTY) for own in found.values()],
        ),
    ]
    return sheet_of("", columns) if found else None


def other_metrics_sheet(table: Table, rows: Sequence[Row]) -> Sheet | None:
    """Test scores by the metrics that are not the main one."""
    lines: list[tuple[Row, str]] = []
    for row in rows:
        names = {name for group in row.groups for run in group.records for name in run.scores.get("test", {})}
        lines += [(row, name) for name in sorted(names - {row.metric})]
    titles = arm_titles(table.arms, [group for row in rows for group in row.groups])
    columns: list[Column] = [
        ("task", "l", [row.title for row, _ in lines]),
        ("metric", "l", [row.metric_title(name) for row, name in lines]),
    ]
    for arm in table.arms:
        groups = [(row.group(arm), name) for row, name in lines]
        columns.append(
            (titles[arm], "l", [shown_score(own, own.scores_by("test", name) if own else []) for own, name in groups])
        )
    return sheet_of("", columns) if lines else None


def rerun_block(rows: Sequence[Row]) -> str:
    """The commands that reproduce each line of a table; runs of several lines are in the first of them."""
    lines, listed = ["```sh"], set[str]()
    for row in rows:
        # the command of a plain baseline is in the block of the main table
        plain = [group for group in row.others if not group.label] if row.settings else []
        listed |= {group.runs[0].fingerprint for group in plain}
        groups = [group for group in _groups(row) if group.runs[0].fingerprint not in listed]
        listed |= {group.runs[0].fingerprint for group in groups}
        if groups:
            title = f"{row.title}, {row.metric_title()}"
            lines += [printable(f"# {title}: {commit_of(groups)}"), *map(printable, commands_of(groups))]
    return "\n".join([*lines, "```"])


@dataclass(frozen=True)
class OtherSystem:
    """Scores that a system reached, by task and as printed, and where they are printed."""

    name: str
    source: str
    scores: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Others:
    """The content of others.toml: what others published, scores on the paper's tasks and costs of pretraining."""

    system: Sequence[OtherSystem]
    cost: Sequence[Mapping[str, str]]


def anchors_sheet(others: Others) -> Sheet:
    """The scores, a column for each task in the order of the paper's Table 1."""
    systems, names = others.system, load_names().tasks
    columns: list[Column] = [("", "l", [own.name for own in systems])]
    columns += [
        (names[task].title, "l", [own.scores.get(task, EMPTY) for own in systems]) for task in load_paper().tasks
    ]
    return sheet_of("", [*columns, ("source", "l", [own.source for own in systems])])


def costs_sheet(others: Others) -> Sheet:
    """The costs, ours and published."""
    keys = {"name": "", "parameters": "parameters", "text": "text", "read": "read in all passes"}
    keys |= {"time": "time", "source": "source"}
    columns = [(title, "l", [cost.get(key, EMPTY) for cost in others.cost]) for key, title in keys.items()]
    return sheet_of("", columns)
