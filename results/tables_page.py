"""The files made from the published records: results/tables.md, the SVG figures that it shows, and parts of README."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elmo.common.errors import InputError
from results.breakdown import with_parts
from results.experiments import TABLE1, load_experiment, main_runs
from results.figures.charts import convergence
from results.figures.drawing import Figure, arms_of, picture, published_files
from results.figures.errors_removed import MAIN_FIGURE, errors_removed
from results.names import default_pair
from results.records.collect import Collection
from results.records.printing import printable, without_markup
from results.report.parts import Chapter, figures_of, load_texts
from results.tables import sheet as cells
from results.tables.fill import Selection, commands_of, commit_of, fill, fill_all, typed_sweep
from results.tables.rows import MINI, Row, Table, arm_titles
from results.tables.sheet import Column, Sheet
from results.tables.writers import as_text, markdown_table

PUBLISHED = Path("results", "published")
TABLES = Path("results", "tables.md")
README = Path("README.md")


def generated(root: Path, collection: Collection) -> dict[Path, str | None]:
    """All files made from the published records, by path below the root; None for a figure that is no longer shown.

    Raises:
        InputError: README has no place for a table.
    """
    summary = fill_all(main_runs(collection), Selection(headline=load_experiment(TABLE1)))
    demo = fill_all(collection, Selection(data=[MINI], main_only=True))
    shown = cells.sheets_of(demo)
    text, figures = tables_page(collection, summary, root / PUBLISHED)
    main = [picture(figure, PUBLISHED.as_posix()) for figure in figures if figure.name == MAIN_FIGURE]
    blocks = {
        "figure": "".join(main) + "\n" * bool(main),
        "table1": readme_table(summary),
        "demo": f"```\n{as_text(shown, [('Notes', [cells.note_line(demo, shown)])])}```\n",
    }
    # A command's own figures are next to their tables.
    drawn = [path for path in (root / PUBLISHED).glob("*.svg") if not path.with_suffix(".md").exists()]
    old: dict[Path, str | None] = {PUBLISHED / path.name: None for path in drawn}
    return {
        **old,
        **{PUBLISHED / name: svg for figure in figures for name, svg in published_files(figure).items()},
        TABLES: text.replace(f"{root}/", ""),
        README: with_blocks(read_if_there(root / README) or "", blocks),
    }


def with_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """Replaces what is between the marks `<!-- NAME -->` and `<!-- /NAME -->` by the block of that name.

    Raises:
        InputError: A mark is missing, or occurs more than once.
    """
    for name, block in blocks.items():
        before, after = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        if text.count(before) != 1 or text.count(after) != 1 or text.index(before) > text.index(after):
            raise InputError(f"{README}: expected one line {before.strip()} and below it one line {after.strip()}")
        head, rest = text.split(before)
        text = f"{head}{before}\n{block}\n{after}{rest.split(after)[1]}"  # Markdown needs the blank lines
    return text


def read_if_there(path: Path) -> str | None:
    """The text of a file; None if there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else None


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
        blocks: Its table, and the lines below: what is compared, and how many findings and explanations there are.
        missing: How to fill its empty cells; empty if there are none.
    """

    title: str
    text: str
    runs: str
    shows: str
    filled: str = ""
    figures: Sequence[Figure] = ()
    blocks: Sequence[str] = ()
    missing: str = ""


def tables_page(collection: Collection, table: Table, published: Path) -> tuple[str, list[Figure]]:
    """The Markdown of the published tables, and its figures. The report has other settings and charts, too.

    Args:
        collection: All published records.
        table: The table of `main_runs`.
        published: The records' folder, next to the page; figures go there, too.
    """
    texts = load_texts()
    in_order = [Chapter(experiment=TABLE1), *texts.paper]
    chapters = {one.experiment or one.file: shown_chapter(one, collection, published) for one in in_order}
    blocks, figures = ["# Tables", texts.introduction, contents(list(chapters.values()))], dict[str, Figure]()

    def show(drawn: Sequence[Figure]) -> None:
        drawn = [figure for figure in drawn if figure.name not in figures]  # the paper's Figures 1 and 2 come first
        figures.update({figure.name: figure for figure in drawn})
        blocks.append(" ".join(picture(figure, published.name) for figure in drawn))

    full_size = [row for row in table.rows if row.data != MINI]
    for experiment, chapter in chapters.items():
        blocks.append(f"## {chapter.title}")
        if experiment == TABLE1:
            if figure := errors_removed(with_parts(full_size, collection.files), table.compared, table.main_arms):
                show([figure])
            if full_size:
                sheet = cells.gains_sheet(table, full_size, "", default_pair(), wide=True)
                option, noted = "`python -m results.table --published --notes`", replace(table, rows=full_size)
                line = cells.note_line(noted, [sheet], option)
                blocks += [markdown_table(sheet), without_markup(line), texts.rerun, rerun_block(full_size)]
        else:
            blocks.append(chapter.text)
            show(chapter.figures)
            blocks += chapter.blocks
        blocks.append(chapter.missing)
    if figure := convergence(full_size, arms_of(table.titles)):
        blocks += [f"## {texts.speed.title}", texts.speed.text]
        show([figure])
    sheet = other_metrics_sheet(table, table.rows)
    if sheet.lines:
        blocks += ["## By other metrics", markdown_table(sheet)]
    return "\n\n".join(filter(None, blocks)) + "\n", list(figures.values())


def readme_table(table: Table) -> str:
    """README's first table: one line for each task at full size. The mini data have a table in the demo section."""
    rows = [row for row in table.rows if row.data != MINI]
    sheet = cells.gains_sheet(table, rows, "", table.compared, wide=False)
    name, *others = sheet.columns
    lines = [f"{text[0].upper()}{text[1:]}." for text in cells.arms_note(table.main_arms, rows)]
    how = "[how they are computed and what the marks mean](results/reading.md#intervals)"
    note = " ".join([f"Mean±std (seeds), and 95 % intervals: {how}.", *lines])
    shown = markdown_table(replace(sheet, columns=[name, cells.metric_column(rows), *others]))
    return f"{shown}\n\n{note}\n"


def shown_chapter(chapter: Chapter, collection: Collection, published: Path) -> ShownChapter:
    """The chapter, filled with the published records.

    Args:
        chapter: What the page's texts say about it.
        collection: All published records.
        published: The folder with the records, for a chapter that shows a file.
    """
    if not chapter.experiment:
        content = (read_if_there(published / chapter.file) or "").strip()
        missing = "" if content else f"```sh\n{chapter.command}\n```"
        figure = (published / chapter.file).with_suffix(".svg")
        shown = [f"![{chapter.title}]({published.name}/{figure.name})"] if figure.exists() else []
        return ShownChapter(chapter.title, chapter.text, "", chapter.command, blocks=[*shown, content], missing=missing)
    experiment = load_experiment(chapter.experiment)
    table = fill(collection, experiment)
    rows = [row for row in table.rows if not row.spec.published_only]  # no command fills the others
    groups = [row.group(arm) for row in rows for arm in row.spec.arms or experiment.arms]
    runs = typed_sweep(experiment, [])
    empty = sum(group is None for group in groups)
    command, figures = ("report", " --figures DIR") if chapter.figure else ("table", "")
    shows = f"python -m results.{command} --experiment {experiment.name}{figures}"
    (sheet,) = cells.sheets_of(table, wide=True)
    findings = [finding for finding in table.findings if finding.kind not in ("empty", "seeds")]
    option = f"`python -m results.table --published --experiment {experiment.name} --notes`"
    line = cells.note_line(replace(table, findings=findings), [sheet], option)
    blocks = [markdown_table(sheet), experiment.note, line]
    return ShownChapter(
        title=experiment.title,
        text=chapter.text,
        runs=runs,
        shows=shows,
        filled=f"{len(groups) - empty} of {len(groups)}",
        figures=figures_of(chapter, table),
        blocks=[experiment.note] if chapter.figure == "layers" else blocks,  # scores say nothing about weights
        missing=f"{empty} of {len(groups)} cells are empty: `{runs}` fills them." if empty and runs else "",
    )


def contents(chapters: Sequence[ShownChapter]) -> str:
    """The list of chapters: how much of each has runs, and its commands."""
    anchors = [re.sub(r"[^\w -]", "", one.title.lower()).replace(" ", "-") for one in chapters]  # as GitHub makes them
    columns: list[Column] = [
        ("", "l", [f"[{one.title}](#{anchor})" for one, anchor in zip(chapters, anchors, strict=True)]),
        ("cells with runs", "l", [one.filled for one in chapters]),
        ("runs it", "l", [f"`{one.runs}`" if one.runs else "" for one in chapters]),
        ("shows it", "l", [f"`{one.shows}`" if one.shows else "" for one in chapters]),
    ]
    return markdown_table(Sheet("", columns))


def other_metrics_sheet(table: Table, rows: Sequence[Row]) -> Sheet:
    """Test scores by the metrics that are not the main one."""
    lines: list[tuple[Row, str]] = []
    for row in rows:
        names = {name for group in row.groups for run in group.records for name in run.scores.get("test", {})}
        lines += [(row, name) for name in sorted(names - {row.metric})]
    titles = arm_titles(table.arms, [group for row in rows for group in row.groups])
    columns: list[Column] = [("task", "l", [row.title for row, _ in lines])]
    columns.append(("metric", "l", [row.metric_title(name) for row, name in lines]))
    for arm in table.arms:
        groups = [(row.group(arm), name) for row, name in lines]
        scores = [cells.shown_score(group, group.scores_by("test", name) if group else []) for group, name in groups]
        columns.append((titles[arm], "l", scores))
    return cells.sheet_of("", columns)


def rerun_block(rows: Sequence[Row]) -> str:
    """The commands that reproduce each line of a table."""
    lines = ["```sh"]
    for row in rows:
        title = f"{row.title}, {row.metric_title()}"
        lines += [printable(f"# {title}: {commit_of(row.groups)}"), *map(printable, commands_of(row.groups))]
    return "\n".join([*lines, "```"])
