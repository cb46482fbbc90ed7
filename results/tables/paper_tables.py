"""Markdown tables of scores, gains and settings next to the paper's numbers: for results/tables.md and README."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from results.analysis.panels import Panel, panels_of, shown_metric
from results.analysis.paper_scores import distance, load_paper, relative_error_cut
from results.analysis.rows import BASELINE, MINI, WITH_ELMO, Group, Summary, TableRow
from results.analysis.verdict import verdict, verdict_legend
from results.records.identity import flattened
from results.tables.cells import interval_legend, shown_interval, shown_p
from results.tables.rerun_commands import commands_of, commit_of

STATIC = "word2vec"  # static vectors trained on the biLM's text
RANDOM = "elmo_random"  # an untrained biLM of the same width
NAMES = {
    ("paper", "squad"): "SQuAD 1.1, official dev",
    ("paper", "snli"): "SNLI",
    ("paper", "ner"): "NER, CoNLL-2003",
    ("paper", "sst5"): "SST-5",
    ("standin", "snli"): "SNLI, stand-in training set",
    ("wnut17", "ner"): "NER, WNUT-17",
    (MINI, "squad"): "mini SQuAD",
    (MINI, "snli"): "mini SNLI",
    (MINI, "ner"): "mini NER",
    (MINI, "sst5"): "mini SST-5",
}


@dataclass(frozen=True)
class Grid:
    """A Markdown table; empty columns are left out."""

    headers: Sequence[str]
    lines: Sequence[Sequence[str]]

    def __str__(self) -> str:
        kept = [i for i in range(len(self.headers)) if i == 0 or any(line[i] for line in self.lines)]
        rows = [self.headers, ["---"] * len(self.headers), *self.lines]
        return "\n".join(f"| {' | '.join(row[i] for i in kept)} |" for row in rows)


def readme_table(summary: Summary) -> str:
    """README's first table: one line for each task at full size. The mini data have a table in the demo section."""
    headers = [
        "test score: mean ± std (seeds)",
        "GloVe",
        "+ ELMo",
        "gain, 95 % interval",
        "errors cut, 95 % interval",
        "paper",
        "its cut",
    ]
    headers += ["ours to paper's", "GloVe + untrained biLM", "word2vec"]
    lines = []
    panels = [panel for panel in split_panels(summary)[0] if panel.row.data != MINI]
    for panel in panels:
        row, label = panel.row, panel.label
        cells = [_name(panel), _score(row.group(BASELINE, label)), _score(row.group(WITH_ELMO, label)), _gain(panel)]
        cells += [_error_cut(panel), _paper(row), _paper_cut(row), _verdicts(panel)]
        lines.append([*cells, *(_score(row.group(features, label)) for features in (RANDOM, STATIC))])
    notes = " ".join(f"{line[0].upper()}{line[1:]}." for line in _interval_lines(panels))
    return f"{Grid(headers, lines)}\n\n{notes}\n"


def split_panels(summary: Summary) -> tuple[list[Panel], list[Panel]]:
    """The panels of the main table, and those of other settings."""
    split = [panels_of(row) for row in summary.rows]
    others = [panel for _, panels in split for panel in panels]
    return [panel for panels, _ in split for panel in panels], [_with_baseline(panel) for panel in others]


def gain_table(panels: Sequence[Panel]) -> Grid:
    """Baseline, ELMo and the gain, next to the paper's numbers."""
    arms = (BASELINE, WITH_ELMO)
    headers = ["task", *arms, "gain, 95 % interval", "p", "errors cut, 95 % interval", "paper", "its cut"]
    headers += [f"{features} to paper's" for features in arms] + ["glove to the band"]
    lines = []
    for panel in panels:
        row, groups = panel.row, [panel.row.group(features, panel.label) for features in arms]
        cells = [_name(panel), *map(_score, groups), _gain(panel), _p(panel), _error_cut(panel)]
        verdicts = [found.with_interval if (found := verdict(group, row.paper)) else "" for group in groups]
        lines.append([*cells, _paper(row), _paper_cut(row), *verdicts, _to_band(panel)])
    return Grid(headers, lines)


def controls_table(panels: Sequence[Panel]) -> Grid:
    """All arms, and the gain of ELMo over static vectors; for panels of `against_static`."""
    arms = (BASELINE, RANDOM, STATIC, WITH_ELMO)
    lines = []
    for panel in panels:
        scores = [_score(panel.row.group(features, panel.label)) for features in arms]
        lines.append([_name(panel), *scores, _gain(panel), _p(panel), _error_cut(panel)])
    return Grid(["task", *arms, f"{WITH_ELMO} over {STATIC}", "p", "errors cut, 95 % interval"], lines)


def other_metrics_table(panels: Sequence[Panel]) -> Grid:
    """Test scores by the other metrics, such as exact match where F1 is the main one."""
    arms = (BASELINE, WITH_ELMO, RANDOM, STATIC)
    lines = []
    for panel in panels:
        groups = [panel.row.group(features, panel.label) for features in arms]
        found = [record.scores.get("test", {}) for group in groups if group for record in group.records]
        for metric in sorted({metric for scores in found for metric in scores} - {panel.metric}):
            cells = [_spread(_scores_by(group, metric)) for group in groups]
            lines.append([_name(panel, metric), *cells])
    return Grid(["task", *arms], lines)


def variants_table(panels: Sequence[Panel]) -> Grid:
    """Runs with other settings than the recipe's, with their dev scores."""
    arms = [BASELINE, WITH_ELMO, RANDOM, STATIC]
    lines = []
    for panel in panels:
        row, label = panel.row, panel.label
        dev = [f"{found:.2f}" for features in arms[:2] if (found := _dev(row.group(features, label))) is not None]
        scores = {features: _score(row.group(features, label)) for features in arms}
        cells = [_name(panel), " → ".join(dev), scores[BASELINE], scores[WITH_ELMO], _gain(panel)]
        lines.append([*cells, _error_cut(panel), scores[RANDOM], scores[STATIC]])
    return Grid(
        ["task, settings", "dev", *arms[:2], "gain, 95 % interval", "errors cut, 95 % interval", *arms[2:]], lines
    )


def against_static(panels: Sequence[Panel]) -> list[Panel]:
    """The panels that have a control arm, with the gain of ELMo over static vectors of the same text."""
    return [
        replace(panel, row=replace(panel.row, compared=(STATIC, WITH_ELMO), _intervals={}))
        for panel in panels
        if any(group.features in (STATIC, RANDOM) for group in panel.groups)
    ]


def _with_baseline(panel: Panel) -> Panel:
    """Adds the baseline that has equal settings apart from `features.elmo.*`, if the panel has no baseline.

    Its label may differ: where a task's defaults differ between ELMo and the baseline, giving ELMo the baseline's value
    is a changed setting for ELMo but the default for the baseline.
    """
    row = panel.row
    own = next((group for group in panel.groups if group.features == WITH_ELMO), None)
    if own is None or row.group(BASELINE, panel.label):
        return panel
    like_it = [group for group in row.groups if group.features == BASELINE and _equal_settings(group, own)]
    if len(like_it) != 1:
        return panel
    baseline = replace(like_it[0], settings=own.settings)
    return replace(panel, row=replace(row, groups=[*row.groups, baseline], _intervals={}))


def _equal_settings(baseline: Group, own: Group) -> bool:
    """Whether the settings changed in either group have the same value in both, apart from `features.elmo.*`."""
    changed = {key for key in {**baseline.settings, **own.settings} if not key.startswith("features.elmo.")}
    first, second = flattened(baseline.parts), flattened(own.parts)
    return all(key in first and key in second and first[key] == second[key] for key in changed)


def _name(panel: Panel, metric: str = "") -> str:
    """The task, the metric (by default the main one) and the settings."""
    row = panel.row
    task = NAMES.get((row.data, row.task), f"{row.data} {row.task}")
    name = f"{task}, {shown_metric(metric or panel.metric)}"
    return f"{name}, `{panel.label}`" if panel.label else name


def _score(group: Group | None) -> str:
    return _spread(group.scores) if group else ""


def _scores_by(group: Group | None, metric: str) -> list[float]:
    """The test scores by another metric than the main one, or none where a run lacks it."""
    found = [record.scores.get("test", {}).get(metric) for record in group.records] if group else []
    known = [score for score in found if score is not None]
    return known if len(known) == len(found) else []


def _spread(scores: Sequence[float]) -> str:
    if not scores:
        return ""
    std = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.2f}{std} ({len(scores)})"


def _dev(group: Group | None) -> float | None:
    """The mean score on dev, where all runs have one."""
    found = [record.scores.get("dev", {}).get(record.metric) for record in group.records] if group else [None]
    known = [score for score in found if score is not None]
    return statistics.fmean(known) if len(known) == len(found) else None


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
    return f"{row.paper.baseline} → {row.paper.elmo}" if row.paper else ""


def _paper_cut(row: TableRow) -> str:
    return _cut(relative_error_cut(row.paper.baseline, row.paper.elmo)) if row.paper else ""


def _verdicts(panel: Panel) -> str:
    row = panel.row
    found = [verdict(row.group(features, panel.label), row.paper) for features in (BASELINE, WITH_ELMO)]
    return "; ".join(f"{name} {own.with_interval}" for name, own in zip(("GloVe", "+ ELMo"), found, strict=True) if own)


def _to_band(panel: Panel) -> str:
    """The baseline's distance to the band that others reached with larger vectors."""
    row, baseline = panel.row, panel.row.group(BASELINE, panel.label)
    band = load_paper().expected(row.data, row.task)
    if band is None or baseline is None or baseline.cut:
        return ""
    low, high = band.baseline
    away = distance(baseline.mean, band.baseline)
    return f"{f'{away:+.2f} outside' if away else 'in'} {low} to {high}"


def table_legend(panels: Sequence[Panel]) -> str:
    """Explains the columns that the tables of these panels have."""
    lines = [
        *_interval_lines(panels),
        "errors cut: the share of the baseline's errors (100 less its score) that is gone",
    ]
    if any(panel.row.paper for panel in panels):
        lines += [f"to paper's: {verdict_legend()}"]
        lines += [
            "band: our judgement, from what others reached with these heads and GloVe 840B 300-d; see paper/scores.toml"
        ]
    lines += ["no paper's numbers: other data than the paper's, so no verdict"]
    return "\n".join(f"- {line}" for line in lines)


def _interval_lines(panels: Sequence[Panel]) -> list[str]:
    return interval_legend([("", panel.row.interval(panel.label)) for panel in panels])


def rerun_block(panels: Sequence[Panel]) -> str:
    """The commands that reproduce each line of a table."""
    lines = ["```sh"]
    for panel in panels:
        # the command of a plain baseline is in the block of the main table
        groups = [group for group in panel.groups if group.records[0].identity.variant or not panel.label]
        lines += [f"# {_name(panel).replace('`', '')}: {commit_of(groups)}", *commands_of(groups)]
    return "\n".join([*lines, "```"])
