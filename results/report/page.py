"""The HTML page of the report: self-contained, complete without its script, and without network access."""

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from elmo.common.durations import duration
from results.analysis.names import (
    arm_title,
    load_names,
    metric_title,
    old_recipe,
    settings_title,
    sort_key,
    task_name,
    task_title,
)
from results.analysis.rows import Group, Row, Table, arm_titles
from results.analysis.verdict import verdicts
from results.figures.marks import PALETTE, Figure, arms_of
from results.figures.svg import both_forms, inline_svg, swatch
from results.records.collect import Finding, FoundRecord
from results.records.identity import flattened, shown
from results.records.printing import printable
from results.records.record import RunRecord
from results.report.parts import CHARTS, Chart, PagePart, TaskBlock
from results.tables.rerun_commands import commands_of, commit_of
from results.tables.sheet import KINDS, explanations, gain_columns, paper_columns, score_columns, sheet_of
from results.tables.writers import html_table


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
    scores = score_columns(summary, panels, summary.arms)
    titles = [panel.title for panel in panels]
    paper = paper_columns(summary, panels, summary.compared, wide=False)
    sheet = sheet_of(title, [("task", "l", titles), *scores[:2], *gain_columns(panels), *paper, *scores[2:]])
    lines = []
    for panel, place in zip(panels, places, strict=True):
        name = escape(panel.task_title)
        name = f'<a href="#{place.anchor}">{name}</a>' if place.anchor else name
        where = escape(", ".join(filter(None, [panel.metric_title(), panel.settings_title])))
        lines.append((place.attributes, f"{name}<small>{where}</small>", _details(panel, summary, links)))
    arms = {printable(header): arm for (header, _, _), arm in zip(scores, summary.arms, strict=True)}
    return html_table(sheet, "Scores", lines, arms)


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


MOST_CARDS = 400  # 2.5 kB each


def failure_cards(failed: Sequence[FoundRecord]) -> str:
    """The error and the last lines of the traceback of each failed run."""
    cards = []
    for item in failed:
        error = item.record.error
        assert error is not None  # a failed run has one
        trace = f"<pre>{escape(chr(10).join(error.traceback))}</pre>" if error.traceback else ""
        cards.append(
            f'<article class="card failed"><h3>{escape(_task_title(item.record))}: {_run_title(item.record)}</h3>'
            f'<p class="reason">{escape(f"{error.type}: {error.message}")}</p>{trace}'
            f'<p class="path">{escape(str(item.path))}</p></article>'
        )
    return "\n".join(cards)


def run_cards(runs: Sequence[FoundRecord], places: Mapping[str, Place]) -> str:
    """The runs by data and task, each with a card that opens on demand.

    In a large grid each run has only a line, with the path of its record.

    Args:
        runs: The records.
        places: Task -> where its runs belong, for the page's filter.
    """
    rows: dict[tuple[str, str], list[FoundRecord]] = {}
    for item in runs:
        rows.setdefault(item.record.identity.row, []).append(item)
    many = len(runs) > MOST_CARDS
    blocks = [f"<p>Cards are shown for up to {MOST_CARDS} runs; choose some with --runs and --data.</p>"] * many
    for (data, task), items in rows.items():
        cards, name = "\n".join(map(_run_line if many else _run_card, items)), _task_title(items[0].record)
        place = places.get(task, Place(-1, ""))
        find = Place(place.task, f"{place.words} {name} {data}").attributes
        title = f"{escape(name)} <small>{counted(len(items))}</small>"
        blocks.append(f'<details class="runs" {find}><summary>{title}</summary>{cards}</details>')
    return "\n".join(blocks)


def counted(runs: int) -> str:
    """The number of runs, as text."""
    return "1 run" if runs == 1 else f"{runs:,} runs"


def _run_line(item: FoundRecord) -> str:
    return f'<p class="run">{_run_title(item.record)} <span class="path">{escape(str(item.path))}</span></p>'


def _task_title(record: RunRecord) -> str:
    return task_title(record.identity.data, record.identity.task, record)


def _run_title(record: RunRecord) -> str:
    settings = settings_title(record.identity.typed_variant)
    arm = f"{arm_title(record.identity.features, record)}{record.identity.in_fold}"
    name = ", ".join(filter(None, [arm, settings, old_recipe(record), f"seed {record.identity.seed}"]))
    scored = f"{record.score:.2f} {metric_title(record.metric, record)}" if record.status == "finished" else ""
    return f"{escape(name)} <small>{escape(scored or record.status)}</small>"


def _run_card(item: FoundRecord) -> str:
    """What is needed to audit a score; unknown facts are left out."""
    record, environment = item.record, item.record.environment
    scores = [
        f"{split} {metric_title(name, record)} {score:.2f}"
        for split, by_metric in record.scores.items()
        for name, score in by_metric.items()
    ]
    facts: dict[str, str | None] = {
        "scores": ", ".join(scores),
        "time": None if record.seconds is None else duration(record.seconds),
        "peak memory": None if record.peak_memory_mb is None else f"{record.peak_memory_mb:,.0f} MB",
        "epochs": str(len(record.epochs)) if record.epochs else None,
        "started": record.started_at,
        "finished": record.finished_at,
    }
    if environment:
        changed = ", with uncommitted changes" if environment.dirty else ""
        versions = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
        facts["commit"] = f"{environment.commit}{changed}" if environment.commit else "not recorded"
        facts["device"] = f"{environment.device}, threads {environment.threads}, {environment.platform}"
        facts["versions"] = f"Python {environment.python}, {versions}"
    facts |= {"fingerprint": record.fingerprint, "record": str(item.path)}
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items() if value)
    settings = "\n".join(f"{key}={shown(value)}" for key, value in sorted(flattened(record.config).items()))
    hashed = flattened({key: value for key, value in record.fingerprinted.items() if key != "settings"})
    # Hashes are not shortened, so that they can be compared.
    hashes = "\n".join(f"{key}={v if isinstance(v, str) else shown(v)}" for key, v in hashed.items() if v is not None)
    return (
        f'<details class="run"><summary>{_run_title(record)}</summary>'
        f"<dl>{listed}</dl><details><summary>Configuration</summary><pre>{escape(settings)}</pre></details>"
        f"<details><summary>Hashes and recipes</summary><pre>{escape(hashes)}</pre></details></details>"
    )


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
    kinds = {kind for block in blocks for kind, _ in (*block.charts, *block.more)}
    shown = [chart for kind, chart in CHARTS.items() if kind in kinds]
    items = "".join(f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>" for title, text in shown)
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
        heading = f"<h{level}>{escape(CHARTS[kind][0])}{below}</h{level}>"
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
