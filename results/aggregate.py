"""Records to rows: what may be averaged is averaged, everything else stands by itself under its own name."""

import shlex
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from results.bootstrap import Interval, paired_interval, read_examples
from results.collect import Collection, Finding, Found
from results.identity import EXAMPLES_NAME, Parts, differences, fingerprint, flattened, shown, without_seed
from results.paper import PaperScore, load_paper, relative_error_cut
from results.record import RunRecord

BASELINE = "glove"
WITH_ELMO = "elmo"


@dataclass(frozen=True)
class Group:
    """Finished records that are equal but for the seed, in the order of their seeds: one number of the table.

    Attributes:
        features: The arm.
        settings: What sets the group apart from a plain run, as typed; empty for the plain runs.
        records: One per seed.
        examples: For each record the file with its test examples' scores.
    """

    features: str
    settings: Mapping[str, str]
    records: Sequence[RunRecord]
    examples: Sequence[Path] = ()

    @property
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
    def parts(self) -> Parts:
        """What the records have in common; the metric counts, for no mean is taken over two."""
        return _comparable(self.records[0])


@dataclass(frozen=True)
class Row:
    """All that is known about one task on one data set."""

    data: str
    task: str
    groups: Sequence[Group]
    failed: Sequence[Found] = ()
    paper: PaperScore | None = None
    _intervals: dict[str, Interval | None] = field(default_factory=dict, compare=False, repr=False)  # computed once

    def group(self, features: str, label: str = "") -> Group | None:
        """The group of these features and settings (plain unless told), or None."""
        return next((group for group in self.groups if (group.features, group.label) == (features, label)), None)

    def gain(self, label: str = "") -> float | None:
        """ELMo's mean less the baseline's, both under the same settings; None where one of them is missing."""
        pair = self._pair(label)
        return pair[1].mean - pair[0].mean if pair else None

    def interval(self, label: str = "") -> Interval | None:
        """Where the gain lies, by test examples and seeds; None without a pair or without its examples' scores."""
        if label not in self._intervals:
            pair = self._pair(label)
            arms = [_examples(group) for group in pair] if pair else [[], []]
            self._intervals[label] = paired_interval(arms[0], arms[1], self.metric)
        return self._intervals[label]

    def error_cut(self, label: str = "") -> float | None:
        """The share of the baseline's error that ELMo takes away, in percent."""
        pair = self._pair(label)
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

    def _pair(self, label: str) -> tuple[Group, Group] | None:
        baseline, elmo = self.group(BASELINE, label), self.group(WITH_ELMO, label)
        return (baseline, elmo) if baseline and elmo and baseline.metric == elmo.metric else None


@dataclass(frozen=True)
class Summary:
    """The table before it has a format."""

    rows: Sequence[Row]
    findings: Sequence[Finding]

    @property
    def features(self) -> list[str]:
        """The columns: baseline and ELMo always, then whatever else was run."""
        others = {group.features for row in self.rows for group in row.groups}
        others |= {item.record.identity.features for row in self.rows for item in row.failed}
        return sorted(others | {BASELINE, WITH_ELMO}, key=_column)


@dataclass(frozen=True)
class Selection:
    """What to show.

    Attributes:
        data: Only these data; all if empty.
        include_limited: Whether runs on cut data are shown.
        runs_dir: Where suggested commands write to, if not to the default.
    """

    data: Sequence[str] = field(default_factory=list)
    include_limited: bool = False
    runs_dir: Path | None = None


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
    rows = [_row(data, task, by_row[data, task], findings) for data, task in sorted(by_row, key=_order)]
    summary = Summary(rows, findings)
    for row in rows:
        findings += _empty_cells(row, summary.features, selection.runs_dir)
    return Summary(rows, [f for f in findings if not selection.data or not f.row or f.row[0] in selection.data])


def _order(key: tuple[str, str]) -> tuple[object, ...]:
    """The paper's data first and its tasks in its order; the rest by name."""
    data, task = key
    paper = load_paper()
    tasks = paper.tasks
    return (data not in paper.comparable_data, data, tasks.index(task) if task in tasks else len(tasks), task)


def _column(features: str) -> tuple[bool, bool, str]:
    """Sorts the baseline first, ELMo second, the rest by name."""
    return (features != BASELINE, features != WITH_ELMO, features)


def _row(data: str, task: str, found: Sequence[Found], findings: list[Finding]) -> Row:
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
    beside = {id(item.record): item.path.with_name(EXAMPLES_NAME) for item in found}
    groups = [replace(group, examples=[beside[id(record)] for record in group.records]) for group in groups]
    groups.sort(key=lambda group: (group.label, _column(group.features)))  # the plain ones have no label: first
    row = Row(data, task, groups, [i for i in found if i.record.status == "failed"], load_paper().compared(data, task))
    findings += [Finding("failed", _failure(item), wrong=True, row=key) for item in row.failed]
    findings += [Finding("note", text, wrong=True, row=key) for text in _doubts(row)]
    if running := sum(item.record.status == "running" for item in found):
        findings.append(Finding("note", f"{data} {task}: {running} under way", wrong=False, row=key))
    return row


def _examples(group: Group) -> list[list[Mapping[str, float]]]:
    """For each record its test examples' scores; nothing where those of one are missing."""
    runs = [
        read_examples(path, record.fingerprint) for path, record in zip(group.examples, group.records, strict=False)
    ]
    found = [run for run in runs if run is not None]
    return found if len(found) == len(group.records) else []


def _settings(record: RunRecord) -> dict[str, str]:
    """What the user changed. A limit is always among it, so that a cut run can never pass for a plain one."""
    settings = {key: shown(value) for key, value in sorted(record.identity.variant.items())}
    return settings if record.limit is None else {**settings, "limit": str(record.limit)}


def _comparable(record: RunRecord) -> Parts:
    return {**without_seed(record.fingerprinted), "metric": record.metric}


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


def _doubts(row: Row) -> list[str]:
    """Why a number of this row may not be what it seems: mixed code, or arms that differ in more than features."""
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
            doubts.append(f"{where}: one mean over several commits: {mixed}")
        if dirty:
            doubts.append(f"{where}: code with uncommitted changes (seed {' '.join(dirty)})")
    for label in ["", *row.labels]:
        baseline, elmo = row.group(BASELINE, label), row.group(WITH_ELMO, label)
        if baseline and elmo and (keys := [k for k in differences(baseline.parts, elmo.parts) if not _of_arm(k)]):
            where = f"{row.data} {row.task} {label}".rstrip()
            doubts.append(f"{where}: {BASELINE} and {WITH_ELMO} differ in more than features: {', '.join(keys)}")
    return doubts


def _of_arm(key: str) -> bool:
    return key.split(".")[0] in ("features", "weights")


def _empty_cells(row: Row, features: Sequence[str], runs_dir: Path | None) -> list[Finding]:
    """The command for each plain number that the row lacks; only the two arms of the comparison are wrong to lack."""
    empty = [name for name in features if not _has_plain(row, name)]
    seeds = [record.identity.seed for group in row.groups for record in group.records]
    findings = []
    for name in empty:
        retry = [i.record.identity.seed for i in row.failed if i.record.identity.features == name]
        seed = min(retry or seeds or [1])
        command = f"python -m tasks.run task={row.task} features={name} data={row.data} seed={seed}"
        command += f" runs_dir={shlex.quote(str(runs_dir))}" if runs_dir else ""
        findings.append(Finding("empty", command, wrong=name in (BASELINE, WITH_ELMO), row=(row.data, row.task)))
    return findings


def _has_plain(row: Row, features: str) -> bool:
    return any(not _settings(g.records[0]) for g in row.groups if g.features == features)
