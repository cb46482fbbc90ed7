"""The HTML page of the report: self-contained, without scripts and network access."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from elmo.common.durations import duration
from results.analysis.names import load_names, short_title
from results.analysis.panels import Panel, split_panels
from results.analysis.paper_scores import relative_error_cut
from results.analysis.rows import Group, Summary, TableRow
from results.analysis.verdict import verdict, verdicts
from results.records.collect import Finding, FoundRecord
from results.report.cards import counted, failure_cards, run_cards
from results.report.figures import PALETTE, Figure
from results.report.sections import Section
from results.report.svg import inline_svg
from results.tables.cells import TITLES, legend, shown_interval, shown_p

STYLE = Path(__file__).with_name("page.css")
MOST_FOLDED = 50  # figures of other settings per section; each has about 5 kB
# The browser must not fetch or run anything, whatever a record contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class PageInfo:
    """The time, folders and records that the page was made from."""

    made_at: str
    folders: Sequence[Path]
    found: Sequence[FoundRecord]


def page(summary: Summary, sections: Sequence[Section], tables: str, senses: str, about: PageInfo) -> str:
    """The whole page; `tables` is the HTML of the paper's tables, `senses` that of the explorer; both may be empty."""
    failed = [item for item in about.found if item.record.status == "failed"]
    findings = [finding for finding in summary.findings if finding.kind != "failed"]  # those are shown as cards
    blocks = [  # (anchor, title, HTML)
        ("scores", "Scores", _scores(summary) if summary.rows else ""),
        *((section.key, section.title, _section(section)) for section in sections if section.key != "gain"),
        ("paper", "The paper's tables", tables),
        ("senses", "Senses of a word", senses),
        ("failures", f"Failures ({len(failed)})", failure_cards(failed)),
        ("findings", "Findings", _findings(findings)),
        ("runs", "Runs", run_cards(about.found)),
    ]
    blocks = [block for block in blocks if block[2]]
    navigation = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in blocks)
    body = "\n".join(
        f'<section id="{key}"><h2>{escape(title)}</h2>{content}</section>' for key, title, content in blocks
    )
    gain = [figure for section in sections if section.key == "gain" for figure in section.figures]
    folders = escape(", ".join(map(str, about.folders)))
    first, second = summary.compared
    title = load_names().question if summary.with_paper else f"{second} against {first}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{_colours()}
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="lead">{_lead(about)}</p>
<nav>{navigation}</nav>
</header>
<main>
{_answer(gain)}
{body}
</main>
<footer>Made {escape(about.made_at)} by python -m results.report from {folders}</footer>
</body>
</html>
"""


def _colours() -> str:
    """The palette as CSS variables; dark colours if the reader's system is dark."""
    light, dark = ("".join(f"--{name}:{pair[i]};" for name, pair in PALETTE.items()) for i in (0, 1))
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"


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
    """The main figures, each in the form that fits the screen; their titles state the finding."""
    forms = [(figure, figure.narrow or figure) for figure in figures]
    return "".join(
        f'<figure class="card answer"><h2>{escape(figure.title)}</h2><div class="wide">{inline_svg(figure)}</div>'
        f'<div class="narrow">{inline_svg(narrow)}</div><figcaption>{escape(figure.caption)}</figcaption></figure>'
        for figure, narrow in forms
    )


def _where(panel: Panel) -> str:
    """Metric and settings of a panel."""
    text = escape(", ".join(part for part in (panel.metric_title(), panel.label) if part))
    return f'<small title="{text}">{text}</small>'


def _section(section: Section) -> str:
    figures = _figures(section.figures)
    more = ""
    if section.more:
        number = f"{len(section.more)} with other settings"
        if len(section.more) > MOST_FOLDED:
            number += f", of which {MOST_FOLDED} here; --figures DIR writes all"
        more = f'<details class="more"><summary>{number}</summary>{_figures(section.more[:MOST_FOLDED])}</details>'
    notes = "".join(f"<li>{escape(note)}</li>" for note in section.notes)
    return f"<p>{escape(section.text)}</p>{figures}{more}" + (f'<ul class="notes">{notes}</ul>' if notes else "")


def _figures(figures: Sequence[Figure]) -> str:
    cards = [
        f'<figure class="card"><h3 title="{escape(figure.title)}">{escape(figure.title)}</h3>{inline_svg(figure)}'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        for figure in figures
    ]
    return f'<div class="figures">{"".join(cards)}</div>' if cards else ""


def _scores(summary: Summary) -> str:
    """The table, the table of other settings on demand, and the legend."""
    first, others = split_panels(summary.rows)
    notes = "".join(f"<li>{escape(line)}</li>" for line in legend(summary) if not line.startswith("n/a"))
    more = f"<details><summary>{len(others)} rows of other settings</summary>{_table(summary, others)}</details>"
    return f'{_table(summary, first)}{more if others else ""}<ul class="notes">{notes}</ul>'


def _table(summary: Summary, panels: Sequence[Panel]) -> str:
    with_paper = summary.with_paper and any(
        verdict(group, panel.row.paper) for panel in panels for group in panel.groups
    )
    first, second, *others = summary.features
    titles = [summary.titles[features] for features in summary.features]
    headers = ["task", *titles[:2], "gain", "95 % interval", "p", "errors removed"]
    headers += ["paper"] * with_paper + titles[2:]
    lines = []
    for panel in panels:
        groups = {group.features: group for group in panel.groups}
        row, label = panel.row, panel.label
        gain, interval, cut = row.gain(label), row.interval(label), row.error_cut(label)
        name = f"{escape(panel.task)}{_where(panel)}"
        cells = [_score(groups.get(first)), _score(groups.get(second))]
        cells += ["" if gain is None else f"<b>{gain:+.2f}</b>"]
        cells += [shown_interval(interval, " to "), escape(shown_p(interval)) if interval else ""]
        cut_between = f"<small>{shown_interval(row.cut_interval(label), ' to ', sign='-')}</small>"
        cells += ["" if cut is None else f"{cut:.1f} %{cut_between}"]
        cells += [_paper(row, label)] * with_paper + [_score(groups.get(features)) for features in others]
        body = "".join(_cell(header, cell) for header, cell in zip(headers[1:], cells, strict=True))
        lines.append(f"<tr><th>{name}</th>{body}</tr>")
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    return f'<div class="scores"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _cell(header: str, content: str) -> str:
    """A cell with its header as an attribute: on a phone, rows become cards with the header next to the number."""
    kind = "empty" if not content else "paper" if header == "paper" else "score"
    return f'<td class="{kind}" data-label="{escape(header)}"><span>{content}</span></td>'


def _score(group: Group | None) -> str:
    if group is None:
        return ""
    deviation = "" if group.std is None else f" ± {group.std:.2f}"
    seeds = "1 seed" if len(group.records) == 1 else f"{len(group.records)} seeds"
    return f"{group.mean:.2f}{deviation}<small>{seeds}</small>"


def _paper(row: TableRow, label: str) -> str:
    """The paper's numbers, and the verdict on ours."""
    found = verdicts(row, label)
    if row.paper is None or not any(found):
        return ""
    first, second = (row.paper.scores[arm] for arm in row.compared)
    names = map(short_title, row.compared)
    lines = [f"{name} {own.with_interval}" for name, own in zip(names, found, strict=True) if own]
    cut = relative_error_cut(first, second)
    lines += [] if cut is None else [f"errors removed {cut:.1f} %"]
    below = "".join(f"<small>{escape(line)}</small>" for line in lines)
    return f"{first} → {second}{below}"


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
