"""Saved models: trained weights in a file, with everything needed to rebuild the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from elmo.common.errors import InputError
from elmo.common.files import sha256_of
from elmo.common.tensor_files import naming, read_tensors, write_tensors
from results.records.identity import BY_NAME_OR_PATH, RECORD_NAME, is_name
from results.records.record import RecordUnreadable, read_record
from tasks.features.token_features import TokenFeatures, features_fingerprint
from tasks.running.config import Run, known_sources, recorded_config, task_named
from tasks.training.trainer import TaskModel

WEIGHTS_NAME = "weights.pt"  # next to a run's record
PARTS = {
    **dict.fromkeys(("config", "paths", "features", "inputs", "trained"), dict),
    **{"task": str, "words": list, "labels": list},
}
REMEDY = "Delete the run's folder and run it again with keep_weights=true"


def save_weights(path: Path, model: TaskModel, config: Run, inputs: Mapping[str, str] | None = None) -> str:
    """Writes the trained parameters with the words, labels and config that rebuild the rest of the model.

    Returns the sha256 of the file, for `RunRecord.model`; `inputs` are those of the record.

    The config names the task but not its class, which the loading program chooses. Unlike a record, the file keeps the
    paths of vectors and weights: it is for use on the same machine.
    """
    features = model.features.config
    given = {part: getattr(getattr(features, part), key, None) for part, key in BY_NAME_OR_PATH}
    paths = {part: it for part, it in given.items() if it and not is_name(part, it)}
    paths |= {
        f"frozen.{name}.{key}": value
        for name, part in features.frozen.items()
        for key, value in part.source.items()
        if value and isinstance(value, str) and Path(value).expanduser().exists()
    }
    settings = {key: value for key, value in config.resolved["task"].items() if key != "_target_"}
    saved = {
        "task": config.task.name,
        "config": {**config.resolved, "task": settings},
        "paths": {part: str(Path(it).expanduser().absolute()) for part, it in paths.items()},
        "features": features_fingerprint(features),
        "inputs": dict(inputs or {}),
        "words": list(model.features.training_words),
        "labels": list(config.task.labels),
        "trained": {name: value.detach().cpu() for name, value in model.kept().items()},
    }
    write_tensors(path, saved)
    return sha256_of(path)


def check_recorded(path: Path) -> None:
    """Raises an InputError unless weights are those that the record next to them names."""
    if not path.is_file():
        raise InputError(f"{path}: no such file. Weights are kept by a run with keep_weights=true")
    beside = path.with_name(RECORD_NAME)
    if not beside.is_file():
        raise InputError(f"{path}: expected the run's {beside.name} next to it, found none. Copy the whole folder")
    try:
        record = read_record(beside)
    except RecordUnreadable as error:
        raise InputError(str(error)) from error
    if (found := sha256_of(path)) != record.model:
        kept = f"sha256 {record.model[:12]}" if record.model else "none"
        raise InputError(
            f"{path}: expected the weights of {record.identity.title} ({kept} by its {beside.name}), found others: "
            f"sha256 {found[:12]}. They were edited, or are those of another run or of an earlier version. {REMEDY}"
        )


def load_weights(path: Path, task: str | None = None, config_dir: Path | None = None) -> tuple[Run, TaskModel]:
    """Loads a run and its model.

    The file may be untrusted: nothing in it is executed. The task's class is found by its name, and the class of a
    source must be one that a YAML names, in both cases in conf/ or `config_dir`; a task may also be an entry point.

    Args:
        path: the file.
        task: the name of the expected task, if it matters; a model of another task is then an error.
        config_dir: a folder of further configs, trusted like code.
    """
    saved = read_tensors(path, PARTS, "cpu", REMEDY)
    for name in ("words", "labels"):
        if not all(isinstance(text, str) for text in saved[name]):
            raise InputError(f"{path}: expected texts as {name}, found others. {REMEDY}")
    found = saved["task"]
    if task not in (None, found):
        raise InputError(f"{path}: expected a model of task={task}, found one of task={found}")
    try:
        kind = task_named(found, config_dir)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    with naming(path, REMEDY):
        config = recorded_config(saved["config"], kind)
    for part, key in BY_NAME_OR_PATH:
        settings, given = getattr(config.features, part), saved["paths"].get(part)
        if settings is not None and given is not None:
            setattr(settings, key, _existing(path, given))
    known = known_sources(config_dir) if config.features.frozen else set()
    for name, frozen in config.features.frozen.items():
        target = frozen.source["_target_"]
        if target not in known:
            raise InputError(
                f"{path}: features.frozen.{name}: expected a source that a YAML in conf/features names, found {target}."
                " A file must not decide what is imported. If you trust it, use --config-dir DIR, config_dir in Python,"
                " with a YAML in DIR/features that names it"
            )
        for key in frozen.source:
            if (given := saved["paths"].get(f"frozen.{name}.{key}")) is not None:
                frozen.source[key] = _existing(path, given)
    here = features_fingerprint(config.features)
    changed = [str(name) for name, value in saved["features"].items() if value != here.get(name)]
    if changed:
        raise InputError(f"{path}: {', '.join(changed)} differ from those that the model was trained with")
    config.task.labels = saved["labels"] or config.task.labels
    features = TokenFeatures(config.features, [tuple(saved["words"])], config.seed)
    features.check_fingerprint(here)
    model = TaskModel.start(config.task, features, config.seed)
    with naming(path, REMEDY):
        model.restore(saved["trained"])
    return config, model


def _existing(path: Path, given: object) -> str:
    """A path that the model's file names."""
    if not Path(str(given)).exists():
        raise InputError(f"{path}: the model was trained with {given}, which no longer exists. Put it back")
    return str(given)
