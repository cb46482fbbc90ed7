"""The report's table of scores: sortable, each row with its seeds, commands and records on demand."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from results.analysis.names import arm_title, common_title
from results.analysis.panels import Panel
from results.analysis.rows import Group, Summary, TableRow
from results.analysis.verdict import verdicts
from results.figures.axes import with_minus
from results.records.record import RunRecord
from results.tables.cells import compared_groups, shown_interval, shown_p
from results.tables.rerun_commands import commands_of, commit_of


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
        return escape(text) if path is None else f'<a href="{_address(path, self.folder)}">{escape(text)}</a>'


def _address(path: Path, folder: Path) -> str:
    return escape(quote(os.fsencode(os.path.relpath(path, folder))))


@dataclass(frozen=True)
class _Column:
    """A column: its header, for each panel the cell and the value it is sorted by, and the arm it belongs to."""

    header: str
    cells: Sequence[str]
    values: Sequence[float | None]
    features: str = ""
    kind: str = "score"

    @property
    def arm(self) -> str:
        return f' data-arm="{escape(self.features)}"' if self.features else ""


def score_table(summary: Summary, panels: Sequence[Panel], places: Sequence[Place], links: Links, title: str) -> str:
    """The table of these panels; columns without any content are left out."""
    columns = [column for column in _columns(summary, panels) if any(column.cells)]
    names = [f'<th scope="col" aria-sort="none">{_sorter("task")}</th>']
    names += [f'<th scope="col" aria-sort="none"{column.arm}>{_sorter(column.header)}</th>' for column in columns]
    rows = []
    for number, (panel, place) in enumerate(zip(panels, places, strict=True)):
        name = escape(panel.task)
        name = f'<a href="#{place.anchor}">{name}</a>' if place.anchor else name
        where = escape(", ".join(filter(None, [panel.metric_title(), panel.settings])))
        cells = "".join(_cell(column, number) for column in columns)
        details = _details(panel, summary, links)
        rows.append(
            f'<tbody {place.attributes}><tr><th scope="row" data-value="{escape(panel.title)}">{name}'
            f"<small>{where}</small></th>{cells}</tr>"
            f'<tr class="more"><td colspan="{len(columns) + 1}">{details}</td></tr></tbody>'
        )
    return (
        f'<div class="scores" tabindex="0" role="region" aria-label="Scores"><table class="sortable">'
        f"<caption>{escape(title)}</caption>"
        f"<thead><tr>{''.join(names)}</tr></thead>{''.join(rows)}</table></div>"
    )


def _sorter(header: str) -> str:
    return f'<button type="button" disabled>{escape(header)}</button>'


def _cell(column: _Column, number: int) -> str:
    """A cell with its header as an attribute: on a phone, rows become cards with the header next to the number."""
    content, value = column.cells[number], column.values[number]
    kind = column.kind if content else "empty"
    order = "" if value is None else f' data-value="{value:.6g}"'
    label = escape(column.header)
    return f'<td class="{kind}" data-label="{label}"{order}{column.arm}><span>{content}</span></td>'


def _columns(summary: Summary, panels: Sequence[Panel]) -> list[_Column]:
    rows = [(panel.row, panel.label) for panel in panels]
    groups = [compared_groups(panel, summary) for panel in panels]

    def arm(number: int, features: str) -> _Column:
        found = [own[number] for own in groups]
        means = [group.mean if group else None for group in found]
        title = common_title(features, [group.records[0] for group in found if group])
        return _Column(title, list(map(_score, found)), means, features)

    gains, cuts = [row.gain(label) for row, label in rows], [row.error_cut(label) for row, label in rows]
    intervals = [row.interval(label) for row, label in rows]
    papers = [_paper(row, label) if summary.with_paper else ("", None) for row, label in rows]
    shown_cuts = [
        _with_interval(f"{cut:.1f} %", shown_interval(row.cut_interval(label), " to ", sign="-"))
        if cut is not None
        else ""
        for cut, (row, label) in zip(cuts, rows, strict=True)
    ]
    shown_gains = [
        _with_interval(f"<b>{gain:+.2f}</b>", shown_interval(interval, " to ")) if gain is not None else ""
        for gain, interval in zip(gains, intervals, strict=True)
    ]
    first, second, *others = (arm(*own) for own in enumerate(summary.features))
    return [
        first,
        second,
        _Column("gain", shown_gains, gains),
        _Column(
            "p",
            [escape(shown_p(own)) if own else "" for own in intervals],
            [own.p if own else None for own in intervals],
        ),
        _Column("errors removed", shown_cuts, cuts),
        _Column("paper", [text for text, _ in papers], [value for _, value in papers], kind="paper"),
        *others,
    ]


def _with_interval(number: str, interval: str) -> str:
    return with_minus(f"{number}<small>{interval}</small>")


def _score(group: Group | None) -> str:
    if group is None:
        return ""
    deviation = "" if group.std is None else f" ± {group.std:.2f}"
    seeds = "1 seed" if len(group.records) == 1 else f"{len(group.records)} seeds"
    below = ", ".join(filter(None, [seeds, group.old_recipe]))
    return f"{group.mean:.2f}{deviation}{group.marks}<small>{below}</small>"


def _paper(row: TableRow, label: str) -> tuple[str, float | None]:
    """The paper's two scores with the errors removed, and the gain to sort by."""
    if row.paper is None or not any(verdicts(row, label)):
        return "", None
    first, second = (row.paper.scores[arm] for arm in row.compared)
    cut = row.paper.error_cut(row.compared)
    below = "" if cut is None else f"<small>{cut:.1f} % removed</small>"
    return f"{first} → {second}{below}", second - first


def _details(panel: Panel, summary: Summary, links: Links) -> str:
    """Seeds with links to their records, the verdict on the paper's numbers, and the commands that repeat the runs."""
    groups = panel.groups
    seeds = sorted({seed for group in groups for seed in group.seeds})
    head = "".join(f'<th scope="col">seed {seed}</th>' for seed in seeds)
    lines = []
    for group in groups:
        of_seed = {record.identity.seed: record for record in group.records}
        cells = "".join(f"<td>{_seed(of_seed.get(seed), group, links)}</td>" for seed in seeds)
        name, arm = escape(arm_title(group.features, group.records[0])), escape(group.features)
        lines.append(f'<tr data-arm="{arm}"><th scope="row">{name}</th>{cells}</tr>')
    table = (
        '<div class="wide"><table class="seeds"><caption>Test score of each seed, linked to its record</caption>'
        f'<thead><tr><th scope="col">arm</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )
    pair = [panel.row.group(arm, panel.label) for arm in panel.row.compared]
    found = zip(pair, verdicts(panel.row, panel.label), strict=True)
    verdict = "; ".join(
        f"{arm_title(group.features, group.records[0])} {own.with_interval}"
        for group, own in found
        if group and own and summary.with_paper
    )
    paper = f"<p>Against the paper: {escape(verdict)}</p>" if verdict else ""
    commands = "".join(map(command_line, commands_of(groups)))
    return (
        f"<details><summary>Seeds, commands, records</summary>{table}{paper}"
        f"<p>To repeat the runs ({escape(commit_of(groups))}):</p>{commands}</details>"
    )


def _seed(record: RunRecord | None, group: Group, links: Links) -> str:
    """The score of a seed, linked to its record, or to those of its folds."""
    if record is None:
        return ""
    folds = [own for own in group.single if own.identity.seed == record.identity.seed]
    own = " ".join(links.to(fold, f"fold {fold.identity.fold}") for fold in folds)
    return links.to(record, f"{record.score:.2f}") + (f"<small>{own}</small>" if own else "")


def command_line(command: str) -> str:
    """A command with a button that copies it; the script shows the button."""
    return (
        f'<p class="command"><code>{escape(command)}</code><button type="button" class="copy" hidden>Copy</button></p>'
    )
