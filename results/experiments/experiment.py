"""Experiments: tables of runs, and the choice of some of their cells."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from elmo.common.errors import InputError
from results.experiments.cell import Cell, ExperimentRow, dataset_name, key_and_value
from results.records.identity import same_value
from results.records.paths import recorded

SUFFIX = ".toml"
MOST_RUNS = 100_000  # more are a typing error, and would fill the memory
MOST_NAMED = 20  # values or cells in a message


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
    """A table of runs, as experiment_file.py reads it.

    Attributes:
        note: What the table says below its rows.
        needs: What its commands need first, a line each.
        published_only: Whether all of its rows are.
        trials: The experiment in which settings were tried on dev before; the table says how many each arm had.
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
    published_only: bool = False
    trials: str = ""
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
            Cell(row, arm, seed, dict(map(key_and_value, [*row.overrides, *overrides, *fold])))
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
            refuse_equal_names(f"{key}={','.join(values)}" for key, values in given.items())
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
                        f"{key}={value}: no cell of experiment={self.name} has it, only "
                        f"{', '.join(_first(list(known)))}. For other runs, start a sweep without an experiment, or "
                        f"copy the experiment's file, change it, and use experiment=PATH{SUFFIX}"
                    )
            cells = [
                cell
                for cell in cells
                if (own := cell.value(key)) is not None and any(same_value(key, value, own) for value in values)
            ]
        if not cells:
            asked = " ".join(f"{key}={','.join(values)}" for key, values in given.items() if key not in extra)
            lines = dict.fromkeys(" ".join(cell.overrides[1:]) for cell in self.cells)
            raise InputError(
                f"{asked}: no cell of experiment={self.name} has all of these. Its cells, without seeds:\n  "
                + "\n  ".join(_first(list(lines)))
            )
        refuse_absurd([math.prod(map(len, extra.values())) * len(cells)])
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


def _first(values: Sequence[str]) -> list[str]:
    more = [f"and {len(values) - MOST_NAMED:,} more"] if len(values) > MOST_NAMED else []
    return [*values[:MOST_NAMED], *more]


def refuse_absurd(counts: Iterable[int]) -> None:
    """Raises an InputError if these are more runs than anyone can want, before they are listed."""
    if (total := sum(counts)) > MOST_RUNS:
        raise InputError(
            f"expected at most {MOST_RUNS:,} runs, found {total:,}. Check its lists of values, and `folds`"
        )


def values_of(override: str) -> tuple[str, list[str]]:
    """The key of KEY=A,B and its values; commas inside brackets or quotes do not separate."""
    key, value = key_and_value(override)
    parts, depth, quote = [""], 0, ""
    for character in value:
        quote = "" if character == quote else quote or (character if character in "'\"" else "")
        depth += 0 if quote else (character in "[{(") - (character in "]})")
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return key, parts


def refuse_equal_names(overrides: Iterable[str]) -> None:
    """Raises a ValueError for two paths that records cannot tell apart: one run would be in the cells of both."""
    known: dict[tuple[str, str], str] = {}
    for key, values in map(values_of, overrides):
        for value in values:
            name = dataset_name(value) if key == "data" else recorded(key, value)
            other = known.setdefault((key, name), value)
            if other != value and name not in (value, other):
                raise ValueError(
                    f"{key}: expected paths with different last parts, because records have no more of them, found "
                    f"{other} and {value}; rename one"
                )
