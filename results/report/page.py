"""The HTML page of the report: self-contained, complete without its script, and without network access."""

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from elmo.common.files import duration
from results import names
from results.experiments import Experiment, sweep_name
from results.figures.drawing import PALETTE, Figure, arms_of, both_forms, captioned, inline_svg, swatch, with_legend
from results.records.collect import PUBLISHED, Finding, RecordFile
from results.records.record import RunRecord
from results.report.parts import CHARTS, Chapter, TaskBlock, figures_of, layer_experiments, load_texts
from results.tables import sheet as cells
from results.tables.fill import commands_of, commit_of, typed_sweep
from results.tables.rows import Group, Row, Table, arm_titles, as_stem, verdict
from results.tables.sheet import Sheet
from results.tables.writers import html_table

STYLE, SCRIPT = (Path(__file__).with_name(name) for name in ("page.css", "page.js"))
COMMAND = "python -m "
TASKS, TABLES, OTHERS = "Tasks", "Tables", "Pages"  # lists of parts in the site's navigation


@dataclass(frozen=True)
class Part:
    """A section of the one page, or a page of the site.

    Attributes:
        key: The name of its file without suffix.
        title: Its heading.
        content: HTML, with headings from h3 on.
        menu: The list that names it; empty if another part leads to it.
        table: What it shows, for downloads: a table of runs, or cells of text.
        attributes: Of its section.
    """

    key: str
    title: str
    content: str
    menu: str = OTHERS
    table: Table | Sheet | None = None
    attributes: str = ""


@dataclass(frozen=True)
class PageInfo:
    """The time, folders and records that the page was made from, and where it will be: a file, or a site's folder."""

    made_at: str
    folders: Sequence[Path]
    records: Sequence[RecordFile]
    out: Path
    site: bool = False

    @cached_property
    def links(self) -> dict[str, str]:
        """Fingerprint -> where the record is, as seen from the page."""
        if self.site:
            return {i.record.fingerprint: f"records/{i.record.fingerprint[:16]}.json" for i in self.records}
        folder = self.out.resolve().parent
        return {i.record.fingerprint: quote(os.fsencode(os.path.relpath(i.path, folder))) for i in self.records}

    def link(self, record: RunRecord, text: str) -> str:
        """A link to the record's file; the text alone for runs that were joined from several."""
        place = self.links.get(record.fingerprint)
        return f'<a href="{escape(place)}">{escape(text)}</a>' if place else escape(text)

    def hit(self, key: str, title: str, words: str = "") -> str:
        """The attributes of what the site's search finds, as an anchor; the one page has a filter instead."""
        return f'id="{key}" data-hit="{escape(title)}" data-words="{escape(words)}"' if self.site else ""

    def downloads(self, key: str, *, compared: bool = False) -> str:
        """Links to all numbers of a part's table, and to the comparison of its arms, as HTML; the one page has none."""
        links = [f'<a href="data/{key}.{form}" download>{form.upper()}</a>' for form in ("csv", "json")]
        links += [f'<a href="compare.html?table={key}">Compare two arms</a>'] * compared
        return f'<p class="get">{" · ".join(links)}</p>' if self.site else ""


def parts_of(
    summary: Table, blocks: Sequence[TaskBlock], tables: Sequence[Table], layers: Figure | None, about: PageInfo
) -> list[Part]:
    """All parts but the answer above them, in their order; those without content are left out.

    Args:
        summary: The runs.
        blocks: The tasks.
        tables: The paper's tables that have runs.
        layers: The figure of all tasks' layers, if there is one.
        about: What the page is made from.
    """
    tasks: dict[str, dict[str, TaskBlock]] = {}  # task -> anchor -> block
    order = sorted(blocks, key=lambda block: names.sort_key(block.panel.task, names.load_names().tasks))
    for number, block in enumerate(order):
        tasks.setdefault(block.panel.task, {})[f"task-{number}"] = block
    failed = [item for item in about.records if item.record.status == "failed"]
    main = replace(summary, others=[]) if about.site else summary  # there the pages of tasks have other settings
    title = "Table 1: all arms" if about.site and PUBLISHED in about.folders else "Scores"
    parts = _scores(Part("scores", title, "", TABLES if about.site else OTHERS, summary), main, tasks, about)
    for task in tasks:
        parts += _task(task, summary, tasks, about)
    chapters, of_name = [*load_texts().paper, load_texts().board], {table.experiment.name: table for table in tables}
    chapters += [Chapter(experiment=name) for name in of_name if name not in [one.experiment for one in chapters]]
    parts += [_chapter(chapter, of_name.get(chapter.experiment), layers, about) for chapter in chapters]
    parts.append(Part("failures", f"Failures ({len(failed)})", _failures(failed)))
    parts.append(Part("findings", "Findings", _findings(summary.findings)))
    parts.append(Part("runs", "Runs", _runs(about)))
    return [part for part in parts if part.content]


def title_of(summary: Table) -> str:
    """The heading of all pages."""
    first, second = summary.compared
    versus = f"{summary.titles[second]} against {summary.titles[first]}"
    return names.load_names().question if summary.with_paper else versus


def one_page(summary: Table, figures: Sequence[Figure], parts: Sequence[Part], about: PageInfo) -> str:
    """All parts as one file.

    Args:
        summary: The runs.
        figures: The main figures.
        parts: The sections.
        about: What the page is made from.
    """
    shown = ""
    for menu, same in groupby(parts, key=lambda part: part.menu):
        if menu == TABLES:
            content = "".join(f"<h3>{escape(part.title)}</h3>{part.content}" for part in same)
            shown += section(Part("tables", "The paper's tables and figures", content))
        else:
            shown += "\n".join(map(section, same))
    script = SCRIPT.read_text(encoding="utf-8") if summary.rows else ""
    style = style_sheet()
    # The browser fetches nothing and runs this script alone, whatever a record contains.
    policy = f"style-src {_hash(style)}" + (f"; script-src {_hash(script)}" if script else "")
    body = f"""<header>
<h1>{escape(title_of(summary))}</h1>
{answer(figures)}
{lead(summary, about)}
</header>
{bar("Filter", "search", "Search tasks, data and settings", _legend(summary)) if summary.rows else ""}
<main>
{shown}
</main>
{footer(about)}
{f"<script>{script}</script>" if script else ""}"""
    return shell(title_of(summary), policy, f"<style>{style}</style>", body)


def shell(title: str, policy: str, head: str, body: str) -> str:
    """A whole HTML file that fetches nothing but what the policy allows. Machine paths are shortened."""
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; {policy}">
<title>{escape(title)}</title>
{head}
</head>
<body>
{body}
</body>
</html>
"""
    return text.replace(f"{escape(str(Path.cwd()))}/", "")


def style_sheet() -> str:
    """The styles: dark colours if the reader's system is dark, but not on paper."""
    light, dark = ("".join(f"--{name}:{pair[i]};" for name, pair in PALETTE.items()) for i in (0, 1))
    query = "@media screen and (prefers-color-scheme: dark)"
    return f":root{{{light}}}\n{query}{{:root{{{dark}}}}}\n{STYLE.read_text(encoding='utf-8')}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def section(part: Part) -> str:
    """The part with its heading."""
    anchor = f'id="{part.key}"' if part.menu == OTHERS else ""
    return f"<section {part.attributes or anchor}><h2>{escape(part.title)}</h2>{part.content}</section>"


def footer(about: PageInfo) -> str:
    """When and from what the page was made."""
    folders = escape(", ".join(map(str, about.folders)))
    return f"<footer>Made {escape(about.made_at)} by python -m results.report from {folders}</footer>"


def lead(summary: Table, about: PageInfo) -> str:
    """What the experiment says about all runs, and a summary of them: their number, time and commits."""
    records = [item.record for item in about.records]
    finished, failed = (sum(record.status == status for record in records) for status in ("finished", "failed"))
    parts = [f"{finished} finished of {_counted(len(records))}"] + [f"{failed} failed"] * bool(failed)
    parts += [f"{duration(spent)} of training"] if (spent := sum(record.seconds or 0 for record in records)) else []
    commits = {record.commit for record in records}
    if known := [commit[:10] for commit in commits if commit]:
        parts.append(f"commit {known[0]}" if len(commits) == 1 else "several commits")
    return f'<p class="lead">{" · ".join(map(escape, parts))}</p>'


def _counted(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs:,} runs"


def answer(figures: Sequence[Figure]) -> str:
    """The messages of the main figures, each in a sentence above the form of it that fits the screen."""
    shown, captions = "", set[str]()
    for figure in figures:
        caption = "" if figure.caption in captions else figure.caption
        captions.add(figure.caption)
        shown += f'<p class="answer">{escape(figure.title)}.</p>{both_forms(with_legend(figure), caption)}'
    return shown


def bar(name: str, key: str, label: str, below: str) -> str:
    """The search, with what is below it; the input's key says what it does: `search` filters the page."""
    return (
        f'<div class="bar" role="search" aria-label="{name}">'
        f'<input type="search" id="{key}" placeholder="Search" aria-label="{label}" hidden>'
        f'{below}<span role="status"></span></div>'
    )


def _legend(summary: Table) -> str:
    """The legend of all figures."""
    titles = arm_titles(summary.arms, [group for row in [*summary.rows, *summary.others] for group in row.groups])
    arms = "".join(f"<span>{swatch(arm)} {escape(arm.title)}</span>" for arm in arms_of(titles).values())
    return f'<div class="arms" role="group" aria-label="Arms in figures and tables">{arms}</div>'


def _words(*panels: Row) -> str:
    """The attribute with the words that a search finds these rows by."""
    words = " ".join(f"{row.title} {row.data} {row.task} {row.metric_title()} {row.label}" for row in panels)
    return f'data-find="{escape(words.casefold())}"'


Tasks = Mapping[str, Mapping[str, TaskBlock]]  # task -> anchor -> block


def _scores(part: Part, summary: Table, tasks: Tasks, about: PageInfo) -> list[Part]:
    """The part with its table, and how the numbers were computed; the site loads other settings from a further part."""
    rows = sorted((row for row in summary.rows if row.groups), key=lambda row: row.pair is None)  # without a gain: last
    title = "Test scores in percent: mean ± standard deviation over seeds"
    content, more = _score_table(summary, rows, tasks, about, title, part.key) if rows else "", list[Part]()
    if summary.others:
        others = f"{len(summary.others)} rows of other settings"
        table = _score_table(summary, summary.others, tasks, about, "Test scores in percent, other settings", "other")
        if about.site:
            more = [Part(f"{part.key}-others", f"{part.title}: {others}", table, menu="")]
            table = f'<p><a href="{more[0].key}.html">On a page of its own</a></p>'
        load = f' data-load="{more[0].key}.html"' if more else ""
        content += f"<details{load}><summary>{others}</summary>{table}</details>"
    explained = notes(cells.explanations(summary))
    content += f"<details><summary>How the numbers were computed</summary>{explained}</details>"
    return [replace(part, content=content + about.downloads("scores")), *more] if rows else []


def _score_table(summary: Table, rows: Sequence[Row], tasks: Tasks, about: PageInfo, title: str, key: str) -> str:
    """The table of these rows, each with a link to its charts; columns without any content are left out."""
    scores = cells.score_columns(summary, rows, summary.arms)
    paper = cells.paper_columns(summary, rows, summary.compared, wide=False)
    titles = [row.title for row in rows]
    sheet = cells.sheet_of(title, [("task", "l", titles), *scores[:2], *cells.gain_columns(rows), *paper, *scores[2:]])
    lines = []
    for number, row in enumerate(rows):
        anchors = {block.panel.label: anchor for anchor, block in tasks[row.task].items() if block.panel.key == row.key}
        anchor = anchors.get(row.label) or next(iter(anchors.values()))
        where = escape(", ".join(filter(None, [row.metric_title(), row.settings_title])))
        page = task_page(row.task) if about.site else ""
        name = f'<a href="{page}#{anchor}">{escape(row.task_title)}</a><small>{where}</small>'
        words = f"{row.title}, {row.metric_title()}", f"{row.data} {row.task} {row.label}"
        hit = about.hit(f"{key}-{number}", *words) if key != "scores" else ""  # the pages of tasks have these rows, too
        lines.append((f"{hit} {_words(row)}", name, _details(row, summary, about)))
    marks = cells.marks_in(summary, [sheet])
    return html_table(sheet, "Other settings" if key == "other" else "Scores", lines) + notes(marks) * bool(marks)


def notes(lines: Iterable[str]) -> str:
    """A list of notes as HTML."""
    return f'<ul class="notes">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'


def task_page(task: str) -> str:
    """The file of a task's page; no other page has this name."""
    return f"task-{as_stem(task)}.html"


def plain(markdown: str) -> str:
    """The text without marks and links, which lead to other documents, as HTML."""
    return escape(re.sub(r"\[(.*?)\]\(.*?\)", r"\1", markdown.strip()).replace("`", "").replace("**", ""))


def _details(row: Row, summary: Table, about: PageInfo) -> str:
    """Seeds with links to their records, the verdict on the paper's numbers, and the commands that repeat the runs."""
    seeds = sorted({seed for group in row.groups for seed in group.seeds})
    head = "".join(f'<th scope="col">seed {seed}</th>' for seed in seeds)
    lines = ""
    for group in row.groups:
        of_seed = {record.identity.seed: record for record in group.records}
        scores = "".join(f"<td>{_seed(of_seed.get(seed), group, about)}</td>" for seed in seeds)
        name = escape(names.arm_title(group.features, group.records[0]))
        lines += f'<tr><th scope="row">{name}</th>{scores}</tr>'
    pair = [group for group in map(row.group, row.compared) if summary.with_paper and group]
    verdicts = {names.arm_title(one.features, one.records[0]): verdict(one, row.paper) for one in pair}
    against = "; ".join(f"{title} {of_arm}" for title, of_arm in verdicts.items() if of_arm)
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
    button = '<button type="button" class="copy" hidden>Copy</button>'
    return f'<p class="command"><code>{escape(command)}</code>{button}</p>'


def _task(task: str, summary: Table, tasks: Tasks, about: PageInfo) -> list[Part]:
    """The charts of a task's data sets, with notes whose commands can be copied; on the site its scores above them."""
    shown = ""
    for anchor, block in tasks[task].items():
        charts = ""
        for number, (kind, figure) in enumerate(block.charts):
            hit = about.hit(f"{anchor}-{number}", f"{block.panel.title}: {CHARTS[kind]}")
            drawing = inline_svg(with_legend(figure) if about.site else figure)
            caption = f"<figcaption>{escape(figure.caption)}</figcaption>"
            charts += f'<figure class="card" {hit}><h4>{CHARTS[kind]}</h4>{drawing}{caption}</figure>'
        below = ""
        for note in block.notes:
            text, start, command = note.partition(COMMAND)
            below += f'<p class="notes">{escape(text)}</p>{command_line(start + command) if start else ""}'
        body = f'<h3>{escape(block.panel.title)}</h3><div class="figures">{charts}</div>{below}'
        shown += f'<article id="{anchor}" {_words(block.panel)}>{body}</article>'
    panels = [block.panel for block in tasks[task].values()]
    title, attributes = names.task_name(task, panels[0].record), f'class="task" {_words(*panels)}'
    part = Part(task_page(task).removesuffix(".html"), title, shown, TASKS, attributes=attributes)
    if not about.site:
        return [part]
    rows, others = ([row for row in of_all if row.task == task] for of_all in (summary.rows, summary.others))
    scores, *more = _scores(part, replace(summary, rows=rows, others=others), tasks, about)
    return [replace(scores, content=scores.content + shown), *more]


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
    for kind, (title, _, _) in cells.KINDS.items():
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
        lines = "\n".join(_run_line(item, about) for item in items)
        title = f"{escape(_task_title(items[0].record))} <small>{_counted(len(items))}</small>"
        shown += f'<details class="runs"><summary>{title}</summary>{lines}</details>'
    return shown


def _run_line(item: RecordFile, about: PageInfo) -> str:
    record, environment = item.record, item.record.environment
    facts = [duration(record.seconds)] if record.seconds is not None else []
    facts += [f"{record.peak_memory_mb:,.0f} MB"] if record.peak_memory_mb is not None else []
    facts += [f"{environment.device}, commit {(environment.commit or 'unknown')[:10]}"] if environment else []
    path = about.link(record, str(item.path)) if about.site else escape(str(item.path))
    shown, words = " · ".join([*map(escape, facts), path]), re.sub("<.*?>", "", _run_title(record))
    hit = about.hit(f"run-{record.fingerprint[:16]}", f"Run: {_task_title(record)}, {words}", record.identity.title)
    return f'<p class="run" {hit}>{_run_title(record)} <span class="path">{shown}</span></p>'


def _task_title(record: RunRecord) -> str:
    return names.task_title(record.identity.data, record.identity.task, record)


def _run_title(record: RunRecord) -> str:
    settings = names.settings_title(record.identity.typed_variant)
    arm = f"{names.arm_title(record.identity.features, record)}{record.identity.in_fold}"
    name = ", ".join(filter(None, [arm, settings, names.old_recipe(record), f"seed {record.identity.seed}"]))
    scored = f"{record.score:.2f} {names.metric_title(record.metric, record)}" if record.status == "finished" else ""
    return f"{escape(name)} <small>{escape(scored or record.status)}</small>"


def _chapter(chapter: Chapter, table: Table | None, layers: Figure | None, about: PageInfo) -> Part:
    """A table of the paper with its figure, the figure of all layers, or a text with a table; empty without runs."""
    about_it = f"<p>{plain(chapter.text)}</p>" if chapter.text else ""
    if table:
        (sheet,) = cells.sheets_of(table, wide=True)
        key, title = as_stem(sweep_name(table.experiment.name)), table.experiment.title
        explained = notes([*cells.marks_in(table, [sheet]), *cells.explanations(table)])
        figures = figures_of(chapter, table)
        if chapter.figure == "efficiency":  # the one page has these with their tasks
            figures = [replace(one, caption=f"{one.title}. {one.caption}") for one in figures if about.site]
        content = about_it + _figures(figures) + _plain_table(sheet, cells.SCORES, key, title, about)
        content += about.downloads(key, compared=True) + _command(table.experiment)
        content += f"<details><summary>Notes</summary>{explained}</details>"
        return Part(key, title, content, TABLES, table)
    if layers and chapter.figure == "layers":
        commands = "".join(map(_command, layer_experiments()))
        return Part(chapter.experiment, layers.title, f"{about_it}{_figures([layers])}{commands}", TABLES)
    path = PUBLISHED / chapter.file
    if not chapter.file or PUBLISHED not in about.folders or not path.is_file():
        return Part("", "", "")
    lines, below = path.read_text(encoding="utf-8").replace("**", "").replace("`", "").split("\n\n", 1)
    head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines.split("\n"))
    sheet = Sheet(chapter.title, [(header or "by", "l", column) for header, *column in zip(head, *body, strict=True)])
    shown = _plain_table(sheet, "as its command prints it", path.stem, chapter.title, about)
    svg = path.with_suffix(".svg")
    figure = f'<figure class="card">{_coloured(svg.read_text(encoding="utf-8"))}</figure>' if svg.exists() else ""
    content = f"{about_it}{figure}{shown}{about.downloads(path.stem)}<p>{escape(below.strip())}</p>"
    return Part(path.stem, chapter.title, content, TABLES, sheet)


def _coloured(svg: str) -> str:
    """A figure's file as a part of the page, in the page's colours."""
    for name, (light, _) in PALETTE.items():
        svg = svg.replace(f'"{light}"', f'"var(--{name})"')
    return re.sub(r'<\?xml.*?\?>\s*| aria-labelledby="[^"]*"| id="[^"]*"', "", svg)


def _plain_table(sheet: Sheet, caption: str, key: str, title: str, about: PageInfo) -> str:
    """A table below its heading; a script sorts its lines, and the site's search finds them."""
    lines = []
    for number, (name, *_) in enumerate(sheet.lines):
        lines.append((about.hit(f"{key}-{number}", f"{title}: {name}"), escape(name), ""))
    return html_table(replace(sheet, title=caption), title, lines)


def _command(experiment: Experiment) -> str:
    """The command that makes its runs, as HTML."""
    return f"<p>Runs what is missing: <code>{escape(typed_sweep(experiment, []))}</code></p>"


def _figures(figures: Sequence[Figure]) -> str:
    """The figures as HTML, next to each other where there is room."""
    return f'<div class="figures">{"".join(map(captioned, figures))}</div>' if figures else ""
