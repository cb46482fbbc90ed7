"""Cells of the results table and the text below it, independent of the output format."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results.analysis.interval import FEW_SEEDS, Interval
from results.analysis.names import controls_legend, short_title
from results.analysis.panels import Panel, arms_note, panels_of
from results.analysis.paper_scores import load_paper
from results.analysis.rows import LIMITED, Group, Summary, TableRow
from results.analysis.verdict import verdict, verdict_legend, verdicts
from results.records.collect import Finding
from results.records.printing import printable

EMPTY = "-"
MARK = "†"  # fewer than FEW_SEEDS seeds
FEW_SEEDS_NOTE = f"{MARK} fewer than {FEW_SEEDS} seeds in an arm"
VERDICT = " vs\npaper"  # the end of the headers of verdicts
# (header, alignment) of the columns about a gain, which end with the verdicts on both arms
GAIN_COLUMNS = {
    "gain": ("gain", "r"),
    "interval": ("95 %\ninterval", "l"),
    "p": ("p", "r"),
    "cut": ("errors\nremoved", "r"),
    "paper cut": ("paper\nremoved", "r"),
}
OUR_GAIN = list(GAIN_COLUMNS.values())[:4]  # without the paper's
# Left out if empty, and so are verdicts.
OPTIONAL = ["settings", *(GAIN_COLUMNS[name][0] for name in ("interval", "p", "cut", "paper cut"))]
ERRORS_REMOVED = "errors removed: the gain as a share of the baseline's errors (100 minus its score)"
TITLES = {
    "failed": "Failed runs",
    "empty": "Commands that fill the empty cells",
    "seeds": "Commands that add missing seeds",
    "unreadable": "Not read",
    "note": "Notes",
}


@dataclass(frozen=True)
class Sheet:
    """Cells to lay out.

    Attributes:
        title: What it shows.
        columns: (header, alignment); a header may have several lines.
        lines: The cells of each line.
        signs: For each line the sign of its gain, 0 if its interval includes 0; none where no gain is shown.
    """

    title: str
    columns: Sequence[tuple[str, str]]
    lines: Sequence[Sequence[str]]
    signs: Sequence[int] = ()


Page = tuple[list[Sheet], list[tuple[str, list[str]]]]  # tables, and the text below them: (title, lines)


def wide_page(summary: Summary) -> Page:
    """The main table, one of runs with other settings, if there are any, the expected best of n, and the text below."""
    first, others = shown_panels(summary)
    found = [_wide_sheet("Test scores in percent: mean±std (number of seeds)", first, summary)]
    if others:
        found.append(_wide_sheet("Other settings", others, summary, with_paper=False))
    findings = findings_for_people(summary)
    left_out = len(summary.findings) - len(findings)
    note = f"empty cells of arms that are not compared: {left_out}; --format json has their commands"
    below = findings_sections(findings, [*legend(summary), *[note] * bool(left_out)])
    return [*found, *best_sheets(summary)], below


def shown_panels(summary: Summary) -> tuple[list[Panel], list[Panel]]:
    """The panels of the main table, and the others; a row that has failed runs alone has a panel without scores."""
    split = [panels_of(row) for row in summary.rows]
    first = [panel for row, (own, _) in zip(summary.rows, split, strict=True) for panel in own or [Panel(row)]]
    return first, [panel for _, own in split for panel in own]


def _wide_sheet(title: str, panels: Sequence[Panel], summary: Summary, *, with_paper: bool = True) -> Sheet:
    """All columns that are not empty."""
    first, second, *others = (printable(summary.titles[features]) for features in summary.features)
    short = list(map(short_title, summary.compared))
    paper = [(f"paper\n{name}", "l") for name in short]
    arms = [(first, "l"), (second, "l")]
    with_paper = with_paper and summary.with_paper
    columns = [("task", "l"), ("metric", "l"), ("settings", "l")]
    columns += [paper[0], arms[0], paper[1], arms[1]] if with_paper else arms
    columns += [*GAIN_COLUMNS.values(), *((name + VERDICT, "l") for name in short), *((name, "l") for name in others)]
    lines = []
    for panel in panels:
        row, scores = panel.row, list(map(shown_score, compared_groups(panel, summary)))
        cells = [panel.task, panel.metric_title() or EMPTY, panel.label or EMPTY]
        for arm, score in zip(summary.compared, scores, strict=False):
            cells += [_paper(row, arm), score] if with_paper else [score]
        lines.append([*cells, *gain_cells(row, panel.label), *scores[2:]])
    signs = [panel.row.gain_sign(panel.label) for panel in panels]
    return _without_empty_columns(title, columns, lines, signs)


def compared_groups(panel: Panel, summary: Summary) -> list[Group | None]:
    """The panel's group of each arm of the summary; of the first one, the baseline that the gain is over."""
    found = [panel.row.group(features, panel.label) for features in summary.features]
    pair = panel.row.pair(panel.label)
    return [*pair, *found[2:]] if pair else found


def _without_empty_columns(
    title: str, columns: Sequence[tuple[str, str]], lines: Sequence[Sequence[str]], signs: Sequence[int] = ()
) -> Sheet:
    """The sheet without empty optional columns."""
    headers = [header for header, _ in columns]
    optional = [header in OPTIONAL or header.endswith(VERDICT) for header in headers]
    kept = [i for i in range(len(columns)) if not optional[i] or any(line[i] != EMPTY for line in lines)]
    return Sheet(title, [columns[i] for i in kept], [[printable(line[i]) for i in kept] for line in lines], signs)


def _paper(row: TableRow, arm: str) -> str:
    """The score that the paper prints."""
    if row.paper is None or arm not in row.paper.scores:
        return "n/a"
    std = row.paper.std.get(arm)
    return f"{row.paper.scores[arm]}{'' if std is None else f'±{std:.2f}'}"


def gain_cells(row: TableRow, label: str) -> list[str]:
    """The cells about the gain, in the order of GAIN_COLUMNS, and the verdicts on both arms."""
    gain, cut, interval = row.gain(label), row.error_cut(label), row.interval(label)
    found = verdicts(row, label)
    paper = row.paper.error_cut(row.compared) if row.paper and any(found) else None
    return [
        EMPTY if gain is None else f"{gain:+.2f}",
        shown_interval(interval, "..") or EMPTY,
        shown_p(interval),
        _cut(cut, row.cut_interval(label)),
        EMPTY if paper is None else f"{paper:.1f}%",
        *(str(own or EMPTY) for own in found),
    ]


def shown_interval(interval: Interval | None, between: str, sign: str = "+") -> str:
    """Both ends, with a mark where an arm has few seeds; empty if there is no interval."""
    if interval is None:
        return ""
    low, high = (format(end, f"{sign}.1f") for end in interval.ends)
    return f"{low}{between}{high}{MARK * interval.few_seeds}"


def _cut(cut: float | None, interval: Interval | None) -> str:
    between = f" ({interval.low:.0f}..{interval.high:.0f})" if interval else ""
    return EMPTY if cut is None else f"{cut:.1f}%{between}"


def shown_p(interval: Interval | None) -> str:
    """The p-value with three digits."""
    if interval is None:
        return EMPTY
    return "<0.001" if interval.p < 0.001 else f"{interval.p:.3f}"


def best_sheets(summary: Summary) -> list[Sheet]:
    """The expected best dev score of n seeds, if requested."""
    if summary.best_of is None:
        return []
    lines = []
    for row in summary.rows:
        for panel in (Panel(row, label) for label in dict.fromkeys(group.label for group in row.groups)):
            groups = [row.group(features, panel.label) for features in summary.features]
            found = [group.best_of(summary.best_of) if group else None for group in groups]
            scores = [EMPTY if score is None else f"{score:.2f}" for score in found]
            lines.append([panel.task, panel.metric_title(), panel.label or EMPTY, *scores])
    columns = [("task", "l"), ("metric", "l"), ("settings", "l")]
    columns += [(printable(title), "r") for title in summary.titles.values()]
    title = f"Dev scores in percent: expected best of {summary.best_of} seeds"
    return [_without_empty_columns(title, columns, lines)]


def shown_score(group: Group | None, *, brief: bool = False) -> str:
    """Mean, standard deviation, number of seeds and an older recipe; marks for a warning and for a limit on epochs.

    `brief`: without the deviation and the recipe.
    """
    if group is None:
        return EMPTY
    std = f"±{group.std:.2f}" if not brief and group.std is not None else ""
    number = ", ".join(filter(None, [str(len(group.records)), group.old_recipe * (not brief)]))
    return f"{group.mean:.2f}{std} ({number}){group.marks}"


def findings_for_people(summary: Summary) -> list[Finding]:
    """Findings without the commands of arms that are not compared: most of these were never meant for all data."""
    return [finding for finding in summary.findings if finding.kind != "empty" or finding.wrong]


def findings_sections(findings: Sequence[Finding], notes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Findings by kind, and further notes: (title, lines)."""
    sections = [
        (title, [" ".join(finding.text.split()) for finding in findings if finding.kind == kind])
        for kind, title in TITLES.items()
    ]
    sections[-1][1].extend(notes)
    return [(title, list(map(printable, lines))) for title, lines in sections if lines]


def legend(summary: Summary) -> list[str]:
    """Explains the columns that the table has."""
    panels = [Panel(row, label) for row in summary.rows for label in ["", *row.labels]]
    legend = [
        *arms_note(summary.main_arms, panels),
        *filter(None, [summary.main_note]),
        *panels_legend(panels),
        *controls_legend(summary.features),
    ]
    if summary.with_paper and any(verdict(group, row.paper) for row in summary.rows for group in row.groups):
        legend.append(f"vs paper: {verdict_legend()}")
    legend += best_legend(summary)
    if summary.with_paper and any(row.paper is None for row in summary.rows):
        names = ", ".join(load_paper().comparable_data)
        legend.append(f"n/a: the paper's numbers are for its own data (data={names}) and tasks")
    legend += splits_legend((Panel(row).task, row) for row in summary.rows if summary.with_paper)
    return legend


def best_legend(summary: Summary) -> list[str]:
    """Explains the expected best of n, if it is shown."""
    n = summary.best_of
    text = f"expected best of {n}: the mean of the highest of {n} dev scores drawn from the seeds (Dodge et al. 2019)"
    return [] if n is None else [f"{text}; {EMPTY} where fewer were run"]


def folds_legend(rows: Iterable[tuple[str, TableRow]]) -> list[str]:
    """Explains the scores of datasets with folds, given with the names of their rows."""
    whole = ((name, group.records[0]) for name, row in rows for group in row.groups if not group.lacks_folds)
    folds = {name: record.folds for name, record in whole}
    return [
        f"{name}: the score of a seed is over the test examples of all {count} folds together, and an interval is over "
        "folds, each with its own test examples and trainings"
        for name, count in folds.items()
        if count
    ]


def splits_legend(rows: Iterable[tuple[str, TableRow]]) -> list[str]:
    """Says where the paper's numbers are not test scores, given rows with their names."""
    papers = [(name, row.paper) for name, row in rows if row.paper and row.paper.split != "test"]
    return [f"{name}: the paper's {own.split} scores, on the examples that we test on" for name, own in papers]


def rows_legend(
    rows: Sequence[tuple[str, TableRow]], intervals: Sequence[tuple[str, Interval | None]], arms: Iterable[str]
) -> list[str]:
    """Explains intervals, folds, older recipes, limits and controls of an experiment's rows, given with their names."""
    groups = (group for _, row in rows for group in row.groups)
    return [*interval_legend(intervals), *folds_legend(rows), *groups_legend(groups), *controls_legend(arms)]


def groups_legend(groups: Iterable[Group]) -> list[str]:
    """Explains the marks of runs with an older recipe, or cut short by a limit, if there are any."""
    shown = list(groups)
    old = sorted({group.old_recipe for group in shown} - {""})
    lines = [f"{', '.join(old)}: an older recipe of the task; no mean or gain mixes two recipes"] * bool(old)
    text = "the best epoch of a run lies in the last tenth of its limit, so more epochs may raise the score"
    return lines + [f"{LIMITED} {text}"] * any(LIMITED in group.marks for group in shown)


def panels_legend(panels: Sequence[Panel]) -> list[str]:
    """Explains how gains and intervals were computed, with the names of panels if there are several ways."""
    found = [(panel.title, panel.row.interval(panel.label)) for panel in panels if panel.row.pair(panel.label)]
    lines = interval_legend(found)
    lines += [ERRORS_REMOVED] * any(panel.row.error_cut(panel.label) is not None for panel in panels)
    reasons = [(panel.title, panel.row.no_interval(panel.label)) for panel in panels]
    for reason in dict.fromkeys(reason for _, reason in reasons if reason):
        lines.append(f"no interval ({', '.join(name for name, own in reasons if own == reason)}): {reason}")
    rows = {panel.row.key: (panel.task, panel.row) for panel in panels}
    lines += groups_legend(group for panel in panels for group in panel.groups)
    return [*lines, *folds_legend(rows.values()), *anchors_legend(panels)]


def anchors_legend(panels: Sequence[Panel]) -> list[str]:
    """What others reached on data that the paper does not have, for each task on such data."""
    found = {panel.task: load_paper().anchor_text(panel.row.data, panel.row.task) for panel in panels}
    return [f"{task}: {text}" for task, text in found.items() if text]


def _named(names: Sequence[str]) -> str:
    """The names in brackets, each once; nothing if they are empty."""
    return f" ({'; '.join(dict.fromkeys(names))})" if any(names) else ""


def interval_legend(found: Sequence[tuple[str, Interval | None]]) -> list[str]:
    """Explains intervals, given with the names of their rows, or empty ones."""
    known = [(name, interval) for name, interval in found if interval]
    one_seed = "each arm has one seed, no arm of the task has three, and other seeds may differ by more"
    texts = {
        "examples and seeds": "over paired test examples, and over the seeds of both arms",
        "examples": f"over paired test examples; {one_seed}",
        "seeds": "over seeds alone, because scores of single examples are not known",
    }
    names = {over: [name for name, interval in known if interval.over == over] for over in texts}
    if names["examples"] and names["examples and seeds"]:  # one line for both
        texts["examples and seeds"] += f", but over examples alone where {one_seed}"
        names["examples and seeds"] = [name for name, interval in known if interval.over.startswith("examples")]
        del names["examples"]
    several = sum(map(bool, names.values())) > 1
    lines = [
        f"95 % intervals and p{_named(own) * several}: {texts[over]}. They do not cover another training of the biLM"
        for over, own in names.items()
        if own
    ]
    for unit in dict.fromkeys(interval.unit for _, interval in known if interval.unit):
        of_unit = [(name, own) for name, own in known if own.unit == unit and own.over not in ("seeds", "folds")]
        if together := [name for name, interval in of_unit if interval.clusters]:
            lines.append(f"examples of one {unit} count together{_named(together)}")
        if alone := [name for name, interval in of_unit if not interval.clusters]:
            lines.append(
                f"examples of one {unit} count as independent{_named(alone)}, because these records do not say which "
                f"{unit} an example is of: the intervals may be too narrow"
            )
    if any(interval.few_seeds for _, interval in known):
        lines.append(
            f"{FEW_SEEDS_NOTE}: the deviation between seeds is hardly known (that of a single run is taken to be the "
            f"largest of the task's arms with {FEW_SEEDS} or more; without these, the other arm's)"
        )
    return lines
