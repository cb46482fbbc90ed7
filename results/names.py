"""Display names, order, colours and old metrics, from `paper/names.toml`, and the paper's scores, from `scores.toml`.

A user's own names come from records.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from results.records.example_scores import Example
from results.records.identity import flattened
from results.records.metric import Metric, mean_of
from results.records.record import RunRecord
from results.records.typed_json import read_toml

Shape = Literal["circle", "square", "diamond", "triangle", "plus", "cross"]  # of markers
ROUNDING = 0.005  # percent; largest difference between a score and the score of its examples


@dataclass(frozen=True)
class ArmName:
    """An arm: its title, its looks in figures, and what it shows if it is a control.

    `size`: the setting that names vectors; the number of dimensions that ends their name ends the title, too.
    """

    title: str
    size: str = ""
    colour: str = ""
    shape: Shape = "circle"
    shows: str = ""


@dataclass(frozen=True)
class TaskName:
    """A task: its title, those on some data sets, its newest recipe, and the size of what a data set is a part of."""

    title: str
    data: Mapping[str, str] = field(default_factory=dict)
    recipe: int = 1
    whole: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricName:
    """A metric: its title, and whether 100 minus it is a share of errors."""

    title: str = ""
    errors: bool = True


@dataclass(frozen=True)
class Names:
    """The content of names.toml, which explains the keys."""

    first_run: str
    question: str
    compared: Sequence[str]
    control: str
    arms: Mapping[str, ArmName]
    tasks: Mapping[str, TaskName]
    metrics: Mapping[str, MetricName]
    trainings: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)


@cache
def load_names() -> Names:
    """The names, read once."""
    return read_toml(Names, "names.toml")


def default_pair() -> tuple[str, str]:
    """The two arms that are compared by default."""
    first, second = load_names().compared
    return first, second


def sort_key(name: str, known: Iterable[str]) -> tuple[int, str]:
    """Puts known names first, in their order, then the others by name."""
    order = list(known)
    return (order.index(name) if name in order else len(order), name)


def metric_of(record: RunRecord, columns: Iterable[str], name: str = "") -> Metric | None:
    """The formula of a metric of the record, by default the main one, from examples with these columns; None if not."""
    name = name or record.metric
    metric = record.metrics.get(name, mean_of(name))
    return metric if {*columns}.issuperset(metric.columns) else None


def recomputed(record: RunRecord, examples: Sequence[Example], name: str = "") -> float | None:
    """The score that the run's own examples give, by default by its main metric; None if they do not determine it."""
    metric = metric_of(record, examples[0], name) if examples else None
    return metric.of_examples(examples) if metric else None


def metric_title(metric: str, record: RunRecord | None = None) -> str:
    """The metric as papers write it: the task's own title for it, ours, or its name."""
    declared = record.metrics.get(metric) if record else None
    known = load_names().metrics.get(metric, MetricName())
    return (declared.title if declared else "") or known.title or metric.replace("_", " ")


def arm_title(features: str, record: RunRecord | None = None) -> str:
    """The arm's displayed name: ours with its size, the title in its YAML, or its name; then its settings, if any."""
    name, _, settings = features.partition(" ")
    known = load_names().arms.get(name)
    title = known.title if known else own_title(record, "features") or name
    vectors = flattened(record.settings("features")).get(known.size) if record and known and known.size else None
    size = re.search(r"(\d+)d$", str(vectors))  # names end as in 6b-50d, 840B.300d
    return " ".join(filter(None, [title, f"{size[1]}-d" if size else "", settings]))


def controls_legend(arms: Iterable[str]) -> list[str]:
    """A line for each of these arms that is a control: what it shows."""
    known = load_names().arms
    return [f"{known[arm].title}: {known[arm].shows}" for arm in arms if arm in known and known[arm].shows]


def task_title(data: str, task: str, record: RunRecord | None = None) -> str:
    """The displayed name of a task on a data set."""
    known = load_names().tasks.get(task)
    if known and not own_title(record, "task") and data in known.data:
        return known.data[data]
    return f"{data} {task_name(task, record)}"


def task_name(task: str, record: RunRecord | None) -> str:
    """The displayed name of a task on any data."""
    known = load_names().tasks.get(task)
    return own_title(record, "task") or (known.title if known else task)


def old_recipe(record: RunRecord) -> str:
    """The run's recipe, such as "recipe 1", if its task has a newer one; else empty."""
    known = load_names().tasks.get(record.identity.task)
    return f"recipe {record.recipe}" if known and record.recipe < known.recipe else ""


def settings_title(settings: Mapping[str, str]) -> str:
    """Displayed changed settings, such as "12 epochs"; of a key that names.toml lacks, the last part and the value."""
    known, names = load_names().settings, load_names().values
    named = {key: names.get(value, value) for key, value in settings.items()}
    return ", ".join(
        known[key].format(value) if key in known else f"{key.split('.')[-1].replace('_', ' ')} {value}"
        for key, value in named.items()
    )


def own_title(record: RunRecord | None, group: str) -> str:
    """The `title` in a user's YAML of a task or of features; empty if there is none."""
    return str(record.settings(group).get("title") or "") if record else ""


@dataclass(frozen=True)
class PaperScore:
    """Scores of some arms as printed, in percent by arm, with their table and row.

    A difference below `margin`, in points, does not matter to us.
    """

    task: str
    metric: str
    split: str
    scores: Mapping[str, float]
    source: str
    compared: bool
    margin: float
    std: Mapping[str, float] = field(default_factory=dict)
    runs: int | None = None

    def error_cut(self, compared: tuple[str, str]) -> float | None:
        """The share of the first arm's error that the second removes, in percent; None without both in the paper."""
        first, second = (self.scores.get(arm) for arm in compared)
        return None if first is None or second is None else relative_error_cut(first, second)


@dataclass(frozen=True)
class Band:
    """The range that others reached with the task's head on the paper's data, in percent by arm: low and high."""

    task: str
    scores: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Anchor:
    """A sentence on others' scores for a task on data that the paper lacks, or that none is known."""

    task: str
    data: str
    text: str


@dataclass(frozen=True)
class Paper:
    """All scores in the order of the paper's Table 1, bands with the data sets that they apply to, and anchors."""

    comparable_data: Sequence[str]
    score: Sequence[PaperScore]
    band: Sequence[Band]
    anchor: Sequence[Anchor]

    def compared(self, data: str, task: str) -> PaperScore | None:
        """The score to print next to ours, or None if it was measured on other examples."""
        if data not in self.comparable_data:
            return None
        return next((score for score in self.score if score.task == task and score.compared), None)

    def expected(self, data: str, task: str) -> Band | None:
        """The band for a task, or None if there is none for this data set."""
        return next((band for band in self.band if band.task == task and data in self.comparable_data), None)

    def anchor_text(self, data: str, task: str) -> str:
        """Others' scores on these data; empty if the file has nothing on them."""
        return next((anchor.text for anchor in self.anchor if (anchor.task, anchor.data) == (task, data)), "")

    @property
    def tasks(self) -> list[str]:
        """The tasks in the order of Table 1."""
        return list(dict.fromkeys(score.task for score in self.score))


@cache
def load_paper() -> Paper:
    """The paper's numbers, read once."""
    return read_toml(Paper, "scores.toml")


def distance(score: float, band: Sequence[float]) -> float:
    """The distance of a score from a band: negative below it, 0 inside."""
    low, high = band
    return min(score - low, 0.0) + max(score - high, 0.0)


def relative_error_cut(first: float, second: float) -> float | None:
    """The share of the first score's error that the second removes, in percent, as in Table 1; None without errors."""
    return 100 * (second - first) / (100 - first) if first < 100 else None
