"""The runs that a command stands for: their configs, and the list of them that `python -m results.status` reads."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from elmo.common.config_errors import CONFIG_ERRORS
from elmo.common.errors import InputError
from results.experiments.cell import Cell
from results.experiments.experiment import sweep_name
from results.records.record import timestamp
from results.records.sweep_manifest import DATA, DATA_DIR, Manifest, write_manifest
from tasks.running.config import RunConfig, run_config
from tasks.running.config_errors import explain
from tasks.running.plan import identity_of
from tasks.sweeps.experiment_sweeper import SWEEPER, experiment_cells, refuse_absurd_sweep

NUMBER = re.compile(r"(seed|fold)=(\d+)")
USED = re.compile(r"\$\{[^}]*\b(seed|fold)\}")  # by another setting


def typed_words(config: DictConfig) -> list[str]:
    """The overrides of a sweep as typed, interpolations unresolved: one may need a variable that is not set."""
    words = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    assert isinstance(words, list)
    return words


def runs_in(config: DictConfig) -> list[list[str]]:
    """The runs of a multirun, each as its overrides; none for a sweeper of another package."""
    sweeper = config.hydra.sweeper
    if sweeper._target_ == SWEEPER:
        return [cell.overrides for cell in cells_in(config)]
    if sweeper._target_ != f"{BasicSweeper.__module__}.{BasicSweeper.__qualname__}":
        return []
    arguments = [f"{key}={value}" for key, value in (sweeper.params or {}).items()] + typed_words(config)
    overrides = _parsed(arguments)
    refuse_absurd_sweep(overrides)
    (runs,) = BasicSweeper.split_arguments(overrides, None)
    return runs


def cells_in(config: DictConfig) -> list[Cell]:
    """The runs of an experiment's sweep."""
    return experiment_cells(config.hydra.sweeper.experiment, _parsed(typed_words(config)))


def _parsed(arguments: list[str]) -> list[Override]:
    return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(arguments)


def configs_of(config: DictConfig, runs: list[list[str]]) -> dict[str, RunConfig | str]:
    """The runs of a sweep by their overrides, or why one is rejected; empty if Hydra will reject the whole sweep."""
    known: dict[tuple[str, ...], RunConfig] = {}  # one for all seeds and folds: composing takes half a second
    configs: dict[str, RunConfig | str] = {}
    for overrides in runs:
        numbers = {typed[1]: int(typed[2]) for typed in map(NUMBER.fullmatch, overrides) if typed}
        others = (*numbers, *(override for override in overrides if not NUMBER.fullmatch(override)))
        found: RunConfig | str | None = known.get(others)
        if isinstance(found, RunConfig):
            try:
                found = found.numbered(numbers)
            except InputError as error:  # the data have no such fold
                found = str(error)
        else:
            try:
                tree = GlobalHydra.instance().config_loader().load_sweep_config(config, list(overrides))
                with open_dict(tree):
                    del tree["hydra"]
            except (*CONFIG_ERRORS, AssertionError):  # the last for a key below a null
                return {}
            try:
                found = run_config(tree)
            except InputError as error:
                found = str(error)
            except OmegaConfBaseException as error:  # of an interpolation, such as a variable that is not set
                found = explain(error)
            if isinstance(found, RunConfig) and not USED.search(OmegaConf.to_yaml(tree)):
                known[others] = found
        configs[" ".join(overrides)] = found
    return configs


def manifest_of(config: DictConfig, configs: Mapping[str, RunConfig | str]) -> Manifest:
    """The names of a sweep's runs, for `python -m results.status`."""
    identities = [identity_of(found) for found in configs.values() if isinstance(found, RunConfig)]
    # Equal runs are the same sweep, also with another folder, device or launcher.
    digest = hashlib.sha256("\n".join(identity.title for identity in identities).encode()).hexdigest()[:8]
    return Manifest(
        name=sweep_name(config.hydra.runtime.choices.get("experiment") or f"sweep-{digest}"),
        command=shlex.join(["python", "-m", "tasks.run", "-m", *_config_dir(config), *typed_words(config)]),
        runs=identities,
        refused=[f"{overrides}: {found}" for overrides, found in configs.items() if not isinstance(found, RunConfig)],
        started_at=timestamp(),
    )


def write_places(config: DictConfig, runs_dir: Path) -> None:
    """Writes where a single run has its configs and data, if they were typed, for commands that results/ suggests.

    Args:
        config: the run with Hydra's own settings.
        runs_dir: does not exist if the run was rejected; then nothing is written.
    """
    typed = [word for word in typed_words(config) if word.startswith((DATA, DATA_DIR))]
    words = [*_config_dir(config), *(word for word in typed if word.startswith(DATA_DIR) or ".yaml" in word)]
    if not words or not runs_dir.is_dir():
        return
    name = f"run-{hashlib.sha256(shlex.join(words).encode()).hexdigest()[:8]}"
    with suppress(OSError):  # the run itself is done
        command = shlex.join(["python", "-m", "tasks.run", *words])
        write_manifest(runs_dir, Manifest(name, command, runs=[], started_at=timestamp()))


def _config_dir(config: DictConfig) -> list[str]:
    """The option --config-dir as it was typed, with the absolute path of its folder."""
    typed = [source.path for source in config.hydra.runtime.config_sources if source.provider == "command-line"]
    return [word for path in typed for word in ("--config-dir", path)]
