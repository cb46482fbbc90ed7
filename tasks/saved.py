"""A trained model in a file: what it learned, and what is needed to build it around that again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from elmo.errors import InputError
from elmo.files import replacing
from tasks.features import TokenFeatures, features_fingerprint
from tasks.schema import RunConfig, recorded_config
from tasks.trainer import TaskModel


def save_weights(path: Path, model: TaskModel, resolved: Mapping[str, Any]) -> None:
    """Writes the trained parameters, with the words and the config from which the rest of the model follows."""
    saved = {
        "config": dict(resolved),
        "features": features_fingerprint(model.features.config),
        "words": list(model.features.training_words),
        "trained": {name: value.detach().cpu() for name, value in model.trained().items()},
    }
    with replacing(path) as partial:
        torch.save(saved, partial)


def load_weights(path: Path, task: str) -> tuple[RunConfig, TaskModel]:
    """The run and the model that were saved, for a task that learns no labels from its training examples."""
    if not path.is_file():
        raise InputError(f"{path}: no such file. Weights are kept by a run with keep_weights=true")
    saved = torch.load(path, map_location="cpu", weights_only=True)
    config = recorded_config(saved["config"])
    if config.task.name != task:
        raise InputError(f"{path}: expected a model of task={task}, found one of task={config.task.name}")
    found = features_fingerprint(config.features)
    changed = [name for name, value in saved["features"].items() if value != found[name]]
    if changed:
        raise InputError(f"{path}: {', '.join(changed)} are no longer those that the model was trained with")
    features = TokenFeatures(config.features, [tuple(saved["words"])], config.seed)
    model = TaskModel(features, config.task.build_head(features.input_dim, features.output_dim))
    model.restore(saved["trained"])
    return config, model
