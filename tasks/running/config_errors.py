"""Explanations of config errors: the key, what is wrong, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf

from elmo.common import config_errors
from tasks.running.schema import compose_config

# How to choose a file of one's own, by group.
OWN_FILES = {
    "data": "A file of your own is data=PATH.yaml.",
    "experiment": "A file of your own is experiment=PATH.toml.",
    "task": "For DIR/task/NAME.yaml of your own, add --config-dir DIR.",
    "features": "For DIR/features/NAME.yaml of your own, add --config-dir DIR.",
}


def explain(error: Exception, where: str = "", typed: Sequence[str] = ()) -> str:
    """Explains an error of Hydra or OmegaConf in one or two lines.

    Args:
        error: the error.
        where: the part of the tree that it is about, such as "task"; empty for the whole tree.
        typed: the overrides, among them the task and the features, whose keys are known.
    """
    explained = config_errors.explain(error, lambda parent: _known_keys(parent, typed), where)
    if isinstance(error, MissingConfigException):
        group = (error.missing_cfg_file or "").partition("/")[0]
        return " ".join(filter(None, (explained, OWN_FILES.get(group))))
    return explained


def explain_null(error: Exception, typed: Sequence[str]) -> str | None:
    """Explains two plain errors of Hydra about null in the wrong place; returns None for any other error.

    Args:
        error: the error.
        typed: the overrides; Hydra does not say which of them it is about.
    """
    if isinstance(error, AssertionError) and "Unexpected type for root: NoneType" in str(error):
        keys = [key for key in (override.partition("=")[0].lstrip("+") for override in typed) if key.count(".") > 1]
        return (
            f"{', '.join(keys) or 'a setting'}: expected a part that the run has, found null above it, as above "
            "features.characters.dim with task=sst5. Leave the setting out; a sweep over tasks or features with and "
            "without the part needs two commands"
        )
    if isinstance(error, ValueError) and "Config group override must be" in str(error):
        return "a group of settings cannot be null, as in task=null; name one of its choices, as in task=ner"
    return None


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
