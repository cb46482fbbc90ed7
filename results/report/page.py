"""The HTML page of the report: self-contained, complete without its script, and without network access."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from elmo.common.durations import duration
from results.analysis.names import load_names, sort_key, task_name
from results.analysis.panels import Panel, split_panels
from results.analysis.rows import Summary, arm_titles
from results.figures.marks import PALETTE, Figure, arms_of
from results.figures.svg import both_forms, inline_svg, swatch
from results.records.collect import Finding, FoundRecord
from results.report.blocks import CHARTS, Chart, TaskBlock
from results.report.cards import counted, failure_cards, run_cards
from results.report.score_table import Links, Place, command_line, score_table
from results.tables.cells import TITLES, legend
from results.tables.formats import COMMAND

STYLE, SCRIPT = (Path(__file__).with_name(name) for name in ("page.css", "page.js"))
MOST_FOLDED = 50  # charts of other settings per block; each has about 5 kB


@dataclass(frozen=True)
class PageInfo:
    """The time, folders and records that the page was made from, and where it will be."""

    made_at: str
    folders: Sequence[Path]
    found: Sequence[FoundRecord]
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
    """A task of the page: its name for people, its number, and its blocks with their anchors."""

    name: str
    number: int
    blocks: Mapping[str, TaskBlock]


def page(
    summary: Summary, figures: Sequence[Figure], blocks: Sequence[TaskBlock], parts: Sequence[PagePart], about: PageInfo
) -> str:
    """The whole page; `figures` are the main ones."""
    failed = [item for item in about.found if item.record.status == "failed"]
    findings = [finding for finding in summary.findings if finding.kind != "failed"]  # those are shown as cards
    tasks = _tasks(blocks)
    words = {key: Place(task.number, task.name) for key, task in tasks.items()}
    sections = [  # (anchor, title, HTML)
        ("scores", "Scores", _scores(summary, tasks, about) if summary.rows else ""),
        ("reading", "How to read the figures", _reading(blocks)),
    ]
    content = [_section(*section) for section in sections if section[2]]
    content += [_task(task, [part for part in parts if part.task == key]) for key, task in tasks.items()]
    own_parts = [part for part in parts if part.task not in tasks]
    sections = [
        *((part.key, part.title, part.html) for part in own_parts),
        ("failures", f"Failures ({len(failed)})", failure_cards(failed)),
        ("findings", "Findings", _findings(findings)),
        ("runs", "Runs", run_cards(about.found, words)),
    ]
    content += [_section(*section) for section in sections if section[2]]
    first, second = summary.compared
    title = load_names().question if summary.with_paper else f"{summary.titles[second]} against {summary.titles[first]}"
    script = SCRIPT.read_text(encoding="utf-8") if summary.rows else ""
    shown, folders = "\n".join(content), escape(", ".join(map(str, about.folders)))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<title>{escape(title)}</title>
<style>
{_colours()}
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{_answer(figures)}
{f"<p>{escape(summary.main_note)}</p>" if summary.main_note else ""}
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


def _policy(script: str) -> str:
    """The browser fetches nothing and runs this script alone, whatever a record contains."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"; script-src 'sha256-{digest}'" if script else ""
    return f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'{allowed}"


def _colours() -> str:
    """The palette as CSS variables; dark colours if the reader's system is dark, but not on paper."""
    light, dark = ("".join(f"--{name}:{pair[i]};" for name, pair in PALETTE.items()) for i in (0, 1))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"


def _tasks(blocks: Sequence[TaskBlock]) -> dict[str, _Task]:
    """The tasks by key, in the order of names.toml."""
    keys = {block.panel.row.task for block in blocks}
    found = {}
    for number, key in enumerate(sorted(keys, key=lambda key: sort_key(key, load_names().tasks))):
        own = [block for block in blocks if block.panel.row.task == key]
        anchors = {f"task-{number}-{i}": block for i, block in enumerate(own)}
        found[key] = _Task(task_name(key, own[0].panel.groups[0].records[0]), number, anchors)
    return found


def _section(key: str, title: str, content: str) -> str:
    return f'<section id="{escape(key)}"><h2>{escape(title)}</h2>{content}</section>'


def _lead(about: PageInfo) -> str:
    records = [item.record for item in about.found]
    finished = sum(record.status == "finished" for record in records)
    failed = sum(record.status == "failed" for record in records)
    parts = [f"{finished} finished of {counted(len(records))}"]
    parts += [f"{failed} failed"] * bool(failed)
    parts += [f"{duration(spent)} of training"] if (spent := sum(record.seconds or 0 for record in records)) else []
    commits = {record.commit for record in records}
    known = [commit[:10] for commit in commits if commit]
    if known:
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


def _bar(summary: Summary, tasks: Mapping[str, _Task]) -> str:
    """Search, tasks to choose, and the arms: a legend, whose buttons hide an arm."""
    chips = "".join(
        f'<button type="button" aria-pressed="false" data-task="{task.number}">{escape(task.name)}</button>'
        for task in tasks.values()
    )
    titles = arm_titles(summary.features, [group for row in summary.rows for group in row.groups])
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


def _scores(summary: Summary, tasks: Mapping[str, _Task], about: PageInfo) -> str:
    """The table, the table of other settings on demand, and how the numbers were computed."""
    first, others = split_panels(summary.rows)
    first = sorted(first, key=lambda panel: panel.row.pair(panel.label) is None)  # what has no gain comes last
    anchors = {id(block.panel.row): (task, anchor) for task in tasks.values() for anchor, block in task.blocks.items()}
    links = Links({item.record.fingerprint: item.path for item in about.found}, about.out.resolve().parent)

    def table(panels: Sequence[Panel], title: str) -> str:
        places = []
        for panel in panels:
            task, anchor = anchors[id(panel.row)]
            of_panel = [own for own, block in task.blocks.items() if block.panel == panel]
            places.append(Place(task.number, _words(panel, task), (of_panel or [anchor])[0]))
        return score_table(summary, panels, places, links, title)

    shown = table(first, "Test scores in percent: mean ± standard deviation over seeds; intervals are 95 % intervals")
    if others:
        title = f"{len(others)} rows of other settings"
        shown += (
            f"<details><summary>{title}</summary>{table(others, 'Test scores in percent, other settings')}</details>"
        )
    notes = "".join(f"<li>{escape(line)}</li>" for line in legend(summary) if not line.startswith("n/a"))
    return shown + f'<details><summary>How the numbers were computed</summary><ul class="notes">{notes}</ul></details>'


def _words(panel: Panel, task: _Task) -> str:
    """What a search finds the panel by."""
    return " ".join([task.name, panel.title, panel.row.data, panel.metric_title(), panel.label])


def _reading(blocks: Sequence[TaskBlock]) -> str:
    """One explanation for each kind of chart that the page has."""
    kinds = {chart.kind for block in blocks for chart in (*block.charts, *block.more)}
    items = "".join(
        f"<dt>{escape(kind.title)}</dt><dd>{escape(kind.text)}</dd>" for key, kind in CHARTS.items() if key in kinds
    )
    return f'<dl class="reading">{items}</dl>' if items else ""


def _task(task: _Task, parts: Sequence[PagePart]) -> str:
    """The section of a task: a block for each data set; the task's name is the heading if there is only one."""
    alone = len(task.blocks) == 1
    level = 3 if alone else 4
    shown = []
    for anchor, block in task.blocks.items():
        own = [part for part in parts if part.data == block.panel.row.data]
        body = _block(block, level) + "".join(_part(part, level) for part in own)
        heading = "" if alone else f"<h3>{escape(block.panel.title)}</h3>"
        find = Place(task.number, _words(block.panel, task)).attributes
        shown.append(f'<article id="{anchor}" {find}>{heading}{body}</article>')
    rest = "".join(_part(part, 3) for part in parts if not part.data)
    words = " ".join(_words(block.panel, task) for block in task.blocks.values())
    title = next(iter(task.blocks.values())).panel.title if alone else task.name
    find = Place(task.number, words).attributes
    return f'<section class="task" {find}><h2>{escape(title)}</h2>{"".join(shown)}{rest}</section>'


def _part(part: PagePart, level: int) -> str:
    return f'<div id="{escape(part.key)}" class="part"><h{level}>{escape(part.title)}</h{level}>{part.html}</div>'


def _block(block: TaskBlock, level: int) -> str:
    """The charts of a task on a data set."""
    shown = _charts(block.charts, level, with_settings=False)
    if block.more:
        number = f"{len(block.more)} charts of other settings"
        if len(block.more) > MOST_FOLDED:
            number += f", of which {MOST_FOLDED} here; --figures DIR writes all"
        more = _charts(block.more[:MOST_FOLDED], level, with_settings=True)
        shown += f'<details class="more"><summary>{number}</summary>{more}</details>'
    return shown + "".join(map(_note, block.notes))


def _note(note: str) -> str:
    """A note; the command that it may end with can be copied."""
    text, start, command = note.partition(COMMAND)
    return f'<p class="notes">{escape(text)}</p>{command_line(start + command) if start else ""}'


def _charts(charts: Iterable[Chart], level: int, *, with_settings: bool) -> str:
    cards = []
    for chart in charts:
        below = f"<small>{escape(chart.figure.title)}</small>" if with_settings else ""
        heading = f"<h{level}>{escape(CHARTS[chart.kind].title)}{below}</h{level}>"
        cards.append(f'<figure class="card">{heading}{inline_svg(chart.figure)}</figure>')
    return f'<div class="figures">{"".join(cards)}</div>' if cards else ""


def _findings(findings: Sequence[Finding]) -> str:
    """Unreadable files, notes, and the commands that fill empty cells."""
    blocks = []
    for kind in ("unreadable", "note", "empty"):
        title = TITLES[kind]
        own = [finding for finding in findings if finding.kind == kind]
        if own and kind == "empty":
            commands = "\n".join(finding.text for finding in own)
            blocks.append(f"<details><summary>{title} ({len(own)})</summary><pre>{escape(commands)}</pre></details>")
        elif own:
            items = "".join(f"<li{' class=wrong' if f.wrong else ''}>{escape(f.text)}</li>" for f in own)
            blocks.append(f'<h3>{title}</h3><ul class="findings">{items}</ul>')
    return "".join(blocks)
