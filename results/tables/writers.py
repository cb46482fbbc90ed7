"""Writes tables: sheets as text, Markdown, LaTeX or HTML, all numbers as CSV or JSON, and a methods section."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from html import escape
from itertools import zip_longest
from textwrap import fill

from results.records.printing import terminal_width, without_markup, write
from results.records.record import RunRecord
from results.stats import Interval
from results.tables.rows import Row, Table, runs_in_words, verdict
from results.tables.sheet import EMPTY, MARKS, TWO_LINES, Column, Sections, Sheet, interval_legend, trials_text, widest

NARROWEST = 12  # characters of a column of names, and of a header


def as_text(sheets: Sequence[Sheet], below: Sections = ()) -> str:
    """Plain text."""
    blocks = list(map(_text_sheet, sheets))
    blocks += ["\n".join([f"{title}:", *(f"  {line}" for line in lines)]) for title, lines in below]
    return "\n\n".join(blocks) + "\n"


def _text_sheet(sheet: Sheet) -> str:
    headers = [header.replace(*TWO_LINES) for header in sheet.headers]
    widths = sheet.widths

    def laid_out(line: Sequence[str]) -> str:
        """A line of the table, which has several lines of text where a cell has."""
        rows = []
        for texts in zip_longest(*(cell.split("\n") for cell in line), fillvalue=""):
            cells = zip(texts, widths, sheet.columns, strict=True)
            rows.append("  ".join(c.rjust(w) if align == "r" else c.ljust(w) for c, w, (_, align, _) in cells).rstrip())
        return "\n".join(rows)

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([sheet.title, "", laid_out(headers), rule, *map(laid_out, sheet.lines)])


def write_sheets(sheets: Sequence[Sheet], below: Sections, layout: str) -> None:
    """Prints sheets and the text below them; as text, in parts that are no wider than the terminal."""
    width = terminal_width() if layout == "text" else 0
    parts = [part for sheet in sheets for part in (parts_of(sheet, width) if width else [sheet])]
    write(LAYOUTS[layout](parts, below), sys.stdout, exact=layout != "text")


def parts_of(sheet: Sheet, width: int) -> list[Sheet]:
    """The sheet in as few parts as a terminal of this width needs, each with the first column, whose names may wrap."""
    if max(map(len, _text_sheet(sheet).split("\n")[2:])) <= width:
        return [sheet]
    (header, align, names), *others = sheet.columns
    columns = [(_wrapped(title, max(widest(cells), NARROWEST)), side, cells) for title, side, cells in others]

    def split(room: int) -> list[list[Column]]:
        """The columns of each part, if names have so many characters."""
        parts, left = list[list[Column]](), 0
        for column in columns:
            need = 2 + widest([column[0], *column[2]])
            if need > left:
                parts.append([(_wrapped(header, room), align, [_wrapped(name, room) for name in names])])
                left = width - widest(parts[-1][0][2])
            parts[-1].append(column)
            left -= need
        return parts

    rooms = range(max(min(widest(names), width // 2), NARROWEST), NARROWEST - 1, -1)
    parts = min(map(split, rooms), key=lambda parts: len(parts) * sum(name.count("\n") + 1 for name in parts[0][0][2]))
    titles = [sheet.title, *[f"{sheet.title} (continued)"] * (len(parts) - 1)]
    return [replace(sheet, title=title, columns=part) for title, part in zip(titles, parts, strict=True)]


def _wrapped(text: str, width: int) -> str:
    lines = text.replace(*TWO_LINES).split("\n")
    return "\n".join(fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines)


def as_markdown(sheets: Sequence[Sheet], below: Sections = ()) -> str:
    """Markdown."""
    blocks = [f"{_escaped(sheet.title)}:\n\n{markdown_table(sheet, _escaped)}" for sheet in sheets]
    blocks += ["\n".join([f"{title}:", "", *(f"- {_escaped(line)}" for line in lines)]) for title, lines in below]
    return "\n\n".join(blocks) + "\n"


def markdown_table(sheet: Sheet, escape: Callable[[str], str] = without_markup) -> str:
    """The sheet as a Markdown table without its title; by default its cells may have Markdown."""
    rule = ["---:" if align == "r" else "---" for _, align, _ in sheet.columns]
    return "\n".join(f"| {' | '.join(map(escape, line))} |" for line in [sheet.headers, rule, *sheet.lines])


def _escaped(text: str) -> str:
    """Escapes Markdown's special characters; an underscore inside a word is not special."""
    return re.sub(r"[\\|`*<>\[\]]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)


TEX_PACKAGES = "booktabs,threeparttable,adjustbox"


def as_tex(sheets: Sequence[Sheet], below: Sections = ()) -> str:
    """LaTeX with booktabs; marks and intervals are explained in the tables, other text below them becomes comments."""
    starts = *MARKS, "95 % intervals and p:"
    notes = [line for _, lines in below for line in lines if line.startswith(starts)]
    blocks = [rf"% needs \usepackage{{{TEX_PACKAGES}}}", *(_tex_sheet(sheet, notes) for sheet in sheets)]
    for title, lines in below:
        blocks += ["\n".join(f"% {line}" for line in [f"{title}:", *(line for line in lines if line not in notes)])]
    return "\n\n".join(blocks) + "\n"


def _tex_sheet(sheet: Sheet, notes: Sequence[str]) -> str:
    """Small, with narrow gaps, and smaller where it would still be wider than the page."""

    def line(cells: Sequence[str], number: int = -1) -> str:
        texts = ["--" if cell == EMPTY else tex(cell) for cell in cells]
        bold = [rf"\textbf{{{it}}}" if (at, number) in sheet.best else it for at, it in enumerate(texts)]
        return " & ".join(bold) + r" \\"

    shown = "".join(map("".join, sheet.lines))
    items = [rf"\item[{tex(note[0])}] {tex(note[2:])}" for note in notes if note[0] in MARKS and note[0] in shown]
    items += [rf"\item {tex(note)}" for note in notes if note[0] not in MARKS]
    items += [r"\item bold: better than all others, by 95 \% intervals of the differences"] * bool(sheet.best)
    top = r"\begin{table}\centering\footnotesize\setlength{\tabcolsep}{3pt}", rf"\caption{{{tex(sheet.title)}}}"
    align = "".join(align for _, align, _ in sheet.columns)
    fitted = r"\begin{adjustbox}{max width=\linewidth}", r"\begin{threeparttable}"
    opening = *fitted, rf"\begin{{tabular}}{{@{{}}{align}@{{}}}}", r"\toprule"
    body = [line(sheet.headers), r"\midrule", *map(line, sheet.lines, range(len(sheet.lines)))]
    listed = [r"\begin{tablenotes}", *items, r"\end{tablenotes}"] * bool(items)
    end = r"\bottomrule", r"\end{tabular}", *listed, r"\end{threeparttable}", r"\end{adjustbox}", r"\end{table}"
    return "\n".join([*top, *opening, *body, *end])


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "§": r"\S{}"}
_TEX |= {"†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "°": r"\textdegree{}", "→": r"$\to$", "¶": r"\P{}"}
_TEX |= {character: f"${character}$" for character in "<>|"}
_TEX |= {character: f"\\{character}" for character in "&%$#_{}"}
_SIGNS = re.compile(r"(?<![^\s(\[])[+-](?=\d)")  # of numbers: no hyphens


def tex(text: str) -> str:
    """Plain text as LaTeX."""
    parts = ["".join(_TEX.get(character, character) for character in part) for part in _SIGNS.split(text)]
    signs = [f"${sign}$" for sign in _SIGNS.findall(text)]
    return "".join(part + sign for part, sign in zip(parts, [*signs, ""], strict=True))


def html_table(sheet: Sheet, label: str, lines: Sequence[tuple[str, str, str]]) -> str:
    """The sheet as HTML, in a frame that the keyboard can scroll; a page's script can sort its lines.

    Args:
        sheet: Its cells.
        label: Its name for readers who do not see it.
        lines: For each line its attributes, its name and what is below it, as HTML.
    """
    headers = list(map(escape, sheet.headers))
    sorts = '<th scope="col" aria-sort=none><button type="button" disabled>{}</button></th>'
    body = ""
    for (first, *cells), (attributes, name, below) in zip(sheet.lines, lines, strict=True):
        row = "".join(map(_html_cell, headers[1:], cells))
        body += f'<tbody {attributes}><tr><th scope="row" data-value="{escape(first)}">{name}</th>{row}</tr>'
        body += f'<tr class="more"><td colspan="{len(headers)}">{below}</td></tr>' if below else ""
        body += "</tbody>"
    return (
        f'<div class="scores" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<table class=sortable><caption>{escape(sheet.title)}</caption>"
        f"<thead><tr>{''.join(map(sorts.format, headers))}</tr></thead>{body}</table></div>"
    )


def _html_cell(header: str, cell: str) -> str:
    """A cell with its header as an attribute: on a phone, rows become cards with the header next to the number."""
    text = _SIGNS.sub(lambda sign: sign[0].replace("-", "\N{MINUS SIGN}"), escape(cell))
    text = re.sub(r"^([^,]*\d[^,]*), (.* to .*)$", r"<b>\1</b><small>\2</small>", text)
    value = re.match(r"<?([+-]?\d[\d.]*)", cell)
    order = f' data-value="{value[1]}"' if value else ""
    if cell == EMPTY:
        return f'<td class="empty" data-label="{header}"><span></span></td>'
    return f'<td data-label="{header}"{order}><span>{text}</span></td>'


# Formats to read, of tables and the text below them.
Layout = Callable[[Sequence[Sheet], Sections], str]
LAYOUTS: Mapping[str, Layout] = {"text": as_text, "md": as_markdown, "markdown": as_markdown, "tex": as_tex}


def as_json(table: Table) -> str:
    """A list with one object per row, all numbers in percent."""
    rows = [_json_row(row, table) for row in [*table.rows, *table.others]]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def as_csv(table: Table) -> str:
    """One line for each row and arm; the gain is in the line of the second of the two compared, by arm in all lines."""
    lines = []
    for row in [*table.rows, *table.others]:
        for arm in table.arms if table.experiment.name else [group.features for group in row.groups]:
            pair = table.against_base(row, arm) if table.experiment.by_arm else row
            pair = pair if pair.pair and arm == pair.compared[1] else row.comparing("", "")
            scores = {key: value for key, value in _json_arm(row, arm, table).items() if key not in _NOT_IN_CSV}
            over = {"over": pair.pair[0].features if pair.pair else None}
            gain = _csv_numbers("gain", pair.gain, pair.interval) | {"gain_p": pair.interval and pair.interval.p}
            cut = _csv_numbers("errors_removed", pair.error_cut, pair.cut_interval)
            lines.append({**_names(row), "settings": row.label, "arm": arm, **scores, **over, **gain, **cut})
    return csv_text([*map(list, lines[:1]), *(line.values() for line in lines)])


def csv_text(lines: Iterable[Iterable[object]]) -> str:
    """Lines of cells as CSV, with a quote before text that a spreadsheet would read as a formula."""
    formulas = ("=", "@", "+", "-", "\t", "\r")
    output = io.StringIO()
    csv.writer(output, lineterminator="\n").writerows(
        [f"'{cell}" if isinstance(cell, str) and cell.startswith(formulas) else cell for cell in line] for line in lines
    )
    return output.getvalue()


def _csv_numbers(name: str, number: float | None, interval: Interval | None) -> dict[str, float | None]:
    """The cells of a number and of the ends of its interval."""
    low, high = map(clean, interval.ends if interval else (None, None))
    return {name: clean(number), f"{name}_low": low, f"{name}_high": high}


# Formats for programs: everything, with the keys of tasks and features.
MACHINE_FORMATS: Mapping[str, Callable[[Table], str]] = {"csv": as_csv, "json": as_json}
_NOT_IN_CSV = ("scores", "seeds", "limit")


def _names(row: Row) -> dict[str, object]:
    """The identity of a row of the table, for programs."""
    return {"row": row.title, "data": row.data, "task": row.task, "metric": row.metric, "split": row.spec.split}


def _json_row(row: Row, table: Table) -> dict[str, object]:
    arms = {arm: _json_arm(row, arm, table) for arm in table.arms if table.experiment.name or row.group(arm)}
    if table.experiment.by_arm:
        arms = {arm: {**values, **_json_gain(table.against_base(row, arm))} for arm, values in arms.items()}
    names = {**_names(row), "settings": dict(row.settings)}
    return {**names, "arms": arms, "compared": list(row.compared), **_json_gain(row)}


def _json_arm(row: Row, arm: str, table: Table) -> dict[str, object]:
    group, judged = row.group(arm), verdict(row.group(arm), row.paper)
    paper = row.paper if row.paper and not (group and group.partial) else None
    cost = table.experiment.costs.get(arm)
    return {
        "n": len(group.records) if group else 0,
        "mean": clean(group.mean) if group else None,
        "std": clean(group.std) if group else None,
        "scores": [clean(score) for score in group.scores] if group else [],
        "seeds": group.seeds if group else [],
        "limit": group.records[0].limit if group else None,
        "recipe": group.recipe if group else None,
        "paper": paper.scores.get(arm) if paper else None,
        "paper_std": paper.std.get(arm) if paper else None,
        "verdict": str(judged) if judged else None,
        **(asdict(cost) if cost else dict.fromkeys(("parameters", "milliseconds")) if table.experiment.costs else {}),
        **{header: cells.get(arm) for header, cells in table.columns.items()},
    }


def _json_gain(row: Row) -> dict[str, object]:
    """The gain with its interval, and the errors removed; None where there is no pair."""
    return {
        "gain": clean(row.gain),
        "gain_interval": row.interval and asdict(row.interval),
        "errors_removed": clean(row.error_cut),
        "errors_removed_interval": row.cut_interval and asdict(row.cut_interval),
    }


def clean(number: float | None) -> float | None:
    """Rounds off the noise of binary fractions: 2.07, not 2.069999999999993."""
    return None if number is None else round(number, 6)


SPLITS = {"train": "to train on", "dev": "to choose the epoch", "test": "to test"}
TRAINER = {"optimizer": "{}", "lr": "learning rate {}", "batch_size": "batches of {}", "epochs": "at most {} epochs"}


def methods_of(table: Table) -> str:
    """A paragraph for the methods section of a paper, in LaTeX: runs, data, recipe, machine; empty without runs."""
    rows = [row for row in [*table.rows, *table.others] if row.groups]
    runs = [run for row in rows for group in row.groups for run in group.runs]
    groups = [(arm, [group.runs[0] for row in rows if (group := row.group(arm))]) for arm in table.arms]
    arms = [f"{table.titles[arm]}: {_or(map(_vectors, first))}" for arm, first in groups if first]
    machines = [run.environment for run in runs if run.environment]
    versions = {f"{name} {it.packages[name]}" for it in machines for name in it.packages}
    pythons = _or(it.python for it in machines)
    commits = _or(str(it.commit)[:10] for it in machines)
    hours = sum(run.seconds or 0 for run in runs) / 3600
    lines = [
        *map(_recipe, rows),
        f"arms: {'; '.join(arms)}",
        *interval_legend([(row.title, row.interval) for row in rows]),
        *([trials_text(table.experiment)] if table.experiment.trials else []),
        f"software: Python {pythons}, {', '.join(sorted(versions))}, code at commit {commits}",
        f"hardware: {_or(f'{it.device}, {it.platform}, threads: {it.threads}' for it in machines)}; {len(runs):,} runs "
        f"took {hours:.1f} hours in all",
    ]
    return "".join(tex(f"{line[0].upper()}{line[1:]}.") + "\n" for line in lines if runs)


def _recipe(row: Row) -> str:
    """Data, seeds and recipe of a row."""
    runs = [run for group in row.groups for run in group.runs]
    splits = [(name, split) for name in SPLITS if isinstance(split := runs[0].data.get(name), dict) and split]
    sizes = ", ".join(f"{next(iter(split.values())):,} {next(iter(split))} {SPLITS[name]}" for name, split in splits)
    folds = f" in each of {runs[0].folds} folds" * bool(runs[0].folds)
    trainer = [text.format(_or(run.settings("trainer").get(key) for run in runs)) for key, text in TRAINER.items()]
    return (
        f"{row.title}: {sizes}{folds}; {runs_in_words(runs)}; recipe {row.groups[0].recipe} of the task "
        f"({', '.join(trainer)}); {row.metric_title()} on the test examples, which each run reads once, at its end"
    )


def _vectors(run: RunRecord) -> str:
    """The description of an arm's vectors."""
    words, weights = run.settings("features").get("words"), run.weights
    vectors = [f"vectors {words['vectors']}"] if isinstance(words, dict) and words.get("vectors") else []
    bilm = [f"biLM {weights['name']} (sha256 {str(weights['sha256'])[:7]})"] if weights else []
    return " and ".join([*vectors, *bilm]) or "no word vectors"


def _or(values: Iterable[object]) -> str:
    """Different values, each once."""
    return " or ".join(dict.fromkeys(map(str, values)))
