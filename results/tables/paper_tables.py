"""Markdown tables of scores, gains and settings next to the paper's numbers: for results/tables.md and README."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from results.analysis.names import default_pair, settings_title
from results.analysis.panels import Panel, arms_note, speeds, split_panels
from results.analysis.paper_scores import distance, load_paper
from results.analysis.rows import MINI, Group, Summary, TableRow, arm_titles, column_order
from results.analysis.verdict import verdict_legend, verdicts
from results.records.printing import printable, without_markup
from results.tables.cells import (
    ERRORS_REMOVED,
    FEW_SEEDS_NOTE,
    anchors_legend,
    folds_legend,
    groups_legend,
    interval_legend,
    shown_interval,
    shown_p,
)
from results.tables.rerun_commands import commands_of, commit_of

GAIN_HEADERS = ("gain, 95 % interval", "errors removed, 95 % interval")


@dataclass(frozen=True)
class MarkdownTable:
    """A Markdown table; empty columns are left out."""

    headers: Sequence[str]
    lines: Sequence[Sequence[str]]

    def __str__(self) -> str:
        kept = [i for i in range(len(self.headers)) if i == 0 or any(line[i] for line in self.lines)]
        rows = [self.headers, ["---"] * len(self.headers), *self.lines]
        return "\n".join(f"| {' | '.join(without_markup(row[i]) for i in kept)} |" for row in rows)


def readme_table(summary: Summary) -> str:
    """README's first table: one line for each task at full size. The mini data have a table in the demo section."""
    panels = [panel for panel in split_panels(summary.rows)[0] if panel.row.data != MINI]
    arms = default_pair()
    headers = ["task", *_titles(panels, arms), GAIN_HEADERS[0], "paper"]
    lines = []
    for panel in panels:
        name = ", ".join(filter(None, [panel.task, panel.metric_title(), panel.settings]))
        numbers = [_score(panel.row.group(arm, panel.label)) for arm in arms] + [_gain(panel), _paper(panel.row)]
        # Spaces that do not break, so that narrow pages keep a score or an interval on one line.
        lines.append([name, *(cell.replace(" ", "\u00a0").replace(",\u00a0", ", ") for cell in numbers)])
    known = [interval for panel in panels if (interval := panel.row.interval(panel.label))]
    mark = f"; {FEW_SEEDS_NOTE}" if any(interval.few_seeds for interval in known) else ""
    folds = ", or over folds" if any(interval.over == "folds" for interval in known) else ""
    how = "[how they are computed](results/reading.md#intervals)"
    note = f"Mean ± std (seeds). 95 % intervals over paired test examples and seeds{folds}, {how}{mark}."
    note = " ".join([note, *(f"{text[0].upper()}{text[1:]}." for text in arms_note(summary.main_arms, panels))])
    return "\n\n".join(filter(None, [str(MarkdownTable(headers, lines)), note, summary.main_note])) + "\n"


def _titles(panels: Sequence[Panel], arms: Sequence[str]) -> list[str]:
    """The arms' names for people."""
    groups = [group for panel in panels for group in panel.groups]
    return list(arm_titles(arms, groups).values())


def _arms(panels: Sequence[Panel]) -> list[str]:
    """The arms of these panels; first the two whose gain is shown."""
    pair = default_pair()
    found = {group.features for panel in panels for group in panel.groups} | set(pair)
    return sorted(found, key=lambda features: column_order(features, pair))


def table_panels(summary: Summary) -> tuple[list[Panel], list[Panel]]:
    """The panels of the main table, and those of other settings with their baselines.

    A baseline of other settings has no line of its own if it is next to another arm.
    """
    first, others = split_panels(summary.rows)
    pairs = [(panel.label, panel.row.pair(panel.label)) for panel in others]
    baselines = {id(pair[0]) for label, pair in pairs if pair and pair[0].label != label}
    kept = [panel for panel in others if not all(id(group) in baselines for group in panel.groups)]
    return first, list(map(_with_baseline, kept))


def gain_table(panels: Sequence[Panel]) -> MarkdownTable:
    """The two arms and the gain, next to the paper's numbers."""
    arms = default_pair()
    titles = _titles(panels, arms)
    headers = ["task", *titles, GAIN_HEADERS[0], "p", GAIN_HEADERS[1], "paper", "it removed"]
    headers += [f"{title} to paper's" for title in titles] + [f"{titles[0]} to the band"]
    lines = []
    for panel in panels:
        row, scores = panel.row, [_score(panel.row.group(features, panel.label)) for features in arms]
        cells = [_name(panel), *scores, _gain(panel), _p(panel), _error_cut(panel), _paper(row), _paper_cut(row)]
        found = [own.with_interval if own else "" for own in verdicts(row, panel.label)]
        lines.append([*cells, *found, _to_band(panel)])
    return MarkdownTable(headers, lines)


def controls_table(panels: Sequence[Panel], pairs: Sequence[Sequence[Panel]], arms: Sequence[str]) -> MarkdownTable:
    """These arms, and the gain of one over another for each of the pairs of `panels_comparing`."""
    lines = [[_name(panel), *(_score(panel.row.group(features, panel.label)) for features in arms)] for panel in panels]
    headers = ["task", *_titles(panels, arms)]
    for own in pairs:
        first, second = _titles(panels, own[0].row.compared)
        headers += [f"{second} over {first}", "p", GAIN_HEADERS[1]]
        for line, panel in zip(lines, own, strict=True):
            line += [_gain(panel), _p(panel), _error_cut(panel)]
    return MarkdownTable(headers, lines)


def speed_table(panels: Sequence[Panel]) -> MarkdownTable:
    """The epochs until the baseline's best dev score, of both arms; with those of runs that never reach it."""
    first, second = _titles(panels, default_pair())
    lines = []
    for panel, found in ((panel, speeds(panel)) for panel in panels):
        if found:
            before, after = (statistics.fmean(own) for own in zip(*((s.best, s.reached) for s in found), strict=True))
            never = str(sum(own.censored for own in found) or "")
            share = f"{100 * after / before:.0f} %"
            lines.append([_name(panel), f"{before:.1f}", f"{after:.1f}", share, str(len(found)), never])
    headers = ["task", f"{first}, its best epoch", f"{second}, first epoch as good", "share", "pairs of runs"]
    return MarkdownTable([*headers, "never as good (last epoch counts)"], lines)


def other_metrics_table(panels: Sequence[Panel]) -> MarkdownTable:
    """Test scores by the metrics that are not the main one."""
    arms = _arms(panels)
    lines = []
    for panel in panels:
        groups = [panel.row.group(features, panel.label) for features in arms]
        found = [record.scores.get("test", {}) for group in groups if group for record in group.records]
        for metric in sorted({metric for scores in found for metric in scores} - {panel.metric}):
            cells = [_score(group, group.scores_by("test", metric)) if group else "" for group in groups]
            lines.append([_name(panel, metric), *cells])
    return MarkdownTable(["task", *_titles(panels, arms)], lines)


def variants_table(panels: Sequence[Panel]) -> MarkdownTable:
    """Runs with other settings than the recipe's, with their dev scores."""
    arms = _arms(panels)
    lines = []
    for panel in panels:
        groups = [panel.row.group(features, panel.label) for features in arms]
        dev = [group.scores_by("dev", group.metric) for group in groups[:2] if group]
        means = " → ".join(f"{statistics.fmean(own):.2f}" for own in dev if own)
        scores = list(map(_score, groups))
        lines.append([_name(panel), means, *scores[:2], _gain(panel), _error_cut(panel), *scores[2:]])
    titles = _titles(panels, arms)
    return MarkdownTable(["task, settings", "dev", *titles[:2], *GAIN_HEADERS, *titles[2:]], lines)


def panels_comparing(panels: Sequence[Panel], compared: Sequence[str]) -> list[Panel]:
    """The panels with the gain between two other arms."""
    first, second = compared
    return [replace(panel, row=panel.row.comparing(first, second)) for panel in panels]


def panels_with_more(panels: Sequence[Panel], arms: Sequence[str]) -> list[Panel]:
    """The panels that have one of these arms apart from the usual two."""
    further = set(arms) - set(default_pair())
    return [panel for panel in panels if any(group.features in further for group in panel.groups)]


def _with_baseline(panel: Panel) -> Panel:
    """Adds the baseline that the gain is over, if it has another label than the panel."""
    row, pair = panel.row, panel.row.pair(panel.label)
    if pair is None or row.group(pair[0].features, panel.label):
        return panel
    baseline = replace(pair[0], settings=pair[1].settings)
    return replace(panel, row=replace(row, groups=[*row.groups, baseline]))


def _name(panel: Panel, metric: str = "") -> str:
    """The task, the metric (by default the main one) and the settings."""
    label = f"`{panel.label}`" if panel.label else ""
    return ", ".join(filter(None, [panel.task, panel.metric_title(metric), settings_title(panel.named), label]))


def _score(group: Group | None, scores: Sequence[float] | None = None) -> str:
    """Mean, standard deviation and number of the group's scores, by default the main ones."""
    scores = group.scores if group and scores is None else scores
    if not group or not scores:
        return ""
    std = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    number = ", ".join(filter(None, [str(len(scores)), group.old_recipe]))
    return f"{statistics.fmean(scores):.2f}{std} ({number}){group.marks}"


def _gain(panel: Panel) -> str:
    gain, interval = panel.row.gain(panel.label), panel.row.interval(panel.label)
    if gain is None:
        return ""
    return ", ".join(filter(None, [f"{gain:+.2f}", shown_interval(interval, " to ")]))


def _p(panel: Panel) -> str:
    interval = panel.row.interval(panel.label)
    return shown_p(interval) if interval else ""


def _error_cut(panel: Panel) -> str:
    interval = shown_interval(panel.row.cut_interval(panel.label), " to ", sign="-")
    return ", ".join(filter(None, [_cut(panel.row.error_cut(panel.label)), interval]))


def _cut(share: float | None) -> str:
    return "" if share is None else f"{share:.1f} %"


def _paper(row: TableRow) -> str:
    return " → ".join(str(row.paper.scores[arm]) for arm in default_pair()) if row.paper else ""


def _paper_cut(row: TableRow) -> str:
    return _cut(row.paper.error_cut(default_pair())) if row.paper else ""


def _to_band(panel: Panel) -> str:
    """The baseline's distance to the band that others reached with larger vectors."""
    row, (first, _) = panel.row, default_pair()
    band, baseline = load_paper().expected(row.data, row.task), row.group(first, panel.label)
    if band is None or baseline is None or baseline.partial:
        return ""
    low, high = band.scores[first]
    away = distance(baseline.mean, band.scores[first])
    return f"{f'{away:+.2f} outside' if away else 'in'} {low} to {high}"


def table_legend(panels: Sequence[Panel], band: str, arms: Sequence[str]) -> str:
    """Explains the columns that the tables of these panels have, with these texts on the band and on the arms."""
    lines = [*arms, *interval_legend([("", panel.row.interval(panel.label)) for panel in panels])]
    lines += [ERRORS_REMOVED, *folds_legend((panel.task, panel.row) for panel in panels)]
    lines += groups_legend(group for panel in panels for group in panel.groups)
    if any(panel.row.paper for panel in panels):
        lines += [f"to paper's: {verdict_legend()}", band]
    lines += ["no paper's numbers: other data than the paper's, so no verdict", *anchors_legend(panels)]
    return "\n".join(f"- {line}" for line in lines)


def rerun_block(panels: Sequence[Panel]) -> str:
    """The commands that reproduce each line of a table; runs of several lines are in the first of them."""
    lines, listed = ["```sh"], set[str]()
    for panel in panels:
        # the command of a plain baseline is in the block of the main table
        listed |= {group.runs[0].fingerprint for group in panel.row.groups if not group.label and panel.label}
        groups = [group for group in panel.groups if group.runs[0].fingerprint not in listed]
        listed |= {group.runs[0].fingerprint for group in groups}
        name = printable(_name(panel).replace("`", ""))
        lines += [f"# {name}: {commit_of(groups)}", *map(printable, commands_of(groups))]
    return "\n".join([*lines, "```"])
