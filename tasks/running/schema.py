"""Schema of the config tree, and how the tree is composed.

The YAML files under conf/ fill in these dataclasses. Hydra rejects a key or a type that is not here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import MISSING, DictConfig, OmegaConf

from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import CONF, expanded
from tasks.data.datasets import DataConfig
from tasks.features.token_features import FeaturesConfig, StoreConfig
from tasks.running import typed_files
from tasks.training.trainer import TrainerConfig


@dataclass
class LoggerConfig:
    """Where a run is logged in addition to its record; conf/logger/ has the choices."""

    name: str = "none"
    mode: str = "online"
    project: str = "elmo-benchmark"
    entity: str | None = None

    def check(self) -> None:
        """Raises an InputError for an unknown name or mode."""
        checks.one_of(("none", "wandb", "tensorboard"), "logger.name", self.name)
        checks.one_of(("online", "offline", "disabled"), "logger.mode", self.mode)


@dataclass
class RunSettings:
    """The settings that a run uses as they are typed; conf/config.yaml has the defaults."""

    task: Any = MISSING
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: int = 1
    fold: int | None = None
    train_fraction: float = 1.0
    limit: int | None = None
    trial: bool = False
    device: str = "auto"
    threads: int = 1
    keep_weights: Any = False  # a bool, checked later: OmegaConf would take 2 for true
    confidences: Any = False  # a bool, as above
    retry: str | None = None
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    store: StoreConfig = field(default_factory=StoreConfig)


@dataclass
class RunSchema(RunSettings):
    """The whole tree.

    Attributes:
        datasets: the task's part of the datasets that every task has (mini, paper), by name.
        dataset_file: the file of data=PATH.yaml; tasks/running/typed_files.py sets it.
    """

    task: dict[str, Any] = MISSING
    data: DataConfig = field(default_factory=DataConfig)
    datasets: dict[str, DataConfig] = field(default_factory=dict)
    runs_dir: str = "results/runs"
    data_dir: str = "data"
    dataset_file: str | None = None
    also: list[str] = field(default_factory=list)


ConfigStore.instance().store(name="schema", node=RunSchema)
typed_files.register()
# ${home:PATH} expands a leading ~ in the paths that Hydra itself uses.
OmegaConf.register_new_resolver("home", lambda path: str(expanded(path, "runs_dir")), replace=True)


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """Composes the tree from overrides, inside and outside of a Hydra application."""
    if GlobalHydra.instance().is_initialized():
        return compose("config", list(overrides))
    with initialize_config_module(CONF, version_base="1.3"):
        return compose("config", list(overrides))


def use_config_dir(folder: Path) -> None:
    """Lets data=NAME choose what the folder's tasks have under `datasets`.

    Raises:
        InputError: it is no folder, or has a config with the name of one of the suite, which Hydra would use instead,
            silently.
    """
    if not folder.is_dir():
        raise InputError(f"--config-dir {folder}: expected a folder of configs, found none. Check the path")
    for mine in sorted(folder.glob("**/*.yaml")):
        name = mine.relative_to(folder)
        ours = files(CONF).joinpath(*name.parts)
        if ours.is_file() and ours.read_bytes() != mine.read_bytes():  # the same in a copy of conf/
            raise InputError(
                f"--config-dir {folder}: {name}: expected a name that the suite does not use, found one of its own. "
                "Rename the file, and `name` in it"
            )
    of_files = {*group_options("data"), *(file.stem for file in folder.glob("data/*.yaml"))}
    for task in folder.glob("task/*.yaml"):
        with suppress(yaml.YAMLError, OSError, ValueError):  # Hydra finds the same if the run needs this task
            values = yaml.safe_load(task.read_text("utf-8"))
            for name in (values.get("datasets") or {}).keys() - of_files if isinstance(values, dict) else ():
                ConfigStore.instance().store(group="data", name=str(name), node={"name": str(name)})


@contextmanager
def with_configs_of(folder: Path | None) -> Iterator[None]:
    """Lets `compose_config` find the configs of a user's folder, as tasks.run does with --config-dir."""
    if folder is None:
        yield
        return
    use_config_dir(folder)
    with typed_files.searching(folder), initialize_config_module(CONF, version_base="1.3"):
        yield


def add_config_dir(parser: argparse.ArgumentParser) -> None:
    """Adds the option --config-dir, which Hydra's own command line has, to another command."""
    about = "a folder with your configs, trusted like code: its YAML may call functions"
    parser.add_argument("--config-dir", metavar="DIR", type=Path, help=about)


def group_options(group: str) -> list[str]:
    """The names to choose from in a group of conf/, such as "task"."""
    return sorted(Path(file.name).stem for file in files(CONF).joinpath(group).iterdir())
