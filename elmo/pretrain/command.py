"""The work of `python -m elmo.pretrain`: settings by Hydra, and the pretraining."""

import os
import sys
from collections.abc import Callable
from typing import cast

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo.common.config_errors import CONFIG_ERRORS, explain, explain_plain
from elmo.common.errors import exit_status, reworded
from elmo.common.files import CONF
from elmo.pretrain.run import pretrain
from elmo.pretrain.settings import Settings

# conf/pretrain/config.yaml names this schema: Hydra then rejects unknown keys and wrong types.
ConfigStore.instance().store(name="settings_schema", node=Settings)


def settings_of(config: DictConfig) -> Settings:
    """Converts the composed config to checked settings."""
    return cast(Settings, OmegaConf.to_object(config))  # Hydra has merged it into the schema


def _status(work: Callable[[], None]) -> int:
    """The exit status of the work; errors of settings are explained."""
    remedy = "If that place is full or not writable, use another out=DIR or store=DIR"

    def explained() -> None:
        writing = reworded(OSError, lambda error: f"{error}. {remedy}")
        with writing, reworded(CONFIG_ERRORS, lambda error: explain(error, _known_keys)):
            work()

    return exit_status("elmo.pretrain", explained, "interrupted; the same command continues from the last checkpoint")


def _known_keys(parent: str) -> list[str]:
    node = OmegaConf.select(OmegaConf.structured(Settings), parent)
    return [str(key) for key in node] + ["size"] * (parent == "") if isinstance(node, DictConfig) else []


@hydra.main(version_base="1.3", config_path=f"pkg://{CONF}.pretrain", config_name="config")
def _hydra_main(config: DictConfig) -> None:
    if status := _status(lambda: pretrain(settings_of(config), sys.argv[1:], Console(stderr=True))):
        sys.exit(status)


def _list_of_one(word: str) -> str:
    """`corpus=FILE` as `corpus=['FILE']`; the same for `exclude`."""
    key, equals, value = word.partition("=")
    if key not in ("corpus", "exclude") or not equals or value.startswith("["):
        return word
    if value and "," not in value and value[0] not in "'\"":  # several files are quoted by the user where they need it
        escaped = value.replace("'", r"\'")
        value = f"'{escaped}'"  # Hydra would not accept names with ( or é
    return f"{key}=[{value}]"


def run_command() -> None:
    """Runs the pretraining of the command line."""
    sys.argv[1:] = map(_list_of_one, sys.argv[1:])
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # raise the original exceptions, which are explained here
    try:
        if status := _status(_hydra_main):
            sys.exit(status)
    except (ValueError, AssertionError) as error:
        if explained := explain_plain(error, sys.argv[1:]):
            sys.exit(f"elmo.pretrain: {explained}")
        raise
