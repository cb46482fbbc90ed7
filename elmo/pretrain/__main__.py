"""python -m elmo.pretrain: text in, a trained biLM out."""

from __future__ import annotations

import os
import sys
from dataclasses import fields, is_dataclass

import hydra
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from rich.console import Console

from elmo.common.errors import InputError
from elmo.pretrain.run import pretrain
from elmo.pretrain.training.settings import Settings

# Under the name that conf/pretrain/config.yaml begins with: unknown keys and wrong types are refused.
ConfigStore.instance().store(name="settings_schema", node=Settings)


def settings_of(config: DictConfig) -> Settings:
    """The composed configuration as plain, checked settings."""
    settings = OmegaConf.to_object(config)
    if not isinstance(settings, Settings):
        raise InputError(f"expected the settings of a pretraining, found {type(settings).__name__}")
    return settings


def explain(error: Exception) -> str:
    """A configuration that cannot be composed, in a line: the key, and what was wrong or could stand there."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        return f"{error.missing_cfg_file.replace('/', '=')}: no such choice; there are {', '.join(error.options)}"
    cause = error.__cause__
    if isinstance(error, OmegaConfBaseException) and error.full_key:  # an interpolation, resolved when it is read
        return f"{error.full_key}: {str(error).splitlines()[0]}"
    if not isinstance(cause, OmegaConfBaseException):
        return str(error).splitlines()[0]
    if isinstance(cause, ConfigAttributeError | ConfigKeyError) and is_dataclass(cause.object_type):
        known = [item.name for item in fields(cause.object_type)] + ["size"] * (cause.object_type is Settings)
        return f"unknown key {cause.full_key}; known there: {', '.join(known)}"
    return f"{cause.full_key}: {str(cause).splitlines()[0]}"


@hydra.main(version_base="1.3", config_path="pkg://conf.pretrain", config_name="config")
def _hydra_main(config: DictConfig) -> None:
    try:
        pretrain(settings_of(config), sys.argv[1:], Console(stderr=True))
    except InputError as error:
        sys.exit(f"elmo.pretrain: {error}")
    except OmegaConfBaseException as error:
        sys.exit(f"elmo.pretrain: {explain(error)}")
    except OSError as error:
        sys.exit(f"elmo.pretrain: {error}. If that place cannot be written, use another out=DIR or store=DIR")
    except KeyboardInterrupt:
        print("elmo.pretrain: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)


def main() -> None:
    """Runs the pretraining that the command line asks for."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # exceptions as they are; they are explained here
    try:
        _hydra_main()
    except (HydraException, OmegaConfBaseException) as error:
        sys.exit(f"elmo.pretrain: {explain(error)}")
    except ValueError as error:
        if "Config group override must be" not in str(error):  # Hydra's, for size=null
            raise
        sys.exit("elmo.pretrain: size: expected one of its choices, found null")


if __name__ == "__main__":
    main()
