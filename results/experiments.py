"""Experiments: tables of runs as TOML. Rows and arms are overrides of `python -m tasks.run`.

The same file says what a sweep runs and what a table of its records shows. Ours are in results/paper; a user's own is
named by its path:

    title = "One task on two datasets"                 # by default the file's name
    seeds = [1, 2, 3]                                  # the default
    compare = ["words", "bilm"]                        # the gain: the second arm minus the first

    [arms]                                             # the columns
    words = ["features=WORDS"]
    bilm = ["features=BILM", "trainer.epochs=10"]

    [[rows]]                                           # several values: one row for each, the first key slowest
    overrides = ["task=TASK", "data=mini,mine.yaml"]

    [[rows]]
    overrides = ["task=TASK", "data=FOLDED"]
    folds = 10                                         # one run for each of the folds, fold=0 to fold=9
    seeds = [1]                                        # its own; by default those above

    [[rows]]
    overrides = ["task=TASK", "data=paper"]
    paper = {words = 90.15, bilm = 92.22}              # printed next to ours
    source = "Table 1, row TASK"
"""

import difflib
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat

from elmo.common.errors import InputError, excerpt, reworded
from results.records.collect import PUBLISHED, Collection, Finding, RecordFile, collect
from results.records.identity import FOLD, Identity, looked_up, same_value
from results.records.typed_json import PAPER, decode

SUFFIX = ".toml"
TABLE1 = "table1"  # its two arms are the headline: README's first table and figure show their runs
NAMED = ("task", "data", "features")  # what every cell names
# Settings that cannot change a score, so that records do not have them.
NOT_RECORDED = (
    *("device", "threads", "runs_dir", "data_dir", "dataset_file", "keep_weights", "store", "retry", "logger"),
    *("also", "confidences"),
)
NOT_HERE = ("seed", FOLD, "experiment", "hydra")  # what a row or an arm cannot set
_PATHS = ("runs_dir", "data_dir", "dataset_file")
_OVERRIDE = re.compile(r"(\+\+?)?\w[\w./-]*=.*|~\w[\w./-]*(=.*)?", re.DOTALL)  # no @: it moves a part
_SWEEP = re.compile(r"=\s*(range|choice|glob|interval|shuffle|sort|tag)\(")  # Hydra's, which only a command line has
# What cannot make a new key: other settings and variables. Hydra's other resolvers make mappings from text.
_REFERENCE = re.compile(r"\$\{([\w.]+|oc\.env:\w+(,[^${}]*)?)\}")
_PART_OFF = re.compile(r"features\.\w+\.enabled=false", re.IGNORECASE)


@dataclass(frozen=True)
class ExperimentRow:
    """A row of the table.

    Attributes:
        overrides: What its runs set, as typed; always a task and a dataset.
        folds: The number of folds of its dataset, each of which is a run; None for a dataset without folds.
        title: Its name for people; by default made from task and data.
        metric: The metric of its cells; by default the task's main one.
        split: The split of its cells.
        paper: Arm -> the number that the paper prints, in percent; by default that of paper/scores.toml.
        paper_std: Arm -> the standard deviation that the paper prints.
        source: Where the paper prints them.
        same_baseline: Arms whose number was printed next to that of the baseline, so that their difference is a gain.
        arms: The arms that it has runs of; by default all.
        seeds: Its seeds; by default those of the experiment.
        published_only: Whether it describes published records alone, so that nothing runs its cells.
        parts: Title -> kinds of its test examples, "DISTINCTION: LABEL, ...", that have a line in the main figure, too.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    overrides: Sequence[str]
    folds: Annotated[int, Field(ge=2)] | None = None
    title: str = ""
    metric: str = ""
    split: Literal["test", "dev"] = "test"
    paper: Mapping[str, float] = field(default_factory=dict)
    paper_std: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    same_baseline: Sequence[str] = ()
    arms: Sequence[str] = ()
    seeds: Sequence[NonNegativeInt] = ()
    published_only: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)


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
        """The settings of a user for all cells, as typed."""
        return list(map(as_typed, self.extra.items()))

    def value(self, key: str) -> str | None:
        """The value that the row, the arm or the seed has for a key, or None."""
        return str(self.seed) if key == "seed" else self.named.get(key)

    @cached_property
    def identity(self) -> Identity:
        """The name of the run, if each of its settings differs from the default."""
        names, settings = {**self.settings, "data": _dataset_name(self.settings["data"])}, dict[str, str]()
        for typed, value in names.items():
            key = typed.lstrip("+~")
            if key in NAMED or re.split("[./]", key)[0] in (*NOT_HERE, *NOT_RECORDED):
                continue
            if _PART_OFF.fullmatch(f"{key}={value}"):  # records have null for a part that is off
                key, value = key.removesuffix(".enabled"), "null"
            key = re.sub(rf"datasets\.{re.escape(self.settings['data'])}\.", "data.", key)
            settings[f"~{key}" if typed.startswith("~") else key] = value
        fold = int(names[FOLD]) if FOLD in names else None
        return Identity(names["data"], names["task"], names["features"], self.seed, settings, fold)

    def is_run(self, identity: Identity, config: Mapping[str, object]) -> bool:
        """Whether a run is this cell's: same names, the settings of the cell, and no other ones.

        Args:
            identity: the run's name.
            config: its resolved config, as its record has it.
        """
        cell = self.identity
        return (
            _name(cell) == _name(identity)
            and identity.variant.keys() <= cell.variant.keys()
            and all(_has(identity, config, key, str(typed)) for key, typed in cell.variant.items())
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


@dataclass(frozen=True)
class ArmCost:
    """The cost of an arm: frozen parameters, and milliseconds for 1,000 tokens, all arms measured in one run."""

    parameters: int
    milliseconds: PositiveFloat


@dataclass(frozen=True)
class Experiment:
    """A table of runs.

    Attributes:
        title: The heading; by default the file's name.
        note: What the table says below its rows.
        needs: What its commands need first, a line each.
        trials: The experiment in which settings were tried on dev before; the table says how many each arm had.
        by_arm: Whether the table has a line for each arm and a column for each row, not the other way round.
        ranked: Whether a table by arm has the mean gain over its rows, and ranks that hold after Holm's correction.
        costs: Arm -> what it costs; such a table shows it.
        titles: Arm -> its displayed name; by default that of its features, or its name here.
        name: The file's name, or the path as given.
        chosen: The cells that a user has chosen; None for all.
        given: What the user has typed to choose them.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    arms: Mapping[str, Sequence[str]]
    rows: Sequence[ExperimentRow]
    title: str = ""
    seeds: Sequence[NonNegativeInt] = (1, 2, 3)
    compare: Sequence[str] = ()
    note: str = ""
    needs: Sequence[str] = ()
    trials: str = ""
    by_arm: bool = False
    ranked: bool = False
    costs: Mapping[str, ArmCost] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    chosen: Sequence[Cell] | None = None
    given: Sequence[str] = ()

    @cached_property
    def cells(self) -> Sequence[Cell]:
        """All runs: seeds vary slowest, then rows, arms and folds, so that the table is whole early, with one seed."""
        if self.chosen is not None:
            return self.chosen
        return [
            Cell(row, arm, seed, dict(typed.partition("=")[::2] for typed in (*row.overrides, *overrides, *fold)))
            for seed in dict.fromkeys([*self.seeds, *(seed for row in self.rows for seed in row.seeds)])
            for row in self.rows
            if seed in (row.seeds or self.seeds)
            for arm, overrides in self.arms.items()
            if arm in (row.arms or self.arms)
            for fold in ([[f"{FOLD}={number}"] for number in range(row.folds)] if row.folds else [[]])
        ]

    @property
    def compared(self) -> tuple[str, str]:
        """The two arms whose difference is the gain; empty names if it compares none."""
        first, second = self.compare or ("", "")
        return first, second

    def narrowed(self, given: Mapping[str, Sequence[str]]) -> "Experiment":
        """The cells with these values; keys that no cell names are further settings of all cells.

        Args:
            given: Key -> values, as typed.

        Raises:
            InputError: No cell has one of the values, or no cell has all of them.
        """
        cells, extra = list(self.cells), dict[str, Sequence[str]]()
        for key, values in given.items():
            known = dict.fromkeys(value for cell in self.cells if (value := cell.value(key)) is not None)
            if not known:
                extra[key] = values
                continue
            for value in values:
                if not any(same_value(key, value, other) for other in known):
                    raise InputError(
                        f"{key}={value}: no cell of experiment={self.name} has it, only {excerpt(', '.join(known))}. "
                        "For other runs, start a sweep without an experiment, or copy the experiment's file, change "
                        f"it, and use experiment=PATH{SUFFIX}"
                    )
            wanted = {other for other in known if any(same_value(key, value, other) for value in values)}
            cells = [cell for cell in cells if cell.value(key) in wanted]
        typed = [f"{key}={','.join(values)}" for key, values in given.items()]
        if not cells:
            raise InputError(f"{' '.join(typed)}: no cell of experiment={self.name} has all of these. Leave one out")
        further = [dict(zip(extra, combination, strict=True)) for combination in product(*extra.values())]
        chosen = [replace(cell, extra=settings) for cell in cells for settings in further]
        return replace(self, chosen=chosen, given=typed)

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


def as_typed(setting: tuple[str, str]) -> str:
    """KEY=VALUE, as typed; `~KEY` for a key that is deleted."""
    key, value = setting
    return key if key.startswith("~") and not value else f"{key}={value}"


def values_of(override: str) -> tuple[str, list[str]]:
    """The key of KEY=A,B and its values; commas inside brackets or quotes do not separate."""
    key, _, value = override.partition("=")
    parts, depth, quote = [""], 0, ""
    for character in value:
        quote = "" if character == quote else quote or (character if character in "'\"" else "")
        depth += 0 if quote else (character in "[{(") - (character in "]})")
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return key, parts


def _dataset_name(value: str) -> str:
    """The name of a dataset in a record: of a YAML file, its name without folder and ending."""
    path = value.strip("'\"")  # the quotes are Hydra's
    return Path(path).stem if path.endswith(".yaml") else value


def experiment_names() -> list[str]:
    """The experiments of the suite."""
    return sorted(path.stem for path in PAPER.glob(f"*{SUFFIX}") if "[[rows]]" in path.read_text(encoding="utf-8"))


def load_experiment(given: str) -> Experiment:
    """Reads an experiment of the suite by its name, or a user's own by its path.

    Raises:
        InputError: There is no such experiment, or its file is wrong.
    """
    path = Path(given).expanduser() if given.endswith(SUFFIX) else PAPER / f"{given}{SUFFIX}"
    if not path.is_file() or (path.parent == PAPER and "[[rows]]" not in path.read_text(encoding="utf-8")):
        raise InputError(
            f"experiment={given}: expected {', '.join(experiment_names())}, or the path of a {SUFFIX} file, found "
            "none. results/tables.md has the commands of all tables and figures"
        )
    with reworded((OSError, ValueError, RecursionError), lambda error: f"{path}: {error}. Correct the file"):
        return _experiment(given, path.stem, path.read_text(encoding="utf-8"))


@cache  # a page of tables asks for each experiment, its cells and their names several times
def _experiment(given: str, stem: str, text: str) -> Experiment:
    """The experiment of a file with this text; a ValueError says what is wrong with it."""
    experiment: Experiment = decode(Experiment, tomllib.loads(text))
    if mistake := next(_mistakes(experiment), ""):
        raise ValueError(mistake)
    rows = []
    for row in experiment.rows:
        choices = [[as_typed((key, value)) for value in values] for key, values in map(values_of, row.overrides)]
        rows += [replace(row, overrides=chosen) for chosen in product(*choices)]
    return replace(experiment, rows=rows, compare=tuple(experiment.compare), name=given, title=experiment.title or stem)


def _mistakes(experiment: Experiment) -> Iterator[str]:
    """The fault of an experiment's file."""
    arms = set(experiment.arms)
    if not (experiment.seeds and experiment.arms and experiment.rows):
        yield "expected at least one of each: seeds, arms, rows"
    for seeds in (experiment.seeds, *(row.seeds for row in experiment.rows)):
        if repeated := [seed for seed, times in Counter(seeds).items() if times > 1]:
            yield f"seeds: expected each once, found {repeated[0]} twice"
    if experiment.compare and (len(set(experiment.compare)) != 2 or len(experiment.compare) != 2):
        yield f"compare: expected two arms, found {', '.join(experiment.compare)}"
    named: dict[str, Iterable[str]] = {"compare": experiment.compare, "costs": experiment.costs}
    named |= {"titles": experiment.titles}
    for number, row in enumerate(experiment.rows):
        named |= {f"rows[{number}].paper": {*row.paper, *row.paper_std}, f"rows[{number}].arms": row.arms}
    for key, names in named.items():
        if unknown := sorted(set(names) - arms):
            yield f"{key}: expected names of arms, {', '.join(experiment.arms)}, found {', '.join(unknown)}"
    places = {f"arms.{arm}": overrides for arm, overrides in experiment.arms.items()}
    places |= {f"rows[{number}].overrides": row.overrides for number, row in enumerate(experiment.rows)}
    for place, override in ((place, override) for place, overrides in places.items() for override in overrides):
        key = override.partition("=")[0].lstrip("+~")
        if not _OVERRIDE.fullmatch(override) or _SWEEP.search(override):
            yield f"{place}: expected KEY=VALUE, or several values between commas, found {excerpt(override)}"
        if re.split("[./]", key)[0] in NOT_HERE:
            expected = "expected settings of a run, whose seeds are in `seeds`, and folds in `folds` of a row"
            yield f"{place}: {expected}, found {excerpt(override)}"
        if _may_import(override):
            yield (
                f"{place}: expected settings that cannot bring in code, found {excerpt(override)}. Experiments may "
                "come from others: type this after python -m tasks.run instead, or use --config-dir DIR"
            )
    for number, row in enumerate(experiment.rows):
        if row.same_baseline and (unprinted := {*row.same_baseline, *experiment.compare[:1]} - row.paper.keys()):
            yield f"rows[{number}].same_baseline: expected all in `paper`, without {', '.join(unprinted)}"
        for arm, overrides in experiment.arms.items():
            settings = dict(typed.partition("=")[::2] for typed in (*row.overrides, *overrides))
            if missing := [key for key in NAMED if key not in settings]:
                expected = f"expected {', '.join(NAMED)}, found none of {', '.join(missing)}"
                yield f"rows[{number}] with arms.{arm}: {expected}"
            if row.split != "dev" and settings.get("trial") == "true":
                yield f'rows[{number}].split: expected "dev", because a trial has no test score'


def _may_import(override: str) -> bool:
    """Whether an override may bring in code: a class, a mapping made from text, or a YAML file that is no dataset."""
    key, values = values_of(override)
    if "/" in key or "_target_" in override or "${" in _REFERENCE.sub("", override):
        return True
    if "." in key or key.lstrip("+~") in _PATHS:  # no choice of a config
        return False
    return any("/" in value and not (key == "data" and value.strip("'\"").endswith(".yaml")) for value in values)


def runs_of_cells(files: Sequence[RecordFile], cells: Sequence[Cell]) -> list[list[RecordFile]]:
    """The records of each cell."""
    by_name: dict[tuple[object, ...], list[RecordFile]] = defaultdict(list)
    for item in files:
        by_name[_name(item.record.identity)].append(item)
    named = ((cell, by_name[_name(cell.identity)]) for cell in cells)
    return [[it for it in items if cell.is_run(it.record.identity, it.record.config)] for cell, items in named]


def _name(run: Identity) -> tuple[object, ...]:
    return run.data, run.task, run.features, run.seed, run.fold


def only_cells(collection: Collection, cells: Sequence[Cell]) -> Collection:
    """The collection with the records of these cells alone, each once."""
    files = {item.path: item for items in runs_of_cells(collection.files, cells) for item in items}
    return replace(collection, files=list(files.values()))


def require_settings(experiment: Experiment, files: Sequence[RecordFile]) -> None:
    """Checks that runs have the further settings of the chosen cells; without any runs nothing says which there are.

    Raises:
        InputError: No run has one of them; a misspelt name would show a table of empty cells.
    """
    known = {key for item in files for key in (*item.record.leaves, *item.record.identity.variant)}
    names = sorted({"seed", FOLD, *NAMED, *known, *(key for cell in experiment.cells for key in cell.named)})
    for key in (typed.removeprefix("~") for typed in experiment.cells[0].extra if known):
        if key.startswith("+") or re.split("[./]", key)[0] in (*NOT_HERE, *NOT_RECORDED, "datasets"):
            continue
        group = any(f"{name}.".startswith(f"{key}.") for name in names)  # or a setting
        if not group and not any(key.startswith(f"{part}.") for part in known):  # parts that are off in all runs
            close = difflib.get_close_matches(key, names, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise InputError(f"unknown key {key}: no run and no cell of experiment={experiment.name} has it.{hint}")


def main_runs(collection: Collection) -> Collection:
    """The collection without what only other tables than the first have, such as probes, unless it is empty.

    That is tasks of theirs, and data sets of which there are earlier records alone. A note says what is left out.
    """
    first = {cell.named["task"] for cell in load_experiment(TABLE1).cells}
    elsewhere: dict[str, set[str]] = defaultdict(set)  # by table
    for name in experiment_names():
        for cell in load_experiment(name).cells:
            if cell.named["task"] not in first:
                elsewhere[name].add(cell.named["task"])
            elif cell.row.published_only:
                elsewhere[name].add(f"{cell.named['task']} on {cell.named['data']}")
    named = [(it, {run.task, f"{run.task} on {run.data}"}) for it in collection.files if (run := it.record.identity)]
    left = set().union(*(names for _, names in named)) & set().union(*elsewhere.values())
    files = [item for item, names in named if not names & left]
    if not files or not left:
        return collection
    shows = " or ".join(name for name, of_table in elsewhere.items() if of_table & left)
    note = Finding("note", f"left out: {', '.join(sorted(left))}; --experiment {shows} shows them", wrong=False)
    return replace(collection, files=files, findings=[*collection.findings, note])


def equal_runs(folders: Iterable[Path], runs: Sequence[Identity]) -> list[list[RecordFile]]:
    """The finished runs, in the folders or published, that differ from each of these runs in seed and fold alone."""
    known: dict[Path, list[RecordFile]] = defaultdict(list)
    for item in collect([PUBLISHED, *folders]).files:
        if item.record.status == "finished":
            known[replace(item.record.identity, seed=0, fold=None).path].append(item)
    return [known[replace(run, seed=0, fold=None).path] for run in runs]
