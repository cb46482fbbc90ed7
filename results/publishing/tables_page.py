"""The page of published tables, results/tables.md, and the SVG figures that it shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from results.analysis.panels import Panel, arms_note
from results.analysis.rows import MINI, WARNED, Summary
from results.experiments.experiment_file import load_experiment
from results.experiments.runs_of_cells import only_cells
from results.figures.curves import convergence
from results.figures.errors_removed import errors_removed
from results.figures.marks import Figure
from results.figures.svg import picture
from results.publishing.paper_chapters import contents, shown_chapter
from results.records.collect import Collection
from results.records.printing import without_markup
from results.report.blocks import CHARTS, blocks_of
from results.tables.others_tables import anchors_table, costs_table, load_others
from results.tables.page_texts import HEADLINE, Chapter, PaperChapter, load_texts
from results.tables.paper_tables import (
    controls_table,
    gain_table,
    other_metrics_table,
    panels_comparing,
    panels_with_more,
    rerun_block,
    speed_table,
    table_legend,
    table_panels,
    variants_table,
)

SHOWN_CHARTS = ("curves", "layers")  # the report has the others as well


@dataclass(frozen=True)
class TablesPage:
    """The Markdown text, and the figures it refers to."""

    text: str
    figures: Sequence[Figure]


def tables_page(collection: Collection, summary: Summary, published: Path) -> TablesPage:
    """All published tables: the paper's, the mini data, controls, other metrics, other settings.

    Args:
        collection: All published records.
        summary: The summary of `main_runs`.
        published: The records' folder, next to the page; figures go there, too.
    """
    texts = load_texts()
    in_order = [PaperChapter(HEADLINE), *texts.paper]
    chapters = {own.experiment: shown_chapter(own, collection, published) for own in in_order}
    chapters[HEADLINE] = replace(chapters[HEADLINE], title=texts.gains.title)
    panels, others = table_panels(summary)
    # by arm: without dev scores; Table 1: its other runs are those of rows that show the suite's defaults
    shown = [name for name in chapters if name not in ("", HEADLINE) and not load_experiment(name).by_arm]
    others = _without_runs_of(others, collection, shown)
    with_controls = panels_with_more(panels, texts.controls.arms)
    pairs = [panels_comparing(with_controls, compared) for compared in texts.controls.compared]
    by_others = other_metrics_table(panels)
    blocks, figures = ["# Tables", texts.introduction, contents(list(chapters.values()))], dict[str, Figure]()

    def show(found: Sequence[Figure]) -> None:
        found = [figure for figure in found if figure.name not in figures]  # the paper's Figures 1 and 2 come first
        if found:
            figures.update({figure.name: figure for figure in found})
            blocks.append(" ".join(picture(figure, published.name) for figure in found))

    def show_gains(chapter: Chapter, own: Sequence[Panel], *explanation: str) -> None:
        blocks.extend(_heading(chapter))
        if figure := errors_removed(own, summary.compared, summary.main_arms):
            show([figure])
        if own:
            blocks.extend([str(gain_table(own)), *explanation, rerun_block(own)])

    legend = table_legend([*panels, *chain(*pairs), *others], texts.band, arms_note(summary.main_arms, panels))
    explanation = [legend, texts.rerun]  # below the first table
    full_size, mini = ([panel for panel in panels if (panel.row.data == MINI) is own] for own in (False, True))
    for experiment, chapter in chapters.items():
        if experiment == HEADLINE:
            show_gains(replace(texts.gains, text=summary.main_note), full_size, *explanation)
        else:
            blocks += [f"## {chapter.title}", chapter.text]
            show(chapter.figures)
            blocks += filter(None, [chapter.table])
        blocks += filter(None, [chapter.missing])
    if mini:
        show_gains(texts.demo, mini, *([] if full_size else explanation))
    if with_controls:
        blocks += [*_heading(texts.controls), str(controls_table(with_controls, pairs, texts.controls.arms))]
    if (speed := speed_table(full_size)).lines:
        blocks += [*_heading(texts.speed)]
        show([figure for figure in [convergence(full_size, summary.compared)] if figure])
        blocks += [str(speed)]
    others_published = load_others()
    blocks += [*_heading(texts.anchors), str(anchors_table(others_published))]
    blocks += [*_heading(texts.costs), str(costs_table(others_published))]
    if by_others.lines:
        blocks += ["## By other metrics", str(by_others)]
    if others:
        blocks += [*_heading(texts.settings), str(variants_table(others)), rerun_block(others)]
    charts = blocks_of(replace(summary, rows=[row for row in summary.rows if row.data != MINI]))
    for kind in SHOWN_CHARTS:
        drawn = [chart.figure for block in charts for chart in block.charts if chart.kind == kind]
        if not {figure.name for figure in drawn} <= figures.keys():
            blocks += [f"## {CHARTS[kind].title}", CHARTS[kind].text]
            show(drawn)
    findings = [*summary.findings, *(finding for chapter in chapters.values() for finding in chapter.findings)]
    declared = [finding.text[finding.text.index(WARNED) :] for finding in findings if WARNED in finding.text]
    found = [finding.text for finding in findings if finding.wrong and finding.kind != "empty"]
    if lines := dict.fromkeys(f"- {without_markup(' '.join(text.split()))}" for text in [*declared, *found]):
        blocks += ["## Warnings", "\n".join(lines)]
    return TablesPage("\n\n".join(blocks) + "\n", list(figures.values()))


def main_runs(collection: Collection) -> Collection:
    """The collection without the tasks that only other tables than the first have, such as probes."""
    experiments = filter(None, [HEADLINE, *(chapter.experiment for chapter in load_texts().paper)])
    tasks = {name: {cell.named["task"] for cell in load_experiment(name).cells} for name in experiments}
    others = set().union(*tasks.values()) - tasks[HEADLINE]
    return replace(collection, found=[item for item in collection.found if item.record.identity.task not in others])


def _without_runs_of(panels: Sequence[Panel], collection: Collection, experiments: Sequence[str]) -> list[Panel]:
    """The panels that have runs of their own, which none of these experiments shows."""
    cells = [cell for name in experiments for cell in load_experiment(name).cells]
    shown = {item.record.identity.title for item in only_cells(collection, cells).found}
    return [
        panel
        for panel in panels
        if not all(record.identity.title in shown for group in panel.groups for record in group.runs)
    ]


def _heading(chapter: Chapter) -> list[str]:
    return [f"## {chapter.title}", chapter.text] if chapter.text else [f"## {chapter.title}"]
