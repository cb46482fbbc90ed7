"""Experiment files: a table of runs as TOML. Rows and arms are overrides of `python -m tasks.run`.

The same file says what a sweep runs and what a table of its records shows. Ours are in results/paper; a user's own is
named by its path:

    title = "One task on two datasets"
    seeds = [1, 2, 3]
    compare = ["words", "bilm"]                        # the gain: the second arm minus the first

    [arms]                                             # the columns
    words = ["features=WORDS"]
    bilm = ["features=BILM", "trainer.epochs=10"]

    [[rows]]                                           # several values: one row for each, the first key slowest
    overrides = ["task=TASK", "data=mini,mine.yaml"]

    [[rows]]
    overrides = ["task=TASK", "data=FOLDED"]
    folds = 10                                         # one run for each of the folds, fold=0 to fold=9

    [[rows]]
    overrides = ["task=TASK", "data=paper"]
    paper = {words = 90.15, bilm = 92.22}              # printed next to ours
    source = "Table 1, row TASK"
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path

from elmo.common.errors import InputError
from elmo.names import recorded
from results.records.identity import FOLD, Identity, looked_up, same_value
from results.records.typed_json import PAPER, decode, refuse_unknown_keys

SUFFIX = ".toml"
NAMED = ("task", "data", "features")  # what every cell names
# Settings that cannot change a score, so that records do not have them.
NOT_RECORDED = ("device", "threads", "runs_dir", "data_dir", "dataset_file", "keep_weights", "store", "retry", "logger")
NOT_HERE = ("seed", FOLD, "experiment")  # what a row or an arm cannot set
_PART_OFF = re.compile(r"features\.\w+\.enabled=false", re.IGNORECASE)
_OVERRIDE = re.compile(r"(\+\+?|~)?[\w./@-]+(=.*)?", re.DOTALL)


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
        return [f"seed={self.seed}", *map(_typed, self.settings.items())]

    @property
    def extra_overrides(self) -> list[str]:
        """What a user has set for all cells, as typed."""
        return list(map(_typed, self.extra.items()))

    def value(self, key: str) -> str | None:
        """The value that the row, the arm or the seed has for a key, or None."""
        return str(self.seed) if key == "seed" else self.named.get(key)

    @property
    def identity(self) -> Identity:
        """The name of the run, if each of its settings differs from the default."""
        names = {key: _file_name(value) for key, value in self.settings.items()}
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


@dataclass(frozen=True)
class ArmCost:
    """What an arm costs: frozen parameters, and milliseconds for 1,000 tokens, all arms measured in one run."""

    parameters: int
    milliseconds: float


@dataclass(frozen=True)
class ArmPerplexity:
    """The held-out perplexity of an arm's biLM, as its card states it.

    Attributes:
        mean: Of both directions.
        unknown: Share of the words that are <UNK>, in percent; more of them make the perplexity lower.
        predictions: In each direction; the same in all arms, so that all are measured on the same text.
        weights: The sha256 that records have of the biLM.
        card: The file that states it.
    """

    mean: float
    unknown: float
    predictions: int
    weights: str
    card: str


@dataclass(frozen=True)
class Experiment:
    """A table of runs; see the top of this file.

    Attributes:
        note: What the table says below its rows.
        needs: What its commands need first, a line each.
        by_arm: Whether the table has a line for each arm and a column for each row, not the other way round.
        costs: Arm -> what it costs; such a table shows it.
        titles: Arm -> its name for people; by default that of its features, or its name here.
        perplexities: Arm -> that of its biLM; such a table shows it, and a figure draws the gain against it.
        name: The file's name, or the path as given.
        chosen: The cells that a user has chosen; None for all.
        given: What the user has typed to choose them.
    """

    title: str
    seeds: Sequence[int]
    arms: Mapping[str, Sequence[str]]
    rows: Sequence[ExperimentRow]
    compare: Sequence[str] = ()
    note: str = ""
    needs: Sequence[str] = ()
    by_arm: bool = False
    costs: Mapping[str, ArmCost] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    perplexities: Mapping[str, ArmPerplexity] = field(default_factory=dict)
    name: str = ""
    chosen: Sequence[Cell] | None = None
    given: Sequence[str] = ()

    @property
    def cells(self) -> Sequence[Cell]:
        """All runs: seeds vary slowest, then rows, arms and folds, so that the table is whole early, with one seed."""
        if self.chosen is not None:
            return self.chosen
        return [
            Cell(row, arm, seed, dict(map(_split, [*row.overrides, *overrides, *fold])))
            for seed in dict.fromkeys([*self.seeds, *(seed for row in self.rows for seed in row.seeds)])
            for row in self.rows
            if seed in (row.seeds or self.seeds)
            for arm, overrides in self.arms.items()
            if arm in (row.arms or self.arms)
            for fold in row.each_fold
        ]

    @property
    def notes(self) -> list[str]:
        """The lines below the table: the note, and what its commands need first."""
        return [*filter(None, [self.note]), *(f"needed first: {need}" for need in self.needs)]

    @property
    def sweep_name(self) -> str:
        """The name under which sweeps of it are listed."""
        return sweep_name(self.name)

    def narrowed(self, given: Mapping[str, Sequence[str]]) -> "Experiment":
        """The cells with these values; keys that no cell names are further settings of all cells.

        Args:
            given: Key -> values, as typed.

        Raises:
            InputError: No cell has one of the values, or no cell has all of them.
        """
        try:
            _refuse_equal_names(f"{key}={','.join(values)}" for key, values in given.items())
        except ValueError as error:
            raise InputError(str(error)) from error
        cells, extra = list(self.cells), dict[str, Sequence[str]]()
        for key, values in given.items():
            known = dict.fromkeys(value for cell in self.cells if (value := cell.value(key)) is not None)
            if not known:
                extra[key] = values
                continue
            for value in values:
                if not any(same_value(key, value, other) for other in known):
                    raise InputError(
                        f"{key}={value}: no cell of experiment={self.name} has it, only {', '.join(known)}. For other "
                        f"runs, start a sweep without an experiment, or copy the experiment's file, change it, and use "
                        f"experiment=PATH{SUFFIX}"
                    )
            cells = [cell for cell in cells if any(same_value(key, value, cell.value(key)) for value in values)]
        if not cells:
            asked = " ".join(f"{key}={','.join(values)}" for key, values in given.items() if key not in extra)
            lines = dict.fromkeys(" ".join(cell.overrides[1:]) for cell in self.cells)
            raise InputError(
                f"{asked}: no cell of experiment={self.name} has all of these. Its cells, without seeds:\n  "
                + "\n  ".join(lines)
            )
        further = [dict(zip(extra, combination, strict=True)) for combination in product(*extra.values())]
        chosen = [replace(cell, extra=settings) for cell in cells for settings in further]
        return replace(self, chosen=chosen, given=[f"{key}={','.join(values)}" for key, values in given.items()])

    def comparing(self, first: str, second: str) -> "Experiment":
        """The experiment with another pair of arms to compare.

        Raises:
            InputError: One of them is not an arm, or both are the same.
        """
        if first == second or not {first, second} <= self.arms.keys():
            raise InputError(f"--compare: expected two of {', '.join(self.arms)}, found {first} {second}")
        return replace(self, compare=(first, second))


def sweep_name(given: str) -> str:
    """The name of a sweep of an experiment that was given by name or by path."""
    return Path(given).stem if given.endswith(SUFFIX) else given


def experiment_names() -> list[str]:
    """The experiments of the suite."""
    return sorted(path.stem for path in PAPER.glob(f"*{SUFFIX}") if "[[rows]]" in path.read_text(encoding="utf-8"))


def load_experiment(given: str) -> Experiment:
    """Reads an experiment of the suite by its name, or a user's own by its path.

    Raises:
        InputError: There is no such experiment, or its file is wrong.
    """
    path = Path(given).expanduser() if given.endswith(SUFFIX) else PAPER / f"{given}{SUFFIX}"
    if not path.is_file() or (path.parent == PAPER and path.stem not in experiment_names()):
        raise InputError(
            f"experiment={given}: expected {', '.join(experiment_names())}, or the path of a {SUFFIX} file, found "
            "none. results/tables.md has the commands of all tables and figures"
        )
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        refuse_unknown_keys(Experiment, values, without=("name", "chosen", "given"))
        rows = values.get("rows")
        for number, row in enumerate(rows if isinstance(rows, list) else []):
            refuse_unknown_keys(ExperimentRow, row, f"rows[{number}].")
        found: Experiment = decode(Experiment, values)
        _check(found)
        _refuse_equal_names([*chain(*found.arms.values()), *(own for row in found.rows for own in row.overrides)])
        rows = [replace(row, overrides=chosen) for row in found.rows for chosen in _combinations(row.overrides)]
        _refuse_equal_rows(rows)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    return replace(found, rows=rows, compare=tuple(found.compare), name=given)


def values_of(override: str) -> tuple[str, list[str]]:
    """The key of KEY=A,B and its values; commas inside brackets or quotes do not separate."""
    key, value = _split(override)
    parts, depth, quote = [""], 0, ""
    for character in value:
        quote = "" if character == quote else quote or (character if character in "'\"" else "")
        depth += 0 if quote else (character in "[{(") - (character in "]})")
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return key, parts


def _combinations(overrides: Sequence[str]) -> Iterable[list[str]]:
    choices = [[_typed((key, value)) for value in values] for key, values in map(values_of, overrides)]
    return (list(chosen) for chosen in product(*choices))


def _check(experiment: Experiment) -> None:
    if not (experiment.seeds and experiment.arms and experiment.rows):
        raise ValueError("expected at least one of each: seeds, arms, rows")
    for seeds in (experiment.seeds, *(row.seeds for row in experiment.rows)):
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds: expected each once, found {', '.join(map(str, seeds))}")
    compared = set(experiment.compare)
    if experiment.compare and (len(compared) != 2 or not compared <= experiment.arms.keys()):
        raise ValueError(
            f"compare: expected two of {', '.join(experiment.arms)}, found {', '.join(experiment.compare)}"
        )
    known = {"costs": experiment.costs, "titles": experiment.titles, "perplexities": experiment.perplexities}
    for key, by_name in known.items():
        if unknown := sorted(by_name.keys() - experiment.arms.keys()):
            raise ValueError(f"{key}: expected names of arms, found {', '.join(unknown)}")
    for arm, own in experiment.perplexities.items():
        if not own.mean >= 1:
            raise ValueError(f"perplexities.{arm}.mean: expected at least 1, found {own.mean}")
    if len(sizes := sorted({own.predictions for own in experiment.perplexities.values()})) > 1:
        raise ValueError(
            f"perplexities: expected all on one text, found {' and '.join(f'{size:,}' for size in sizes)} predictions"
        )
    places = {f"arms.{arm}": overrides for arm, overrides in experiment.arms.items()}
    places |= {f"rows[{number}].overrides": row.overrides for number, row in enumerate(experiment.rows)}
    for place, overrides in places.items():
        for override in overrides:
            key = override.partition("=")[0].lstrip("+~")
            if not _OVERRIDE.fullmatch(override) or ("=" not in override and not override.startswith("~")):
                raise ValueError(f"{place}: expected KEY=VALUE, as typed after python -m tasks.run, found {override!r}")
            if key in NOT_HERE or key.split(".")[0].split("/")[0] == "hydra":
                raise ValueError(
                    f"{place}: expected settings of a run, found {override!r}; `seeds` has the seeds, and `folds` of a "
                    "row how many folds its dataset has"
                )
    for number, row in enumerate(experiment.rows):
        if row.folds is not None and row.folds < 2:
            raise ValueError(f"rows[{number}].folds: expected at least 2, or no such key, found {row.folds}")
        if row.split not in ("test", "dev"):
            raise ValueError(f"rows[{number}].split: expected test or dev, found {row.split!r}")
        for key, named in (("paper", {*row.paper, *row.paper_std}), ("arms", set(row.arms))):
            if unknown := sorted(named - set(experiment.arms)):
                raise ValueError(f"rows[{number}].{key}: expected names of arms, found {', '.join(unknown)}")
        unprinted = {*row.same_baseline, *experiment.compare[:1]} - set(row.paper)
        if row.same_baseline and unprinted:
            raise ValueError(f"rows[{number}].same_baseline: expected all in `paper`, without {', '.join(unprinted)}")
        for arm, overrides in experiment.arms.items():
            missing = [key for key in NAMED if key not in dict(map(_split, [*row.overrides, *overrides]))]
            if missing:
                raise ValueError(
                    f"rows[{number}] with arms.{arm}: expected {', '.join(NAMED)}, found none of {', '.join(missing)}"
                )


def _refuse_equal_names(overrides: Iterable[str]) -> None:
    """Raises a ValueError for two paths that records cannot tell apart: one run would be in the cells of both."""
    known: dict[tuple[str, str], str] = {}
    for key, values in map(values_of, overrides):
        for value in values:
            name = _file_name(value) if key == "data" else recorded(key, value)
            other = known.setdefault((key, name), value)
            if other != value and name not in (value, other):
                raise ValueError(
                    f"{key}: expected paths with different last parts, because records have no more of them, found "
                    f"{other} and {value}; rename one"
                )


def _file_name(value: str) -> str:
    """The name of a dataset in a file; others have it already."""
    return Path(value).stem if value.endswith(".yaml") else value


def _refuse_equal_rows(rows: Sequence[ExperimentRow]) -> None:
    shown = [(sorted(row.overrides), row.metric, row.split) for row in rows]
    for number, row in enumerate(rows):
        if shown[number] in shown[:number]:
            raise ValueError(
                f"rows: expected each row once, or with another metric or split, found {' '.join(row.overrides)} twice"
            )


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


def _split(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    return key, value


def _typed(setting: tuple[str, str]) -> str:
    key, value = setting
    return key if key.startswith("~") and not value else f"{key}={value}"
