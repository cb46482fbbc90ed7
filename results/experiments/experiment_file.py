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
    seeds = [1]                                        # its own; by default those above

    [[rows]]
    overrides = ["task=TASK", "data=paper"]
    paper = {words = 90.15, bilm = 92.22}              # printed next to ours
    source = "Table 1, row TASK"
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

from elmo.common.errors import InputError, excerpt, not_utf8
from results.experiments.cell import NAMED, NOT_HERE, ExperimentRow, as_typed, key_and_value
from results.experiments.experiment import SUFFIX, Experiment, refuse_absurd, refuse_equal_names, values_of
from results.records.typed_json import PAPER, decode, refuse_unknown_keys

PATHS = ("runs_dir", "data_dir", "dataset_file")
# Without @, which puts a part where `hydra` is.
_SWEEP = re.compile(r"=\s*(range|choice|glob|interval|shuffle|sort|tag)\(")  # Hydra's, which only a command line has
_OVERRIDE = re.compile(r"(\+\+?|~)?\w[\w./-]*(=.*)?", re.DOTALL)
# What cannot make a new key: other settings and variables. Hydra's other resolvers make mappings from text.
_REFERENCE = re.compile(r"\$\{([\w.]+|oc\.env:\w+(,[^${}]*)?)\}")


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
        refuse_absurd(
            math.prod(len(values) for _, values in map(values_of, row.overrides))
            * (row.folds or 1)
            * len(row.arms or found.arms)
            * len(row.seeds or found.seeds)
            for row in found.rows
        )
        refuse_equal_names([*chain(*found.arms.values()), *(own for row in found.rows for own in row.overrides)])
        rows = [
            replace(row, overrides=chosen, published_only=row.published_only or found.published_only)
            for row in found.rows
            for chosen in _combinations(row.overrides)
        ]
        _refuse_equal_rows(rows)
    except UnicodeDecodeError as error:
        raise not_utf8(str(path), error) from error
    except RecursionError as error:
        raise InputError(f"{path}: brackets are nested too deeply. Correct the file") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}. Correct the file") from error
    return replace(found, rows=rows, compare=tuple(found.compare), name=given)


def _combinations(overrides: Sequence[str]) -> Iterable[list[str]]:
    choices = [[as_typed((key, value)) for value in values] for key, values in map(values_of, overrides)]
    return (list(chosen) for chosen in product(*choices))


def _check(experiment: Experiment) -> None:
    if not (experiment.seeds and experiment.arms and experiment.rows):
        raise ValueError("expected at least one of each: seeds, arms, rows")
    for seeds in (experiment.seeds, *(row.seeds for row in experiment.rows)):
        if repeated := [seed for seed, times in Counter(seeds).items() if times > 1]:
            raise ValueError(f"seeds: expected each once, found {repeated[0]} twice")
        if min(seeds, default=0) < 0:
            raise ValueError(f"seeds: expected numbers from 0 on, found {min(seeds)}")
    compared = set(experiment.compare)
    if experiment.compare and (len(compared) != 2 or not compared <= experiment.arms.keys()):
        raise ValueError(
            f"compare: expected two of {', '.join(experiment.arms)}, found {', '.join(experiment.compare)}"
        )
    known = {"costs": experiment.costs, "titles": experiment.titles, "perplexities": experiment.perplexities}
    for key, by_name in known.items():
        if unknown := sorted(by_name.keys() - experiment.arms.keys()):
            raise ValueError(f"{key}: expected names of arms, found {', '.join(unknown)}")
    for arm, cost in experiment.costs.items():
        if not cost.milliseconds > 0:  # the figure has a logarithmic axis
            raise ValueError(f"costs.{arm}.milliseconds: expected more than 0, found {cost.milliseconds}")
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
                raise ValueError(
                    f"{place}: expected KEY=VALUE, as typed after python -m tasks.run, found {excerpt(override)}"
                )
            if key in NOT_HERE or re.split("[./]", key)[0] == "hydra":
                raise ValueError(
                    f"{place}: expected settings of a run, found {excerpt(override)}; `seeds` has the seeds, and "
                    "`folds` of a row how many folds its dataset has"
                )
            if _SWEEP.search(override):
                raise ValueError(f"{place}: expected values between commas, found a function: {excerpt(override)}")
            if _may_import(override):
                raise ValueError(
                    f"{place}: expected settings that cannot bring in code, found {excerpt(override)}. Experiments "
                    "may come from others: type this after python -m tasks.run instead, or use --config-dir DIR"
                )
    for number, row in enumerate(experiment.rows):
        if row.folds is not None and row.folds < 2:
            raise ValueError(f"rows[{number}].folds: expected at least 2, or no such key, found {row.folds}")
        if row.split not in ("test", "dev"):
            raise ValueError(f"rows[{number}].split: expected test or dev, found {row.split!r}")
        if row.split != "dev" and any("trial=true" in (*row.overrides, *own) for own in experiment.arms.values()):
            raise ValueError(f'rows[{number}].split: expected "dev", because a trial has no test score')
        for key, named in (("paper", {*row.paper, *row.paper_std}), ("arms", set(row.arms))):
            if unknown := sorted(named - set(experiment.arms)):
                raise ValueError(f"rows[{number}].{key}: expected names of arms, found {', '.join(unknown)}")
        unprinted = {*row.same_baseline, *experiment.compare[:1]} - set(row.paper)
        if row.same_baseline and unprinted:
            raise ValueError(f"rows[{number}].same_baseline: expected all in `paper`, without {', '.join(unprinted)}")
        for arm, overrides in experiment.arms.items():
            missing = [key for key in NAMED if key not in dict(map(key_and_value, [*row.overrides, *overrides]))]
            if missing:
                raise ValueError(
                    f"rows[{number}] with arms.{arm}: expected {', '.join(NAMED)}, found none of {', '.join(missing)}"
                )


def _may_import(override: str) -> bool:
    """Whether an override may bring in code: a class, a mapping made from text, or a YAML file that is no dataset."""
    key, values = values_of(override)
    if "/" in key or "_target_" in override or "${" in _REFERENCE.sub("", override):
        return True
    if "." in key or key.lstrip("+~") in PATHS:  # no choice of a config
        return False
    return any("/" in value and not (key == "data" and value.strip("'\"").endswith(".yaml")) for value in values)


def _refuse_equal_rows(rows: Sequence[ExperimentRow]) -> None:
    shown = set()
    for row in rows:
        key = (*sorted(row.overrides), row.metric, row.split)
        if key in shown:
            raise ValueError(
                f"rows: expected each row once, or with another metric or split, found {' '.join(row.overrides)} twice"
            )
        shown.add(key)
