"""Hydra's sweeper for experiments, whose runs are the cells of a table, and experiment=PATH.toml.

Hydra's own sweeper makes a product, which cannot express "task A with data X, task B with data Y".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from math import ceil, prod
from typing import ClassVar

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from elmo.common.errors import InputError
from results.experiments.cell import Cell
from results.experiments.experiment import SUFFIX, refuse_absurd
from results.experiments.experiment_file import load_experiment
from tasks.running.dataset_file import DatasetFiles

# Hydra accepts sweepers only by names below hydra_plugins (Plugins.is_in_toplevel_plugins_module), so this one is known
# to it under such a name. A package of that name at the top of the repository would have no other purpose.
SWEEPER = "hydra_plugins.elmo_suite.ExperimentSweeper"


class ExperimentSweeper(BasicSweeper):
    """Runs the cells of an experiment; keys on the command line choose among them, or set the same in all.

    conf/hydra/sweeper/table.yaml names it.

    Attributes:
        composed: runs that the sweep's callback has composed, each as its overrides in one text.
    """

    composed: ClassVar[Collection[str]] = ()

    def __init__(self, experiment: str, max_batch_size: int | None = None) -> None:
        super().__init__(max_batch_size)
        self._experiment = experiment

    def split_arguments(  # type: ignore[override]  # static there, but called on the instance
        self, overrides: list[Override], max_batch_size: int | None
    ) -> list[list[list[str]]]:
        """The runs of the sweep in batches, each run as what it overrides."""
        runs = [cell.overrides for cell in experiment_cells(self._experiment, overrides)]
        return list(self.split_overrides_to_chunks(runs, max_batch_size))

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Composes the runs before the first one starts, except those that are already composed: 0.2 s each."""
        super().validate_batch_is_legal([run for run in batch if " ".join(run) not in self.composed])


def experiment_cells(experiment: str, overrides: list[Override]) -> list[Cell]:
    """The different runs of an experiment.

    Raises:
        InputError: the experiment's file is wrong or has no runs, or no cell matches the overrides.
    """
    given = {}
    refuse_absurd_sweep(overrides)
    for override in overrides:
        key = override.get_key_element()
        if override.is_delete() and override.value() is None:
            given[key] = [""]
        elif not override.is_sweep_override():
            given[key] = [_typed(str(override.get_value_element_as_str()))]
        elif override.is_discrete_sweep():
            given[key] = list(map(_typed, override.sweep_string_iterator()))
        else:
            raise ConfigCompositionException(f"{override.input_line}: expected values, found a range without steps")
    cells = [cell for cell in load_experiment(experiment).narrowed(given).cells if not cell.row.published_only]
    if not cells:
        raise InputError(
            f"experiment={experiment}: expected runs, found published records only: "
            f"python -m results.table --published --experiment {experiment}"
        )
    different = {tuple(sorted(cell.overrides)): cell for cell in cells}  # two cells may show the same run
    return list(different.values())


def refuse_absurd_sweep(overrides: Iterable[Override]) -> None:
    """Raises an InputError if the values that were typed make more runs than anyone can want, before they are made."""
    counts = []
    for value in (override.value() for override in overrides if override.is_sweep_override()):
        if isinstance(value, RangeSweep):
            counts.append(ceil(Fraction((value.stop or 0) - (value.start or 0)) / Fraction(value.step or 1)))
        elif isinstance(value, ChoiceSweep):
            counts.append(len(value.list))
    refuse_absurd([prod(counts)])


def _typed(value: str) -> str:
    """The value as it was typed, if it is an interpolation: Hydra escapes its characters."""
    plain = re.sub(r"\\(.)", r"\1", value)
    return plain if "${" in plain else value


class ExperimentFiles(DatasetFiles):
    """Hydra's config source for experiment=PATH.toml; the suite's own experiments are in conf/experiment."""

    group = "experiment/"
    suffix = SUFFIX

    @staticmethod
    def scheme() -> str:  # noqa: D102
        return "experiment-file"

    def load_config(self, config_path: str) -> ConfigResult:  # noqa: D102
        path = config_path.removeprefix(self.group)
        content = {"defaults": [{"override /hydra/sweeper": "table"}]}
        return ConfigResult(self.provider, path, OmegaConf.create(content), header={"package": "_global_"})


class SearchExperimentFiles(SearchPathPlugin):
    """Adds experiment files to what Hydra searches."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:  # noqa: D102
        search_path.append("tasks", f"{ExperimentFiles.scheme()}://")


def register() -> None:
    """Registers experiments with Hydra in this process."""
    Plugins.instance().class_name_to_class[SWEEPER] = ExperimentSweeper
    Plugins.instance().register(ExperimentFiles)
    Plugins.instance().register(SearchExperimentFiles)
