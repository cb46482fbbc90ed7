"""What a document may quote: numbers of published records, and the paper's."""

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations
from pathlib import Path

from results.breakdown import Kind, kinds_of
from results.experiments import Experiment, experiment_names, load_experiment
from results.names import load_paper, metric_title, relative_error_cut
from results.records.collect import collect
from results.tables.fill import Selection, fill_all
from results.tables.rows import Group, Row, verdict


@dataclass(frozen=True)
class Known:
    """Numbers that belong together, such as a gain and the ends of its interval.

    Attributes:
        numbers: The numbers, unrounded; the first may be quoted alone.
        source: Which runs, or where the paper prints them.
        words: What a text says about them in any case: "dev", or the name of another metric than the main one.
    """

    numbers: tuple[float, ...]
    source: str
    words: tuple[str, ...] = ()


@dataclass
class Values:
    """Known numbers by their kind."""

    scores: list[Known] = field(default_factory=list)  # score, deviation between seeds
    ranges: list[Known] = field(default_factory=list)  # lowest and highest score of a seed; ends of a band
    pairs: list[Known] = field(default_factory=list)  # score without, score with
    gains: list[Known] = field(default_factory=list)  # gain in points, ends of its interval
    shares: list[Known] = field(default_factory=list)  # share of errors removed, ends of its interval

    def add_pair(self, first: float, second: float, source: str, words: tuple[str, ...] = ()) -> None:
        """Two scores, their difference, and the share of errors that it is."""
        self.pairs.append(Known((first, second), source, words))
        self.gains.append(Known((second - first,), source, words))
        cut = relative_error_cut(first, second)
        if cut is not None:
            self.shares.append(Known((cut,), source, words))


class Published:
    """The values of the published records and of the paper, by task and data, each computed when first asked for."""

    def __init__(self, folder: Path) -> None:
        collection = collect([folder])
        table = fill_all(collection, Selection())
        self.rows: dict[tuple[str, str], list[Row]] = {}
        for row in [*table.rows, *table.others]:
            self.rows.setdefault(row.key, []).append(row)
        self._paths = {item.record.fingerprint: item.path for item in collection.files}
        self._known: dict[tuple[str, str, frozenset[int], bool], Values] = {}
        self._of_kinds: dict[tuple[str, str, bool], Values] = {}
        self._kinds: dict[tuple[str, str], list[Kind]] = {}

    def values(self, data: str, task: str, seeds: frozenset[int] = frozenset(), intervals: bool = False) -> Values:
        """The values of one task on one data set; with seeds, those of the runs with these seeds alone.

        Intervals, which take longest to compute, come alone or not at all.
        """
        key = (data, task, seeds, intervals)
        if key not in self._known:
            rows = self.rows[data, task]
            self._known[key] = found = Values()
            for row in rows if seeds else ():
                own, others = (
                    [kept for group in groups if (kept := _with_seeds(group, seeds))]
                    for groups in (row.groups, row.others)
                )
                _add_row(found, replace(row, groups=own, others=others), intervals, f", seeds {sorted(seeds)}")
            for row in () if seeds else rows:
                _add_row(found, row, intervals)
            if not seeds and not intervals:
                _add_paper(found, data, task)
        return self._known[key]

    def values_of_kinds(self, data: str, task: str, intervals: bool = False) -> Values:
        """The values of one task on one data set for each kind of its test examples."""
        key = (data, task, intervals)
        if key not in self._of_kinds:
            self._of_kinds[key] = found = Values()
            if (data, task) not in self._kinds:
                rows = self.rows[data, task]
                self._kinds[data, task] = [kind for row in rows for kind in kinds_of(row, self._paths)[0]]
            _add_kinds(found, self._kinds[data, task], intervals)
        return self._of_kinds[key]


def _with_seeds(group: Group, seeds: Iterable[int]) -> Group | None:
    kept = [number for number, seed in enumerate(group.seeds) if seed in seeds]
    records, examples = ([own[number] for number in kept] for own in (group.records, group.examples))
    return replace(group, records=records, examples=examples) if kept else None


def _add_row(values: Values, row: Row, intervals: bool, where: str = "", words: tuple[str, ...] = ()) -> None:
    """The scores of every group, and the differences between those that a table may compare; or their intervals."""
    for group in row.groups:
        for split, metric, named in [] if intervals else _metrics(group):
            scores = group.scores_by(split, metric)
            known = Known((), f"{_name(group)}, {split} {metric}{where}", (*words, *named))
            if scores:
                deviation = [statistics.stdev(scores)] if len(scores) > 1 else []
                values.scores.append(replace(known, numbers=(statistics.fmean(scores), *deviation)))
                values.ranges.append(replace(known, numbers=(min(scores), max(scores))))
        if judged := verdict(group, row.paper):
            ends = () if judged.low is None or judged.high is None else (judged.low, judged.high)
            source = f"{_name(group)} less the paper's{where}"
            values.gains.append(Known((judged.difference, *ends), source, words))
            values.gains += [Known((end,), f"{source}, end of the interval", words) for end in ends]
    for compared, pair in _comparisons(row):
        if not intervals:
            _add_means(values, *pair, where, words)
            continue
        source = f"{_name(pair[0])} -> {_name(pair[1])}{where}"
        both = (
            (compared.gain, compared.interval, values.gains),
            (compared.error_cut, compared.cut_interval, values.shares),
        )
        for estimate, interval, known in both:
            if estimate is not None and interval:
                known.append(Known((estimate, interval.low, interval.high), source, words))
    for first, second in [] if intervals else permutations([*row.groups, *row.others], 2):  # what a setting changes
        if first.features == second.features and first.settings.items() < second.settings.items():
            _add_means(values, first, second, where, words)


def _add_means(values: Values, first: Group, second: Group, where: str, words: tuple[str, ...]) -> None:
    """The mean scores of two groups by all metrics."""
    source = f"{_name(first)} -> {_name(second)}{where}"
    for split, metric, named in _metrics(first):
        both = first.scores_by(split, metric), second.scores_by(split, metric)
        if all(both):
            values.add_pair(*map(statistics.fmean, both), f"{source}, {split} {metric}", (*words, *named))


def _name(group: Group) -> str:
    return f"{group.features} {group.label}".rstrip()


def _metrics(group: Group) -> list[tuple[str, str, tuple[str, ...]]]:
    """The splits and metrics of a group's scores, and what a text says where it quotes one of them."""
    first = group.records[0]
    usual = metric_title(group.metric, first).split()
    found = []
    for split, metrics in first.scores.items():
        for metric in metrics:
            further = [
                word for word in re.findall(r"[\w.-]+", metric_title(metric, first)) if word not in (*usual, "no")
            ]
            found.append((split, metric, (*further, *(["dev"] if split == "dev" else []))))
    return found


def _comparisons(row: Row) -> list[tuple[Row, tuple[Group, Group]]]:
    """What is compared under the same settings: all arms with glove, elmo with all arms, static_elmo with word2vec."""
    baseline, elmo = row.compared
    arms = dict.fromkeys(group.features for group in [*row.groups, *row.others])
    found = []
    for first, second in permutations(arms, 2):
        if first == baseline or (second == elmo and first != elmo) or (first, second) == ("word2vec", "static_elmo"):
            compared = row.comparing(first, second)
            found += [(compared, compared.pair)] if compared.pair else []
    return found


def _add_kinds(values: Values, kinds: Iterable[Kind], intervals: bool) -> None:
    """Scores and gains on kinds of test examples; a text names the kind by the first long word of its label."""
    for kind in kinds:
        long = [word[:6] for word in kind.label.split() if len(word) > 3]
        counted = re.search(r"\d", kind.label)  # "20 to 29 tokens" has no word of its own
        word = kind.label if counted or not long else long[0]
        _add_row(values, kind.row, intervals, f", {kind.by}: {kind.label}", (word,))


def _add_paper(values: Values, data: str, task: str) -> None:
    """What the files of results/paper say about a task: the paper's scores, bands, and what others reached."""
    paper = load_paper()
    for score in (own for own in paper.score if own.task == task):
        for arm, number in score.scores.items():
            deviation = [score.std[arm]] if arm in score.std else []
            values.scores.append(Known((number, *deviation), f"the paper, {arm}: {score.source}"))
        values.add_pair(score.scores["glove"], score.scores["elmo"], f"the paper: {score.source}")
    for band in (own for own in paper.band if own.task == task):
        for arm, ends in band.scores.items():
            values.pairs.append(Known(tuple(ends), f"band, {arm}"))
            values.scores += [Known((end,), f"band, {arm}", ("band",)) for end in ends]
    others = re.findall(r"\d+\.\d+", paper.anchor_text(data, task))
    values.scores += [Known((float(number),), "what others reached, scores.toml") for number in others]
    for experiment in _experiments():
        for row in experiment.rows:
            if f"task={task}" in row.overrides and row.paper:
                source = f"the paper, {experiment.name}: {row.source}"
                values.scores += [Known((number,), source) for number in row.paper.values()]
                compared = [row.paper[arm] for arm in experiment.compare if arm in row.paper]
                if len(compared) == 2:
                    values.add_pair(*compared, source)


@cache
def _experiments() -> list[Experiment]:
    return [load_experiment(name) for name in experiment_names()]


def nearest(known: Iterable[Known], numbers: Sequence[float], count: int = 3) -> list[Known]:
    """The known numbers that are nearest to these."""
    whole = [own for own in known if len(own.numbers) >= len(numbers)]
    return sorted(whole, key=lambda own: sum(abs(a - b) for a, b in zip(numbers, own.numbers, strict=False)))[:count]
