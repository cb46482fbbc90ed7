"""The runs that a command stands for: their configs, and the list of them that `python -m results.status` reads."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import product

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from elmo.common.errors import InputError
from results.experiments import Cell, as_typed, load_experiment, sweep_name
from results.records.progress import Manifest
from results.records.record import timestamp
from tasks.running.config import Run, run_config
from tasks.running.schema import explain

NUMBER = re.compile(r"(seed|fold)=(\d+)")
USED = re.compile(r"\$\{[^}]*\b(seed|fold)\}")  # by another setting


def typed_words(config: DictConfig) -> list[str]:
    """The overrides of a sweep as typed, interpolations unresolved: one may need a variable that is not set."""
    words = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    assert isinstance(words, list)
    return words


def runs_in(config: DictConfig) -> list[list[str]]:
    """The runs of a sweep, each as its overrides: the cells of an experiment, or the product of what was typed."""
    if config.hydra.sweeper.experiment:
        return [cell.overrides for cell in cells_in(config)]
    params = config.hydra.sweeper.get("params") or {}
    values = typed_values(_parsed([*(f"{key}={value}" for key, value in params.items()), *typed_words(config)]))
    return [list(map(as_typed, zip(values, chosen, strict=True))) for chosen in product(*values.values())]


def cells_in(config: DictConfig) -> list[Cell]:
    """The runs of an experiment's sweep; none of another sweep's."""
    experiment = config.hydra.sweeper.experiment
    return experiment_cells(experiment, _parsed(typed_words(config))) if experiment else []


def _parsed(arguments: list[str]) -> list[Override]:
    return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(arguments)


def experiment_cells(experiment: str, overrides: list[Override]) -> list[Cell]:
    """The different runs of an experiment.

    Raises:
        InputError: the experiment's file is wrong or has no runs, or no cell matches the overrides.
    """
    chosen = load_experiment(experiment).narrowed(typed_values(overrides))
    cells = [cell for cell in chosen.cells if not cell.row.published_only]
    if not cells:
        raise InputError(
            f"experiment={experiment}: expected runs, found published records only: "
            f"python -m results.table --published --experiment {experiment}"
        )
    different = {tuple(sorted(cell.overrides)): cell for cell in cells}  # two cells may show the same run
    return list(different.values())


def typed_values(overrides: Iterable[Override]) -> dict[str, list[str]]:
    """Key -> the values that were typed for it."""
    values = dict[str, list[str]]()
    for override in overrides:
        key = override.get_key_element()
        if override.is_delete() and override.value() is None:
            values[key] = [""]
        elif not override.is_sweep_override():
            values[key] = [_plain(str(override.get_value_element_as_str()))]
        elif override.is_discrete_sweep():
            values[key] = list(map(_plain, override.sweep_string_iterator()))
        else:
            raise ConfigCompositionException(f"{override.input_line}: expected values, found a range without steps")
    return values


def _plain(value: str) -> str:
    """The value as it was typed, if it is an interpolation: Hydra escapes its characters."""
    plain = re.sub(r"\\(.)", r"\1", value)
    return plain if "${" in plain else value


def configs_of(config: DictConfig, runs: list[list[str]]) -> dict[str, Run | str]:
    """The runs of a sweep by their overrides, or why one is rejected.

    Raises:
        Exception: one of `CONFIG_ERRORS`, or an AssertionError for a key below a null: a run cannot be composed.
    """
    known: dict[tuple[str, ...], Run] = {}  # one for all seeds and folds: composing takes half a second
    configs: dict[str, Run | str] = {}
    for overrides in runs:
        numbers = {typed[1]: int(typed[2]) for typed in map(NUMBER.fullmatch, overrides) if typed}
        others = (*numbers, *(override for override in overrides if not NUMBER.fullmatch(override)))
        try:
            if others in known:
                configs[" ".join(overrides)] = known[others].numbered(numbers)
                continue
            tree = GlobalHydra.instance().config_loader().load_sweep_config(config, list(overrides))
        except InputError as error:  # the data have no such fold
            configs[" ".join(overrides)] = str(error)
            continue
        with open_dict(tree):
            del tree["hydra"]
        try:
            run = run_config(tree)
            configs[" ".join(overrides)] = run
            if not USED.search(OmegaConf.to_yaml(tree)):
                known[others] = run
        except InputError as error:
            configs[" ".join(overrides)] = str(error)
        except OmegaConfBaseException as error:  # of an interpolation, such as a variable that is not set
            configs[" ".join(overrides)] = explain(error)
    return configs


def manifest_of(config: DictConfig, configs: Mapping[str, Run | str]) -> Manifest:
    """The names of a sweep's runs, for `python -m results.status`."""
    identities = [run.identity for run in configs.values() if isinstance(run, Run)]
    # Equal runs are the same sweep, also with another folder, device or launcher.
    digest = hashlib.sha256("\n".join(identity.title for identity in identities).encode()).hexdigest()[:8]
    return Manifest(
        name=sweep_name(config.hydra.runtime.choices.get("experiment") or f"sweep-{digest}"),
        command=shlex.join(["python", "-m", "tasks.run", "-m", *_config_dir(config), *typed_words(config)]),
        runs=identities,
        refused=[f"{overrides}: {reason}" for overrides, reason in configs.items() if isinstance(reason, str)],
        started_at=timestamp(),
    )


def _config_dir(config: DictConfig) -> list[str]:
    """The option --config-dir as it was typed, with the absolute path of its folder."""
    typed = [source.path for source in config.hydra.runtime.config_sources if source.provider == "command-line"]
    return [word for path in typed for word in ("--config-dir", path)]
