"""The HTML page of the report: self-contained, complete without its script, and without network access."""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from urllib.parse import quote

from elmo.common.files import duration
from results import names
from results.experiments import Experiment
from results.figures.drawing import PALETTE, Figure, arms_of, both_forms, captioned, inline_svg, swatch
from results.figures.errors_removed import arm_gains
from results.records.collect import Finding, RecordFile
from results.records.record import RunRecord
from results.report.parts import CHARTS, TaskBlock, layer_experiments
from results.tables.fill import commands_of, commit_of, typed_sweep
from results.tables.rows import Group, Row, Table, arm_titles, verdict
from results.tables.sheet import (
    KINDS,
    SCORES,
    explanations,
    gain_columns,
    marks_in,
    paper_columns,
    score_columns,
    sheet_of,
    sheets_of,
)
from results.tables.writers import html_table

STYLE, SCRIPT = (Path(__file__).with_name(name) for name in ("page.css", "page.js"))
COMMAND = "python -m "


@dataclass(frozen=True)
class PageInfo:
    """The time, folders and records that the page was made from, and where it will be."""

    made_at: str
    folders: Sequence[Path]
    records: Sequence[RecordFile]
    out: Path

    @cached_property
    def links(self) -> dict[str, str]:
        """Fingerprint -> where the record is, as seen from the page."""
        folder = self.out.resolve().parent
        return {i.record.fingerprint: quote(os.fsencode(os.path.relpath(i.path, folder))) for i in self.records}

    def link(self, record: RunRecord, text: str) -> str:
        """A link to the record's file; the text alone for runs that were joined from several."""
        place = self.links.get(record.fingerprint)
        return f'<a href="{escape(place)}">{escape(text)}</a>' if place else escape(text)


def page(
    summary: Table,
    figures: Sequence[Figure],
    blocks: Sequence[TaskBlock],
    paper: str,
    about: PageInfo,
) -> str:
    """The whole page.

    Args:
        summary: The runs.
        figures: The main figures.
        blocks: The tasks.
        paper: The paper's tables and figures as HTML, with headings from h3 on.
        about: What the page was made from.
    """
    tasks: dict[str, dict[str, TaskBlock]] = {}  # task -> anchor -> block
    order = sorted(blocks, key=lambda block: names.sort_key(block.panel.task, names.load_names().tasks))
    for number, block in enumerate(order):
        tasks.setdefault(block.panel.task, {})[f"task-{number}"] = block
    failed = [item for item in about.records if item.record.status == "failed"]
    content = [
        _section("Scores", _scores(summary, tasks, about) if summary.rows else "", "scores"),
        *(_task(of_task) for of_task in tasks.values()),
        _section("The paper's tables and figures", paper),
        _section(f"Failures ({len(failed)})", _failures(failed), "failures"),
        _section("Findings", _findings(summary.findings), "findings"),
        _section("Runs", _runs(about), "runs"),
    ]
    first, second = summary.compared
    title = (
        names.load_names().question
        if summary.with_paper
        else f"{summary.titles[second]} against {summary.titles[first]}"
    )
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
{_bar(summary) if summary.rows else ""}
<main>
{shown}
</main>
<footer>Made {escape(about.made_at)} by python -m results.report from {folders}</footer>
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""


def _section(title: str, content: str, key: str = "") -> str:
    anchor = f' id="{key}"' if key else ""
    return f"<section{anchor}><h2>{escape(title)}</h2>{content}</section>" if content else ""


def _words(*panels: Row) -> str:
    """The attribute with the words that a search finds these rows by."""
    words = " ".join(f"{row.title} {row.data} {row.task} {row.metric_title()} {row.label}" for row in panels)
    return f'data-find="{escape(words.casefold())}"'


def _lead(about: PageInfo) -> str:
    """A summary of the runs: their number, time and commits."""
    records = [item.record for item in about.records]
    finished, failed = (sum(record.status == status for record in records) for status in ("finished", "failed"))
    parts = [f"{finished} finished of {_counted(len(records))}"] + [f"{failed} failed"] * bool(failed)
    parts += [f"{duration(spent)} of training"] if (spent := sum(record.seconds or 0 for record in records)) else []
    commits = {record.commit for record in records}
    if known := [commit[:10] for commit in commits if commit]:
        parts.append(f"commit {known[0]}" if len(commits) == 1 else "several commits")
    return " · ".join(map(escape, parts))


def _counted(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs:,} runs"


def _answer(figures: Sequence[Figure]) -> str:
    """The messages of the main figures, each in a sentence above the form of it that fits the screen."""
    shown, captions = "", set[str]()
    for figure in figures:
        caption = "" if figure.caption in captions else figure.caption
        captions.add(figure.caption)
        shown += f'<p class="answer">{escape(figure.title)}.</p>{both_forms(figure, caption)}'
    return shown


def _bar(summary: Table) -> str:
    """The search, and the legend of all figures."""
    titles = arm_titles(summary.arms, [group for row in [*summary.rows, *summary.others] for group in row.groups])
    arms = "".join(f"<span>{swatch(arm)} {escape(arm.title)}</span>" for arm in arms_of(titles).values())
    return (
        '<div class="bar" role="search" aria-label="Filter">'
        '<input type="search" id="search" placeholder="Search" aria-label="Search tasks, data and settings" hidden>'
        f'<div class="arms" role="group" aria-label="Arms in figures and tables">{arms}</div>'
        '<span role="status"></span></div>'
    )


def _scores(summary: Table, tasks: Mapping[str, Mapping[str, TaskBlock]], about: PageInfo) -> str:
    """The table, the table of other settings on demand, and how the numbers were computed."""
    rows = [row for row in summary.rows if row.groups]
    rows.sort(key=lambda row: row.pair is None)  # what has no gain comes last
    shown = _score_table(summary, rows, tasks, about, "Test scores in percent: mean ± standard deviation over seeds")
    if summary.others:
        others = _score_table(summary, summary.others, tasks, about, "Test scores in percent, other settings")
        shown += f"<details><summary>{len(summary.others)} rows of other settings</summary>{others}</details>"
    notes = "".join(f"<li>{escape(line)}</li>" for line in explanations(summary))
    return shown + f'<details><summary>How the numbers were computed</summary><ul class="notes">{notes}</ul></details>'


def _score_table(
    summary: Table, rows: Sequence[Row], tasks: Mapping[str, Mapping[str, TaskBlock]], about: PageInfo, title: str
) -> str:
    """The table of these rows, each with a link to its charts; columns without any content are left out."""
    scores = score_columns(summary, rows, summary.arms)
    paper = paper_columns(summary, rows, summary.compared, wide=False)
    titles = [row.title for row in rows]
    sheet = sheet_of(title, [("task", "l", titles), *scores[:2], *gain_columns(rows), *paper, *scores[2:]])
    lines = []
    for row in rows:
        anchors = {block.panel.label: anchor for anchor, block in tasks[row.task].items() if block.panel.key == row.key}
        anchor = anchors.get(row.label) or next(iter(anchors.values()))
        where = escape(", ".join(filter(None, [row.metric_title(), row.settings_title])))
        name = f'<a href="#{anchor}">{escape(row.task_title)}</a><small>{where}</small>'
        lines.append((_words(row), name, _details(row, summary, about)))
    marks = "".join(f"<li>{escape(mark)}</li>" for mark in marks_in(summary, [sheet]))
    return html_table(sheet, "Scores", lines) + (f'<ul class="notes">{marks}</ul>' if marks else "")


def _details(row: Row, summary: Table, about: PageInfo) -> str:
    """Seeds with links to their records, the verdict on the paper's numbers, and the commands that repeat the runs."""
    seeds = sorted({seed for group in row.groups for seed in group.seeds})
    head = "".join(f'<th scope="col">seed {seed}</th>' for seed in seeds)
    lines = ""
    for group in row.groups:
        of_seed = {record.identity.seed: record for record in group.records}
        cells = "".join(f"<td>{_seed(of_seed.get(seed), group, about)}</td>" for seed in seeds)
        name = escape(names.arm_title(group.features, group.records[0]))
        lines += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    against = "; ".join(
        f"{names.arm_title(group.features, group.records[0])} {of_arm}"
        for group in map(row.group, row.compared)
        if summary.with_paper and group and (of_arm := verdict(group, row.paper))
    )
    paper = f"<p>Against the paper: {escape(against)}</p>" if against else ""
    return (
        '<details><summary>Seeds, commands, records</summary><div class="wide"><table class="seeds">'
        "<caption>Test score of each seed, linked to its record</caption>"
        f'<thead><tr><th scope="col">arm</th>{head}</tr></thead><tbody>{lines}</tbody></table></div>{paper}'
        f"<p>To repeat the runs ({escape(commit_of(row.groups))}):</p>"
        f"{''.join(map(command_line, commands_of(row.groups)))}</details>"
    )


def _seed(record: RunRecord | None, group: Group, about: PageInfo) -> str:
    """The score of a seed, linked to its record, or to those of its folds."""
    if record is None:
        return ""
    folds = [fold for fold in group.single if fold.identity.seed == record.identity.seed]
    below = " ".join(about.link(fold, f"fold {fold.identity.fold}") for fold in folds)
    return about.link(record, f"{record.score:.2f}") + (f"<small>{below}</small>" if below else "")


def command_line(command: str) -> str:
    """A command with a button that copies it; the script shows the button."""
    return (
        f'<p class="command"><code>{escape(command)}</code><button type="button" class="copy" hidden>Copy</button></p>'
    )


def _task(blocks: Mapping[str, TaskBlock]) -> str:
    """The section of a task: for each data set its charts, and its notes, whose commands can be copied."""
    shown = ""
    for anchor, block in blocks.items():
        charts = "".join(
            f'<figure class="card"><h4>{CHARTS[kind]}</h4>{inline_svg(figure)}'
            f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
            for kind, figure in block.charts
        )
        notes = ""
        for note in block.notes:
            text, start, command = note.partition(COMMAND)
            notes += f'<p class="notes">{escape(text)}</p>{command_line(start + command) if start else ""}'
        body = f'<h3>{escape(block.panel.title)}</h3><div class="figures">{charts}</div>{notes}'
        shown += f'<article id="{anchor}" {_words(block.panel)}>{body}</article>'
    panels = [block.panel for block in blocks.values()]
    title = escape(names.task_name(panels[0].task, panels[0].record))
    return f'<section class="task" {_words(*panels)}><h2>{title}</h2>{shown}</section>'


def _failures(failed: Sequence[RecordFile]) -> str:
    """The error and the last lines of the traceback of each failed run."""
    cards = []
    for item in failed:
        error = item.record.error
        assert error is not None  # a failed run has one
        cards.append(
            f'<article class="card failed"><h3>{escape(_task_title(item.record))}: {_run_title(item.record)}</h3>'
            f'<p class="reason">{escape(f"{error.type}: {error.message}")}</p>'
            f"<pre>{escape(chr(10).join(error.traceback))}</pre>"
            f'<p class="path">{escape(str(item.path))}</p></article>'
        )
    return "\n".join(cards)


def _findings(findings: Sequence[Finding]) -> str:
    """Other faults and gaps, by kind; failed runs are shown as cards."""
    shown = ""
    for kind, (title, _, _) in KINDS.items():
        of_kind = [finding for finding in findings if finding.kind == kind != "failed"]
        items = "".join(f"<li{' class=wrong' if f.wrong else ''}>{escape(f.text)}</li>" for f in of_kind)
        shown += f'<h3>{title}</h3><ul class="findings">{items}</ul>' if items else ""
    return shown


def _runs(about: PageInfo) -> str:
    """The runs by data and task, each with a line: its score, its cost, what it ran on, and its record."""
    rows: dict[tuple[str, str], list[RecordFile]] = {}
    for item in about.records:
        rows.setdefault(item.record.identity.row, []).append(item)
    shown = ""
    for items in rows.values():
        lines = "\n".join(map(_run_line, items))
        title = f"{escape(_task_title(items[0].record))} <small>{_counted(len(items))}</small>"
        shown += f'<details class="runs"><summary>{title}</summary>{lines}</details>'
    return shown


def _run_line(item: RecordFile) -> str:
    record, environment = item.record, item.record.environment
    facts = [duration(record.seconds)] if record.seconds is not None else []
    facts += [f"{record.peak_memory_mb:,.0f} MB"] if record.peak_memory_mb is not None else []
    facts += [f"{environment.device}, commit {(environment.commit or 'unknown')[:10]}"] if environment else []
    shown = escape(" · ".join([*facts, str(item.path)]))
    return f'<p class="run">{_run_title(record)} <span class="path">{shown}</span></p>'


def _task_title(record: RunRecord) -> str:
    return names.task_title(record.identity.data, record.identity.task, record)


def _run_title(record: RunRecord) -> str:
    settings = names.settings_title(record.identity.typed_variant)
    arm = f"{names.arm_title(record.identity.features, record)}{record.identity.in_fold}"
    name = ", ".join(filter(None, [arm, settings, names.old_recipe(record), f"seed {record.identity.seed}"]))
    scored = f"{record.score:.2f} {names.metric_title(record.metric, record)}" if record.status == "finished" else ""
    return f"{escape(name)} <small>{escape(scored or record.status)}</small>"


def paper_part(tables: Sequence[Table], layers: Figure | None) -> str:
    """The paper's tables, with the figures of their experiments, as HTML.

    Args:
        tables: What to show.
        layers: The figure of all tasks' layers, if there is one.
    """
    together = ""
    for table in tables:
        (sheet,) = sheets_of(table, wide=True)
        title = table.experiment.title  # the heading has it, the table need not
        items = "".join(f"<li>{escape(line)}</li>" for line in [*marks_in(table, [sheet]), *explanations(table)])
        figure = arm_gains(table)
        together += (
            f"<h3>{escape(title)}</h3>{_figures([figure] if figure else [])}"
            f"{html_table(replace(sheet, title=SCORES), title)}"
            f'{_command(table.experiment)}<details><summary>Notes</summary><ul class="notes">{items}</ul></details>'
        )
    if layers:
        commands = "".join(map(_command, layer_experiments()))
        together += f"<h3>{escape(layers.title)}</h3>{_figures([layers])}{commands}"
    return together


def _command(experiment: Experiment) -> str:
    """The command that makes its runs, as HTML."""
    return f"<p>Runs what is missing: <code>{escape(typed_sweep(experiment, []))}</code></p>"


def _figures(figures: Sequence[Figure]) -> str:
    """The figures as HTML, next to each other where there is room."""
    return f'<div class="figures">{"".join(map(captioned, figures))}</div>' if figures else ""
