"""Display names, order, colours and old metrics, from `paper/names.toml`; a user's own names come from records."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from results.records.example_scores import Example
from results.records.identity import Parts, flattened
from results.records.metric import Metric, mean_of
from results.records.record import RunRecord
from results.records.typed_json import PAPER, read_toml

Shape = Literal["circle", "square", "diamond", "triangle", "plus", "cross"]  # of markers
NAMES = PAPER / "names.toml"
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
    """A metric: its title, whether 100 minus it is a share of errors, and how old records compute it from examples."""

    title: str = ""
    errors: bool = True
    formulas: Sequence[Metric] = ()


@dataclass(frozen=True)
class Names:
    """The content of names.toml, which explains the keys."""

    first_run: str
    question: str
    compared: Sequence[str]
    arms: Mapping[str, ArmName]
    tasks: Mapping[str, TaskName]
    metrics: Mapping[str, MetricName]
    trainings: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)


@cache
def load_names() -> Names:
    """The names, read once."""
    return read_toml(Names, NAMES)


def default_pair() -> tuple[str, str]:
    """The two arms that are compared by default."""
    first, second = load_names().compared
    return first, second


def with_training_names(parts: Parts) -> dict[str, object]:
    """The parts of a fingerprint, with the name of a listed training of vectors instead of their hash."""
    name = load_names().trainings.get(str(parts.get("vectors")))
    return {**parts, "vectors": name} if name else dict(parts)


def sort_key(name: str, known: Iterable[str]) -> tuple[int, str]:
    """Puts known names first, in their order, then the others by name."""
    order = list(known)
    return (order.index(name) if name in order else len(order), name)


def metric_of(record: RunRecord, columns: Iterable[str], name: str = "") -> Metric | None:
    """How a metric of the record, by default the main one, follows from examples with these columns; None if not."""
    name = name or record.metric
    known = load_names().metrics.get(name, MetricName()).formulas
    declared = record.metrics.get(name)
    ways = [declared] if declared else [*known, mean_of(name)]
    found = set(columns)
    return next((way for way in ways if found.issuperset(way.columns)), None)


def recomputed(record: RunRecord, examples: Sequence[Example]) -> float | None:
    """The score that the run's own examples give; None if they do not determine it."""
    metric = metric_of(record, examples[0]) if examples else None
    return metric.of_examples(examples) if metric else None


def metric_title(metric: str, record: RunRecord | None = None) -> str:
    """The metric as papers write it: the task's own title for it, ours, or its name."""
    declared = record.metrics.get(metric) if record else None
    known = load_names().metrics.get(metric, MetricName())
    return (declared.title if declared else "") or known.title or metric.replace("_", " ")


def arm_title(features: str, record: RunRecord | None = None) -> str:
    """The arm's name for people: ours with its size, the title in its YAML, or its name; then its settings, if any."""
    name, _, settings = features.partition(" ")
    known = load_names().arms.get(name)
    title = known.title if known else own_title(record, "features") or name
    vectors = flattened(record.settings("features")).get(known.size) if record and known and known.size else None
    size = re.search(r"(\d+)d$", str(vectors))  # names end as in 6b-50d, 840B.300d
    return " ".join(filter(None, [title, f"{size[1]}-d" if size else "", settings]))


def common_title(features: str, records: Iterable[RunRecord]) -> str:
    """The arm's name for people, with a size if it is the same in these records."""
    titles = {arm_title(features, record) for record in records}
    return titles.pop() if len(titles) == 1 else arm_title(features)


def controls_legend(arms: Iterable[str]) -> list[str]:
    """A line for each of these arms that is a control: what it shows."""
    known = load_names().arms
    return [f"{known[arm].title}: {known[arm].shows}" for arm in arms if arm in known and known[arm].shows]


def task_title(data: str, task: str, record: RunRecord | None = None) -> str:
    """The name for people of a task on a data set."""
    known = load_names().tasks.get(task)
    if known and not own_title(record, "task") and data in known.data:
        return known.data[data]
    return f"{data} {task_name(task, record)}"


def task_name(task: str, record: RunRecord | None) -> str:
    """The name for people of a task on any data."""
    known = load_names().tasks.get(task)
    return own_title(record, "task") or (known.title if known else task)


def old_recipe(record: RunRecord) -> str:
    """The run's recipe, such as "recipe 1", if its task has a newer one; else empty."""
    known = load_names().tasks.get(record.identity.task)
    return f"recipe {record.recipe}" if known and record.recipe < known.recipe else ""


def settings_title(settings: Mapping[str, str]) -> str:
    """Changed settings for people, such as "12 epochs"; of a key that names.toml lacks, the last part and the value."""
    known, names = load_names().settings, load_names().values
    named = {key: names.get(value, value) for key, value in settings.items()}
    return ", ".join(
        known[key].format(value) if key in known else f"{key.split('.')[-1].replace('_', ' ')} {value}"
        for key, value in named.items()
    )


def own_title(record: RunRecord | None, group: str) -> str:
    """The `title` in a user's YAML of a task or of features; empty if there is none."""
    return str(record.settings(group).get("title") or "") if record else ""
