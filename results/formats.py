"""The table as text, Markdown, CSV, LaTeX or JSON; every format takes a Summary and gives back the whole output."""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from results.aggregate import BASELINE, WITH_ELMO, Group, Row, Summary
from results.paper import load_paper, relative_error_cut

_EMPTY = "-"


@dataclass(frozen=True)
class Sheet:
    """Cells to lay out: `columns` are (header, alignment), a header may have two lines."""

    title: str
    columns: Sequence[tuple[str, str]]
    lines: Sequence[Sequence[str]]


def to_text(summary: Summary) -> str:
    """The table for a plain terminal, and below it all that is to be said."""
    blocks = [_text_sheet(sheet) for sheet in _sheets(summary)]
    blocks += ["\n".join([f"{title}:", *(f"  {line}" for line in lines)]) for title, lines in _sections(summary)]
    return "\n\n".join(blocks) + "\n"


def to_markdown(summary: Summary) -> str:
    """The table in GitHub's Markdown; commands in a code block, so that they can be copied."""
    blocks = [_markdown_sheet(sheet) for sheet in _sheets(summary)]
    for title, lines in _sections(summary):
        if title == _TITLES["empty"]:
            blocks.append("\n".join([f"{title}:", "", "```sh", *lines, "```"]))
        else:
            blocks.append("\n".join([f"{title}:", "", *(f"- {_markdown(line)}" for line in lines)]))
    return "\n\n".join(blocks) + "\n"


def to_tex(summary: Summary) -> str:
    """The table as LaTeX tabulars; what is to be said follows as comments."""
    blocks = ["% needs \\usepackage{booktabs}", *(_tex_sheet(sheet) for sheet in _sheets(summary))]
    for title, lines in _sections(summary):
        blocks.append("\n".join(f"% {line}" for line in [f"{title}:", *lines]))
    return "\n\n".join(blocks) + "\n"


def to_csv(summary: Summary) -> str:
    """One line per row with every column, other settings included; unrounded but for noise, empty where unknown."""
    names = list(dict.fromkeys([*summary.features, *(group.name for row in summary.rows for group in row.groups)]))
    header = ["data", "task", "metric", "paper_baseline", "paper_elmo", "paper_elmo_std", "gain", "gain_low"]
    header += ["gain_high", "gain_p", "relative_error_cut"]
    header += [f"{name} {column}" for name in names for column in ("mean", "std", "n")]
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(header)
    for row in summary.rows:
        paper = row.paper
        cells: list[object] = [row.data, row.task, row.metric]
        cells += [paper.baseline, paper.elmo, paper.elmo_std] if paper else [None, None, None]
        interval = row.interval()
        cells += [_clean(row.gain())]
        cells += [_clean(interval.low), _clean(interval.high), interval.p] if interval else [None, None, None]
        cells += [_clean(row.error_cut())]
        groups = {group.name: group for group in row.groups}
        for name in names:
            group = groups.get(name)
            cells += [_clean(group.mean), _clean(group.std), len(group.records)] if group else [None, None, None]
        writer.writerow(cells)
    return output.getvalue()


def to_json(summary: Summary) -> str:
    """A list with one object per row, all numbers in percent."""
    return json.dumps([_json_row(row, summary) for row in summary.rows], indent=2, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[Summary], str]] = {
    "text": to_text,
    "md": to_markdown,
    "csv": to_csv,
    "tex": to_tex,
    "json": to_json,
}
# Formats that a program reads: what is said below the table goes to stderr instead.
MACHINE_FORMATS = ("csv", "json")

_TITLES = {
    "failed": "Failed runs",
    "empty": "Commands that fill the empty cells",
    "unreadable": "Not read",
    "note": "Notes",
}


def _json_row(row: Row, summary: Summary) -> dict[str, object]:
    own = [finding for finding in summary.findings if finding.row == (row.data, row.task)]
    paper, interval = row.paper, row.interval()
    return {
        "data": row.data,
        "task": row.task,
        "metric": row.metric,
        "features": {group.name: _json_group(group) for group in row.groups},
        "gain": _clean(row.gain()),
        "gain_interval": asdict(interval) if interval else None,
        "relative_error_cut": _clean(row.error_cut()),
        "paper": {
            **asdict(paper),
            "gain": _clean(paper.elmo - paper.baseline),
            "relative_error_cut": _clean(relative_error_cut(paper.baseline, paper.elmo)),
        }
        if paper
        else None,
        "failed": [finding.text for finding in own if finding.kind == "failed"],
        "empty": [finding.text for finding in own if finding.kind == "empty"],
        "notes": [finding.text for finding in own if finding.kind == "note"],
    }


def _json_group(group: Group) -> dict[str, object]:
    return {
        "mean": _clean(group.mean),
        "std": _clean(group.std),
        "n": len(group.records),
        "scores": [_clean(score) for score in group.scores],
        "seeds": group.seeds,
        "features": group.features,
        "settings": dict(group.settings),
        "limit": group.records[0].limit,
    }


def _clean(number: float | None) -> float | None:
    """Without the digits that binary fractions add: 2.07, not 2.069999999999993."""
    return None if number is None else round(number, 6)


def _sheets(summary: Summary) -> list[Sheet]:
    """The main table, and where runs had other settings a second one, in which like stands beside like."""
    others = summary.features[2:]
    interval = [("95 %\ninterval", "l")] if _has_intervals(summary) else []
    tail = [("gain", "r"), *interval, ("error\ncut", "r"), *((name, "l") for name in others)]
    head = [("data", "l"), ("task", "l"), ("metric", "l")]
    main = Sheet(
        "Test scores in percent: mean±std (number of seeds)",
        [*head, ("paper\nbase", "l"), (BASELINE, "l"), ("paper\n+ELMo", "l"), (WITH_ELMO, "l"), *tail],
        [_main_line(row, others, bool(interval)) for row in summary.rows],
    )
    lines = [_settings_line(row, label, others, bool(interval)) for row in summary.rows for label in row.labels]
    if not lines:
        return [main]
    columns = [*head, ("settings", "l"), (BASELINE, "l"), (WITH_ELMO, "l"), *tail]
    return [main, Sheet("Other settings", columns, lines)]


def _has_intervals(summary: Summary) -> bool:
    return any(row.interval(label) for row in summary.rows for label in ["", *row.labels])


def _main_line(row: Row, others: Sequence[str], intervals: bool) -> list[str]:
    def cell(features: str) -> str:
        group = row.group(features)
        apart = any(g.features == features and g.label for g in row.groups)
        return _score(group) if group else "below" if apart else _EMPTY

    paper = row.paper
    std = f"±{paper.elmo_std:.2f}" if paper and paper.elmo_std is not None else ""
    line = [row.data, row.task, row.metric or _EMPTY, str(paper.baseline) if paper else "n/a", cell(BASELINE)]
    line += [f"{paper.elmo}{std}" if paper else "n/a", cell(WITH_ELMO)]
    return [*line, *_gain_cells(row, "", intervals), *map(cell, others)]


def _settings_line(row: Row, label: str, others: Sequence[str], intervals: bool) -> list[str]:
    groups = {name: row.group(name, label) for name in (BASELINE, WITH_ELMO, *others)}
    metric = next(group.metric for group in groups.values() if group)
    scores = [_score(group) if group else _EMPTY for group in groups.values()]
    return [row.data, row.task, metric, label, *scores[:2], *_gain_cells(row, label, intervals), *scores[2:]]


def _gain_cells(row: Row, label: str, intervals: bool) -> list[str]:
    gain, cut = row.gain(label), row.error_cut(label)
    interval = row.interval(label) if intervals else None
    between = f"{interval.low:+.1f}..{interval.high:+.1f}" if interval else _EMPTY
    cells = [_EMPTY if gain is None else f"{gain:+.2f}", _EMPTY if cut is None else f"{cut:.1f}%"]
    return [cells[0], between, cells[1]] if intervals else cells


def _score(group: Group) -> str:
    std = "" if group.std is None else f"±{group.std:.2f}"
    return f"{group.mean:.2f}{std} ({len(group.records)})"


def _sections(summary: Summary) -> list[tuple[str, list[str]]]:
    sections = [
        (title, [" ".join(finding.text.split()) for finding in summary.findings if finding.kind == kind])
        for kind, title in _TITLES.items()
    ]
    legend = []
    if _has_intervals(summary):
        legend.append("95 % interval: of the gain, by a paired bootstrap over test examples and seeds together")
    if any(row.paper is None for row in summary.rows):
        names = ", ".join(load_paper().comparable_data)
        legend.append(f"n/a: the paper's numbers are for its own data (data={names}) and tasks")
    for row in summary.rows:
        if row.paper and row.paper.split != "test":
            legend.append(f"{row.task}: the paper's {row.paper.split} scores, on the examples that we test on")
    sections[-1][1].extend(legend)
    return [(title, lines) for title, lines in sections if lines]


def _text_sheet(sheet: Sheet) -> str:
    height = max(len(header.split("\n")) for header, _ in sheet.columns)
    headers = [(header.split("\n") + [""] * height)[:height] for header, _ in sheet.columns]
    grid = [list(line) for line in zip(*headers, strict=True)] + [list(line) for line in sheet.lines]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]

    def laid_out(line: Sequence[str]) -> str:
        cells = zip(line, widths, sheet.columns, strict=True)
        return "  ".join(c.rjust(w) if align == "r" else c.ljust(w) for c, w, (_, align) in cells).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([sheet.title, "", *map(laid_out, grid[:height]), rule, *map(laid_out, grid[height:])])


def _markdown_sheet(sheet: Sheet) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    headers = [_markdown(header.replace("\n", " ")) for header, _ in sheet.columns]
    rule = ["---:" if align == "r" else ":---" for _, align in sheet.columns]
    body = [line([_markdown(cell) for cell in cells]) for cells in sheet.lines]
    return "\n".join([f"{_markdown(sheet.title)}:", "", line(headers), line(rule), *body])


def _markdown(text: str) -> str:
    """Escapes what Markdown would act upon; an underscore inside a word is none of it."""
    return re.sub(r"[\\|`*<>\[\]]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)


def _tex_sheet(sheet: Sheet) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(_tex, cells)) + r" \\"

    align = "".join(align for _, align in sheet.columns)
    headers = [header.replace("\n", " ") for header, _ in sheet.columns]
    body = [line(cells) for cells in sheet.lines]
    top = [f"% {sheet.title}", rf"\begin{{tabular}}{{{align}}}", r"\toprule", line(headers), r"\midrule"]
    return "\n".join([*top, *body, r"\bottomrule", r"\end{tabular}"])


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_TEX |= {character: f"\\{character}" for character in "&%$#_{}"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)
