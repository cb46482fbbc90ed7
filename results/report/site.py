"""The report as a web site: the parts of the one page as pages of their own, their numbers as files, and a search.

Its scripts fetch these files from the same place; without a script all pages but the comparison are complete.
"""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from html import escape, unescape
from itertools import permutations
from pathlib import Path

from results.figures.drawing import Figure
from results.records.collect import PUBLISHED
from results.records.printing import write
from results.report import page
from results.report.page import PageInfo, Part
from results.tables import sheet as cells
from results.tables.rows import MINI, Row, Table
from results.tables.sheet import Sheet
from results.tables.writers import as_csv, as_json, csv_text, html_table

STYLE, *SCRIPTS = (Path(__file__).with_name(name) for name in ("site.css", "page.js", "site.js"))
POLICY = "style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:"
_HIT = re.compile(r'id="([^"]*)" data-hit="([^"]*)" data-words="([^"]*)"')


def write_site(summary: Table, figures: Sequence[Figure], parts: Sequence[Part], about: PageInfo, command: str) -> None:
    """Writes all pages and files into the folder `about.out`.

    Args:
        summary: The runs.
        figures: The main figures.
        parts: The pages but the first one and the comparison.
        about: What they are made from.
        command: The command that prints the table of these runs.
    """
    for folder in ("data", "records"):
        (about.out / folder).mkdir(parents=True, exist_ok=True)
    tables = {part.key: part.table for part in parts if part.table}
    compared = {key: pairs_of(table, command) for key, table in tables.items() if isinstance(table, Table)}
    compared = {key: pairs for key, pairs in compared.items() if pairs["lines"]}
    further = [_comparison(parts, list(compared)), *parts] if compared else parts
    pages = [_overview(summary, figures, about, "scores" in compared), *further]
    files = {f"{part.key}.html": _page(part, pages, summary, about) for part in pages}
    files |= {f"data/{key}.{form}": text for key, table in tables.items() for form, text in _numbers(table).items()}
    files |= {f"data/{key}-pairs.json": json.dumps(pairs, ensure_ascii=False) for key, pairs in compared.items()}
    hits = [[part.title, "", f"{part.key}.html"] for part in pages]
    for part in pages:
        of_part = [map(unescape, hit.groups()) for hit in _HIT.finditer(part.content)]
        hits += [[title, words, f"{part.key}.html#{anchor}"] for anchor, title, words in of_part]
    files["data/search.json"] = json.dumps(hits, ensure_ascii=False)
    files["style.css"] = page.style_sheet() + STYLE.read_text(encoding="utf-8")
    files |= {script.name: script.read_text(encoding="utf-8") for script in SCRIPTS}
    size = 0
    for name, text in files.items():
        size += (about.out / name).write_bytes(text.encode(errors="backslashreplace"))
    for item in about.records:
        shutil.copyfile(item.path, about.out / about.links[item.record.fingerprint])
    shows = f"python -m http.server --directory {about.out}"
    write(f"{about.out}: {len(pages)} pages, {size / 1000:,.0f} kB; to see them: {shows}\n", sys.stdout)


def _page(part: Part, pages: Sequence[Part], summary: Table, about: PageInfo) -> str:
    """The part as a file, with the navigation and the search above it."""

    def links(menu: str) -> str:
        current = {part.key: ' aria-current="page"'}
        listed = [one for one in pages if one.menu == menu]
        return "".join(f'<a href="{one.key}.html"{current.get(one.key, "")}>{escape(one.title)}</a>' for one in listed)

    menus = ""
    for menu in (page.TASKS, page.TABLES):
        if listed := links(menu):
            menus += f'<details name="menu"><summary>{menu}</summary><div class="list">{listed}</div></details>'
    title = page.title_of(summary)
    search = page.bar("Search", "find", "Search all pages", '<ul id="hits" aria-label="Found" hidden></ul>')
    shown = part.content if part.key == "index" else page.section(part)
    body = f"""<a class="skip" href="#content">Skip to the content</a>
<header><h1>{escape(title)}</h1></header>
<nav aria-label="Pages">{links(page.OTHERS)}{menus}</nav>
{search}
<main id="content">
{shown}
</main>
{page.footer(about)}"""
    scripts = "".join(f'<script src="{script.name}" defer></script>' for script in SCRIPTS)
    head = f'<link rel="stylesheet" href="style.css"><link rel="icon" href="data:,">{scripts}'
    name = title if part.key == "index" else f"{part.title}: {title}"
    return page.shell(name, POLICY, head, body)


def _overview(summary: Table, figures: Sequence[Figure], about: PageInfo, compared: bool) -> Part:
    """The first page: README's first paragraph, the main figure, and the first table; then the other figures."""
    rows = [row for row in summary.rows if row.data != MINI and row.pair] or summary.rows
    sheet = cells.gains_sheet(summary, rows, "Test scores in percent: mean±std (seeds)", summary.compared, wide=False)
    name, *others = sheet.columns
    sheet = replace(sheet, columns=[name, cells.metric_column(rows), *others])
    readme = PUBLISHED.parents[1] / "README.md"
    text = readme.read_text(encoding="utf-8").split("\n\n")[1] if PUBLISHED in about.folders else ""
    says = f"<p>{page.plain(text)}</p>" if text else ""
    lines = [("", f'<a href="{page.task_page(row.task)}">{escape(row.title)}</a>', "") for row in rows]
    marks = page.notes(cells.marks_in(summary, [sheet]))
    table = f"<h2>{'Table 1' if text else 'Scores'}</h2>{html_table(sheet, 'Scores', lines)}{marks}"
    more = f'{about.downloads("scores", compared=compared)}<p><a href="scores.html">All arms</a></p>'
    content = f"{says}{page.answer(figures[:1])}{page.lead(summary, about)}{table}{more}{page.answer(figures[1:])}"
    return Part("index", "Overview", content)


def _comparison(parts: Sequence[Part], keys: Sequence[str]) -> Part:
    """The page on which readers choose a table and two of its arms; the script fills it."""
    titles = {part.key: part.title for part in parts}
    options = "".join(f'<option value="{key}">{escape(titles[key])}</option>' for key in keys)
    chosen = f'<label>Table <select id="table">{options}</select></label>'
    for name, label in (("second", "Arm"), ("first", "over")):
        chosen += f'<label>{label} <select id="{name}"></select></label>'
    content = (
        f'<div id="choice" hidden>{chosen}</div><div id="compared"></div>'
        "<noscript><p>This page needs its script. The numbers are in the files of each table.</p></noscript>"
        '<p id="command" class="command" hidden><code></code>'
        '<button type="button" class="copy" hidden>Copy</button></p><ul class="notes"></ul>'
    )
    return Part("compare", "Compare", content)


def pairs_of(table: Table, command: str) -> dict[str, object]:
    """Each row for each two arms that it has: the cells as a table that compares these two shows them.

    Args:
        table: The runs.
        command: The command that prints it.
    """
    by_arms: dict[tuple[str, str], list[Row]] = {}
    for row in [*table.rows, *table.others]:
        for first, second in permutations(table.arms, 2):
            if (pair := row.comparing(first, second)).matched:
                by_arms.setdefault((first, second), []).append(pair)
    headers = ["task", "metric", "", "", cells.GAIN, "p", "errors removed, 95 % interval", "interval over"]
    sheets = []
    for arms, rows in by_arms.items():
        columns = [("task", "l", [row.title for row in rows]), cells.metric_column(rows)]
        columns += [(arm, "l", [cells.shown_score(cells.shown_group(row, arm)) for row in rows]) for arm in arms]
        columns += cells.gain_columns(rows)
        columns.append(("over", "l", [row.interval.over if row.interval else "" for row in rows]))
        sheets.append(cells.sheet_of("", columns, len(headers)))
    experiment = table.experiment.name
    shows = ["--experiment", experiment] if experiment else ["--wide", *["--main"] * bool(table.main_arms)]
    known = {arm for arms in by_arms for arm in arms}
    return {
        "command": " ".join([command, *shows]),
        "compared": table.compared,
        "arms": {arm: table.titles[arm] for arm in table.arms if arm in known},
        "headers": headers,
        "marks": cells.marks_in(table, sheets),
        "lines": [[*arms, *line] for arms, sheet in zip(by_arms, sheets, strict=True) for line in sheet.lines],
    }


def _numbers(table: Table | Sheet) -> dict[str, str]:
    """The files to download, by suffix."""
    if isinstance(table, Table):
        return {"csv": as_csv(table), "json": as_json(table)}
    rows = [dict(zip(table.headers, line, strict=True)) for line in table.lines]
    text = json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
    return {"csv": csv_text([table.headers, *table.lines]), "json": text}
