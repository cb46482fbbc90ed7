"""Rows of the results table: groups of runs that may be averaged, the gain between two of them, and their warnings.

The difference of our mean from the paper's gets a Welch interval over seeds, because both are scored on the same test
examples. Where the paper prints no deviation, its runs have ours; where it does not say how many they are, its number
counts as one run. Two scores are equivalent if two one-sided tests at 5 % reject a difference as large as the margin.
The gain and the errors removed get no verdict, because the paper gives no uncertainty for them.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import itemgetter

from results import names, stats
from results.experiments import Experiment, ExperimentRow
from results.records.collect import Finding
from results.records.example_scores import Example
from results.records.identity import FOLD, Parts, differences, looked_up, shown
from results.records.metric import Metric
from results.records.record import RunRecord, mapping_of, settings_of

MINI = "mini"  # the data set that comes with the suite
_VECTORS = "vectors/"  # before the names of word vectors among a run's inputs
WARNED = "‡"  # marks scores whose features have a declared warning
OLD = "°"  # marks scores of an older recipe
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
        declared: What a submitter declares about them; marked as warnings of features are.
    """

    features: str
    settings: Mapping[str, str]
    records: Sequence[RunRecord]
    examples: Sequence[Sequence[Example] | None] = ()
    single: Sequence[RunRecord] = ()
    declared: Sequence[str] = ()

    @cached_property
    def measured(self) -> dict[object, stats.ArmScores | None]:
        """What its test examples add to its scores, by metric and clusters; filled by `Row`."""
        return {}

    @cached_property
    def label(self) -> str:
        """The settings on one line, as typed; empty for plain runs."""
        return as_label(self.settings)

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
        return names.old_recipe(self.records[0])

    @property
    def few_seeds(self) -> bool:
        """Whether there are too few seeds, or folds, to know their deviation."""
        return len(self.runs) < stats.FEW_SEEDS

    @property
    def warnings(self) -> list[str]:
        """The warnings of its features about their sources, each text once."""
        return list(dict.fromkeys([*self.declared, *(text for record in self.runs for text in record.warnings)]))

    @property
    def marks(self) -> str:
        """The signs after the score: an older recipe, a declared warning, a limit on epochs."""
        limited = any(record.limited for record in self.runs)
        return OLD * bool(self.old_recipe) + WARNED * bool(self.warnings) + LIMITED * limited

    @property
    def partial(self) -> bool:
        """Whether the runs used only part of the data: a limit, a share of the training examples, or some folds."""
        return is_partial(self.records[0]) or FOLD in self.records[0].identity.variant

    def scores_by(self, split: str, metric: str) -> list[float]:
        """The scores on a split by a metric, in the order of the seeds; empty where a run lacks it."""
        scores = [record.scores.get(split, {}).get(metric) for record in self.records]
        known = [score for score in scores if score is not None]
        return known if len(known) == len(scores) else []


@dataclass(frozen=True)
class Row:
    """A line of a table: a task on a data set under some settings, with a group for each arm that was run.

    The gain is the difference between the two arms in `compared`.

    Attributes:
        data: The data set.
        task: The task.
        groups: One for each arm that has runs, in the order of the arms.
        settings: What its runs set, as typed, where that is not what the table is about; empty for its main rows.
        named: Settings that its title says, although they are the table's.
        spec: The row in the experiment's file.
        name: The title that the experiment gives it; by default it is made from task, data and settings.
        paper: The paper's scores.
        compared: The two arms.
        others: The groups of the same task and data under other settings.
        lenders: See `lenders_of`.
        part: The title of the test examples that it is about; empty for the whole test set.
    """

    data: str
    task: str
    groups: Sequence[Group]
    settings: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    spec: ExperimentRow = field(default_factory=lambda: ExperimentRow([]))
    name: str = ""
    paper: names.PaperScore | None = None
    compared: tuple[str, str] = field(default_factory=names.default_pair)
    others: Sequence[Group] = ()
    lenders: Sequence[Lender] = ()
    part: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Data and task, as in findings about the row."""
        return self.data, self.task

    @property
    def label(self) -> str:
        """The settings on one line, as typed."""
        return as_label(self.settings)

    @property
    def record(self) -> RunRecord | None:
        """A record of the row, for names that a user's YAML gives; None if nothing was run."""
        return self.groups[0].records[0] if self.groups else None

    @property
    def task_title(self) -> str:
        """The displayed name of the task on the data."""
        return names.task_title(self.data, self.task, self.record)

    @property
    def settings_title(self) -> str:
        """The displayed settings, those of the title included."""
        return names.settings_title({**self.shown_names, **self.settings})

    @property
    def shown_names(self) -> dict[str, str]:
        """The settings in `named` that these runs have, such as their biLM's, without those that they have instead."""
        configs = [group.records[0].config for group in self.groups]
        has = {key for key in self.named for config in configs if looked_up(config, key) is not ...}
        return {key: value for key, value in self.named.items() if key in has and key not in self.settings}

    @property
    def title(self) -> str:
        """The displayed task, data and settings."""
        if self.name:
            return ", ".join(filter(None, [self.name, names.settings_title(self.settings)]))
        return ", ".join(filter(None, [self.task_title, self.settings_title]))

    @property
    def stem(self) -> str:
        """Data, task and settings, made safe for a file name."""
        return as_stem(f"{self.data}-{self.task}-{self.label}")

    @property
    def metric(self) -> str:
        """The metric of its scores; empty if nothing says which."""
        printed = self.paper.metric if self.paper else ""
        return self.spec.metric or (self.groups[0].metric if self.groups else printed)

    def metric_title(self, metric: str = "") -> str:
        """The displayed name of a metric, by default that of its scores."""
        return names.metric_title(metric or self.metric, self.record)

    def group(self, arm: str) -> Group | None:
        """The group of an arm, or None."""
        return next((group for group in self.groups if group.features == arm), None)

    def comparing(self, first: str, second: str) -> Row:
        """The row with another pair to compare."""
        return replace(self, compared=(first, second))

    @cached_property
    def pair(self) -> tuple[Group, Group] | None:
        """The two groups to compare; None if one is missing, or recipes or vectors differ."""
        if self.matched is None or unlike_vectors(*self.matched):
            return None
        first, second = self.matched
        return self.matched if (first.metric, first.recipe) == (second.metric, second.recipe) else None

    @cached_property
    def matched(self) -> tuple[Group, Group] | None:
        """The two groups that belong together, comparable or not; None if one is missing.

        If the first has no runs here, it is the one with equal settings apart from parts that it lacks: settings of a
        biLM mean nothing to a baseline without one.
        """
        first, second = map(self.group, self.compared)
        if second and not first:
            of_first = (group for group in self.others if group.features == self.compared[0])
            alike = [group for group in of_first if _equal_settings(group, second)]
            first = alike[0] if len(alike) == 1 else None
        return (first, second) if first and second else None

    @property
    def gain(self) -> float | None:
        """The mean of the second arm minus that of the first; None without a pair."""
        return self.pair[1].mean - self.pair[0].mean if self.pair else None

    @cached_property
    def _intervals(self) -> stats.Intervals | None:
        pair = self.pair
        lender = next((one for one in self.lenders if pair and _alike(one.group) == _alike(pair[1])), None)
        return _intervals(*pair, lender) if pair else None

    @property
    def interval(self) -> stats.Interval | None:
        """The 95 % interval of the gain, over examples and seeds; over seeds alone where examples are missing."""
        return self._intervals.gain if self._intervals else None

    @property
    def sign(self) -> int:
        """1 or -1 for a gain whose interval excludes 0, else 0."""
        return self.interval.sign if self.interval else 0

    @property
    def error_cut(self) -> float | None:
        """The share of the first arm's errors that the second removes, in percent; None if the metric has none."""
        if self.pair is None or not names.load_names().metrics.get(self.pair[0].metric, names.MetricName()).errors:
            return None
        return names.relative_error_cut(self.pair[0].mean, self.pair[1].mean)

    @property
    def cut_interval(self) -> stats.Interval | None:
        """The 95 % interval of `error_cut`."""
        return self._intervals.cut if self._intervals and self.error_cut is not None else None

    @property
    def printed(self) -> Mapping[str, float]:
        """The paper's scores by arm; empty without any."""
        return self.paper.scores if self.paper else {}


@dataclass(frozen=True)
class Table:
    """An experiment, filled with groups.

    Attributes:
        experiment: Its arms are the columns; that of all records has those that were found.
        rows: The rows to show first.
        others: Those under other settings.
        findings: What is to be said about them.
        main_arms: The settings of the two arms, where they are not the suite's defaults.
        columns: Of a table by arm, further columns: header -> arm -> cell.
    """

    experiment: Experiment
    rows: Sequence[Row]
    others: Sequence[Row]
    findings: Sequence[Finding]
    main_arms: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def arms(self) -> list[str]:
        """The arms; of an experiment without some of its cells, those that it still has."""
        chosen = self.experiment.chosen
        return [arm for arm in self.experiment.arms if chosen is None or any(cell.arm == arm for cell in chosen)]

    @property
    def compared(self) -> tuple[str, str]:
        """The two arms whose difference is the gain; empty names if the experiment compares none."""
        return self.experiment.compared

    @cached_property
    def titles(self) -> dict[str, str]:
        """The displayed names of the arms: those in the file, or of their features if an arm is named like these."""
        titles = arm_titles(self.experiment.arms, [group for row in [*self.rows, *self.others] for group in row.groups])
        main = [group for row in self.rows if not row.settings for group in row.groups]
        return {**titles, **arm_titles({group.features for group in main}, main), **self.experiment.titles}

    @property
    def with_paper(self) -> bool:
        """Whether the comparison is the paper's, so that its numbers are shown."""
        return self.compared == names.default_pair()

    def against_base(self, row: Row, arm: str) -> Row:
        """The row, to compare an arm with the first that is compared; there is no pair if it is that arm itself."""
        return row.comparing(self.compared[0], arm if arm != self.compared[0] else "")

    def by_task(self) -> list[tuple[list[Row], list[Row]]]:
        """For each task on a data set that has runs the rows to show first, and the others."""
        rows_of_task: dict[tuple[str, str], tuple[list[Row], list[Row]]] = {}
        for number, rows in enumerate((self.rows, self.others)):
            for row in rows:
                if row.groups:
                    rows_of_task.setdefault(row.key, ([], []))[number].append(row)
        return list(rows_of_task.values())


def as_label(settings: Mapping[str, str]) -> str:
    """The settings on one line, as typed."""
    return " ".join(f"{key}={value}" for key, value in settings.items())


def as_stem(name: str) -> str:
    """The name, made safe for a file name."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", name)[:80].strip("-")


def arm_titles(arms: Iterable[str], groups: Sequence[Group]) -> dict[str, str]:
    """Arm -> its displayed name, with a size if all of these groups have the same."""
    titles = dict[str, str]()
    for arm in arms:
        records = [group.records[0] for group in groups if group.features == arm]
        of_arm = {names.arm_title(arm, run) for run in records if run.identity.features == arm.partition(" ")[0]}
        titles[arm] = of_arm.pop() if len(of_arm) == 1 else names.arm_title(arm)
    return titles


def _equal_settings(first: Group, second: Group) -> bool:
    """Whether settings changed in either have equal values in both, apart from parts that the first lacks.

    Labels may differ: where a task's defaults differ between the arms, giving one the other's value is a changed
    setting for it, but the default for the other.
    """
    ours, theirs = (group.records[0].leaves for group in (first, second))
    parts = {key.rpartition(".")[0] for key in ours}
    changed = {**first.settings, **second.settings}.keys()
    shared = [key for key in changed if not key.startswith("features.") or key.rpartition(".")[0] in parts]
    return all(key in ours and key in theirs and ours[key] == theirs[key] for key in shared)


def unlike_vectors(first: Group, second: Group) -> str:
    """In what two groups' word vectors of one name differ; empty if they do not."""
    ours, theirs = map(_vectors, (first, second))
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name] != theirs[name]:
            contents = f"{shown(ours[name])} and {shown(theirs[name])}"
            return f"their word vectors {name.removeprefix(_VECTORS)} have different content: {contents}"
    return ""


def _vectors(group: Group) -> dict[str, object]:
    """Name of the group's word vectors -> their content: as the fingerprint has it, and of each file that was read."""
    first, known = group.records[0], names.load_names().trainings
    name = looked_up(first.config, "features.words.vectors")
    read = {key: content for run in group.records for key, content in run.inputs.items() if key.startswith(_VECTORS)}
    hashed = {str(name): first.fingerprinted.get("vectors")} if isinstance(name, str) else {}
    return {key: known.get(str(content), content) for key, content in {**hashed, **read}.items()}


def train_fraction(record: RunRecord) -> float:
    """The share of the training examples that the run used; 1 by default."""
    value = record.identity.variant.get("train_fraction", 1)
    return float(value) if isinstance(value, int | float) else 1.0


def is_partial(record: RunRecord) -> bool:
    """Whether the run used only part of the data: a limit, or a share of the training examples."""
    return record.limit is not None or train_fraction(record) != 1


def comparable_parts(record: RunRecord) -> Parts:
    """The equal parts of runs of one mean: all that the fingerprint covers but the seed, all settings, the metric.

    Vectors to which `trainings` in names.toml gives the same name count as equal, and so do controls that are drawn by
    the seed.
    """
    parts = record.without_seed
    if training := names.load_names().trainings.get(str(parts.get("vectors"))):
        parts["vectors"] = training
    hashed = parts.get("settings")  # of a user's YAML; the fingerprint covers these, and the config has all settings
    settings = {**settings_of(record), **mapping_of(hashed)}
    if any(value is None for key, value in settings.items() if key.endswith(".draw")):  # each seed draws other weights;
        parts.pop("weights", None)  # the file that they are drawn from is in `inputs`
    return {**parts, "settings": settings, "metric": record.metric}


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
    lenders: dict[tuple[object, ...], Lender] = {}
    for group in groups:
        if not group.few_seeds and not group.single and not any(record.learned_nothing for record in group.records):
            known = lenders.get(_alike(group), Lender(group, 0))
            largest = max(known.group, group, key=lambda one: one.std or 0.0)
            lenders[_alike(group)] = Lender(largest, known.df + len(group.records) - 1)
    return list(lenders.values())


def _alike(group: Group) -> tuple[object, ...]:
    """The parts that must be equal in groups whose scores may deviate alike."""
    first = group.records[0]
    return group.metric, group.recipe, first.limit, train_fraction(first), first.judged


def _intervals(first: Group, second: Group, lender: Lender | None) -> stats.Intervals | None:
    """Over examples and seeds if all runs have examples that give their scores, else over seeds."""
    examples = next((run for run in first.examples if run), ())
    metric = names.metric_of(first.records[0], examples[0]) if examples else None
    unit = FOLD if examples and FOLD in examples[0] else metric.unit if metric else ""
    clusters = unit_numbers(examples, unit)
    if clusters is not None and unit != FOLD and len(set(clusters)) == len(clusters):
        clusters, unit = None, ""  # such as sentences without documents
    arm = stats.ArmScores(lender.group.scores, df=lender.df) if lender else None
    one, other = (_measured(one, metric, len(examples), clusters) if metric else None for one in (first, second))
    if metric is None or one is None or other is None:
        return stats.seed_intervals(first.scores, second.scores, arm)
    if lender and min(len(first.scores), len(second.scores)) == 1:
        lent = _measured(lender.group, metric, len(examples), clusters)
        arm = arm if lent is None else replace(lent, df=lender.df)
    return stats.paired_intervals(one, other, clusters, unit, arm)


def _measured(group: Group, metric: Metric, size: int, clusters: Sequence[float] | None) -> stats.ArmScores | None:
    """`stats.measured` of `counts_of`, once for a group: tables compare it with many others."""
    key = (repr(metric), size, clusters and tuple(clusters))
    if key not in group.measured:
        counts = counts_of(group, metric, size)
        group.measured[key] = None if counts is None else stats.measured(counts, partial(scores_of, metric), clusters)
    return group.measured[key]


def counts_of(group: Group, metric: Metric, size: int) -> stats.Array | None:
    """The metric's columns and a one for each test example, (seeds, examples, counts).

    None if a run has not that many examples, lacks a column, or has another score than they give.
    """
    import numpy as np  # imported here: no command needs it for --help

    runs = [run for run in group.examples if run and len(run) == size]
    if len(runs) < len(group.records):
        return None
    try:
        columns = [[np.fromiter(map(itemgetter(name), run), float, size) for name in metric.columns] for run in runs]
    except KeyError:  # runs of different versions of the task
        return None
    counts = np.array([[*of_run, np.ones(size)] for of_run in columns]).transpose(0, 2, 1)
    return counts if np.abs(scores_of(metric, counts.sum(axis=1)) - group.scores).max() <= names.ROUNDING else None


def scores_of(metric: Metric, sums: stats.Array) -> stats.Array:
    """The scores of summed counts, (..., counts) -> (...)."""
    return metric.score({name: sums[..., i] for i, name in enumerate(metric.columns)}, sums[..., -1])


def unit_numbers(examples: Sequence[Example], unit: str) -> list[float] | None:
    """The number of the unit, such as "article", of each example; None if they have none."""
    return list(map(itemgetter(unit), examples)) if all(unit in example for example in examples) else None


@dataclass(frozen=True)
class Verdict:
    """The difference from the paper's number, and what it shows.

    Attributes:
        kind: "equivalent", "short", "above", "open" or "one run".
        difference: Our mean minus the paper's number, in points.
        low: The lower end of the 95 % interval; None if no deviation is known.
        high: Its upper end.
    """

    kind: str
    difference: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        between = "" if self.low is None else f" ({self.low:+.2f} to {self.high:+.2f})"
        return f"{round(self.difference, 2) + 0.0:+.2f} {self.kind}{between}"


def verdict(group: Group | None, paper: names.PaperScore | None) -> Verdict | None:
    """The verdict on a group; None if the paper has no such number: other arms, other metrics, or limited data."""
    if group is None or paper is None or not paper.compared:
        return None
    printed = paper.scores.get(group.features)
    if printed is None or group.partial or group.metric != paper.metric:
        return None
    difference, margin = group.mean - printed, paper.margin
    variance, df = stats.combined(_variances(group.scores, paper.std.get(group.features), paper.runs or 1))
    if not variance:  # also of several runs with equal scores, which tell nothing about others
        return Verdict("one run" if len(group.scores) == 1 else "open", difference, None, None)
    error = variance**0.5
    half = stats.quantile(0.975, df) * error
    if abs(difference) + stats.quantile(0.95, df) * error < margin:
        kind = "equivalent"
    elif abs(difference) > half:
        kind = "short" if difference < 0 else "above"
    else:
        kind = "open"
    return Verdict(kind, difference, difference - half, difference + half)


def _variances(scores: Sequence[float], deviation: float | None, runs: int) -> list[stats.Spread]:
    """The variances of the mean of our scores and of the paper's, the mean of `runs`; none if no deviation is known."""
    ours = statistics.variance(scores) if len(scores) > 1 else None
    if deviation is None or runs < 2:
        return [] if ours is None else [stats.Spread(ours * (1 / len(scores) + 1 / runs), len(scores) - 1)]
    if ours is None:
        return [stats.Spread(deviation**2 * (1 + 1 / runs), runs - 1)]
    return [stats.Spread(ours / len(scores), len(scores) - 1), stats.Spread(deviation**2 / runs, runs - 1)]


def row_warnings(row: Row, wanted: Collection[str], titles: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Warnings about the row's numbers, each with whether `--check` should fail: mixed code or vectors, unequal arms.

    Args:
        row: The row.
        wanted: Settings in which its arms differ on purpose.
        titles: Arm -> its displayed name, where it is not that of its features.
    """
    # of texts that differ in numbers alone, as those of folds, the first
    data: dict[str, str] = {}
    for text in (text for group in row.groups for run in group.runs for text in run.data_warnings):
        data.setdefault(re.sub(r"\d+", "", text), text)
    warnings = [(f"{row.name or row.task_title}: data: {text}", False) for text in data.values()]
    nothing = []  # the arms that learned nothing
    for group in row.groups:
        title = titles.get(group.features) or names.arm_title(group.features, group.records[0])
        where = f"{row.title}, {title}"
        commits = [(record.commit or "no commit")[:10] for record in group.runs]
        vectors = [str(record.hashed.get("vectors"))[:10] for record in group.runs]
        for what, sources in {"commits": commits, "trainings of the vectors": vectors}.items():
            by_source: dict[str, list[RunRecord]] = defaultdict(list)
            for record, source in zip(group.runs, sources, strict=True):
                by_source[source].append(record)
            if len(by_source) > 1:
                mixed = ", ".join(f"{source} ({runs_in_words(records)})" for source, records in by_source.items())
                warnings.append((f"{where}: one mean over several {what}: {mixed}", True))
        dirty = [run for run in group.runs if run.environment and run.environment.dirty]
        warnings += [(f"{where}: {WARNED} {text}", False) for text in group.warnings]
        if idle := [run for run in group.runs if run.learned_nothing]:
            nothing.append(f"{title} ({runs_in_words(idle)})")
        if dirty:
            warnings.append((f"{where}: code with uncommitted changes ({runs_in_words(dirty)})", True))
        for record in group.runs:
            others = {key for old in record.earlier for key in differences(vars(old), vars(record.environment))}
            if others:
                which = f"{runs_in_words([record])} was continued in another environment"
                warnings.append((f"{where}: {which} ({', '.join(sorted(others))})", False))
    if nothing:
        why = "one class for all test examples, or a score of 0"
        advice = "so gains over it or of it mean nothing. Try more epochs or smaller batches"
        warnings.append((f"{row.title}: {', '.join(nothing)} learned nothing ({why}), {advice}", False))
    base, second = row.compared
    for arm in dict.fromkeys([second, *(group.features for group in row.groups)]):
        matched = row.comparing(base, arm).matched if arm != base else None
        if matched is None:
            continue
        first, other = matched
        arms = " and ".join(titles.get(name) or names.arm_title(name) for name in (base, arm))
        where = f"{row.title}: {arms}"
        if unlike := unlike_vectors(first, other):
            warnings.append((f"{where}: no gain, because {unlike}", True))
        elif arm == second and first.recipe == other.recipe:
            keys = _arm_differences(first.records[0], other.records[0], wanted)
            warnings += [(f"{where}: arms differ in {', '.join(keys)}", True)] * bool(keys)
        elif arm == second and first.label == other.label:
            text = f"{where}: no gain, because their recipes differ: {first.recipe} and {other.recipe}"
            warnings.append((text, True))
    return warnings


def runs_in_words(records: Collection[RunRecord]) -> str:
    """The seeds and folds in words: seed 1; seeds 1, 3; seeds 2 to 5, folds 0 to 9."""
    folds = {record.identity.fold for record in records if record.identity.fold is not None}
    seeds = _listed("seed", {record.identity.seed for record in records})
    return f"{seeds}, {_listed('fold', folds)}" if folds else seeds


def _listed(name: str, numbers: Collection[int]) -> str:
    first, last = min(numbers), max(numbers)
    if len(numbers) > 2 and last - first + 1 == len(numbers):
        return f"{name}s {first} to {last}"
    return f"{name}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _arm_differences(first: RunRecord, second: RunRecord, wanted: Collection[str]) -> list[str]:
    """The settings and data in which two arms differ beside their features.

    A setting that only one of them has was added to the suite between the two runs; its default is the old behaviour.
    """
    sides = ({**settings_of(record), "data": record.data_hashes, "metric": record.metric} for record in (first, second))
    unlike = {key: values for key, values in differences(*sides).items() if "absent" not in values}
    return [key for key in unlike if not key.startswith("features.") and key not in wanted]
