"""A trained model in a file: what it learned, and what is needed to build it around that again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.tensor_files import naming, read_tensors, write_tensors
from tasks.features import TokenFeatures, features_fingerprint
from tasks.schema import BY_NAME_OR_PATH, RunConfig, is_name, recorded_config
from tasks.trainer import TaskModel


def save_weights(path: Path, model: TaskModel, resolved: Mapping[str, Any]) -> None:
    """Writes the trained parameters, with the words and the config from which the rest of the model follows.

    The config has names alone. Where vectors or a biLM lie that were given by path is beside it: this file, unlike the
    record, is for the machine that it is on.
    """
    features = model.features.config
    given = {part: getattr(getattr(features, part), key, None) for part, key in BY_NAME_OR_PATH}
    saved = {
        "config": dict(resolved),
        "paths": {part: str(Path(it).expanduser().absolute()) for part, it in given.items() if it and not is_name(it)},
        "features": features_fingerprint(features),
        "words": list(model.features.training_words),
        "trained": {name: value.detach().cpu() for name, value in model.trained().items()},
    }
    write_tensors(path, saved)


def load_weights(path: Path, task: str) -> tuple[RunConfig, TaskModel]:
    """The run and the model that were saved, for a task that learns no labels from its training examples."""
    if not path.is_file():
        raise InputError(f"{path}: no such file. Weights are kept by a run with keep_weights=true")
    remedy = "Delete the run's folder and run it again with keep_weights=true"
    saved = read_tensors(path, {"config": dict, "features": dict, "words": list, "trained": dict}, "cpu", remedy)
    paths = saved.get("paths", {})  # files of earlier versions have none
    for part, key in BY_NAME_OR_PATH:
        if part in paths:
            saved["config"]["features"][part][key] = paths[part]
            if not Path(paths[part]).exists():
                raise InputError(f"{path}: the model was trained with {paths[part]}, which is not there. Put it back")
    config = recorded_config(saved["config"])
    if config.task.name != task:
        raise InputError(f"{path}: expected a model of task={task}, found one of task={config.task.name}")
    found = features_fingerprint(config.features)
    changed = [name for name, value in saved["features"].items() if value != found[name]]
    if changed:
        raise InputError(f"{path}: {', '.join(changed)} are no longer those that the model was trained with")
    features = TokenFeatures(config.features, [tuple(saved["words"])], config.seed)
    model = TaskModel(features, config.task.build_head(features.input_dim, features.output_dim))
    with naming(path, remedy):
        model.restore(saved["trained"])
    return config, model
