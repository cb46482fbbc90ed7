"""The config tree as dataclasses: what may stand in it, of which type.

YAML files under conf/ fill these in; a key or type that is not here is refused when the config is composed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, MissingConfigException
from omegaconf import MISSING, DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from elmo.bilm.options import SIZES
from elmo.bilm.weight_files import shipped_names
from elmo.common import checks, config_errors
from elmo.common.errors import InputError, excerpt
from elmo.common.files import expanded
from elmo.download import is_published
from elmo.word_vectors import GLOVE_50D, WORD2VEC
from tasks.data.datasets import DataConfig
from tasks.features.frozen_layers import ElmoConfig, StoreConfig
from tasks.features.token_features import FeaturesConfig
from tasks.interface import Task
from tasks.running import dataset_file
from tasks.running.loggers import LoggerConfig
from tasks.training.trainer import TrainerConfig

# Where, on what and how loudly a run takes place cannot change what comes out, so they are no part of its identity.
NOT_IN_FINGERPRINT = (
    *("device", "threads", "runs_dir", "data_dir", "dataset_file", "keep_weights", "store", "retry", "logger"),
)

TASK_ENTRY_POINTS = "elmo_benchmark.tasks"  # the group under which an installed package offers tasks of its own

BY_NAME_OR_PATH = (("words", "vectors"), ("elmo", "weights"))  # settings of features
# What says where data are and how many there should be; the content's hash is in the fingerprint.
NOT_IN_VARIANT = ("data.expected.", "data.hub.")


@dataclass
class RunSchema:
    """The whole tree; conf/config.yaml has the defaults.

    `datasets` holds the task's own part of those datasets that every task has one of, by name. `dataset_file` is where
    `data` is from with data=PATH.yaml (tasks/running/dataset_file.py sets it).
    """

    task: dict[str, Any] = MISSING
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    data: DataConfig = field(default_factory=DataConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    datasets: dict[str, DataConfig] = field(default_factory=dict)
    seed: int = 1
    train_fraction: float = 1.0
    limit: int | None = None
    device: str = "auto"
    threads: int = 1
    runs_dir: str = "results/runs"
    data_dir: str = "data"
    dataset_file: str | None = None
    keep_weights: bool = False
    retry: str | None = None
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    store: StoreConfig = field(default_factory=StoreConfig)


ConfigStore.instance().store(name="schema", node=RunSchema)
dataset_file.register()
# For paths that Hydra itself uses: ${home:PATH} writes out a leading ~.
OmegaConf.register_new_resolver("home", lambda path: str(expanded(path, "runs_dir")), replace=True)


@dataclass(frozen=True)
class RunConfig:
    """One run, checked and resolved; Hydra's objects stop here.

    Attributes:
        task: the task, with its settings.
        resolved: the whole tree as plain values, without what cannot change a score: for the record.
        variant: the keys, as typed, in which it differs from the plain (task, features, data). One that was deleted
            stands there as `~KEY`, with the plain value.
        own_settings: where the task, the features or the data are a user's own YAML, all settings that are not the
            code's defaults. For the suite's own files they are empty: recipe numbers stand for those.
    """

    task: Task[Any, Any]
    features: FeaturesConfig
    data: DataConfig
    trainer: TrainerConfig
    seed: int
    train_fraction: float
    limit: int | None
    device: str
    threads: int
    runs_dir: Path
    data_dir: Path
    keep_weights: bool
    retry_failed: bool
    logger: LoggerConfig
    store: StoreConfig
    resolved: Mapping[str, Any]
    variant: Mapping[str, str | int | float | bool | None]
    own_settings: Mapping[str, Any] = field(default_factory=dict)


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """The tree that these overrides compose, from wherever it is called."""
    if GlobalHydra.instance().is_initialized():
        return compose("config", list(overrides))
    with initialize_config_module("conf", version_base="1.3"):
        return compose("config", list(overrides))


def typed_config(overrides: Sequence[str]) -> RunConfig:
    """The run that somebody typed.

    Raises:
        InputError: whatever is wrong with it, in words.
    """
    try:
        return run_config(compose_config(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(explain(error)) from error


def group_options(group: str) -> list[str]:
    """The names that may be chosen for a group of conf/, such as "task"."""
    return sorted(Path(file.name).stem for file in files("conf").joinpath(group).iterdir())


def run_config(tree: DictConfig) -> RunConfig:
    """The run that a composed tree describes.

    Raises:
        InputError: a setting of the task or its reader is unknown or of the wrong type, or the dataset is for another
            task.
    """
    tree = _without_unused(tree)
    parsed = _parsed(tree, _task_class(tree.task.get("_target_")))
    own = own_settings(parsed.resolved, type(parsed.task))
    return replace(parsed, variant=_variant(tree, parsed.task.name), own_settings=own)


def recorded_config(resolved: Mapping[str, Any], task: type[Task[Any, Any]]) -> RunConfig:
    """The run of a task whose `resolved` tree was written down, but for its `variant`: that is in the run's record.

    To find it out again would take the YAMLs that the run was composed from, and they may be elsewhere. The class is
    given: a file may come from a stranger, and must not choose what is imported.
    """
    try:
        tree = _without_unused(OmegaConf.merge(OmegaConf.structured(RunSchema), dict(resolved)))  # type: ignore[arg-type]
        return _parsed(tree, task)
    except OmegaConfBaseException as error:
        raise InputError(explain(error)) from error


def task_named(name: str) -> type[Task[Any, Any]]:
    """The class of a task: of one under tasks/ that conf/task/ has, or of an entry point that the user installed."""
    found: object = None
    if name in group_options("task"):
        target = OmegaConf.create(files("conf").joinpath("task", f"{name}.yaml").read_text("utf-8")).task._target_
        found = _task_class(target) if target.startswith("tasks.") else None
    for entry in entry_points(group=TASK_ENTRY_POINTS, name=name) if found is None else ():
        found = entry.load()
    if not (isinstance(found, type) and issubclass(found, Task) and found.name == name):
        raise InputError(
            f"task={name}: expected one of {', '.join(group_options('task'))}, or one that an installed package offers "
            f"as an entry point of the group {TASK_ENTRY_POINTS}"
        )
    return found


def _parsed(tree: DictConfig, task_class: type[Task[Any, Any]]) -> RunConfig:
    """What the tree says, checked."""
    name = task_class.name
    # Checked once more: Hydra lets +KEY=VALUE past the schema.
    plain: dict[str, Any] = OmegaConf.to_container(tree, resolve=True)  # type: ignore[assignment]
    values: RunSchema = _checked(RunSchema, plain, "")
    checks.finite(plain)
    checks.at_least(1, "limit", values.limit)
    checks.count(checks.MOST_THREADS, "threads", values.threads)
    for part in (values.features, values.trainer, values.logger, values.store):
        part.check()
    if values.retry not in (None, "failed"):
        raise InputError(f"retry: expected null or failed, found {values.retry!r}")
    if not 0 < values.train_fraction <= 1:
        raise InputError(f"train_fraction: expected more than 0 and at most 1, found {values.train_fraction}")
    data: DataConfig = OmegaConf.to_object(_chosen_data(tree))  # type: ignore[assignment]
    if data.task not in (None, name):
        raise InputError(f"data={data.name} is for task={data.task}, found task={name}")
    settings = {key: value for key, value in values.task.items() if key != "_target_"}
    task = task_class(
        _checked(task_class.settings_type, settings, "task"),
        _checked(task_class.reader_type, data.reader, "data.reader"),
    )
    return RunConfig(
        task=task,
        features=values.features,
        data=data,
        trainer=values.trainer,
        seed=values.seed,
        train_fraction=values.train_fraction,
        limit=values.limit,
        device=values.device,
        threads=values.threads,
        runs_dir=expanded(values.runs_dir, "runs_dir"),
        data_dir=expanded(values.data_dir, "data_dir"),
        keep_weights=values.keep_weights,
        retry_failed=values.retry == "failed",
        logger=values.logger,
        store=values.store,
        resolved=_resolved(tree),
        variant={},
    )


def _task_class(target: object) -> type[Task[Any, Any]]:
    """The class that a task's YAML names."""
    module, _, name = str(target).rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None) if module else None
    except ImportError as error:
        raise InputError(f"task._target_: {excerpt(target)} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise InputError(
            f"task._target_: expected the class of a task such as tasks.ner.task.Ner, found {excerpt(target)}"
        )
    return found


def _variant(tree: DictConfig, task: str) -> dict[str, Any]:
    """The keys and values in which the tree differs from the plain one of its task, features and data."""
    try:
        data = (tree.dataset_file or tree.data.name).replace("'", r"\'")
        plain = compose_config([f"task={task}", f"features={tree.features.name}", f"data='{data}'"])
    except MissingConfigException as error:
        raise InputError(
            f"{error.missing_cfg_file}: no such config; `name` in a YAML must be its file's name"
        ) from error
    here, there = _flat(_resolved(tree)), _flat(_resolved(_without_unused(plain), anywhere=True))
    changed = {key: here[key] for key in here if key != "seed" and (key not in there or here[key] != there[key])}
    changed = {key: value for key, value in changed.items() if not key.startswith(NOT_IN_VARIANT)}
    # A part that is null on either side is a change of that part, not a deletion of what the other side has below it.
    deleted = [key for key in there if not any(_one_in_the_other(key, kept) for kept in here)]
    return changed | {f"~{key}": there[key] for key in deleted if not key.startswith(NOT_IN_VARIANT)}


def own_settings(resolved: Mapping[str, Any], task: type[Task[Any, Any]]) -> dict[str, Any]:
    """The settings of a run with a user's own YAML that are not the code's defaults; none for the suite's own files."""
    names = {"task": task.name, "features": resolved["features"]["name"], "data": resolved["data"]["name"]}
    if all(name in group_options(group) for group, name in names.items()):
        return {}
    kinds = {"task": task.settings_type, "features": FeaturesConfig, "trainer": TrainerConfig}
    defaults: dict[str, Any] = {key: OmegaConf.to_container(OmegaConf.structured(kind)) for key, kind in kinds.items()}
    defaults["features"]["elmo"] = OmegaConf.to_container(OmegaConf.structured(ElmoConfig))
    there = _flat({**defaults, "reader": OmegaConf.to_container(OmegaConf.structured(task.reader_type))})
    here = _flat({**{key: resolved[key] for key in kinds}, "reader": resolved["data"]["reader"]})
    # The name is in the identity, and the content's hash in the fingerprint.
    left_out = ("task._target_", "features.name", *(f"features.{part}.{key}" for part, key in BY_NAME_OR_PATH))
    return {k: value for k, value in here.items() if k not in left_out and (k not in there or there[k] != value)}


def _one_in_the_other(first: str, second: str) -> bool:
    return f"{first}.".startswith(f"{second}.") or f"{second}.".startswith(f"{first}.")


def _without_unused(tree: DictConfig) -> DictConfig:
    """The tree without settings that nothing will read, so that they cannot make two equal runs look different.

    A whole part that was deleted (~trainer) is back with the schema's values, which are what the run would have.
    """
    tree = tree.copy()
    schema = OmegaConf.structured(RunSchema)
    with open_dict(tree):
        for key in schema.keys() - tree.keys():
            tree[key] = schema[key]
    if tree.features.elmo is not None and not tree.features.elmo.enabled:
        tree.features.elmo = None
    return tree


def _chosen_data(tree: DictConfig) -> DictConfig:
    """The dataset: what its own file says, or the task's part of it."""
    name = tree.data.name
    if tree.dataset_file or tree.data.splits or tree.data.hub:
        return tree.data  # type: ignore[no-any-return]
    if name not in tree.datasets:
        raise InputError(f"data={name}: this task has no such dataset, only {', '.join(tree.datasets)}")
    for key, value in OmegaConf.structured(DataConfig(name=name)).items():
        if tree.data[key] != value:
            raise InputError(f"data.{key}: data={name} is the task's own; set datasets.{name}.{key} instead")
    return OmegaConf.merge(tree.datasets[name], {"name": name})  # type: ignore[return-value]


def _resolved(tree: DictConfig, anywhere: bool = False) -> dict[str, Any]:
    """The tree as plain values, without paths and machine, and of all datasets only the chosen one.

    Args:
        tree: what was composed.
        anywhere: take names of weights as such, even where a folder of that name is here and would be read instead.
    """
    values: dict[str, Any] = OmegaConf.to_container(tree, resolve=True)  # type: ignore[assignment]
    values["data"] = OmegaConf.to_container(_chosen_data(tree), resolve=True)
    for part, key in BY_NAME_OR_PATH:
        settings = values["features"][part]
        if settings and settings[key]:
            settings[key] = _without_folder(settings[key], anywhere)
    return {key: value for key, value in values.items() if key not in (*NOT_IN_FINGERPRINT, "datasets")}


def _without_folder(given: str, anywhere: bool) -> str:
    """What is recorded of weights or vectors: a name as it is, of a path only the last part.

    The content's hash is in the fingerprint, and its folder is no part of a result. A path that ends like a name keeps
    a "./", so that somebody's own biLM in a folder called small is never taken for the shipped one.
    """
    last = Path(given).name
    if is_name(given, anywhere):
        return given
    return f"./{last}" if is_name(last, anywhere=True) else last


def is_name(given: str, anywhere: bool = False) -> bool:
    """Whether weights or vectors are given by name, not by path; here, where a folder may go before, or anywhere."""
    if given in shipped_names() or is_published(given):
        return anywhere or not Path(given).exists()  # as elmo.bilm.weight_files.find_weights has it
    return given in SIZES or given in (GLOVE_50D, WORD2VEC)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            leaves |= _flat(value, f"{prefix}{key}.")
        else:
            leaves[prefix + key] = value if not isinstance(value, list) else "[" + ",".join(map(str, value)) + "]"
    return leaves


def _checked(kind: type, values: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 (an instance of `kind`)
    """The values as an instance of a dataclass; unknown keys and wrong types are errors."""
    try:
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), dict(values)))
    except OmegaConfBaseException as error:
        raise InputError(explain(error, where)) from error


def explain(error: Exception, where: str = "") -> str:
    """Describes a config error of a run: the key, what is wrong, and which keys or choices exist."""
    return config_errors.explain(error, _known_keys, where)


def _known_keys(parent: str) -> list[str]:
    node = OmegaConf.select(compose_config([]), parent) if parent else compose_config([])
    return [str(key) for key in node if key != "_target_"] if isinstance(node, DictConfig) else []
