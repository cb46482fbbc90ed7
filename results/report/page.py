"""The HTML page of the report: self-contained, complete without its script, and without network access."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from elmo.common.durations import duration
from results.analysis.names import load_names, sort_key, task_name
from results.analysis.rows import Row, Table, arm_titles
from results.figures.marks import PALETTE, Figure, arms_of
from results.figures.svg import both_forms, inline_svg, swatch
from results.records.collect import Finding, FoundRecord
from results.report.blocks import CHARTS, Chart, TaskBlock
from results.report.cards import counted, failure_cards, run_cards
from results.report.score_table import Links, Place, command_line, score_table
from results.tables.sheet import KINDS, explanations

STYLE, SCRIPT = (Path(__file__).with_name(name) for name in ("page.css", "page.js"))
COMMAND = "python -m "
MOST_FOLDED = 50  # charts of other settings per block; each has about 5 kB


@dataclass(frozen=True)
class PageInfo:
    """The time, folders and records that the page was made from, and where it will be."""

    made_at: str
    folders: Sequence[Path]
    records: Sequence[FoundRecord]
    out: Path


@dataclass(frozen=True)
class PagePart:
    """A part of the page that is made elsewhere.

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
class _Task:
    """A task of the page: its title, its number, and its blocks by their anchors."""

    name: str
    number: int
    blocks: Mapping[str, TaskBlock]


def page(
    summary: Table, figures: Sequence[Figure], blocks: Sequence[TaskBlock], parts: Sequence[PagePart], about: PageInfo
) -> str:
    """The whole page; `figures` are the main ones."""
    tasks = _tasks(blocks)
    places = {key: Place(task.number, task.name) for key, task in tasks.items()}
    failed = [item for item in about.records if item.record.status == "failed"]
    content = [
        _section("scores", "Scores", _scores(summary, tasks, about) if summary.rows else ""),
        _section("reading", "How to read the figures", _reading(blocks)),
        *(_task(task, [part for part in parts if part.task == key]) for key, task in tasks.items()),
        *(_section(part.key, part.title, part.html) for part in parts if part.task not in tasks),
        _section("failures", f"Failures ({len(failed)})", failure_cards(failed)),
        _section("findings", "Findings", _findings(summary.findings)),
        _section("runs", "Runs", run_cards(about.records, places)),
    ]
    first, second = summary.compared
    title = load_names().question if summary.with_paper else f"{summary.titles[second]} against {summary.titles[first]}"
    script = SCRIPT.read_text(encoding="utf-8") if summary.rows else ""
    # The browser fetches nothing and runs this script alone, whatever a record contains.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"; script-src 'sha256-{digest}'" if script else ""
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'{allowed}"
    # Dark colours if the reader's system is dark, but not on paper.
    light, dark = ("".join(f"--{name}:{pair[i]};" for name, pair in PALETTE.items()) for i in (0, 1))
    shown, folders = "\n".join(filter(None, content)), escape(", ".join(map(str, about.folders)))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<style>
:root{{{light}}}
@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{_answer(figures)}
{f"<p>{escape(summary.experiment.note)}</p>" if summary.experiment.note else ""}
<p class="lead">{_lead(about)}</p>
</header>
{_bar(summary, tasks) if summary.rows else ""}
<main>
{shown}
</main>
<footer>Made {escape(about.made_at)} by python -m results.report from {folders}</footer>
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""


def _tasks(blocks: Sequence[TaskBlock]) -> dict[str, _Task]:
    """The tasks by key, in the order of names.toml."""
    tasks = {}
    keys = sorted({block.panel.task for block in blocks}, key=lambda key: sort_key(key, load_names().tasks))
    for number, key in enumerate(keys):
        of_task = [block for block in blocks if block.panel.task == key]
        anchors = {f"task-{number}-{i}": block for i, block in enumerate(of_task)}
        tasks[key] = _Task(task_name(key, of_task[0].panel.groups[0].records[0]), number, anchors)
    return tasks


def _section(key: str, title: str, content: str) -> str:
    return f'<section id="{escape(key)}"><h2>{escape(title)}</h2>{content}</section>' if content else ""


def _lead(about: PageInfo) -> str:
    """How many runs there are, how long they took, and of which commit they are."""
    records = [item.record for item in about.records]
    finished, failed = (sum(record.status == status for record in records) for status in ("finished", "failed"))
    parts = [f"{finished} finished of {counted(len(records))}"] + [f"{failed} failed"] * bool(failed)
    parts += [f"{duration(spent)} of training"] if (spent := sum(record.seconds or 0 for record in records)) else []
    commits = {record.commit for record in records}
    if known := [commit[:10] for commit in commits if commit]:
        parts.append(f"commit {known[0]}" if len(commits) == 1 else "several commits")
    return " · ".join(map(escape, parts))


def _answer(figures: Sequence[Figure]) -> str:
    """What the main figures show, each in a sentence above the form of it that fits the screen."""
    shown, captions = "", set[str]()
    for figure in figures:
        caption = "" if figure.caption in captions else figure.caption
        captions.add(figure.caption)
        shown += f'<p class="answer">{escape(figure.title)}.</p>{both_forms(figure, caption)}'
    return shown


def _bar(summary: Table, tasks: Mapping[str, _Task]) -> str:
    """Search, tasks to choose, and the arms: a legend, whose buttons hide an arm."""
    chips = "".join(
        f'<button type="button" aria-pressed="false" data-task="{task.number}">{escape(task.name)}</button>'
        for task in tasks.values()
    )
    titles = arm_titles(summary.arms, [group for row in [*summary.rows, *summary.others] for group in row.groups])
    arms = "".join(
        f'<button type="button" aria-pressed="true" disabled data-arm="{escape(features)}">{swatch(arm)}'
        f"<span>{escape(arm.title)}</span></button>"
        for features, arm in arms_of(titles).items()
    )
    return (
        '<div class="bar" role="search" aria-label="Filter">'
        '<input type="search" id="search" placeholder="Search" aria-label="Search tasks, data and settings" hidden>'
        f'<div class="chips tasks" role="group" aria-label="Show only these tasks" hidden>{chips}</div>'
        f'<div class="chips arms" role="group" aria-label="Arms in figures and tables">{arms}</div>'
        '<span role="status"></span></div>'
    )


def _scores(summary: Table, tasks: Mapping[str, _Task], about: PageInfo) -> str:
    """The table, the table of other settings on demand, and how the numbers were computed."""
    first, others = [row for row in summary.rows if row.groups], summary.others
    first = sorted(first, key=lambda panel: panel.pair is None)  # what has no gain comes last
    links = Links({item.record.fingerprint: item.path for item in about.records}, about.out.resolve().parent)

    def table(panels: Sequence[Row], title: str) -> str:
        places = []
        for panel in panels:
            task = tasks[panel.task]
            of_row = {anchor: block for anchor, block in task.blocks.items() if block.panel.key == panel.key}
            anchor = next((anchor for anchor, block in of_row.items() if block.panel == panel), [*of_row][-1])
            places.append(Place(task.number, _words(panel, task), anchor))
        return score_table(summary, panels, places, links, title)

    shown = table(first, "Test scores in percent: mean ± standard deviation over seeds; intervals are 95 % intervals")
    if others:
        of_others = table(others, "Test scores in percent, other settings")
        shown += f"<details><summary>{len(others)} rows of other settings</summary>{of_others}</details>"
    notes = "".join(f"<li>{escape(line)}</li>" for line in explanations(summary))
    return shown + f'<details><summary>How the numbers were computed</summary><ul class="notes">{notes}</ul></details>'


def _words(panel: Row, task: _Task) -> str:
    """What a search finds the panel by."""
    return " ".join([task.name, panel.title, panel.data, panel.metric_title(), panel.label])


def _reading(blocks: Sequence[TaskBlock]) -> str:
    """One explanation for each kind of chart that the page has."""
    kinds = {chart.kind for block in blocks for chart in (*block.charts, *block.more)}
    shown = [kind for key, kind in CHARTS.items() if key in kinds]
    items = "".join(f"<dt>{escape(kind.title)}</dt><dd>{escape(kind.text)}</dd>" for kind in shown)
    return f'<dl class="reading">{items}</dl>' if items else ""


def _task(task: _Task, parts: Sequence[PagePart]) -> str:
    """The section of a task: a block for each data set; the task's name is the heading if there is only one."""
    alone = len(task.blocks) == 1
    level = 3 if alone else 4
    shown = ""
    for anchor, block in task.blocks.items():
        body = _block(block, level) + _parts([part for part in parts if part.data == block.panel.data], level)
        heading = "" if alone else f"<h3>{escape(block.panel.title)}</h3>"
        find = Place(task.number, _words(block.panel, task)).attributes
        shown += f'<article id="{anchor}" {find}>{heading}{body}</article>'
    rest = _parts([part for part in parts if not part.data], 3)
    panels = [block.panel for block in task.blocks.values()]
    title = panels[0].title if alone else task.name
    find = Place(task.number, " ".join(_words(panel, task) for panel in panels)).attributes
    return f'<section class="task" {find}><h2>{escape(title)}</h2>{shown}{rest}</section>'


def _parts(parts: Iterable[PagePart], level: int) -> str:
    return "".join(
        f'<div id="{escape(part.key)}" class="part"><h{level}>{escape(part.title)}</h{level}>{part.html}</div>'
        for part in parts
    )


def _block(block: TaskBlock, level: int) -> str:
    """The charts of a task on a data set, and its notes; the command that a note may end with can be copied."""
    shown = _charts(block.charts, level, with_settings=False)
    if block.more:
        number = f"{len(block.more)} charts of other settings"
        if len(block.more) > MOST_FOLDED:
            number += f", of which {MOST_FOLDED} here; --figures DIR writes all"
        more = _charts(block.more[:MOST_FOLDED], level, with_settings=True)
        shown += f'<details class="more"><summary>{number}</summary>{more}</details>'
    for note in block.notes:
        text, start, command = note.partition(COMMAND)
        shown += f'<p class="notes">{escape(text)}</p>{command_line(start + command) if start else ""}'
    return shown


def _charts(charts: Iterable[Chart], level: int, *, with_settings: bool) -> str:
    cards = ""
    for kind, figure in charts:
        below = f"<small>{escape(figure.title)}</small>" if with_settings else ""
        heading = f"<h{level}>{escape(CHARTS[kind].title)}{below}</h{level}>"
        cards += f'<figure class="card">{heading}{inline_svg(figure)}</figure>'
    return f'<div class="figures">{cards}</div>' if cards else ""


def _findings(findings: Sequence[Finding]) -> str:
    """Unreadable files, notes, and the commands that fill empty cells; failed runs are shown as cards."""
    shown = ""
    for kind in ("unreadable", "note", "empty"):
        of_kind, title = [finding for finding in findings if finding.kind == kind], KINDS[kind][0]
        if of_kind and kind == "empty":
            commands = escape("\n".join(finding.text for finding in of_kind))
            shown += f"<details><summary>{title} ({len(of_kind)})</summary><pre>{commands}</pre></details>"
        elif of_kind:
            items = "".join(f"<li{' class=wrong' if f.wrong else ''}>{escape(f.text)}</li>" for f in of_kind)
            shown += f'<h3>{title}</h3><ul class="findings">{items}</ul>'
    return shown
