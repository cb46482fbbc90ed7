"""Data for figures, read from records.

Untyped parts of a record may have any shape.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from results.analysis.names import load_names, settings_title
from results.analysis.rows import MINI, Group, Row, as_label, train_fraction
from results.records.record import RunRecord

# The keys under which tasks count their training examples; the first that a record has counts. With train_fraction it
# is the number drawn.
COUNTS = ("used", "questions", "pairs", "examples", "sentences")
OF_WHOLE = "share of the official training examples"
LAYERS = ("characters", "LSTM 1", "LSTM 2")


def arms_title(main_arms: Mapping[str, str], rows: Sequence[Row]) -> str:
    """The settings of the two main arms, for people; empty if none of these rows is on a full data set.

    Args:
        main_arms: These settings.
        rows: What is shown; if one names another value of them, the text says so.
    """
    full_size = [row for row in rows if row.data != MINI]
    named = {key for row in full_size for key in (*row.shown_names, *row.settings)}
    unless = ", unless a row names others" if named & main_arms.keys() else ""
    return f"{settings_title(main_arms)}{unless}" if main_arms and full_size else ""


def arms_note(main_arms: Mapping[str, str], rows: Sequence[Row]) -> list[str]:
    """The line below a table of these rows that has `arms_title`; none if it is empty."""
    title = arms_title(main_arms, rows)
    return [f"on full data sets: {title}"] if title else []


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


def speeds(row: Row) -> list[Speed]:
    """One for each pair of runs, of the two arms that are compared, with the same seed and fold and with epochs.

    Epochs stand for updates: records do not count them, and both arms have the same training examples and batches.
    """
    if row.pair is None:
        return []
    first, second = (
        {(record.identity.seed, record.identity.fold): own for record in group.runs if (own := curve(record))}
        for group in row.pair
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
        row: The task and data, and the settings that all sizes share.
        unit: "training examples"; "share of the training examples" where records do not count them, and OF_WHOLE where
            the data are a part of a known whole.
        series: Features -> (size, group) by ascending size.
    """

    row: Row
    unit: str
    series: Mapping[str, Sequence[tuple[float, Group]]]


def efficiencies(rows: Sequence[Row]) -> list[Efficiency]:
    """One for each setting that a task was run under with more than one share of its training examples."""
    by_label: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.record and row.record.limit is None:
            shared = {key: value for key, value in row.settings.items() if key != "train_fraction"}
            by_label[as_label(shared)].append(replace(row, settings=shared))
    return [own for rows in by_label.values() if (own := efficiency(rows))]


def efficiency(rows: Sequence[Row]) -> Efficiency | None:
    """Scores of rows by the size of their training sets; None if there is only one size."""
    row, groups = rows[0], [group for row in rows for group in row.groups]
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
    return Efficiency(row, unit, ordered)


def _are_shares(groups: Sequence[Group], counts: Mapping[int, float | None]) -> bool:
    """Whether the counts have the ratios of the shares: a task may count its whole training set in other units."""
    sizes = [(train_fraction(group.records[0]), counts[id(group)] or 0.0) for group in groups]
    share, most = max(sizes)
    return all(abs(count - own / share * most) <= 1 for own, count in sizes)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
