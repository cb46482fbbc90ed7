"""The table of an experiment in every output format: its rows and arms next to the paper's numbers."""

import json
from collections import Counter, defaultdict
from dataclasses import asdict

from results.analysis.names import arm_title, default_pair, metric_title, task_title
from results.analysis.verdict import verdict, verdict_legend
from results.experiments.experiment import Experiment
from results.experiments.experiment_file import load_experiment
from results.records.printing import printable
from results.tables.arms_table import arms_page
from results.tables.cells import (
    EMPTY,
    OUR_GAIN,
    VERDICT,
    Page,
    Sheet,
    findings_sections,
    gain_cells,
    rows_legend,
    shown_score,
    splits_legend,
)
from results.tables.experiment_rows import ExperimentLine, ExperimentTable
from results.tables.formats import clean, csv_gain, csv_scores, csv_text, json_gain

SCORES = "Scores in percent, mean±std (number of seeds)"  # the title of a table below the experiment's own


def experiment_data(table: ExperimentTable, form: str) -> str:
    """The table for programs, as "csv" or "json"."""
    if form == "csv":
        return _csv(table)
    return json.dumps([_plain(line, table) for line in table.lines], indent=2, ensure_ascii=False) + "\n"


def experiment_page(table: ExperimentTable, *, with_intervals: bool = False) -> Page:
    """The table to lay out, and the text below it; `with_intervals` of the differences from the paper's numbers."""
    experiment = table.experiment
    if experiment.by_arm:
        return arms_page(table)
    printed = [arm for arm in experiment.arms if any(arm in line.paper for line in table.lines)]
    titles = {arm: printable(title) for arm, title in table.titles.items()}
    columns = [("row", "l"), ("metric", "l")]
    for arm in experiment.arms:
        columns += [(f"paper\n{printable(arm_title(arm))}", "l")] * (arm in printed) + [(titles[arm], "l")]
    with_gain = any(line.paper_gain is not None for line in table.lines)
    columns += [("paper\ngain", "r")] * with_gain
    columns += OUR_GAIN if experiment.compare else []
    verdicts = [
        {arm: verdict(line.runs.group(arm), line.runs.paper) for arm in experiment.arms} for line in table.lines
    ]
    judged = [arm for arm in experiment.arms if any(own[arm] for own in verdicts)]
    columns += [(f"{titles[arm]}{VERDICT}", "l") for arm in judged]
    metrics = [f"{line.spec.split} {_metric_title(line)}".removeprefix("test ") for line in table.lines]
    lines = []
    for line, own, metric in zip(table.lines, verdicts, metrics, strict=True):
        cells = [line.title, metric]
        for arm in experiment.arms:
            cells += [_paper(line, arm)] * (arm in printed) + [shown_score(line.runs.group(arm))]
        cells += [_paper_gain(line)] * with_gain
        cells += gain_cells(line.runs, "")[: len(OUR_GAIN)] if experiment.compare else []
        found = [own[arm] for arm in judged]
        cells += [(item.with_interval if with_intervals else str(item)) if item else EMPTY for item in found]
        lines.append([printable(cell) for cell in cells])
    title = f"{experiment.title}: scores in percent, mean±std (number of seeds)"
    notes = experiment.notes + ([_trials(experiment)] if experiment.trials else [])
    times = Counter(line.title for line in table.lines)
    names = [
        f"{line.title}, {metric}" if times[line.title] > 1 else line.title
        for line, metric in zip(table.lines, metrics, strict=True)
    ]
    rows = [(line.title, line.runs) for line in table.lines]
    intervals = [(name, row.interval()) for name, (_, row) in zip(names, rows, strict=True)]
    notes += rows_legend(rows, intervals, experiment.arms)
    notes += [f"vs paper: {verdict_legend()}"] if judged else []
    notes += [f"{line.title}: {line.spec.source}" for line in table.lines if line.spec.paper and line.spec.source]
    notes += splits_legend(rows)
    if separate := [line.title for line in table.lines if line.runs.labels]:
        notes.append(f"{', '.join(separate)}: runs under different settings, which have no mean; see the notes")
    signs = [line.runs.gain_sign() for line in table.lines]
    return [Sheet(printable(title), columns, lines, signs)], findings_sections(table.findings, notes)


def _trials(experiment: Experiment) -> str:
    """How many settings were tried on dev before, by task and arm."""
    tried: dict[str, dict[str, set[tuple[str, ...]]]] = defaultdict(lambda: defaultdict(set))
    for cell in load_experiment(experiment.trials).cells:
        tried[task_title(cell.named["data"], cell.named["task"])][cell.arm].add(tuple(cell.overrides[1:]))
    counts = {
        name: ", ".join(f"{arm_title(arm)} {len(settings)}" for arm, settings in arms.items())
        for name, arms in tried.items()
    }
    listed = "; ".join(f"{name}: {count}" for name, count in counts.items())
    first, second = map(arm_title, default_pair())
    return (
        f"settings tried on dev before (experiment={experiment.trials}): {listed}; other rows: none. Arms with frozen "
        f"layers take the setting of {second}, others that of {first}"
    )


def _metric(line: ExperimentLine) -> str:
    printed = line.runs.paper.metric if line.runs.paper else ""
    return line.spec.metric or line.runs.metric or printed or EMPTY


def _metric_title(line: ExperimentLine) -> str:
    return metric_title(_metric(line), line.runs.groups[0].records[0] if line.runs.groups else None)


def _paper(line: ExperimentLine, arm: str) -> str:
    if arm not in line.paper:
        return EMPTY
    std = f"±{line.paper_std[arm]:.2f}" if arm in line.paper_std else ""
    return f"{line.paper[arm]}{std}"


def _paper_gain(line: ExperimentLine) -> str:
    return EMPTY if line.paper_gain is None else f"{line.paper_gain:+.2f}"


def _names(line: ExperimentLine) -> dict[str, object]:
    """What a row of the table is, for programs."""
    names = {"row": line.title, "data": line.runs.data, "task": line.runs.task}
    return {**names, "metric": _metric(line), "split": line.spec.split}


def _plain(line: ExperimentLine, table: ExperimentTable) -> dict[str, object]:
    arms: dict[str, dict[str, object]] = {}
    for arm in table.experiment.arms:
        group = line.runs.group(arm)
        arms[arm] = {
            "mean": clean(group.mean) if group else None,
            "std": clean(group.std) if group else None,
            "scores": [clean(score) for score in group.scores] if group else [],
            "seeds": group.seeds if group else [],
            "paper": line.paper.get(arm),
            "paper_std": line.paper_std.get(arm),
        }
        if table.experiment.by_arm:
            cost = table.experiment.costs.get(arm)
            arms[arm] |= {**json_gain(table.against_base(line, arm)), "cost": asdict(cost) if cost else None}
    return {
        **_names(line),
        "arms": arms,
        "compared": list(table.experiment.compare),
        **json_gain(line.runs),
    }


def _csv(table: ExperimentTable) -> str:
    """One line for each row and arm; the gain is in the line of the second of the two compared, by arm in all lines."""
    lines, by_arm = [], table.experiment.by_arm
    for line in table.lines:
        for arm in table.experiment.arms:
            runs = table.against_base(line, arm) if by_arm else line.runs
            cells = {
                **_names(line),
                "arm": arm,
                **csv_scores(line.runs.group(arm)),
                "paper": line.paper.get(arm),
                "paper_std": line.paper_std.get(arm),
                **csv_gain(runs, arm),
            }
            if table.experiment.costs:
                cost = table.experiment.costs.get(arm)
                cells["parameters"] = cost.parameters if cost else None
                cells["milliseconds"] = cost.milliseconds if cost else None
            lines.append(cells)
    return csv_text(lines)
