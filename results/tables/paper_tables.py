"""The paper's Table 1 with ours beside it, as Markdown: results/table1.md, and the table of README's first screen."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from results.analysis.aggregate import BASELINE, MINI, WITH_ELMO, Group, Row, Summary
from results.analysis.panels import Panel, panels_of, shown_metric
from results.analysis.paper_scores import distance, load_paper, relative_error_cut
from results.analysis.verdict import LEGEND, verdict
from results.records.identity import flattened
from results.tables.cells import shown_p
from results.tables.rerun_commands import commands_of, commit_of

STATIC = "word2vec"  # vectors of the biLM's own text
RANDOM = "elmo_random"  # a biLM of the same width that has learned nothing
CONTROLS = {STATIC, RANDOM}
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
WRITTEN = """\
Written by `python -m results.publish` from the records in [published](published/README.md); not to be edited. Test
scores in percent, mean ± std (number of seeds). [The report](published/report.html) has curves, layers and every run.

![The gains with their intervals](published/gains.svg)"""
AGAIN = """\
Again, from the root of the repository, with the official files below DIR. `features=word2vec` wants its vectors first:
`python -m tasks.word2vec --help`."""
QUESTION = """\
`word2vec`: 300-d vectors of the biLM's own text in place of GloVe's, one for each word where ELMo has one for each use.
`elmo_random`: GloVe and, in ELMo's widths, a biLM that has learned nothing."""
TRIED = """\
What is chosen is chosen on dev; test is for the record. Beside ELMo stands the baseline that is equal in all but what
is ELMo's alone. Weights that are not shipped, such as `small-ner`: `python -m tasks.text --help` has the commands."""
ONE_SEED = "an arm has one seed: others may differ by more"
EXAMPLES_ALONE = "†"  # behind an interval that knows nothing about other seeds


@dataclass(frozen=True)
class Grid:
    """A Markdown table; columns in which nothing stands are left out."""

    headers: Sequence[str]
    lines: Sequence[Sequence[str]]

    def __str__(self) -> str:
        kept = [i for i in range(len(self.headers)) if i == 0 or any(line[i] for line in self.lines)]
        rows = [self.headers, ["---"] * len(self.headers), *self.lines]
        return "\n".join(f"| {' | '.join(row[i] for i in kept)} |" for row in rows)


def table1(summary: Summary) -> str:
    """The whole page: what ELMo adds beside the paper's numbers, what else the gain might be, other settings."""
    first, others = _split(summary)
    controls = [_over_static(panel) for panel in first if {group.features for group in panel.groups} & CONTROLS]
    blocks = [
        "# Table 1, ours beside the paper's",
        WRITTEN,
        "## What ELMo adds",
        str(_main(first)),
        _legend([*first, *controls, *others]),
        f"{AGAIN}\n\n{_commands(first)}",
    ]
    if controls:
        blocks += ["## Text or context, knowledge or width?", QUESTION, str(_controls(controls))]
    by_others = _by_other_metrics(first)
    if by_others.lines:
        blocks += ["## By other metrics", str(by_others)]
    if others:
        blocks += ["## Other settings", TRIED, str(_variants(others)), _commands(others)]
    found = [finding for finding in summary.findings if finding.wrong and finding.kind != "empty"]
    wrong = [" ".join(finding.text.split()) for finding in found]
    if wrong:
        blocks += ["## To look at", "\n".join(f"- {line}" for line in dict.fromkeys(wrong))]
    return "\n\n".join(blocks) + "\n"


def readme_table(summary: Summary) -> str:
    """The table of the first screen: one line for each task at full size; the demo's own table has the mini data."""
    headers = [
        "test score: mean ± std (seeds)",
        "GloVe",
        "+ ELMo",
        "gain, 95 % interval",
        "errors cut",
        "paper",
        "its cut",
    ]
    headers += ["ours to paper's", "GloVe + untrained biLM", "word2vec"]
    lines = []
    panels = [panel for panel in _split(summary)[0] if panel.row.data != MINI]
    for panel in panels:
        row, label = panel.row, panel.label
        cells = [_name(panel), _score(row.group(BASELINE, label)), _score(row.group(WITH_ELMO, label)), _gain(panel)]
        cells += [_cut(row.error_cut(label)), _paper(row), _paper_cut(row), _verdicts(panel)]
        lines.append([*cells, *(_score(row.group(features, label)) for features in (RANDOM, STATIC))])
    alone = f"\n{EXAMPLES_ALONE} {ONE_SEED}.\n" if any(EXAMPLES_ALONE in line[3] for line in lines) else ""
    return f"{Grid(headers, lines)}\n{alone}"


def _split(summary: Summary) -> tuple[list[Panel], list[Panel]]:
    """What stands in the first table, and what was tried beside."""
    split = [panels_of(row) for row in summary.rows]
    others = [panel for _, panels in split for panel in panels]
    return [panel for panels, _ in split for panel in panels], [_beside_its_baseline(panel) for panel in others]


def _main(panels: Sequence[Panel]) -> Grid:
    arms = (BASELINE, WITH_ELMO)
    headers = ["task", *arms, "gain, 95 % interval", "p", "errors cut", "paper", "its cut"]
    headers += [f"{features} to paper's" for features in arms] + ["glove to the band"]
    lines = []
    for panel in panels:
        row, groups = panel.row, [panel.row.group(features, panel.label) for features in arms]
        cells = [_name(panel), *map(_score, groups), _gain(panel), _p(panel), _cut(row.error_cut(panel.label))]
        verdicts = [str(verdict(group, row.paper) or "") for group in groups]
        lines.append([*cells, _paper(row), _paper_cut(row), *verdicts, _to_band(panel)])
    return Grid(headers, lines)


def _controls(panels: Sequence[Panel]) -> Grid:
    arms = (BASELINE, RANDOM, STATIC, WITH_ELMO)
    lines = []
    for panel in panels:
        scores = [_score(panel.row.group(features, panel.label)) for features in arms]
        lines.append([_name(panel), *scores, _gain(panel), _p(panel), _cut(panel.row.error_cut(panel.label))])
    return Grid(["task", *arms, f"{WITH_ELMO} over {STATIC}", "p", "errors cut"], lines)


def _by_other_metrics(panels: Sequence[Panel]) -> Grid:
    """The test scores that no gain is computed of, such as exact match beside F1."""
    arms = (BASELINE, WITH_ELMO, RANDOM, STATIC)
    lines = []
    for panel in panels:
        groups = [panel.row.group(features, panel.label) for features in arms]
        found = [record.scores.get("test", {}) for group in groups if group for record in group.records]
        for metric in sorted({metric for scores in found for metric in scores} - {panel.metric}):
            cells = [_spread(_scores_by(group, metric)) for group in groups]
            lines.append([_name(panel, metric), *cells])
    return Grid(["task", *arms], lines)


def _variants(panels: Sequence[Panel]) -> Grid:
    arms = [BASELINE, WITH_ELMO, RANDOM, STATIC]
    lines = []
    for panel in panels:
        row, label = panel.row, panel.label
        dev = [f"{found:.2f}" for features in arms[:2] if (found := _dev(row.group(features, label))) is not None]
        scores = {features: _score(row.group(features, label)) for features in arms}
        cells = [_name(panel), " → ".join(dev), scores[BASELINE], scores[WITH_ELMO], _gain(panel)]
        lines.append([*cells, _cut(row.error_cut(label)), scores[RANDOM], scores[STATIC]])
    return Grid(["task, settings", "dev", *arms[:2], "gain, 95 % interval", "errors cut", *arms[2:]], lines)


def _over_static(panel: Panel) -> Panel:
    return replace(panel, row=replace(panel.row, compared=(STATIC, WITH_ELMO), _intervals={}))


def _beside_its_baseline(panel: Panel) -> Panel:
    """With the baseline that has the same values of all settings but ELMo's own, which a baseline has none of.

    That need not be one of the same name: a task may give ELMo another value than the baseline, and typing the
    baseline's makes a setting of the one and a plain run of the other.
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
    """Whether what either was told has the same value in both, but for ELMo's own settings."""
    told = {key for key in {**baseline.settings, **own.settings} if not key.startswith("features.elmo.")}
    first, second = flattened(baseline.parts), flattened(own.parts)
    return all(key in first and key in second and first[key] == second[key] for key in told)


def _name(panel: Panel, metric: str = "") -> str:
    """The task and the metric, the main one unless told."""
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
    if interval is None:
        return f"{gain:+.2f}"
    alone = EXAMPLES_ALONE if interval.over == "examples" else ""
    return f"{gain:+.2f}, {interval.low:+.1f} to {interval.high:+.1f}{alone}"


def _p(panel: Panel) -> str:
    interval = panel.row.interval(panel.label)
    return shown_p(interval) if interval else ""


def _cut(share: float | None) -> str:
    return "" if share is None else f"{share:.1f} %"


def _paper(row: Row) -> str:
    return f"{row.paper.baseline} → {row.paper.elmo}" if row.paper else ""


def _paper_cut(row: Row) -> str:
    return _cut(relative_error_cut(row.paper.baseline, row.paper.elmo)) if row.paper else ""


def _verdicts(panel: Panel) -> str:
    row = panel.row
    found = [verdict(row.group(features, panel.label), row.paper) for features in (BASELINE, WITH_ELMO)]
    return "; ".join(f"{name} {own}" for name, own in zip(("GloVe", "+ ELMo"), found, strict=True) if own)


def _to_band(panel: Panel) -> str:
    """Where the baseline lies to what others reached with larger vectors."""
    row, baseline = panel.row, panel.row.group(BASELINE, panel.label)
    band = load_paper().expected(row.data, row.task)
    if band is None or baseline is None or baseline.cut:
        return ""
    low, high = band.baseline
    away = distance(baseline.mean, band.baseline)
    return f"{f'{away:+.2f} outside' if away else 'in'} {low} to {high}"


def _legend(panels: Sequence[Panel]) -> str:
    """How to read the tables, as far as they have it."""
    intervals = [found for panel in panels if (found := panel.row.interval(panel.label))]
    lines = ["interval and p: of the gain, by a paired bootstrap over test examples and seeds together"]
    if any(interval.over == "examples" for interval in intervals):
        lines[0] += f"; {EXAMPLES_ALONE} {ONE_SEED}"
    lines += ["errors cut: the share of the baseline's errors (100 less its score) that is gone"]
    if any(panel.row.paper for panel in panels):
        lines += [LEGEND.replace("vs paper", "to paper's")]
        lines += [
            "band: our judgement, from what others reached with these heads and GloVe 840B 300-d; see paper/scores.toml"
        ]
    lines += ["no paper's numbers: other data than the paper's, so no verdict"]
    return "\n".join(f"- {line}" for line in lines)


def _commands(panels: Sequence[Panel]) -> str:
    """What makes each line of a table again."""
    lines = ["```sh"]
    for panel in panels:
        # a plain baseline that stands beside other settings has its command above
        groups = [group for group in panel.groups if group.records[0].identity.variant or not panel.label]
        lines += [f"# {_name(panel).replace('`', '')}: {commit_of(groups)}", *commands_of(groups)]
    return "\n".join([*lines, "```"])
