"""The report's table of scores: sortable, each row with its seeds, commands and records on demand."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from results.analysis.names import arm_title, common_title
from results.analysis.rows import Group, Row, Table
from results.analysis.verdict import verdicts
from results.figures.axes import with_minus
from results.records.record import RunRecord
from results.tables.rerun_commands import commands_of, commit_of
from results.tables.sheet import shown_group, shown_interval, shown_p, shown_score

Cell = tuple[str, float | None]  # HTML, and the value that the column is sorted by


@dataclass(frozen=True)
class Place:
    """Where a row belongs: the number of its task, the texts that a search finds it by, and the anchor of its block."""

    task: int
    words: str
    anchor: str = ""

    @property
    def attributes(self) -> str:
        """The HTML attributes by which the page's script filters."""
        return f'data-task="{self.task}" data-find="{escape(self.words.casefold())}"'


@dataclass(frozen=True)
class Links:
    """Where the records are, as seen from the page."""

    paths: Mapping[str, Path]  # by fingerprint
    folder: Path  # of the page

    def to(self, record: RunRecord, text: str) -> str:
        """A link to the record's file; the text alone for runs that were joined from several."""
        path = self.paths.get(record.fingerprint)
        if path is None:
            return escape(text)
        return f'<a href="{escape(quote(os.fsencode(os.path.relpath(path, self.folder))))}">{escape(text)}</a>'


def score_table(summary: Table, panels: Sequence[Row], places: Sequence[Place], links: Links, title: str) -> str:
    """The table of these panels; columns without any content are left out."""
    groups = [[shown_group(panel, arm) for arm in summary.arms] for panel in panels]
    arms = []
    for number, features in enumerate(summary.arms):
        records = [group.records[0] for of_panel in groups if (group := of_panel[number])]
        arms.append((common_title(features, records), f' data-arm="{escape(features)}"'))
    columns = [*arms[:2], ("gain", ""), ("p", ""), ("errors removed", ""), ("paper", ""), *arms[2:]]
    cells = [_cells(panel, of_panel, summary) for panel, of_panel in zip(panels, groups, strict=True)]
    shown = [i for i in range(len(columns)) if any(line[i][0] for line in cells)]
    head = f'<th scope="col" aria-sort="none">{_sorter("task")}</th>'
    head += "".join(f'<th scope="col" aria-sort="none"{columns[i][1]}>{_sorter(columns[i][0])}</th>' for i in shown)
    rows = ""
    for panel, place, line in zip(panels, places, cells, strict=True):
        name = escape(panel.task_title)
        name = f'<a href="#{place.anchor}">{name}</a>' if place.anchor else name
        where = escape(", ".join(filter(None, [panel.metric_title(), panel.settings_title])))
        rows += (
            f'<tbody {place.attributes}><tr><th scope="row" data-value="{escape(panel.title)}">{name}'
            f"<small>{where}</small></th>{''.join(_cell(*columns[i], *line[i]) for i in shown)}</tr>"
            f'<tr class="more"><td colspan="{len(shown) + 1}">{_details(panel, summary, links)}</td></tr></tbody>'
        )
    return (
        f'<div class="scores" tabindex="0" role="region" aria-label="Scores"><table class="sortable">'
        f"<caption>{escape(title)}</caption><thead><tr>{head}</tr></thead>{rows}</table></div>"
    )


def _sorter(header: str) -> str:
    return f'<button type="button" disabled>{escape(header)}</button>'


def _cell(header: str, arm: str, content: str, value: float | None) -> str:
    """A cell with its header as an attribute: on a phone, rows become cards with the header next to the number."""
    kind = "empty" if not content else "paper" if header == "paper" else "score"
    order = "" if value is None else f' data-value="{value:.6g}"'
    return f'<td class="{kind}" data-label="{escape(header)}"{order}{arm}><span>{content}</span></td>'


def _cells(panel: Row, groups: Sequence[Group | None], summary: Table) -> list[Cell]:
    """The cells of a row: both arms, the gain, p, the errors removed, the paper's numbers, and further arms."""
    gain, interval, cut = panel.gain, panel.interval, panel.error_cut
    of_cut = shown_interval(panel.cut_interval, sign="-")
    first, second, *others = map(_score, groups)
    return [
        first,
        second,
        ("" if gain is None else _with_small(f"<b>{gain:+.2f}</b>", shown_interval(interval)), gain),
        (escape(shown_p(interval)), interval.p) if interval else ("", None),
        ("" if cut is None else _with_small(f"{cut:.1f} %", of_cut), cut),
        _paper(panel) if summary.with_paper else ("", None),
        *others,
    ]


def _with_small(number: str, interval: str) -> str:
    return with_minus(f"{number}<small>{interval}</small>")


def _score(group: Group | None) -> Cell:
    return (shown_score(group), group.mean) if group else ("", None)


def _paper(panel: Row) -> Cell:
    """The paper's two scores with the errors removed, and the gain to sort by."""
    paper = panel.paper
    if paper is None or not any(verdicts(panel)):
        return "", None
    first, second = (paper.scores[arm] for arm in panel.compared)
    cut = paper.error_cut(panel.compared)
    below = "" if cut is None else f"<small>{cut:.1f} % removed</small>"
    return f"{first} → {second}{below}", second - first


def _details(panel: Row, summary: Table, links: Links) -> str:
    """Seeds with links to their records, the verdict on the paper's numbers, and the commands that repeat the runs."""
    seeds = sorted({seed for group in panel.groups for seed in group.seeds})
    head = "".join(f'<th scope="col">seed {seed}</th>' for seed in seeds)
    lines = ""
    for group in panel.groups:
        of_seed = {record.identity.seed: record for record in group.records}
        cells = "".join(f"<td>{_seed(of_seed.get(seed), group, links)}</td>" for seed in seeds)
        name, arm = escape(arm_title(group.features, group.records[0])), escape(group.features)
        lines += f'<tr data-arm="{arm}"><th scope="row">{name}</th>{cells}</tr>'
    pair = [panel.group(arm) for arm in panel.compared]
    verdict = "; ".join(
        f"{arm_title(group.features, group.records[0])} {of_arm}"
        for group, of_arm in zip(pair, verdicts(panel), strict=True)
        if group and of_arm and summary.with_paper
    )
    paper = f"<p>Against the paper: {escape(verdict)}</p>" if verdict else ""
    return (
        '<details><summary>Seeds, commands, records</summary><div class="wide"><table class="seeds">'
        "<caption>Test score of each seed, linked to its record</caption>"
        f'<thead><tr><th scope="col">arm</th>{head}</tr></thead><tbody>{lines}</tbody></table></div>{paper}'
        f"<p>To repeat the runs ({escape(commit_of(panel.groups))}):</p>"
        f"{''.join(map(command_line, commands_of(panel.groups)))}</details>"
    )


def _seed(record: RunRecord | None, group: Group, links: Links) -> str:
    """The score of a seed, linked to its record, or to those of its folds."""
    if record is None:
        return ""
    folds = [fold for fold in group.single if fold.identity.seed == record.identity.seed]
    below = " ".join(links.to(fold, f"fold {fold.identity.fold}") for fold in folds)
    return links.to(record, f"{record.score:.2f}") + (f"<small>{below}</small>" if below else "")


def command_line(command: str) -> str:
    """A command with a button that copies it; the script shows the button."""
    return (
        f'<p class="command"><code>{escape(command)}</code><button type="button" class="copy" hidden>Copy</button></p>'
    )
