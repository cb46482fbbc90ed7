"""The config tree: its schema, how it is composed, files typed by their paths, and what its errors mean.

The YAML files under conf/ fill in these dataclasses. Hydra rejects a key or a type that is not here.

Hydra imports and calls what a config names, so everything under conf/ and --config-dir is trusted like code. A dataset
file, data=PATH.yaml, is not trusted: nothing in it is resolved, and all of it is put under `data`, where the schema
defines every key.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar

import yaml
from hydra import compose, initialize_config_module
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import MISSING, DictConfig, OmegaConf

from elmo.common import checks, config_errors
from elmo.common.checks import AtLeastOne, AtLeastZero, Share
from elmo.common.errors import InputError
from elmo.common.files import CONF, expanded
from results.experiments import SUFFIX, experiment_names
from tasks.command_line import group_options
from tasks.data.datasets import DataConfig
from tasks.features.token_features import FeaturesConfig, StoreConfig
from tasks.training.trainer import TrainerConfig

DEEPEST = 10  # levels of nesting in a dataset file; a dataset has four

# How to choose a file of one's own, by group.
OWN_FILES = {
    "data": "A file of your own is data=PATH.yaml.",
    "experiment": "A file of your own is experiment=PATH.toml.",
    "task": "For DIR/task/NAME.yaml of your own, add --config-dir DIR.",
    "features": "For DIR/features/NAME.yaml of your own, add --config-dir DIR.",
}


@dataclass
class LoggerConfig:
    """Settings of logging in addition to the record; conf/logger/ has the choices."""

    name: Annotated[str, partial(checks.one_of, ("none", "wandb"))] = "none"
    mode: Annotated[str, partial(checks.one_of, ("online", "offline", "disabled"))] = "online"
    project: str = "elmo-benchmark"
    entity: str | None = None


@dataclass
class RunSettings:
    """The settings that a run uses as they are typed; conf/config.yaml has the defaults."""

    task: Any = MISSING
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: AtLeastZero = 1
    fold: int | None = None
    train_fraction: Share = 1.0
    limit: AtLeastOne | None = None
    trial: bool = False
    device: str = "auto"
    threads: Annotated[int, partial(checks.count, checks.MOST_THREADS)] = 1
    keep_weights: Any = False  # a bool, checked later: OmegaConf would take 2 for true
    confidences: Any = False  # a bool, as above
    retry: Annotated[str, partial(checks.one_of, ("null", "failed"))] | None = None
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    store: StoreConfig = field(default_factory=StoreConfig)


@dataclass
class RunSchema(RunSettings):
    """The whole tree.

    Attributes:
        datasets: the task's part of the datasets that every task has (mini, paper), by name.
        dataset_file: the file of data=PATH.yaml; `TypedFiles` sets it.
    """

    task: dict[str, Any] = MISSING
    data: DataConfig = field(default_factory=DataConfig)
    datasets: dict[str, DataConfig] = field(default_factory=dict)
    runs_dir: str = "results/runs"
    data_dir: str = "data"
    dataset_file: str | None = None
    also: list[str] = field(default_factory=list)


class TypedFiles(ConfigSource):
    """Hydra's config source for data=PATH.yaml and experiment=PATH.toml; names are in conf/ and --config-dir."""

    @staticmethod
    def scheme() -> str:  # noqa: D102
        return "typed-file"

    def is_config(self, config_path: str) -> bool:  # noqa: D102
        group, _, path = config_path.partition("/")
        return path.endswith({"data": ".yaml", "experiment": SUFFIX}.get(group, "/"))

    def load_config(self, config_path: str) -> ConfigResult:  # noqa: D102
        group, _, path = config_path.partition("/")
        if group == "data":
            content: dict[str, Any] = {"dataset_file": path, "data": read_dataset(path)}
        else:
            content = {"hydra": {"sweeper": {"experiment": path}}}
        return ConfigResult(self.provider, path, OmegaConf.create(content), header={"package": "_global_"})

    def is_group(self, config_path: str) -> bool:  # noqa: D102
        return False

    def available(self) -> bool:  # noqa: D102
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:  # noqa: D102
        return []


class SearchPath(SearchPathPlugin):
    """Puts typed files before all folders: Hydra would read data=mini.yaml from conf/data/mini.yaml."""

    config_dir: ClassVar[Path | None] = None  # a user's folder, see `use_config_dir`

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:  # noqa: D102
        search_path.prepend("tasks", f"{TypedFiles.scheme()}://")
        if self.config_dir is not None:
            search_path.append("command-line", f"file://{self.config_dir.absolute()}")


ConfigStore.instance().store(name="schema", node=RunSchema)
of_conf = files(CONF) / "experiment"  # those that need a launcher or a device
for experiment in (name for name in experiment_names() if not (of_conf / f"{name}.yaml").is_file()):
    swept = {"hydra": {"sweeper": {"experiment": experiment}}}
    ConfigStore.instance().store(group="experiment", name=experiment, node=swept, package="_global_")
for plugin in (TypedFiles, SearchPath):
    Plugins.instance().register(plugin)
# ${home:PATH} expands a leading ~ in the paths that Hydra itself uses.
OmegaConf.register_new_resolver("home", lambda path: str(expanded(path, "runs_dir")), replace=True)


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """Composes the tree from overrides, inside and outside of a Hydra application."""
    if GlobalHydra.instance().is_initialized():
        return compose("config", list(overrides))
    with initialize_config_module(CONF, version_base="1.3"):
        return compose("config", list(overrides))


def use_config_dir(folder: Path | None) -> None:
    """Lets Hydra find the configs of a user's folder, and data=NAME choose what its tasks have under `datasets`.

    Raises:
        InputError: it is no folder, or has a config with the name of one of the suite, which Hydra would use instead,
            silently.
    """
    SearchPath.config_dir = None
    if folder is None:
        return
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
    SearchPath.config_dir = folder
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
    try:
        with initialize_config_module(CONF, version_base="1.3"):
            yield
    finally:
        SearchPath.config_dir = None


def read_dataset(given: str) -> dict[str, Any]:
    """Reads a dataset file; `name` defaults to the file's name. Hydra checks keys and types.

    Raises:
        ConfigCompositionException: the file cannot be read, or contains what only a trusted config may contain.
    """
    path = Path(given).expanduser()
    if not path.is_file():
        raise _refused(given, f"expected a file, found none. A dataset by name is data={path.stem}")
    try:
        text = path.read_text(encoding="utf-8")
        _check_structure(given, text)
        values = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        problem = " ".join(str(error).replace('"<unicode string>"', path.name).split())
        raise _refused(given, f"expected YAML, found: {problem}. Correct the file") from None
    if not isinstance(values, dict):
        problem = "nothing" if values is None else type(values).__name__
        raise _refused(given, f"expected keys and values, found {problem}. Correct the file")
    if re.search(r"^\s*#\s*@package", text, re.MULTILINE):
        raise _refused(given, "expected a dataset, found a line with @package. Remove it")
    if reference := re.search(r"\$\{[^}]{0,78}\}?", str(values)):
        raise _refused(given, f"expected plain values, found {reference[0]!r}. Write the value itself")
    if not values.get("task"):
        raise _refused(given, "expected `task`, the task that it is for, found none. Add it")
    name = values.setdefault("name", path.stem)
    if isinstance(name, bool):
        raise _refused(
            given, f"name: expected text, found {name}: YAML reads yes, no, on, off so. Put quotes around it"
        )
    if name in ("", "???"):
        raise _refused(given, f"name: expected the dataset's name, or none for the file's, found {name!r}. Correct it")
    if f"{name}.yaml" in [file.name for file in (files(CONF) / "data").iterdir()]:
        raise _refused(given, f"name: {name} is a dataset of the suite. Give yours another name")
    return values


def _check_structure(given: str, text: str) -> None:
    """Rejects aliases and deep nesting, which can fill all memory or take hours."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST or isinstance(event, yaml.AliasEvent):
            what = "an alias" if depth <= DEEPEST else f"more than {DEEPEST} levels"
            raise _refused(given, f"expected keys and values of a dataset, found {what}. Write it out")


def _refused(given: str, reason: str) -> ConfigCompositionException:
    return ConfigCompositionException(f"data={given}: {reason}")


def explain(error: Exception, where: str = "", typed: Sequence[str] = ()) -> str:
    """Explains an error of Hydra or OmegaConf in one or two lines.

    Args:
        error: the error.
        where: the part of the tree that it is about, such as "task"; empty for the whole tree.
        typed: the overrides, among them the task and the features, whose keys are known.
    """
    explained = config_errors.explain(error, lambda parent: _known_keys(parent, typed), where)
    if isinstance(error, MissingConfigException):
        return " ".join(filter(None, (explained, OWN_FILES.get((error.missing_cfg_file or "").partition("/")[0]))))
    return explained


def _known_keys(parent: str, typed: Sequence[str]) -> list[str]:
    if parent.endswith(".source"):
        return []  # its class may accept more than its YAML sets
    chosen = [override.partition(",")[0] for override in typed if override.startswith(("task=", "features="))]
    try:
        tree = compose_config(chosen)
    except HydraException:  # a mistake in one of them
        tree = compose_config([])
    node = OmegaConf.select(tree, parent)
    keys = [str(key) for key in node if key != "_target_"] if isinstance(node, DictConfig) else []
    return keys if parent else [*keys, "experiment"]  # a group that is not in the tree
