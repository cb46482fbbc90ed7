"""Panels, the arms of a task under the same settings, and data for their figures, read from records.

Untyped parts of a record may have any shape.
"""

import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results.analysis.names import load_names, metric_title, settings_title, task_title
from results.analysis.rows import MINI, Group, TableRow, train_fraction
from results.records.identity import looked_up
from results.records.record import RunRecord

# The keys under which tasks count their training examples; the first that a record has counts. With train_fraction it
# is the number drawn.
COUNTS = ("used", "questions", "pairs", "examples", "sentences")
OF_WHOLE = "share of the official training examples"
LAYERS = ("characters", "LSTM 1", "LSTM 2")


def as_stem(name: str) -> str:
    """The name, made safe for a file name."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", name)[:80].strip("-")


@dataclass(frozen=True)
class Panel:
    """The arms of one task on one data set under the same settings: the content of one small figure."""

    row: TableRow
    label: str = ""

    @property
    def groups(self) -> list[Group]:
        """The arms, in the order of the table."""
        return [group for group in self.row.groups if group.label == self.label]

    @property
    def task(self) -> str:
        """The name for people of the task on the data."""
        return task_title(self.row.data, self.row.task, self.groups[0].records[0] if self.groups else None)

    @property
    def title(self) -> str:
        """Task, data and settings, for people."""
        return " · ".join(filter(None, [self.task, self.settings]))

    @property
    def settings(self) -> str:
        """The changed settings, for people; empty for plain runs."""
        return settings_title({**self.named, **self.groups[0].settings}) if self.groups else self.label

    @property
    def named(self) -> dict[str, str]:
        """The settings in the row's name that these runs have, such as their biLM's, without those of their label."""
        configs = [group.records[0].config for group in self.groups]
        changed = self.groups[0].settings if self.groups else {}
        return {
            key: value
            for key, value in self.row.named.items()
            if key not in changed and any(looked_up(config, key) is not ... for config in configs)
        }

    @property
    def stem(self) -> str:
        """Data, task and settings, made safe for a file name."""
        return as_stem(f"{self.row.data}-{self.row.task}-{self.label}")

    @property
    def metric(self) -> str:
        """The main metric of these groups; where there are none, of the row."""
        return self.groups[0].metric if self.groups else self.row.metric

    def metric_title(self, metric: str = "") -> str:
        """The name for people of a metric, by default the main one."""
        return metric_title(metric or self.metric, self.groups[0].records[0] if self.groups else None)


def panels_of(row: TableRow) -> tuple[list[Panel], list[Panel]]:
    """The panels to show first, and the others.

    Plain runs come first. If there are none: settings under which both arms ran on the whole data. Else all panels.
    """
    panels = [Panel(row, label) for label in dict.fromkeys(group.label for group in row.groups)]
    plain = [panel for panel in panels if not panel.label]
    paired = [panel for panel in panels if all(row.group(features, panel.label) for features in row.compared)]
    whole = [panel for panel in paired if row.pair(panel.label) and not panel.groups[0].partial]
    first = plain or whole or panels
    return first, [panel for panel in panels if panel not in first]


def arms_title(main_arms: Mapping[str, str], panels: Sequence[Panel]) -> str:
    """The settings of the two main arms, for people; empty if none of these panels is on a full data set.

    Args:
        main_arms: These settings.
        panels: What is shown; if one names another value of them, the text says so.
    """
    full_size = [panel for panel in panels if panel.row.data != MINI]
    settings = [own for panel in full_size for own in (panel.named, *(group.settings for group in panel.groups))]
    named = {key for own in settings for key in own}
    unless = ", unless a row names others" if named & main_arms.keys() else ""
    return f"{settings_title(main_arms)}{unless}" if main_arms and full_size else ""


def arms_note(main_arms: Mapping[str, str], panels: Sequence[Panel]) -> list[str]:
    """The line below a table of these panels that has `arms_title`; none if it is empty."""
    title = arms_title(main_arms, panels)
    return [f"on full data sets: {title}"] if title else []


def split_panels(rows: Sequence[TableRow]) -> tuple[list[Panel], list[Panel]]:
    """The panels of all rows to show first, and the others."""
    split = [panels_of(row) for row in rows]
    return [panel for first, _ in split for panel in first], [panel for _, others in split for panel in others]


def curve(record: RunRecord) -> list[tuple[float, float]]:
    """The dev score by epoch; epochs without one are left out."""
    points = [(_number(epoch.get("epoch")), _number(epoch.get(record.metric))) for epoch in record.epochs]
    return [(epoch, score) for epoch, score in points if epoch is not None and score is not None]


@dataclass(frozen=True)
class Speed:
    """How soon a run of the second arm is as good on dev as the best epoch of the first arm's run of the same seed.

    Attributes:
        best: The first arm's best epoch.
        reached: The second arm's first epoch with at least that dev score; its last epoch if it has none.
        censored: Whether it has none.
    """

    best: float
    reached: float
    censored: bool


def speeds(panel: Panel) -> list[Speed]:
    """One for each pair of runs, of the two arms that are compared, with the same seed and fold and with epochs.

    Epochs stand for updates: records do not count them, and both arms have the same training examples and batches.
    """
    pair = panel.row.pair(panel.label)
    if pair is None:
        return []
    first, second = (
        {(record.identity.seed, record.identity.fold): own for record in group.runs if (own := curve(record))}
        for group in pair
    )
    found = []
    for run in [run for run in first if run in second]:
        best, score = max(first[run], key=lambda point: point[1])
        reached = [epoch for epoch, own in second[run] if own >= score]
        found.append(Speed(best, (reached or [second[run][-1][0]])[0], not reached))
    return found


def layer_name(index: int, layers: int) -> str:
    """The layer's name; the paper's biLM has three."""
    return LAYERS[index] if layers == len(LAYERS) else f"layer {index}"


def mixes(group: Group) -> dict[str, tuple[list[list[float]], float]]:
    """Placement -> (for each run the weights, bottom layer first; mean gamma), where all runs have as many layers."""
    places = dict.fromkeys(place for record in group.runs for place in record.mixes)
    found = {}
    for place in places:
        own = [record.mixes[place] for record in group.runs if place in record.mixes]
        if own[0].weights and len({len(mix.weights) for mix in own}) == 1:
            gamma = statistics.fmean(mix.gamma for mix in own)
            found[place] = ([list(mix.weights) for mix in own], gamma)
    return found


def class_metric(groups: Sequence[Group]) -> str:
    """The metric of single classes to show: the main one if they have it, else their first; empty if there is none."""
    for group in groups:
        for scores in _classes(group.records[0]).values():
            return group.metric if group.metric in scores else next((name for name in scores if name != "gold"), "")
    return ""


def class_scores(group: Group, metric: str) -> dict[str, tuple[float, int | None]]:
    """Class -> (mean score over seeds in percent, examples of it in the test set), for classes that all seeds have."""
    first = _classes(group.records[0])
    counts = {name: _number(first[name].get("gold")) for name in first}
    return {
        name: (statistics.fmean(scores), None if (gold := counts[name]) is None else int(gold))
        for name, scores in class_runs(group, metric).items()
    }


def class_runs(group: Group, metric: str) -> dict[str, list[float]]:
    """Class -> the score of each seed in percent, for classes that all seeds have."""
    runs = [_classes(record) for record in group.records]
    found = {name: [_number(run.get(name, {}).get(metric)) for run in runs] for name in runs[0]}
    known = {name: [score for score in scores if score is not None] for name, scores in found.items()}
    return {name: scores for name, scores in known.items() if len(scores) == len(runs)}


def _classes(record: RunRecord) -> dict[str, Mapping[str, object]]:
    """Class -> its scores by metric, and under "gold" the number of its examples."""
    labels = record.details.get("labels")
    items = labels.items() if isinstance(labels, Mapping) else []
    return {str(name): scores for name, scores in items if isinstance(scores, Mapping)}


def confusion(group: Group) -> tuple[list[str], list[list[float]]] | None:
    """(classes, counts by gold and predicted class, summed over seeds); None where the records have none."""
    found = [own for record in group.records if (own := record.confusion)]
    if len(found) < len(group.records) or any(names != found[0][0] for names, _ in found):
        return None
    # (seeds, gold, predicted) -> (gold, predicted)
    by_gold = zip(*(counts for _, counts in found), strict=True)
    return found[0][0], [[float(sum(cells)) for cells in zip(*rows, strict=True)] for rows in by_gold]


def training_examples(record: RunRecord) -> float | None:
    """How many examples the run was trained on, if its record says so."""
    counts = record.data.get("train")
    if not isinstance(counts, Mapping):
        return None
    return next((number for name in COUNTS if (number := _number(counts.get(name)))), None)


@dataclass(frozen=True)
class Efficiency:
    """Scores by the size of the training set: what fewer labels cost.

    Attributes:
        row: The task and data.
        label: The settings that all sizes share.
        unit: "training examples"; "share of the training examples" where records do not count them, and OF_WHOLE where
            the data are a part of a known whole.
        series: Features -> (size, group) by ascending size.
    """

    row: TableRow
    label: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, Group]]]


def efficiencies(row: TableRow) -> list[Efficiency]:
    """One for each setting that was run with more than one share of the training examples."""
    by_label: dict[str, list[Group]] = defaultdict(list)
    for group in row.groups:
        if group.records[0].limit is None:
            rest = {key: value for key, value in group.settings.items() if key != "train_fraction"}
            by_label[" ".join(f"{key}={value}" for key, value in rest.items())].append(group)
    found = [efficiency(row, label, groups) for label, groups in by_label.items()]
    return [own for own in found if own]


def efficiency(row: TableRow, label: str, groups: Sequence[Group]) -> Efficiency | None:
    """Scores of these groups by the size of their training sets; None if there is only one size."""
    if len({train_fraction(group.records[0]) for group in groups}) < 2:
        return None
    counts = {id(group): training_examples(group.records[0]) for group in groups}
    counted = all(counts.values()) and _are_shares(groups, counts)
    known = load_names().tasks.get(row.task)
    whole = known.whole.get(row.data) if known and counted else None
    series: dict[str, list[tuple[float, Group]]] = defaultdict(list)
    for group in groups:
        share = train_fraction(group.records[0])
        size = (counts[id(group)] or share) if counted else share
        series[group.features].append((size / whole if whole else size, group))
    unit = OF_WHOLE if whole else "training examples" if counted else "share of the training examples"
    ordered = {name: sorted(points, key=lambda point: point[0]) for name, points in series.items()}
    return Efficiency(row, label, unit, ordered)


def _are_shares(groups: Sequence[Group], counts: Mapping[int, float | None]) -> bool:
    """Whether the counts have the ratios of the shares: a task may count its whole training set in other units."""
    sizes = [(train_fraction(group.records[0]), counts[id(group)] or 0.0) for group in groups]
    share, most = max(sizes)
    return all(abs(count - own / share * most) <= 1 for own, count in sizes)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
