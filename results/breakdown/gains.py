"""Gains on kinds of test examples: the two compared arms, scored on the examples of each kind alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from results.analysis.names import metric_of
from results.analysis.rows import Group, Row, train_fraction
from results.analysis.units import unit_numbers
from results.breakdown.group_files import GroupsUnreadable, groups_above, reads_otherwise
from results.records.collect import FoundRecord
from results.records.example_scores import Example
from results.records.metric import Grouping, Metric

FEWEST = 4  # kinds with fewer test examples are left out
Paths = Mapping[str, Path]  # of records, by fingerprint


@dataclass(frozen=True)
class Kind:
    """One kind of test examples: its label, how many there are, and both arms scored on them."""

    label: str
    examples: int
    row: Row


@dataclass(frozen=True)
class Breakdown:
    """Panels with their kinds of examples, by the name of the distinction; notes say what is missing, and why."""

    panels: Sequence[tuple[Row, Mapping[str, Sequence[Kind]]]]
    notes: Sequence[str]


def break_down(panels: Sequence[Row], found: Sequence[FoundRecord]) -> Breakdown:
    """Both arms on kinds of test examples, for all panels that compare two arms.

    Args:
        panels: Tasks with data and settings.
        found: The records that they were made from.
    """
    paths = {item.record.fingerprint: item.path for item in found}
    found_kinds, notes = [], list[str]()
    for panel in panels:
        if not panel.pair:
            continue
        try:
            kinds = kinds_of(panel, paths)
        except GroupsUnreadable as error:
            notes.append(str(error))
            continue
        if several := {name: own for name, own in (kinds or {}).items() if len(own) > 1}:
            found_kinds.append((panel, several))
        else:
            notes.append(f"{panel.title}: {_why_nothing(panel, kinds)}")
    return Breakdown(found_kinds, notes)


def _why_nothing(panel: Row, kinds: Mapping[str, Sequence[Kind]] | None) -> str:
    """Why a panel has no kinds of examples to compare; see `kinds_of`."""
    if kinds is None:
        return (
            "the runs have no score for each test example (examples.json.gz), so kinds of examples cannot be compared"
        )
    if not kinds:
        what = f"task={panel.task} data={panel.data} data_dir=DIR runs_dir=RUNS_DIR"
        return f"kinds of examples are not known; to get them: python -m tasks.groups {what}"
    large = [f"{name.replace('_', ' ')}: {kind.label}" for name, own in kinds.items() for kind in own]
    found = f"only one kind of test examples ({'; '.join(large)})" if large else "no kind of test examples"
    return f"nothing to compare: {found} has {FEWEST} of them or more"


def kinds_of(panel: Row, paths: Paths) -> dict[str, list[Kind]] | None:
    """Both arms on each kind of examples, by the name of the grouping; None if their examples do not give the metric.

    Raises:
        GroupsUnreadable: The file of groups is damaged.
    """
    pair = panel.pair
    runs = [run for group in pair or () for run in group.examples]
    if pair is None or not runs or not all(runs):
        return None
    examples = [run for run in runs if run]
    metric = metric_of(pair[0].records[0], examples[0][0])
    if metric is None or len({len(run) for run in examples}) != 1:
        return None
    if any(metric.of_examples(run) is None for run in examples):  # runs of different versions of the task
        return None
    found = groupings_of(pair[0], len(examples[0]), paths)
    pair = (_with_units(pair[0], metric), _with_units(pair[1], metric))
    lenders = [
        replace(own, group=_with_units(own.group, metric))
        for own in panel.lenders
        if min(len(group.records) for group in pair) == 1
        and all(run and len(run) == len(examples[0]) and metric.of_examples(run) for run in own.group.examples)
    ]
    row = replace(panel, lenders=lenders)
    return {name: _split(row, pair, metric, grouping) for name, grouping in found.items()}


def groupings_of(group: Group, count: int, paths: Paths) -> dict[str, Grouping]:
    """The ways to group the examples of these runs' test set, by name; several folds are joined.

    Args:
        group: The runs.
        count: The number of test examples.
        paths: Where each record is.
    """
    seed = group.records[0].identity.seed
    joined: dict[str, Grouping] | None = None
    for record in group.runs:
        if record.identity.seed != seed:
            continue
        path = None if reads_otherwise(record.identity) else paths.get(record.fingerprint)
        known = path and groups_above(path, record.identity.task, record.data_hashes)
        own = dict(known.groups) if known else {}
        if record.limit is not None or train_fraction(record) != 1:  # kinds of the whole training set are not theirs
            own = {name: grouping for name, grouping in own.items() if not grouping.from_train}
        joined = own if joined is None else _joined(joined, own)
    return {name: grouping for name, grouping in (joined or {}).items() if len(grouping.of) == count}


def _joined(first: Mapping[str, Grouping], second: Mapping[str, Grouping]) -> dict[str, Grouping]:
    """The groupings that both folds have, over the examples of both."""
    return {
        name: replace(own, of=[*own.of, *second[name].of])
        for name, own in first.items()
        if name in second and list(second[name].labels) == list(own.labels)
    }


def _split(row: Row, pair: tuple[Group, Group], metric: Metric, grouping: Grouping) -> list[Kind]:
    """Both arms on the examples of each label that enough examples have."""
    kinds = []
    for number, label in enumerate(grouping.labels):
        chosen = [i for i, own in enumerate(grouping.of) if own == number]
        if len(chosen) >= FEWEST:
            groups = [_only(group, chosen, metric) for group in pair]
            lenders = [replace(own, group=_only(own.group, chosen, metric)) for own in row.lenders]
            only = replace(row, groups=groups, others=(), paper=None, lenders=lenders)
            kinds.append(Kind(label, len(chosen), only))
    return kinds


def _only(group: Group, chosen: Sequence[int], metric: Metric) -> Group:
    """The group as if its test set had only these examples."""
    examples = [[run[i] for i in chosen] for run in group.examples if run]
    scores = [{"test": {group.metric: metric.of_examples(run) or 0.0}} for run in examples]
    records = [replace(record, scores=own) for record, own in zip(group.records, scores, strict=True)]
    return Group(group.features, group.settings, records, examples)


def _with_units(group: Group, metric: Metric) -> Group:
    """The group with the number of each example's unit among its scores, where it is known for the whole test set."""
    runs: list[Sequence[Example]] = []
    for record, run in zip(group.records, group.examples, strict=True):
        numbers = unit_numbers(record, run or (), metric.unit)
        numbered = zip(run or (), numbers or (), strict=True) if numbers else ()
        runs.append([{**example, metric.unit: number} for example, number in numbered] or run or ())
    return replace(group, examples=runs)
