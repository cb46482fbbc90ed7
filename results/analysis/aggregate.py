"""Records to rows: what may be averaged is averaged, everything else stands by itself under its own name."""

import shlex
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from results.analysis.bootstrap import paired_interval, seed_interval
from results.analysis.expected_best import expected_best
from results.analysis.interval import Interval
from results.analysis.paper_scores import PaperScore, load_paper, relative_error_cut
from results.records.collect import Collection, Finding, Found
from results.records.example_scores import Example, ExamplesUnreadable, read_examples, score_of
from results.records.identity import EXAMPLES_NAME, Parts, differences, fingerprint, flattened, shown, without_seed
from results.records.record import RunRecord

BASELINE = "glove"
WITH_ELMO = "elmo"
MINI = "mini"  # the data that come with the suite
# Settings of features that say which vectors they are; the others say how the vectors are used.
SOURCES = ("weights", "vectors", "dim", "untrained", "untrained_seed")
ROUNDING = 0.005  # percent; a score and its examples agree to more digits than a table shows


@dataclass(frozen=True)
class Group:
    """Finished records that are equal but for the seed, in the order of their seeds: one number of the table.

    Attributes:
        features: The arm.
        settings: What sets the group apart from a plain run, as typed; empty for the plain runs.
        records: One per seed.
        examples: For each record its test examples' scores; None where they are missing or damaged.
    """

    features: str
    settings: Mapping[str, str]
    records: Sequence[RunRecord]
    examples: Sequence[Sequence[Example] | None] = ()

    @cached_property
    def label(self) -> str:
        """The settings in one line, as one would type them; empty for plain runs."""
        return " ".join(f"{key}={value}" for key, value in self.settings.items())

    @property
    def name(self) -> str:
        """The column's name: the features, and the settings where there are any."""
        return f"{self.features} {self.label}".rstrip()

    @property
    def metric(self) -> str:
        """The main metric, the same in all records."""
        return self.records[0].metric

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
    def cut(self) -> bool:
        """Whether the runs saw less than the whole data: by a limit, or by a share of the training examples."""
        return self.records[0].limit is not None or train_fraction(self.records[0]) != 1

    def best_of(self, n: int) -> float | None:
        """The expected best dev score of n seeds; None for more than were run, or where a dev score is missing."""
        found = [record.scores.get("dev", {}).get(record.metric) for record in self.records]
        scores = [score for score in found if score is not None]
        return expected_best(scores, n) if len(scores) == len(found) and n <= len(scores) else None

    @property
    def parts(self) -> Parts:
        """What the records have in common; the metric counts, for no mean is taken over two."""
        return _comparable(self.records[0])


@dataclass(frozen=True)
class Row:
    """All that is known about one task on one data set; `compared` are the features whose difference is the gain."""

    data: str
    task: str
    groups: Sequence[Group]
    failed: Sequence[Found] = ()
    paper: PaperScore | None = None
    compared: tuple[str, str] = (BASELINE, WITH_ELMO)
    _intervals: dict[str, Interval | None] = field(default_factory=dict, compare=False, repr=False)  # computed once

    def group(self, features: str, label: str = "") -> Group | None:
        """The group of these features and settings (plain unless told), or None."""
        return self._by_name.get((features, label))

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], Group]:
        return {(group.features, group.label): group for group in reversed(self.groups)}  # of two the first

    def gain(self, label: str = "") -> float | None:
        """The second features' mean less the first's, under the same settings; None where one of them is missing."""
        pair = self.pair(label)
        return pair[1].mean - pair[0].mean if pair else None

    def interval(self, label: str = "") -> Interval | None:
        """Where the gain lies, by test examples and seeds; by seeds alone, if there are six, where examples lack."""
        if label not in self._intervals:
            pair = self.pair(label)
            self._intervals[label] = _interval(*pair) if pair else None
        return self._intervals[label]

    def error_cut(self, label: str = "") -> float | None:
        """The share of the first features' error that the second take away, in percent."""
        pair = self.pair(label)
        return relative_error_cut(pair[0].mean, pair[1].mean) if pair else None

    @property
    def metric(self) -> str:
        """The main metric: that of the first group, or of the runs that failed before there was one."""
        metrics = [group.metric for group in self.groups] + [item.record.metric for item in self.failed]
        return metrics[0] if metrics else ""

    @property
    def labels(self) -> list[str]:
        """The settings other than plain ones, each once."""
        return list(dict.fromkeys(group.label for group in self.groups if group.label))

    def pair(self, label: str = "") -> tuple[Group, Group] | None:
        """The two groups that are compared under these settings; None where one is missing."""
        first, second = (self.group(features, label) for features in self.compared)
        return (first, second) if first and second and first.metric == second.metric else None


@dataclass(frozen=True)
class Summary:
    """The table before it has a format; `best_of` adds what the best of so many seeds would score on dev."""

    rows: Sequence[Row]
    findings: Sequence[Finding]
    compared: tuple[str, str] = (BASELINE, WITH_ELMO)
    best_of: int | None = None

    @cached_property
    def features(self) -> list[str]:
        """The columns: the two that are compared always, then whatever else was run."""
        others = {group.features for row in self.rows for group in row.groups}
        others |= {item.record.identity.features for row in self.rows for item in row.failed}
        return sorted(others | set(self.compared), key=lambda features: _column(features, self.compared))

    @property
    def beside_paper(self) -> bool:
        """Whether the two that are compared are the two that the paper compares."""
        return self.compared == (BASELINE, WITH_ELMO)


@dataclass(frozen=True)
class Selection:
    """What to show.

    Attributes:
        data: Only these data; all if empty.
        include_limited: Whether runs on cut data are shown.
        runs_dir: Where suggested commands write to, if not to the default.
        compared: The features whose difference is the gain.
        best_of: Of how many seeds the expected best is shown, if of any.
    """

    data: Sequence[str] = field(default_factory=list)
    include_limited: bool = False
    runs_dir: Path | None = None
    compared: tuple[str, str] = (BASELINE, WITH_ELMO)
    best_of: int | None = None


def summarise(collection: Collection, selection: Selection) -> Summary:
    """The rows of the table in the paper's order, and all there is to say about them."""
    findings = list(collection.findings)
    by_row: dict[tuple[str, str], list[Found]] = defaultdict(list)
    limited = 0
    for item in collection.found:
        identity = item.record.identity
        if selection.data and identity.data not in selection.data:
            continue
        if item.record.limit is not None and not selection.include_limited:
            limited += 1
            if item.record.status == "failed":  # a failure is always told
                findings.append(Finding("failed", _failure(item), wrong=True))
        else:
            by_row[identity.data, identity.task].append(item)
    if limited:
        findings.append(
            Finding("note", f"limited runs left out: {limited} (--include-limited shows them)", wrong=False)
        )
    compared = selection.compared
    rows = [_row(data, task, by_row[data, task], compared, findings) for data, task in sorted(by_row, key=_order)]
    summary = Summary(rows, findings, compared, selection.best_of)
    for row in rows:
        findings += _empty_cells(row, summary.features, selection.runs_dir)
    asked = [f for f in findings if not selection.data or not f.row or f.row[0] in selection.data]
    return replace(summary, findings=asked)


def _order(key: tuple[str, str]) -> tuple[object, ...]:
    """The paper's data first and its tasks in its order; the rest by name, the mini data last."""
    data, task = key
    paper = load_paper()
    tasks = paper.tasks
    return (
        data not in paper.comparable_data,
        data == MINI,
        data,
        tasks.index(task) if task in tasks else len(tasks),
        task,
    )


def _column(features: str, compared: tuple[str, str]) -> tuple[object, ...]:
    """Sorts the two that are compared first, then the baseline, ELMo, and the rest by name."""
    first = compared.index(features) if features in compared else len(compared)
    return (first, features != BASELINE, features != WITH_ELMO, features)


def train_fraction(record: RunRecord) -> float:
    """The share of the training examples that the run saw, 1 unless it was asked for less."""
    value = record.identity.variant.get("train_fraction", 1)
    return float(value) if isinstance(value, int | float) else 1.0


def _row(data: str, task: str, found: Sequence[Found], compared: tuple[str, str], findings: list[Finding]) -> Row:
    key = (data, task)
    cells: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for item in found:
        record = item.record
        if record.status == "finished":
            cells[record.identity.features, fingerprint(_settings(record))].append(record)
    groups: list[Group] = []
    for cell in cells.values():
        groups += (cell_groups := _groups(cell))
        if len(cell_groups) > 1:
            keys = sorted({k for g in cell_groups for k in differences(cell_groups[0].parts, g.parts)})
            text = f"{data} {task} {cell_groups[0].features}: runs that differ in {', '.join(keys)} are not averaged"
            findings.append(Finding("note", text, wrong=True, row=key))
    examples = {id(item.record): _examples(item, findings) for item in found if item.record.status == "finished"}
    groups = [replace(group, examples=[examples[id(record)] for record in group.records]) for group in groups]
    groups.sort(key=lambda group: (group.label, _column(group.features, compared)))  # plain ones have no label: first
    failed = [item for item in found if item.record.status == "failed"]
    row = Row(data, task, groups, failed, load_paper().compared(data, task), compared)
    findings += [Finding("failed", _failure(item), wrong=True, row=key) for item in row.failed]
    findings += [Finding("note", text, wrong, row=key) for text, wrong in _doubts(row)]
    if running := sum(item.record.status == "running" for item in found):
        findings.append(Finding("note", f"{data} {task}: {running} under way", wrong=False, row=key))
    return row


def _examples(item: Found, findings: list[Finding]) -> list[Example] | None:
    """The run's test examples, if they are there and whole; a score that they do not bear out is told."""
    record, path = item.record, item.path.with_name(EXAMPLES_NAME)
    row = (record.identity.data, record.identity.task)
    try:
        examples = read_examples(path, record.fingerprint)
    except ExamplesUnreadable as error:
        findings.append(Finding("unreadable", str(error), wrong=True, row=row))
        return None
    score = score_of(examples, record.metric) if examples else None
    if score is not None and abs(score - record.score) > ROUNDING:
        text = (
            f"{item.path}: scores.test.{record.metric} is {record.score:.4f}, but the examples beside it give "
            f"{score:.4f}; was one edited by hand? Restore the folder from a copy, or delete it and run again"
        )
        findings.append(Finding("note", text, wrong=True, row=row))
    return examples


def _interval(first: Group, second: Group) -> Interval | None:
    """From examples and seeds together where all runs have their examples, else from six seeds or more."""
    arms = [[run for run in group.examples if run is not None] for group in (first, second)]
    whole = all(len(arm) == len(group.records) for arm, group in zip(arms, (first, second), strict=True))
    found = paired_interval(arms[0], arms[1], first.metric, first.seeds == second.seeds) if whole else None
    seeds = [dict(zip(group.seeds, group.scores, strict=True)) for group in (first, second)]
    return found or seed_interval(*seeds)


def _settings(record: RunRecord) -> dict[str, str]:
    """What the user changed. A limit is always among it, so that a cut run can never pass for a plain one."""
    settings = {key: shown(value) for key, value in sorted(record.identity.variant.items())}
    return settings if record.limit is None else {**settings, "limit": str(record.limit)}


def _comparable(record: RunRecord) -> Parts:
    return {**without_seed(record.hashed), "metric": record.metric}


def _groups(records: Sequence[RunRecord]) -> list[Group]:
    """Splits records of one name into those that are equal but for the seed, naming each by what differs."""
    equal: dict[str, list[RunRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.identity.seed):
        equal[fingerprint(_comparable(record))].append(record)
    leaves = {key: flattened(_comparable(group[0])) for key, group in equal.items()}
    parts = [_comparable(group[0]) for group in equal.values()]
    differing = sorted({key for other in parts for key in differences(parts[0], other)})
    groups = []
    for key, group in equal.items():
        own = {name: shown(leaves[key][name]) if name in leaves[key] else "absent" for name in differing}
        groups.append(Group(group[0].identity.features, {**_settings(group[0]), **own}, group))
    if len({group.label for group in groups}) < len(groups):  # values that read alike, such as 1 and "1"
        return [
            replace(g, settings={**g.settings, "fingerprint": key[:12]}) for key, g in zip(equal, groups, strict=True)
        ]
    return groups


def _failure(item: Found) -> str:
    record, error = item.record, item.record.error
    settings = "".join(f" {key}={value}" for key, value in _settings(record).items())
    identity = record.identity
    reason = f"{error.type}: {' '.join(error.message.split())}" if error else "no reason recorded"
    return f"{identity.data} {identity.task} {identity.features}{settings} seed {identity.seed}: {reason} ({item.path})"


def _doubts(row: Row) -> list[tuple[str, bool]]:
    """Why a number of this row may not be what it seems, and whether that is wrong: mixed code, or unlike arms."""
    doubts = []
    for group in row.groups:
        where = f"{row.data} {row.task} {group.name}"
        seeds: dict[str, list[str]] = defaultdict(list)
        dirty = []
        for record in group.records:
            commit = record.environment.commit if record.environment else None
            seeds[commit[:10] if commit else "no commit"].append(str(record.identity.seed))
            if record.environment and record.environment.dirty:
                dirty.append(str(record.identity.seed))
        if len(seeds) > 1:
            mixed = ", ".join(f"{commit} (seed {' '.join(own)})" for commit, own in seeds.items())
            doubts.append((f"{where}: one mean over several commits: {mixed}", True))
        if dirty:
            doubts.append((f"{where}: code with uncommitted changes (seed {' '.join(dirty)})", True))
    for label in ["", *row.labels]:
        first, second = (row.group(features, label) for features in row.compared)
        if first and second:
            keys, wrong = _unlike(first.records[0], second.records[0])
            where, names = f"{row.data} {row.task} {label}".rstrip(), " and ".join(row.compared)
            doubts += [(f"{where}: {names}: arms differ in {', '.join(keys)}", wrong)] * bool(keys)
    return doubts


def _unlike(first: RunRecord, second: RunRecord) -> tuple[list[str], bool]:
    """The settings in which two arms differ beyond what they are, and whether that makes their gain doubtful.

    Arms of different kinds (with a biLM and without) differ in `features` by nature. Arms of one kind are what their
    weights or vectors are; where those are the same, the arms are their settings: named, and nothing is wrong.
    """
    sides = _settings_and_content(first), _settings_and_content(second)
    found = differences(*sides)
    # A setting that only one of the two knows was added to the suite between them, with the old behaviour as default.
    keys = [key for key, values in found.items() if key.startswith("features.") or "absent" not in values]
    keys = [key for key in keys if not key.startswith("recipes.") or key == "recipes.task"]
    other = [key for key in keys if key.split(".")[0] not in ("features", "vectors", "weights")]
    if _kind(sides[0]) != _kind(sides[1]):
        return other, True
    of_arm = [key for key in keys if key not in other]
    sources = [key for key in of_arm if not key.startswith("features.") or key.split(".")[-1] in SOURCES]
    settings = [key for key in keys if key not in sources and key != "features.name"]
    return settings, bool(other or sources)


def _settings_and_content(record: RunRecord) -> Parts:
    """What a run was made of, by the keys a user types; without where data and classes lie."""
    data, task = record.config.get("data"), record.config.get("task")
    return {
        **{key: record.config.get(key, {}) for key in ("features", "trainer")},
        "task": {key: value for key, value in task.items() if key != "_target_"} if isinstance(task, Mapping) else {},
        "data.reader": data.get("reader", {}) if isinstance(data, Mapping) else {},
        **record.fingerprinted,
        "metric": record.metric,
    }


def _kind(parts: Parts) -> set[str]:
    """The parts that the features have, such as words, characters, elmo."""
    return {key.split(".")[1] for key in flattened(parts) if key.startswith("features.") and key.count(".") > 1}


def _empty_cells(row: Row, features: Sequence[str], runs_dir: Path | None) -> list[Finding]:
    """The command for each plain number that the row lacks; only the two arms of the comparison are wrong to lack."""
    empty = [name for name in features if not _has_plain(row, name)]
    seeds = [record.identity.seed for group in row.groups for record in group.records]
    findings = []
    for name in empty:
        retry = [i.record.identity.seed for i in row.failed if i.record.identity.features == name]
        seed = min(retry or seeds or [1])
        words = [f"task={row.task}", f"features={name}", f"data={row.data}", f"seed={seed}"]
        words += [f"runs_dir={runs_dir}"] if runs_dir else []
        command = f"python -m tasks.run {shlex.join(words)}"
        findings.append(Finding("empty", command, wrong=name in row.compared, row=(row.data, row.task)))
    return findings


def _has_plain(row: Row, features: str) -> bool:
    return any(not _settings(g.records[0]) for g in row.groups if g.features == features)
