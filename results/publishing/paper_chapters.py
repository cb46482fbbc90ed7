"""Chapters of the page of published tables: the paper's tables and figures, each with its commands."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from results.analysis.names import arm_title
from results.experiments.experiment_file import load_experiment
from results.figures.arm_gains import arm_gains
from results.figures.curves import gains_by_perplexity, sample_efficiency
from results.figures.marks import Figure, arms_of
from results.figures.parts import layer_map
from results.records.collect import Collection, Finding
from results.report.experiments import table_efficiencies
from results.tables.experiment_rows import ExperimentTable, fill, typed_sweep
from results.tables.experiment_table import SCORES, experiment_page
from results.tables.formats import LAYOUTS
from results.tables.page_texts import PaperChapter
from results.tables.paper_tables import MarkdownTable


@dataclass(frozen=True)
class ShownChapter:
    """A chapter with what it shows, as Markdown.

    Attributes:
        title: Its heading.
        text: What it says first.
        runs: The command that makes it; empty if there is nothing to train.
        shows: The command that shows it.
        filled: How many of its cells have a score.
        figures: What it draws.
        table: Its table; empty if it has none.
        missing: How to fill its empty cells; empty if there are none.
        findings: What is wrong with its runs.
    """

    title: str
    text: str
    runs: str
    shows: str
    filled: str = ""
    figures: Sequence[Figure] = ()
    table: str = ""
    missing: str = ""
    findings: Sequence[Finding] = ()


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
    cells = [line.runs.group(arm) for line in table.lines for arm in line.spec.arms or experiment.arms]
    runs = "" if experiment.published_only else typed_sweep(experiment, [])
    empty = sum(group is None for group in cells)
    shows = f"python -m results.table --experiment {experiment.name}"
    if chapter.figure:
        shows = f"python -m results.report --experiment {experiment.name} --figures DIR"
    return ShownChapter(
        title=experiment.title,
        text=chapter.text,
        runs=runs,
        shows=shows,
        filled=f"{len(cells) - empty} of {len(cells)}",
        figures=_figures(chapter.figure, table),
        table=experiment.note if chapter.figure == "layers" else _markdown(table),  # scores say nothing about weights
        missing=f"{empty} of {len(cells)} cells are empty: `{runs}` fills them." if empty and runs else "",
        findings=[finding for finding in table.findings if finding.kind not in ("empty", "seeds")],
    )


def contents(chapters: Sequence[ShownChapter]) -> str:
    """The list of chapters: how much of each has runs, and its commands."""
    lines = [
        [f"[{own.title}](#{_anchor(own.title)})", own.filled, f"`{own.runs}`" if own.runs else "", f"`{own.shows}`"]
        for own in chapters
    ]
    return str(MarkdownTable(["", "cells with runs", "runs it", "shows it"], lines))


def _anchor(title: str) -> str:
    """The name under which GitHub's Markdown links to a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _markdown(table: ExperimentTable) -> str:
    """The table with its notes; findings have other places on the page."""
    (sheet,), notes = experiment_page(replace(table, findings=[]), with_intervals=True)
    return LAYOUTS["md"]([replace(sheet, title=SCORES)], notes).strip()


def _figures(kind: str, table: ExperimentTable) -> Sequence[Figure]:
    if kind == "efficiency":
        looks = arms_of({arm: arm_title(arm) for arm in table.experiment.arms})
        return [sample_efficiency(own, looks) for own in table_efficiencies(table)]
    if kind == "perplexity":
        return gains_by_perplexity(table)
    figure = None
    if kind == "layers":
        figure = layer_map([(line.title, group) for line in table.lines for group in line.runs.groups])
    elif kind == "arms":
        figure = arm_gains(table)
    return [figure] if figure else []
