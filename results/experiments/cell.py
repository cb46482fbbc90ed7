"""Rows and cells of experiments: what each run sets, and whether a record is the run of a cell."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from results.records.identity import FOLD, Identity, looked_up, same_value

NAMED = ("task", "data", "features")  # what every cell names
# Settings that cannot change a score, so that records do not have them.
NOT_RECORDED = (
    *("device", "threads", "runs_dir", "data_dir", "dataset_file", "keep_weights", "store", "retry", "logger"),
    *("also", "confidences"),
)
NOT_HERE = ("seed", FOLD, "experiment")  # what a row or an arm cannot set
_PART_OFF = re.compile(r"features\.\w+\.enabled=false", re.IGNORECASE)


@dataclass(frozen=True)
class ExperimentRow:
    """A row of the table.

    Attributes:
        overrides: What its runs set, as typed; always a task and a dataset.
        folds: The number of folds of its dataset, each of which is a run; None for a dataset without folds.
        title: Its name for people; by default made from task and data.
        metric: The metric of its cells; by default the task's main one.
        split: The split of its cells, "test" or "dev".
        paper: Arm -> the number that the paper prints, in percent; by default that of paper/scores.toml.
        paper_std: Arm -> the standard deviation that the paper prints.
        source: Where the paper prints them.
        same_baseline: Arms whose number was printed next to that of the baseline, so that their difference is a gain.
        arms: The arms that it has runs of; by default all.
        seeds: Its seeds; by default those of the experiment.
        published_only: Whether it describes published records alone, so that nothing runs its cells.
    """

    overrides: Sequence[str]
    folds: int | None = None
    title: str = ""
    metric: str = ""
    split: str = "test"
    paper: Mapping[str, float] = field(default_factory=dict)
    paper_std: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    same_baseline: Sequence[str] = ()
    arms: Sequence[str] = ()
    seeds: Sequence[int] = ()
    published_only: bool = False

    @property
    def each_fold(self) -> list[list[str]]:
        """What the run on each fold sets; one run that sets nothing if there are no folds."""
        return [[f"{FOLD}={number}"] for number in range(self.folds)] if self.folds else [[]]


@dataclass(frozen=True)
class Cell:
    """One run of an experiment.

    Attributes:
        named: What its row and its arm set, and the fold: key -> value, as typed.
        extra: What a user has set for all cells.
    """

    row: ExperimentRow
    arm: str
    seed: int
    named: Mapping[str, str]
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """All that the run sets but its seed: key -> value, as typed."""
        return {**self.named, **self.extra}

    @property
    def overrides(self) -> list[str]:
        """All that the run sets, as typed."""
        return [f"seed={self.seed}", *map(as_typed, self.settings.items())]

    @property
    def extra_overrides(self) -> list[str]:
        """What a user has set for all cells, as typed."""
        return list(map(as_typed, self.extra.items()))

    def value(self, key: str) -> str | None:
        """The value that the row, the arm or the seed has for a key, or None."""
        return str(self.seed) if key == "seed" else self.named.get(key)

    @property
    def identity(self) -> Identity:
        """The name of the run, if each of its settings differs from the default."""
        names = {key: dataset_name(value) for key, value in self.settings.items()}
        fold = int(names[FOLD]) if FOLD in names else None
        return Identity(names["data"], names["task"], names["features"], self.seed, self._recorded_settings(), fold)

    def is_run(self, identity: Identity, config: Mapping[str, object]) -> bool:
        """Whether a run is this cell's: same names, the settings of the cell, and no other ones.

        Args:
            identity: the run's name.
            config: its resolved config, as its record has it.
        """
        own, settings = self.identity, self._recorded_settings()
        names = (own.data, own.task, own.features, own.seed, own.fold)
        if names != (identity.data, identity.task, identity.features, identity.seed, identity.fold):
            return False
        if not identity.variant.keys() <= settings.keys():
            return False
        return all(_has(identity, config, key, typed) for key, typed in settings.items())

    def _recorded_settings(self) -> dict[str, str]:
        """The settings other than the names, by the keys of a record."""
        datasets = f"datasets.{self.settings['data']}."
        found = {}
        for typed, value in self.settings.items():
            key = typed.lstrip("+~")
            if key in (*NAMED, *NOT_HERE) or re.split("[./]", key)[0] in (*NOT_RECORDED, "hydra"):
                continue
            if _PART_OFF.fullmatch(f"{key}={value}"):  # records have null for a part that is off
                key, value = key.removesuffix(".enabled"), "null"
            key = f"data.{key.removeprefix(datasets)}" if key.startswith(datasets) else key
            found[f"~{key}" if typed.startswith("~") else key] = value
        return found


def dataset_name(value: str) -> str:
    """The name of a dataset in a record: of a YAML file, its name without folder and ending."""
    path = value.strip("'\"")  # the quotes are Hydra's
    return Path(path).stem if path.endswith(".yaml") else value


def key_and_value(override: str) -> tuple[str, str]:
    """The key and the value of KEY=VALUE."""
    key, _, value = override.partition("=")
    return key, value


def as_typed(setting: tuple[str, str]) -> str:
    """KEY=VALUE, as typed; `~KEY` for a key that is deleted."""
    key, value = setting
    return key if key.startswith("~") and not value else f"{key}={value}"


def _has(identity: Identity, config: Mapping[str, object], key: str, typed: str) -> bool:
    """Whether a run has what was typed for a setting, by the key of a record."""
    if key.startswith("~"):  # records have the default of a key that was deleted
        return key in identity.variant or looked_up(config, key[1:]) is ...
    if key in identity.variant:
        return same_value(key, typed, identity.variant[key])
    part = re.match(r"features\.\w+(?=\.)", key)
    if part and looked_up(config, part[0]) is None and not key.endswith(".enabled"):
        return True  # settings of a part that is off mean nothing to the run
    return same_value(key, typed, looked_up(config, key))  # the default is in the config, but not in the name
