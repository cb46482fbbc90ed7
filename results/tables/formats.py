"""Output formats of the results table: text, Markdown, CSV, LaTeX, JSON."""

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from results.analysis.interval import Interval
from results.analysis.names import default_pair
from results.analysis.paper_scores import PaperScore
from results.analysis.rows import Group, Summary, TableRow
from results.analysis.verdict import verdict
from results.tables.cells import EMPTY, GAIN_COLUMNS, Sheet

COMMAND = "python -m "
Sections = Sequence[tuple[str, Sequence[str]]]  # text below the tables: (title, lines)


def _as_text(found: Sequence[Sheet], below: Sections) -> str:
    blocks = [_text_sheet(sheet) for sheet in found]
    blocks += ["\n".join([f"{title}:", *(f"  {line}" for line in lines)]) for title, lines in below]
    return "\n\n".join(blocks) + "\n"


def _as_markdown(found: Sequence[Sheet], below: Sections) -> str:
    blocks = [_markdown_sheet(sheet) for sheet in found]
    for title, lines in below:
        if all(line.startswith(COMMAND) for line in lines):
            blocks.append("\n".join([f"{title}:", "", "```sh", *lines, "```"]))
        else:
            blocks.append("\n".join([f"{title}:", "", *(f"- {_markdown(line)}" for line in lines)]))
    return "\n\n".join(blocks) + "\n"


def _as_tex(found: Sequence[Sheet], below: Sections) -> str:
    blocks = ["% needs \\usepackage{booktabs}", *map(_tex_sheet, found)]
    for title, lines in below:
        blocks.append("\n".join(f"% {line}" for line in [f"{title}:", *lines]))
    return "\n\n".join(blocks) + "\n"


# Formats for people, of tables and the text below them.
LAYOUTS: Mapping[str, Callable[[Sequence[Sheet], Sections], str]] = {
    "text": _as_text,
    "md": _as_markdown,
    "markdown": _as_markdown,
    "tex": _as_tex,
}


def to_csv(summary: Summary) -> str:
    """One line for each task, data, arm and settings; the gain is in the line of the second of the two compared."""
    lines = []
    for row in summary.rows:
        for group in row.groups:
            paper = row.paper if not group.partial else None
            found = verdict(group, row.paper)
            line = {
                "data": row.data,
                "task": row.task,
                "metric": group.metric,
                "features": group.features,
                "settings": group.label,
                **csv_scores(group),
                "paper": paper.scores.get(group.features) if paper else None,
                "paper_std": paper.std.get(group.features) if paper else None,
                "verdict": found.kind if found else None,
                **csv_gain(row, group.features, group.label),
            }
            lines.append(line)
    return csv_text(lines)


def csv_scores(group: Group | None) -> dict[str, object]:
    """The columns about the scores of a group; empty without one."""
    if group is None:
        return {"n": 0, "mean": None, "std": None}
    return {"n": len(group.records), "mean": clean(group.mean), "std": clean(group.std)}


def csv_gain(row: TableRow, features: str, label: str = "") -> dict[str, object]:
    """The columns about the gain in the line of an arm; empty unless it is the second of the two compared."""
    pair = row.pair(label) if features == row.compared[1] else None
    gain, cut = (row.interval(label), row.cut_interval(label)) if pair else (None, None)
    return {
        "over": pair[0].features if pair else None,
        "gain": clean(row.gain(label)) if pair else None,
        "gain_low": clean(gain.low) if gain else None,
        "gain_high": clean(gain.high) if gain else None,
        "gain_p": gain.p if gain else None,
        "errors_removed": clean(row.error_cut(label)) if pair else None,
        "errors_removed_low": clean(cut.low) if cut else None,
        "errors_removed_high": clean(cut.high) if cut else None,
    }


def csv_text(lines: Sequence[Mapping[str, object]]) -> str:
    """The lines under a header; empty where a value is None."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerows(
        [csv_cell(cell) for cell in cells] for cells in [*map(list, lines[:1]), *(own.values() for own in lines)]
    )
    return output.getvalue()


def csv_cell(cell: object) -> object:
    """Puts a quote before text that a spreadsheet would read as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "@", "+", "-", "\t", "\r")) else cell


def to_json(summary: Summary) -> str:
    """A list with one object per row, all numbers in percent."""
    return json.dumps([_json_row(row, summary) for row in summary.rows], indent=2, ensure_ascii=False) + "\n"


# Formats for programs: everything, with the keys of tasks and features; notes are written to stderr instead.
MACHINE_FORMATS: Mapping[str, Callable[[Summary], str]] = {"csv": to_csv, "json": to_json}


def _json_row(row: TableRow, summary: Summary) -> dict[str, object]:
    own = [finding for finding in summary.findings if finding.row == row.key]
    return {
        "data": row.data,
        "task": row.task,
        "metric": row.metric,
        "features": {group.name: _json_group(group, row) for group in row.groups},
        "compared": list(row.compared),
        **_json_gain_and_cut(row),
        "other_settings": {label: _json_gain_and_cut(row, label) for label in row.labels if row.pair(label)},
        "paper": _json_paper(row.paper) if row.paper else None,
        "failed": [finding.text for finding in own if finding.kind == "failed"],
        "empty": [finding.text for finding in own if finding.kind == "empty"],
        "notes": [finding.text for finding in own if finding.kind == "note"],
    }


def _json_gain_and_cut(row: TableRow, label: str = "") -> dict[str, object]:
    return {**json_gain(row, label), "errors_removed_interval": _json_interval(row.cut_interval(label))}


def json_gain(row: TableRow, label: str = "") -> dict[str, object]:
    """The gain with its interval, and the errors removed; None where there is no pair."""
    return {
        "gain": clean(row.gain(label)),
        "gain_interval": _json_interval(row.interval(label)),
        "errors_removed": clean(row.error_cut(label)),
    }


def _json_paper(paper: PaperScore) -> dict[str, object]:
    first, second = (paper.scores[arm] for arm in default_pair())
    return {**asdict(paper), "gain": clean(second - first), "errors_removed": clean(paper.error_cut(default_pair()))}


def _json_group(group: Group, row: TableRow) -> dict[str, object]:
    found = verdict(group, row.paper)
    return {
        "mean": clean(group.mean),
        "std": clean(group.std),
        "n": len(group.records),
        "scores": [clean(score) for score in group.scores],
        "seeds": group.seeds,
        "features": group.features,
        "settings": dict(group.settings),
        "limit": group.records[0].limit,
        "verdict": {key: value if isinstance(value, str) else clean(value) for key, value in asdict(found).items()}
        if found
        else None,
        "expected_best_dev": [clean(group.best_of(n)) for n in range(1, len(group.records) + 1)],
    }


def _json_interval(interval: Interval | None) -> dict[str, object] | None:
    return asdict(interval) if interval else None


def clean(number: float | None) -> float | None:
    """Rounds off the noise of binary fractions: 2.07, not 2.069999999999993."""
    return None if number is None else round(number, 6)


def _text_sheet(sheet: Sheet) -> str:
    headers, lines, widths = _grid(sheet)

    def laid_out(line: Sequence[str]) -> str:
        cells = zip(line, widths, sheet.columns, strict=True)
        return "  ".join(c.rjust(w) if align == "r" else c.ljust(w) for c, w, (_, align) in cells).rstrip()

    return "\n".join([sheet.title, "", *map(laid_out, headers), "-" * text_width(sheet), *map(laid_out, lines)])


def text_width(sheet: Sheet) -> int:
    """How many columns of a terminal the sheet takes as text."""
    widths = _grid(sheet)[2]
    return sum(widths) + 2 * (len(widths) - 1)


def _grid(sheet: Sheet) -> tuple[list[list[str]], Sequence[Sequence[str]], list[int]]:
    """The lines of the headers, the lines below them, and the widths of the columns."""
    height = max(len(header.split("\n")) for header, _ in sheet.columns)
    headers = [(header.split("\n") + [""] * height)[:height] for header, _ in sheet.columns]
    above = [list(line) for line in zip(*headers, strict=True)]
    return above, sheet.lines, [max(map(len, column)) for column in zip(*above, *sheet.lines, strict=True)]


def _markdown_sheet(sheet: Sheet) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    headers = [_markdown(header.replace("\n", " ")) for header, _ in sheet.columns]
    rule = ["---:" if align == "r" else ":---" for _, align in sheet.columns]
    body = [line([_markdown(cell) for cell in cells]) for cells in sheet.lines]
    return "\n".join([f"{_markdown(sheet.title)}:", "", line(headers), line(rule), *body])


def _markdown(text: str) -> str:
    """Escapes Markdown's special characters; an underscore inside a word is not special."""
    return re.sub(r"[\\|`*<>\[\]]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)


def _tex_sheet(sheet: Sheet) -> str:
    """Units are in the headers; small, with narrow gaps, so that the core table fits a page."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(_tex, cells)) + r" \\"

    units = [_unit(header, cells) for (header, _), *cells in zip(sheet.columns, *sheet.lines, strict=True)]
    columns = [
        (f"{header}\n({unit})" if unit else header, align)
        for (header, align), unit in zip(sheet.columns, units, strict=True)
    ]
    headers, _, _ = _grid(Sheet("", columns, []))
    body = [line([_tex_cell(cell, unit) for cell, unit in zip(cells, units, strict=True)]) for cells in sheet.lines]
    align = "".join(align for _, align in columns)
    narrow = rf"{{\footnotesize\setlength{{\tabcolsep}}{{3pt}}\begin{{tabular}}{{@{{}}{align}@{{}}}}"
    top = [f"% {sheet.title}", narrow, r"\toprule"]
    return "\n".join([*top, *map(line, headers), r"\midrule", *body, r"\bottomrule", r"\end{tabular}}"])


def _unit(header: str, cells: Sequence[str]) -> str:
    """The unit of a column: that of its cells, points for gains, percent for scores; empty for names and verdicts."""
    if any(_SCORE.match(cell) for cell in cells):
        return "%"
    return "points" if header in (GAIN_COLUMNS["gain"][0], GAIN_COLUMNS["interval"][0]) else ""


def _tex_cell(cell: str, unit: str) -> str:
    return "--" if cell == EMPTY else cell.replace("..", " to ").replace("%", "" if unit == "%" else "%")


_SCORE = re.compile(r"\d+\.\d\d(±| |$)|-?\d+\.\d%")  # or a share of errors
_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_TEX |= {"†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "·": r"$\cdot$"}
_TEX |= {character: f"${character}$" for character in "<>|"}
_TEX |= {character: f"\\{character}" for character in "&%$#_{}"}
_SIGNS = re.compile(r"(?<![^\s(\[])[+-](?=\d)")  # of numbers: no hyphens


def _tex(text: str) -> str:
    parts = _SIGNS.split(text)
    signs = [f"${sign}$" for sign in _SIGNS.findall(text)]
    escaped = ["".join(_TEX.get(character, character) for character in part) for part in parts]
    return "".join(part + sign for part, sign in itertools.zip_longest(escaped, signs, fillvalue=""))
