"""Rows of the results table: groups of runs that may be averaged, and the gain between two of them."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING

from results.analysis.expected_best import expected_best
from results.analysis.interval import (
    FEW_SEEDS,
    ArmScores,
    Interval,
    Intervals,
    measured,
    paired_intervals,
    seed_intervals,
)
from results.analysis.names import (
    ROUNDING,
    MetricName,
    common_title,
    default_pair,
    load_names,
    metric_of,
    old_recipe,
    recomputed,
    sort_key,
    with_training_names,
)
from results.analysis.paper_scores import PaperScore, relative_error_cut
from results.analysis.units import unit_numbers
from results.records.collect import Finding, FoundRecord
from results.records.example_scores import Example
from results.records.identity import EXAMPLES_NAME, FOLD, Parts, flattened, looked_up, shown, without_seed
from results.records.metric import Metric
from results.records.record import RunRecord
from results.records.settings import settings_of

if TYPE_CHECKING:
    import numpy as np

MINI = "mini"  # the data set that comes with the suite
_VECTORS = "vectors/"  # before the names of word vectors among a run's inputs
WARNED = "‡"  # marks scores whose features have a declared warning
LIMITED = "§"  # marks scores of runs that the limit on epochs may have cut short


@dataclass(frozen=True)
class Group:
    """Finished records that differ only in the seed, in the order of their seeds: one number of the table.

    Attributes:
        features: The arm.
        settings: The settings that differ from a plain run, as typed; empty for plain runs.
        records: One per seed.
        examples: The scores of each record's test examples; None where they are missing or damaged.
        single: The records of single folds, if each of `records` was joined from several.
    """

    features: str
    settings: Mapping[str, str]
    records: Sequence[RunRecord]
    examples: Sequence[Sequence[Example] | None] = ()
    single: Sequence[RunRecord] = ()

    @cached_property
    def label(self) -> str:
        """The settings on one line, as typed; empty for plain runs."""
        return " ".join(f"{key}={value}" for key, value in self.settings.items())

    @property
    def name(self) -> str:
        """The column's name: features and settings."""
        return f"{self.features} {self.label}".rstrip()

    @property
    def metric(self) -> str:
        """The main metric, the same in all records."""
        return self.records[0].metric

    @property
    def runs(self) -> Sequence[RunRecord]:
        """The records as they were written: one per seed, or per seed and fold."""
        return self.single or self.records

    @property
    def seeds(self) -> list[int]:
        """The seeds, ascending."""
        return [record.identity.seed for record in self.records]

    @property
    def scores(self) -> list[float]:
        """The test scores in percent, in the order of the seeds."""
        return [record.score for record in self.records]

    @property
    def mean(self) -> float:
        """The mean of the scores, unrounded."""
        return statistics.fmean(self.scores)

    @property
    def std(self) -> float | None:
        """The sample standard deviation (n - 1), or None for a single run."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def recipe(self) -> int:
        """The version of the task's recipe, the same in all records."""
        return self.records[0].recipe

    @property
    def old_recipe(self) -> str:
        """The recipe, such as "recipe 1", if its task has a newer one; else empty."""
        return old_recipe(self.records[0])

    @property
    def few_seeds(self) -> bool:
        """Whether there are too few seeds, or folds, to know their deviation."""
        return len(self.runs) < FEW_SEEDS

    @property
    def warnings(self) -> list[str]:
        """What its features declare about their sources, each text once."""
        return list(dict.fromkeys(text for record in self.runs for text in record.warnings))

    @property
    def marks(self) -> str:
        """The signs after the score: a declared warning, a limit on epochs."""
        return WARNED * bool(self.warnings) + LIMITED * any(record.limited for record in self.runs)

    @property
    def partial(self) -> bool:
        """Whether the runs used only part of the data: a limit, a share of the training examples, or some folds."""
        first = self.records[0]
        return first.limit is not None or train_fraction(first) != 1 or self.lacks_folds

    @property
    def lacks_folds(self) -> bool:
        """Whether the runs are on some folds of a dataset, but not on all."""
        return FOLD in self.records[0].identity.variant

    def best_of(self, n: int) -> float | None:
        """The expected best dev score of n seeds; None if fewer were run or a dev score is missing."""
        scores = self.scores_by("dev", self.metric)
        return expected_best(scores, n) if n <= len(scores) else None

    def scores_by(self, split: str, metric: str) -> list[float]:
        """The scores on a split by a metric, in the order of the seeds; empty where a run lacks it."""
        found = [record.scores.get(split, {}).get(metric) for record in self.records]
        known = [score for score in found if score is not None]
        return known if len(known) == len(found) else []


@dataclass(frozen=True)
class TableRow:
    """The runs of one task on one data set; the gain is the difference between the two features in `compared`.

    `named`: settings that its name says, although they are in no label. `lenders`: see `lenders_of`.
    """

    data: str
    task: str
    groups: Sequence[Group]
    failed: Sequence[FoundRecord] = ()
    paper: PaperScore | None = None
    compared: tuple[str, str] = field(default_factory=default_pair)
    named: Mapping[str, str] = field(default_factory=dict)
    lenders: Sequence["Lender"] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Data and task, as in findings about the row."""
        return self.data, self.task

    def group(self, features: str, label: str = "") -> Group | None:
        """The group of these features and settings (by default plain runs), or None."""
        return self._by_name.get((features, label))

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], Group]:
        return {(group.features, group.label): group for group in reversed(self.groups)}  # the first of two wins

    def comparing(self, first: str, second: str) -> "TableRow":
        """The row with another pair to compare."""
        return replace(self, compared=(first, second))

    def gain(self, label: str = "") -> float | None:
        """The mean of the second features minus that of the first, under the same settings; None if one is missing."""
        pair = self.pair(label)
        return pair[1].mean - pair[0].mean if pair else None

    def interval(self, label: str = "") -> Interval | None:
        """The 95 % interval of the gain, over examples and seeds; over seeds alone where examples are missing."""
        found = self._both_intervals(label)
        return found.gain if found else None

    def no_interval(self, label: str = "") -> str:
        """Why the gain has no interval; empty if it has one, or if there is no gain."""
        pair = self.pair(label)
        if pair is None or self.interval(label):
            return ""
        scored = [(own, run or ()) for group in pair for own, run in zip_longest(group.records, group.examples)]
        sizes = sorted({len(run) for _, run in scored})
        if not sizes[0]:
            reason = f"{EXAMPLES_NAME} is missing"
        elif len(sizes) > 1:
            reason = f"the runs have different test examples, {sizes[0]:,} and {sizes[-1]:,}"
        elif any(abs((recomputed(own, run) or 0.0) - own.score) > ROUNDING for own, run in scored):
            reason = f"{EXAMPLES_NAME} does not give the scores"
        else:
            return "in each arm, all seeds and test examples have equal scores, so nothing says how far off the gain is"
        return f"{reason}, and seeds alone need two in an arm, with different scores"

    def gain_sign(self, label: str = "") -> int:
        """1 or -1 for a gain whose interval excludes 0, else 0."""
        interval = self.interval(label)
        return interval.sign if interval else 0

    def cut_interval(self, label: str = "") -> Interval | None:
        """The 95 % interval of `error_cut`."""
        found = self._both_intervals(label)
        return found.cut if found and self.error_cut(label) is not None else None

    def _both_intervals(self, label: str) -> Intervals | None:
        if label not in self._known_intervals:
            pair = self.pair(label)
            lender = next((own for own in self.lenders if pair and _alike(own.group) == _alike(pair[1])), None)
            self._known_intervals[label] = _intervals(*pair, lender) if pair else None
        return self._known_intervals[label]

    @cached_property
    def _known_intervals(self) -> dict[str, Intervals | None]:
        return {}  # by label, each computed once

    def error_cut(self, label: str = "") -> float | None:
        """The share of the first features' errors that the second remove, in percent; None if the metric has none."""
        pair = self.pair(label)
        return relative_error_cut(pair[0].mean, pair[1].mean) if pair and _has_errors(pair[0].metric) else None

    @property
    def metric(self) -> str:
        """The main metric: that of the first group, or of the first failed run if no run finished."""
        metrics = [group.metric for group in self.groups] + [item.record.metric for item in self.failed]
        return metrics[0] if metrics else ""

    @property
    def labels(self) -> list[str]:
        """The labels of runs with changed settings, each once."""
        return list(dict.fromkeys(group.label for group in self.groups if group.label))

    def pair(self, label: str = "") -> tuple[Group, Group] | None:
        """The two groups to compare under these settings; None if one is missing, or recipes or vectors differ."""
        found = self.matched(label)
        if found is None or unlike_vectors(*found):
            return None
        first, second = found
        return found if (first.metric, first.recipe) == (second.metric, second.recipe) else None

    def matched(self, label: str = "") -> tuple[Group, Group] | None:
        """The two groups that belong together under these settings, comparable or not; None if one is missing.

        If the first has no runs under them, it is the one with equal settings apart from parts that it lacks: settings
        of a biLM mean nothing to a baseline without one.
        """
        first, second = (self.group(features, label) for features in self.compared)
        if second and not first:
            like_it = [group for group in self.groups if group.features == self.compared[0]]
            like_it = [group for group in like_it if _equal_settings(group, second)]
            first = like_it[0] if len(like_it) == 1 else None
        return (first, second) if first and second else None


@dataclass(frozen=True)
class Summary:
    """The content of the results table.

    `best_of` adds the expected best dev score of that many seeds. `main_arms`: the two arms' settings, if they are not
    the suite's defaults; `main_note`: what is to be known about their records.
    """

    rows: Sequence[TableRow]
    findings: Sequence[Finding]
    compared: tuple[str, str] = field(default_factory=default_pair)
    best_of: int | None = None
    main_arms: Mapping[str, str] = field(default_factory=dict)
    main_note: str = ""

    @cached_property
    def features(self) -> list[str]:
        """The columns: the two that are compared, then all others that were run."""
        others = {group.features for row in self.rows for group in row.groups}
        others |= {item.record.identity.features for row in self.rows for item in row.failed}
        return sorted(others | set(self.compared), key=lambda features: column_order(features, self.compared))

    @cached_property
    def titles(self) -> dict[str, str]:
        """The columns' headers: names for people of the features, with a size if all plain runs have the same."""
        groups = [group for row in self.rows for group in row.groups]
        plain = [group for group in groups if not group.label]
        return {**arm_titles(self.features, groups), **arm_titles({own.features for own in plain}, plain)}

    @property
    def with_paper(self) -> bool:
        """Whether the comparison is the paper's, so that its numbers are shown."""
        return self.compared == default_pair()


def arm_titles(arms: Iterable[str], groups: Sequence[Group]) -> dict[str, str]:
    """Arm -> its name for people, with a size if all of these groups have the same."""
    return {arm: common_title(arm, [own.records[0] for own in groups if own.features == arm]) for arm in arms}


def _equal_settings(first: Group, second: Group) -> bool:
    """Whether settings changed in either have equal values in both, apart from parts that the first lacks.

    Labels may differ: where a task's defaults differ between the arms, giving one the other's value is a changed
    setting for it, but the default for the other.
    """
    ours, theirs = (flattened(group.records[0].config) for group in (first, second))
    parts = {key.rpartition(".")[0] for key in ours}
    changed = {**first.settings, **second.settings}.keys()
    shared = [key for key in changed if not key.startswith("features.") or key.rpartition(".")[0] in parts]
    return all(key in ours and key in theirs and ours[key] == theirs[key] for key in shared)


def unlike_vectors(first: Group, second: Group) -> str:
    """In what two groups' word vectors of one name differ; empty if they do not."""
    ours, theirs = map(_vectors, (first, second))
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name] != theirs[name]:
            found = f"{shown(ours[name])} and {shown(theirs[name])}"
            return f"their word vectors {name.removeprefix(_VECTORS)} have different content: {found}"
    return ""


def _vectors(group: Group) -> dict[str, object]:
    """Name of the group's word vectors -> their content: as the fingerprint has it, and of each file that was read."""
    first, known = group.records[0], load_names().trainings
    name = looked_up(first.config, "features.words.vectors")
    read = {key: found for own in group.records for key, found in own.inputs.items() if key.startswith(_VECTORS)}
    hashed = {str(name): first.fingerprinted.get("vectors")} if isinstance(name, str) else {}
    return {key: known.get(str(found), found) for key, found in {**hashed, **read}.items()}


def _has_errors(metric: str) -> bool:
    return load_names().metrics.get(metric, MetricName()).errors


def train_fraction(record: RunRecord) -> float:
    """The share of the training examples that the run used; 1 by default."""
    value = record.identity.variant.get("train_fraction", 1)
    return float(value) if isinstance(value, int | float) else 1.0


def comparable_parts(record: RunRecord) -> Parts:
    """What must be equal in runs of one mean: all that the fingerprint covers but the seed, all settings, the metric.

    Vectors to which `trainings` in names.toml gives the same name count as equal, and so do controls that are drawn by
    the seed.
    """
    parts = with_training_names(without_seed(record.hashed))
    hashed = parts.get("settings")  # of a user's YAML; the fingerprint covers these, and the config has all settings
    settings = {**settings_of(record), **(hashed if isinstance(hashed, Mapping) else {})}
    if any(value is None for key, value in settings.items() if key.endswith(".draw")):  # each seed draws other weights;
        parts.pop("weights", None)  # the file that they are drawn from is in `inputs`
    return {**parts, "settings": settings, "metric": record.metric}


def column_order(features: str, compared: tuple[str, str]) -> tuple[object, ...]:
    """Sort key: the two that are compared, then the others in the order of names.toml, then the rest by name."""
    return (sort_key(features, compared)[0], *sort_key(features, load_names().arms))


@dataclass(frozen=True)
class Lender:
    """The group with the largest deviation of a task's arms with three or more seeds: single runs borrow it.

    `df`: how many seeds these arms have, less one for each arm.
    """

    group: Group
    df: int


def lenders_of(groups: Iterable[Group]) -> list[Lender]:
    """Those of one task's groups, one for each share of the data, recipe and metric.

    Runs that learned nothing tell nothing about others, and folds show their own deviation.
    """
    known: dict[tuple[object, ...], list[Group]] = defaultdict(list)
    for group in groups:
        if not group.few_seeds and not group.single and not any(record.learned_nothing for record in group.records):
            known[_alike(group)].append(group)
    widest = [max(own, key=lambda group: group.std or 0.0) for own in known.values()]
    freedom = [sum(len(group.records) - 1 for group in own) for own in known.values()]
    return list(map(Lender, widest, freedom))


def _alike(group: Group) -> tuple[object, ...]:
    """What must be equal in groups whose scores may deviate alike."""
    first = group.records[0]
    return group.metric, group.recipe, first.limit, train_fraction(first), first.judged


def _intervals(first: Group, second: Group, lender: Lender | None) -> Intervals | None:
    """Over examples and seeds if all runs have examples that give their scores, else over seeds."""
    examples = next((run for run in first.examples if run), ())
    metric = metric_of(first.records[0], examples[0]) if examples else None
    counts = [_counts(group, metric, len(examples)) for group in (first, second)] if metric else [None]
    arm = ArmScores(lender.group.scores, df=lender.df) if lender else None
    if metric is None or counts[0] is None or counts[1] is None:
        return seed_intervals(first.scores, second.scores, arm)
    unit = FOLD if FOLD in examples[0] else metric.unit
    clusters = unit_numbers(first.records[0], examples, unit)
    recompute = partial(_scores, metric)
    if lender and min(len(first.scores), len(second.scores)) == 1:
        own = _counts(lender.group, metric, len(examples))
        arm = arm if own is None else replace(measured(own, recompute, clusters), df=lender.df)
    return paired_intervals(counts[0], counts[1], recompute, clusters, unit, arm)


def _counts(group: Group, metric: Metric, size: int) -> "np.ndarray | None":
    """The metric's columns and a one for each test example, (seeds, examples, counts).

    None if a run has not that many examples, lacks a column, or has another score than they give.
    """
    import numpy as np  # imported here: slow to import

    runs = [run for run in group.examples if run and len(run) == size]
    if len(runs) < len(group.records):
        return None
    try:
        columns = [[list(map(itemgetter(name), run)) for name in metric.columns] for run in runs]
    except KeyError:  # runs of different versions of the task
        return None
    counts = np.array([[*own, [1] * size] for own in columns], float).transpose(0, 2, 1)
    return counts if np.abs(_scores(metric, counts.sum(axis=1)) - group.scores).max() <= ROUNDING else None


def _scores(metric: Metric, sums: "np.ndarray") -> "np.ndarray":
    """The scores of summed counts, (..., counts) -> (...)."""
    scores: np.ndarray = metric.score({name: sums[..., i] for i, name in enumerate(metric.columns)}, sums[..., -1])
    return scores
