"""Explanations of config errors: the key, what is wrong, and what to write instead."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from elmo.common import config_errors
from tasks.running.schema import compose_config


def explain(error: Exception, where: str = "") -> str:
    """Explains an error of Hydra or OmegaConf in one or two lines.

    Args:
        error: the error.
        where: the part of the tree that it is about, such as "task"; empty for the whole tree.
    """
    return config_errors.explain(error, _known_keys, where)


def explain_null(error: Exception) -> str | None:
    """Explains two plain errors of Hydra about null in the wrong place; returns None for any other error."""
    if isinstance(error, AssertionError) and "Unexpected type for root: NoneType" in str(error):
        return "a setting is below a part that is null here, as features.elmo.* with features=glove"
    if isinstance(error, ValueError) and "Config group override must be" in str(error):
        return "a group of settings cannot be null, as in task=null; name one of its choices, as in task=ner"
    return None


def _known_keys(parent: str) -> list[str]:
    node = OmegaConf.select(compose_config([]), parent) if parent else compose_config([])
    return [str(key) for key in node if key != "_target_"] if isinstance(node, DictConfig) else []
