"""Run configuration: the composed config tree, checked and resolved to plain objects."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from elmo.common.checks import check_tree, finite, importable
from elmo.common.config_errors import CONFIG_ERRORS
from elmo.common.errors import InputError, excerpt, reworded
from elmo.common.files import CONF, expanded
from results.experiments import NOT_RECORDED
from results.records.identity import (
    BY_NAME_OR_PATH,
    CHECKPOINT_NAME,
    SOURCE,
    WEIGHTS_NAME,
    Identity,
    differences,
    fingerprint,
    flattened,
    last_of_path,
    settings_hash,
    without_folder,
)
from results.records.progress import LOCK_NAME
from results.records.record import decide, hashed, read_record
from tasks.command_line import group_options
from tasks.data.datasets import DataConfig, DataSource
from tasks.features import token_features
from tasks.running.schema import RunSchema, RunSettings, compose_config, explain, with_configs_of
from tasks.task import Task
from tasks.training.trainer import FitsItself, TrainerConfig

# Texts in tables and reports: titles, and warnings about the source of a part.
FOR_PEOPLE = re.compile(r"task\.title|features\.title|features\..+\.warning")
# Where the data are and how many are expected; the fingerprint has the hash of their content.
NOT_IN_VARIANT = ("data.expected.", "data.hub.")


@dataclass(kw_only=True)
class Run(RunSettings):
    """One run, checked and resolved, and all that is known about it before training; Hydra's objects stop here.

    What it reads is hashed once, when that is first asked for: `dataclasses.replace(run)` is a copy that hashes again.

    Attributes:
        task: the task, with its settings.
        dataset: the dataset, with the files of all folds if it has any.
        resolved: the whole tree as plain values, for the record, without settings that cannot change a score.
        variant: the settings that differ from the plain (task, features, data), as typed. A deleted key is there as
            `~KEY`, with the plain value.
        also: the task's plain run on each further dataset whose test set the model is scored on; none for a trial.
        confidences: whether to keep how certain the model is of its predictions; not for a trial.
        own_settings: all settings that differ from the code's defaults, if the task, the features or the data come from
            a user's YAML. Empty for the suite's own files, which have recipe numbers.
    """

    task: Task[Any, Any]
    dataset: DataConfig
    runs_dir: Path
    data_dir: Path
    resolved: Mapping[str, Any]
    variant: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    also: Sequence["Run"] = ()
    own_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dataset.of_fold(self.fold)  # raises if there is no such fold

    @property
    def data(self) -> DataConfig:
        """The dataset; if it has folds, with the files of this one."""
        return self.dataset.of_fold(self.fold)

    @cached_property
    def identity(self) -> Identity:
        """The run's name."""
        return Identity(self.data.name, self.task.name, self.features.name, self.seed, self.variant, self.fold)

    @cached_property
    def path(self) -> Path:
        """The file of its record, which follows from the name."""
        return self.runs_dir / self.identity.path

    @property
    def checkpoint(self) -> Path:
        """The file with the state after the last epoch; removed when the run ends."""
        return self.path.with_name(CHECKPOINT_NAME)

    @property
    def weights(self) -> Path:
        """The file of its model, if that is kept."""
        return self.path.with_name(WEIGHTS_NAME)

    @property
    def untested(self) -> Sequence["Run"]:
        """The further datasets that a finished run's record lacks, and on which its kept model can be tested."""
        kept = self.weights.is_file() and not isinstance(self.task, FitsItself)
        return [other for other in self.also if kept and other.data.name not in read_record(self.path).also]

    @property
    def left_behind(self) -> bool:
        """Whether a process works on the run, was killed before it cleaned up, or kept a model that is to be tested."""
        return bool(self.untested) or self.checkpoint.exists() or self.path.with_name(LOCK_NAME).exists()

    @cached_property
    def source(self) -> DataSource:
        """Its data."""
        return DataSource(self.data, self.data_dir, self.limit, self.train_fraction, self.seed)

    @cached_property
    def further(self) -> Mapping[str, DataSource]:
        """The test sets of further datasets, by name."""
        return {it.data.name: DataSource(it.data, self.data_dir, self.limit, used=("test",)) for it in self.also}

    @cached_property
    def fingerprinted(self) -> dict[str, Any]:
        """Settings beside the name that can change a score, with hashes of data, vectors and weights, as recorded."""
        for further in self.further.values():  # not part of it, but read before training, too
            further.fingerprint()
        return {
            "recipes": {"task": self.task.recipe, **token_features.features_recipes(self.features)},
            "data": self.source.fingerprint(),
            **token_features.features_fingerprint(self.features),
            **({"settings": self.own_settings} if self.own_settings else {}),
        }

    @cached_property
    def fingerprint(self) -> str:
        """The run's fingerprint: runs with equal fingerprints have equal scores."""
        return fingerprint(hashed(self.identity, self.fingerprinted))

    def done(self) -> Literal["run", "skip", "failed"]:
        """Whether it is to run, is done, or has failed before and is not to run again; see `decide`."""
        decision = decide(self.path, hashed(self.identity, self.fingerprinted))
        return "run" if decision == "failed" and self.retry == "failed" else decision

    def inputs(self, features: token_features.TokenFeatures) -> dict[str, str]:
        """The sha256 of everything that the run reads and that can change its score; see `RunRecord.inputs`."""
        return {**self.source.inputs, **features.inputs(), "settings": settings_hash(self.resolved)}

    @property
    def further_inputs(self) -> dict[str, str]:
        """The sha256 of each file of the further test sets, by `data.also.NAME/FILE`."""
        return {
            name.replace("data.test/", f"data.also.{data}/", 1): it
            for data, source in self.further.items()
            for name, it in source.inputs.items()
        }

    def check_inputs(self, features: token_features.TokenFeatures, before: Mapping[str, str]) -> None:
        """Raises an InputError if something has changed since the run read it."""
        for source in (self.source, *self.further.values()):
            source.check_unchanged()
        if changed := differences(before, {**self.inputs(features), **self.further_inputs}):
            raise InputError(
                f"{', '.join(changed)} changed during the run: expected files that stay as they are. Put the old "
                "content back and run with retry=failed, or run again to start over with the new content"
            )

    def numbered(self, numbers: Mapping[str, int]) -> "Run":
        """The same run with another seed, another fold, or both."""
        return replace(self, **numbers, resolved={**self.resolved, **numbers})  # type: ignore[arg-type]


def typed_config(overrides: Sequence[str], config_dir: Path | None = None) -> Run:
    """Composes and checks the run that these overrides describe.

    Args:
        overrides: as typed after `python -m tasks.run`.
        config_dir: a folder of further configs, trusted like code.

    Raises:
        InputError: the overrides or a setting are wrong.
    """
    with _composing(overrides, config_dir):
        return run_config(compose_config(overrides))


def typed_folds(overrides: Sequence[str], config_dir: Path | None = None) -> list[Run]:
    """Like `typed_config`, but one run for each fold if the data have folds and no fold is typed."""
    with _composing(overrides, config_dir):
        tree = compose_config(overrides)
        folds = _chosen_data(tree).folds if tree.fold is None else None
        typed = [[*overrides, f"fold={fold}"] for fold in range(folds)] if folds else [overrides]
        return [typed_config(words) for words in typed]


@contextmanager
def _composing(overrides: Sequence[str], config_dir: Path | None) -> Iterator[None]:
    """Finds configs of a user's folder in the block, and explains errors of Hydra."""
    with with_configs_of(config_dir), reworded(CONFIG_ERRORS, lambda error: explain(error, typed=overrides)):
        yield


def run_config(tree: DictConfig) -> Run:
    """Checks a composed tree and returns its run.

    Raises:
        InputError: a setting of the task or its reader is unknown or of the wrong type, or the dataset is for another
            task.
    """
    tree = _without_unused(tree)
    parsed = _parsed(tree, _task_class(tree.task.get("_target_")))
    variant = _variant(parsed.resolved, parsed.task.name, tree.dataset_file or tree.data.name)
    also = () if parsed.trial else [_further(parsed, name) for name in tree.also]
    return replace(parsed, variant=variant, own_settings=own_settings(parsed.resolved, type(parsed.task)), also=also)


def _further(run: Run, name: str) -> Run:
    """The plain run of the same task on a further dataset."""
    run_of_data = run_config(compose_config([f"task={run.task.name}", f"data='{name}'"]))
    if type(run.task).relabelled is Task.relabelled and (run.data.labels or run_of_data.data.labels):
        raise InputError(
            f"also: expected datasets without a table of labels, because task={run.task.name} cannot replace labels, "
            f"found one in data={run.data.name if run.data.labels else name}. Leave the dataset or its table out"
        )
    return run_of_data


def recorded_config(resolved: Mapping[str, Any], task: type[Task[Any, Any]]) -> Run:
    """Restores a run from its `resolved` tree, without its `variant`.

    The variant is in the run's record; computing it again would need the YAML files of the run. The caller chooses the
    task's class: the tree may come from an untrusted file, which must not choose what is imported.
    """
    with reworded(OmegaConfBaseException, explain):
        tree = _without_unused(OmegaConf.merge(_schema(RunSchema), dict(resolved)))  # type: ignore[arg-type]
        return _parsed(tree, task)


def task_named(name: str, config_dir: Path | None = None) -> type[Task[Any, Any]]:
    """The class of a task, from conf/task/ or from a user's folder."""
    task_class: object = None
    for file in (config_dir / "task").glob("*.yaml") if config_dir is not None else ():
        if file.stem == name:  # a name from an untrusted file is never part of a path
            task_class = _task_class(OmegaConf.select(_read_yaml(file, config_dir), "task._target_"))
    if name in group_options("task"):
        target = OmegaConf.create(files(CONF).joinpath("task", f"{name}.yaml").read_text("utf-8")).task._target_
        task_class = _task_class(target) if target.startswith("tasks.") else None
    if not (isinstance(task_class, type) and issubclass(task_class, Task) and task_class.name == name):
        raise InputError(
            f"task={name}: expected one of {', '.join(group_options('task'))}. For a task of your own, use "
            f"--config-dir DIR, config_dir in Python, with DIR/task/{name}.yaml"
        )
    return task_class


def known_sources(config_dir: Path | None) -> set[str]:
    """The classes of sources that the YAML files of conf/features, and of a user's folder, name."""
    folders = [files(CONF).joinpath("features"), *([config_dir / "features"] if config_dir is not None else [])]
    if not all(folder.is_dir() for folder in folders):
        raise InputError(f"--config-dir {config_dir}: expected a folder `features` in it, found none. Check the path")
    named = [file for folder in folders for file in folder.iterdir() if file.name.endswith(".yaml")]
    trees = [_read_yaml(file, config_dir) for file in named]
    parts = [part for tree in trees for part in (OmegaConf.select(tree, "frozen") or {}).values()]
    return {str(OmegaConf.select(part, "source._target_")) for part in parts}


def _read_yaml(file: Traversable, config_dir: Path | None) -> DictConfig:
    with reworded(YAMLError, lambda error: f"--config-dir {config_dir}: {explain(error)}"):
        return OmegaConf.create(file.read_text("utf-8"))  # type: ignore[return-value]


def _parsed(tree: DictConfig, task_class: type[Task[Any, Any]]) -> Run:
    """Checks the tree and builds the run, without its variant and own settings."""
    name = task_class.name
    # Checked again: Hydra accepts +KEY=VALUE without the schema.
    plain: dict[str, Any] = OmegaConf.to_container(tree, resolve=True)  # type: ignore[assignment]
    values: RunSchema = _checked(RunSchema, plain, "")
    finite(plain)
    check_tree("", values)
    for key in ("keep_weights", "confidences"):
        if not isinstance(value := getattr(values, key), bool):
            raise InputError(f"{key}: expected true or false, found {excerpt(value)}")
    data: DataConfig = OmegaConf.to_object(_chosen_data(tree))  # type: ignore[assignment]
    if data.task not in (None, name):
        raise InputError(f"data={data.name} is for task={data.task}, found task={name}")
    settings = {key: value for key, value in values.task.items() if key not in ("_target_", "title")}
    sizes = _checked(task_class.settings_type, settings, "task")
    task = task_class(sizes, _checked(task_class.reader_type, data.reader, "data.reader"))
    task.check_places(values.features.places())
    if values.features.elmo is not None and values.features.elmo.draw is None:
        values.features.elmo.draw = values.seed
    as_typed = {setting.name: getattr(values, setting.name) for setting in fields(RunSettings)}
    return Run(
        **{**as_typed, "task": task, "confidences": values.confidences and not values.trial},
        dataset=data,
        runs_dir=expanded(values.runs_dir, "runs_dir"),
        data_dir=expanded(values.data_dir, "data_dir"),
        resolved=_resolved(tree),
    )


def _task_class(target: object) -> type[Task[Any, Any]]:
    """Imports the class that a task's YAML names."""
    target_class = importable("task._target_", target)
    if not (isinstance(target_class, type) and issubclass(target_class, Task)):
        raise InputError(f"task._target_: expected the class of a task such as tasks.ner.Ner, found {excerpt(target)}")
    attributes = [name for name in ("name", "metric", "recipe") if not hasattr(target_class, name)]
    if missing := [*attributes, *(f"{name}()" for name in sorted(target_class.__abstractmethods__))]:
        raise InputError(
            f"task._target_: expected {target} to define all that a task needs, found no {' and no '.join(missing)}. "
            "See tasks.task.Task"
        )
    return target_class


def _variant(resolved: Mapping[str, Any], task: str, data: str) -> dict[str, Any]:
    """The settings in which a run's tree differs from the plain tree of its task, features and data."""
    here, there = _flat(resolved), _plain_settings(task, resolved["features"]["name"], data)
    here, there = (
        {key: value for key, value in side.items() if not (key.startswith(NOT_IN_VARIANT) or FOR_PEOPLE.fullmatch(key))}
        for side in (here, there)
    )
    # The seed and the fold are parts of a run's name themselves.
    changed = {key: new for key, new in here.items() if there.get(key, ...) != new and key not in ("seed", "fold")}
    # A part that is null on one side is a change of that part, not a deletion of the keys below it.
    ends = [f"{key}." for key in here]
    deleted = [key for key in there if not any(f"{key}.".startswith(end) or end.startswith(f"{key}.") for end in ends)]
    return changed | {f"~{key}": there[key] for key in deleted}


def _plain_settings(task: str, features: str, data: str) -> dict[str, Any]:
    """The settings, by dotted key, of the run for which only these names are typed."""
    quoted = data.replace("'", r"\'")
    wrong = "no such config; `name` in a YAML or a task's class must be its file's name"
    with reworded(MissingConfigException, lambda error: f"{error.missing_cfg_file}: {wrong}"):
        plain = compose_config([f"task={task}", f"features={features}", f"data='{quoted}'"])
    return _flat(_resolved(_without_unused(plain), anywhere=True))


def own_settings(resolved: Mapping[str, Any], task: type[Task[Any, Any]]) -> dict[str, Any]:
    """The settings that differ from the code's defaults in a run with a user's YAML; empty for the suite's files."""
    names = {"task": task.name, "features": resolved["features"]["name"], "data": resolved["data"]["name"]}
    if all(name in group_options(group) for group, name in names.items()):
        return {}
    kinds = {"task": task.settings_type, "features": token_features.FeaturesConfig, "trainer": TrainerConfig}
    defaults: dict[str, Any] = {key: OmegaConf.to_container(_schema(kind)) for key, kind in kinds.items()}
    defaults["features"]["elmo"] = OmegaConf.to_container(_schema(token_features.ElmoConfig))
    defaults["features"]["transformer"] = OmegaConf.to_container(_schema(token_features.TransformerConfig))
    of_source = OmegaConf.to_container(_schema(token_features.SourceConfig))
    defaults["features"]["frozen"] = dict.fromkeys(resolved["features"].get("frozen", ()), of_source)
    there = _flat({**defaults, "reader": OmegaConf.to_container(_schema(task.reader_type))})
    here = _flat({**{key: resolved[key] for key in kinds}, "reader": resolved["data"]["reader"]})
    # The identity has the name, and the fingerprint the hash of the content.
    left_out = ("task._target_", "features.name", *(f"features.{part}.{key}" for part, key in BY_NAME_OR_PATH))
    asked = {key: value for key, value in here.items() if not (key in left_out or SOURCE.match(key))}
    return {key: it for key, it in asked.items() if there.get(key, ...) != it and not FOR_PEOPLE.fullmatch(key)}


def _without_unused(tree: DictConfig) -> DictConfig:
    """Drops settings that nothing reads, so that equal runs have equal trees, and adds what is known about a model.

    A part that was deleted (~trainer) returns with the schema's values, which the run would use.
    """
    tree = tree.copy()
    schema = _schema(RunSchema)
    with open_dict(tree):
        for key in schema.keys() - tree.keys():
            tree[key] = schema[key]
    OmegaConf.to_container(tree.features, resolve=True)  # its errors name the setting; those of the next line do not
    OmegaConf.resolve(tree.features)  # a part may take settings from one that is left out
    for part in ("words", "elmo", "transformer"):
        if tree.features[part] is not None and not tree.features[part].enabled:
            tree.features[part] = None
    transformer = tree.features.transformer
    if transformer is not None and not transformer.warning:
        transformer.warning = token_features.WARNINGS.get(Path(transformer.model).name, "")
    return tree


def _chosen_data(tree: DictConfig) -> DictConfig:
    """The dataset, from its own file or from the task's `datasets`."""
    name = tree.data.name
    if tree.dataset_file or tree.data.splits or tree.data.hub:
        return tree.data
    if name not in tree.datasets:
        raise InputError(f"data={name}: this task has no such dataset, only {', '.join(tree.datasets)}")
    for key, value in vars(DataConfig(name=name)).items():
        if tree.data[key] != value:
            raise InputError(f"data.{key}: data={name} is the task's own; set datasets.{name}.{key} instead")
    return OmegaConf.merge(tree.datasets[name], {"name": name})  # type: ignore[return-value]


def _resolved(tree: DictConfig, anywhere: bool = False) -> dict[str, Any]:
    """The tree as plain values, without paths and machine settings, and with the chosen dataset only.

    Args:
        tree: the composed tree.
        anywhere: treat names of weights as names, even if a folder of that name is in the working directory.
    """
    values: dict[str, Any] = OmegaConf.to_container(tree, resolve=True)  # type: ignore[assignment]
    values["data"] = OmegaConf.to_container(_chosen_data(tree), resolve=True)
    for key in ("instead", "labels"):  # advice in error messages, and what only other test sets need
        values["data"].pop(key, None)
    if not values["data"].get("first"):  # later than the first records
        values["data"].pop("first", None)
    for part, key in BY_NAME_OR_PATH:
        settings = values["features"][part]
        if settings and settings[key]:
            settings[key] = without_folder(part, settings[key], anywhere)
    if values["fold"] is None:
        del values["fold"]
    for part in values["features"]["frozen"].values():
        part["source"] = {key: last_of_path(value) for key, value in part["source"].items()}
    return {key: value for key, value in values.items() if key not in (*NOT_RECORDED, "datasets")}


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves by dotted key; lists are text, as typed, and a part without any leaf is left out."""
    leaves: dict[str, Any] = {key: value for key, value in flattened(values).items() if value != {}}
    return {key: f"[{','.join(map(str, it))}]" if isinstance(it, list) else it for key, it in leaves.items()}


@cache  # building it takes longer than all else that a check does
def _schema(kind: type) -> DictConfig:
    """The keys, types and defaults of a dataclass, for OmegaConf; not to be changed."""
    return OmegaConf.structured(kind)


def _checked(kind: type, values: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 (an instance of `kind`)
    """Converts the values to a dataclass; unknown keys and wrong types are errors."""
    with reworded(OmegaConfBaseException, lambda error: explain(error, where)):
        return OmegaConf.to_object(OmegaConf.unsafe_merge(_schema(kind).copy(), dict(values)))
