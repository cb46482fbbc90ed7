"""The page of published tables, results/tables.md, and the SVG figures that it shows."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from results.analysis.rows import MINI, Summary
from results.records.typed_json import decode
from results.report.charts import gains
from results.report.figures import Figure
from results.report.sections import sections_of
from results.tables.paper_tables import (
    controls_table,
    gain_table,
    other_metrics_table,
    panels_comparing,
    rerun_block,
    table_legend,
    table_panels,
    variants_table,
)

FIGURE_SECTIONS = ("efficiency", "curves", "layers")  # the report has the others as well
TEXTS = Path(__file__).parents[1] / "paper" / "tables_page.toml"


@dataclass(frozen=True)
class Chapter:
    """A heading, and the text below it."""

    title: str
    text: str = ""


@dataclass(frozen=True)
class Controls(Chapter):
    """A second comparison: two arms, and all that its table shows."""

    compared: Sequence[str] = ()
    arms: Sequence[str] = ()


@dataclass(frozen=True)
class PageTexts:
    """The content of tables_page.toml."""

    introduction: str
    rerun: str
    band: str
    gains: Chapter
    demo: Chapter
    controls: Controls
    settings: Chapter


@dataclass(frozen=True)
class TablesPage:
    """The Markdown text, and the figures it refers to."""

    text: str
    figures: Sequence[Figure]


def tables_page(summary: Summary, folder: str) -> TablesPage:
    """All published tables: gains next to the paper's, the mini data, controls, other metrics, other settings.

    Args:
        summary: All published runs.
        folder: Where the figures are, relative to the page.
    """
    texts: PageTexts = decode(PageTexts, tomllib.loads(TEXTS.read_text(encoding="utf-8")))
    panels, others = table_panels(summary)
    first, second = texts.controls.compared
    controls = panels_comparing(panels, (first, second), texts.controls.arms)
    by_others = other_metrics_table(panels)
    blocks, figures = ["# Tables", texts.introduction], list[Figure]()

    def show(found: Sequence[Figure]) -> None:
        if found:
            figures.extend(found)
            blocks.append(" ".join(f"![{figure.title}]({folder}/{figure.name}.svg)" for figure in found))

    explanation = [table_legend([*panels, *controls, *others], texts.band), texts.rerun]  # below the first table
    for chapter, name, own in (
        (texts.gains, "gains", [panel for panel in panels if panel.row.data != MINI]),
        (texts.demo, "gains-mini", [panel for panel in panels if panel.row.data == MINI]),
    ):
        if own:
            blocks += _heading(chapter)
            if paired := [panel for panel in own if panel.row.pair(panel.label)]:
                show([replace(gains(paired, summary.compared), name=name)])
            blocks += [str(gain_table(own)), *explanation, rerun_block(own)]
            explanation = []
    if controls:
        blocks += [*_heading(texts.controls), str(controls_table(controls, texts.controls.arms))]
    if by_others.lines:
        blocks += ["## By other metrics", str(by_others)]
    if others:
        blocks += [*_heading(texts.settings), str(variants_table(others)), rerun_block(others)]
    full_size = replace(summary, rows=[row for row in summary.rows if row.data != MINI])
    for section in sections_of(full_size):
        if section.key in FIGURE_SECTIONS:
            blocks += [f"## {section.title}", section.text]
            show(section.figures)
    found = [finding for finding in summary.findings if finding.wrong and finding.kind != "empty"]
    if found:
        lines = dict.fromkeys(f"- {' '.join(finding.text.split())}" for finding in found)
        blocks += ["## Warnings", "\n".join(lines)]
    return TablesPage("\n\n".join(blocks) + "\n", figures)


def _heading(chapter: Chapter) -> list[str]:
    return [f"## {chapter.title}", chapter.text] if chapter.text else [f"## {chapter.title}"]
