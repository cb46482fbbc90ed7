"""python -m elmo.pretrain: text in, a trained biLM out."""

from __future__ import annotations

import sys

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo.errors import InputError
from elmo.pretrain.run import pretrain
from elmo.pretrain.settings import Settings

# Under the name that conf/pretrain/config.yaml begins with: unknown keys and wrong types are refused.
ConfigStore.instance().store(name="settings_schema", node=Settings)


def settings_of(config: DictConfig) -> Settings:
    """The composed configuration as plain, checked settings."""
    settings = OmegaConf.to_object(config)
    if not isinstance(settings, Settings):
        raise InputError(f"expected the settings of a pretraining, found {type(settings).__name__}")
    return settings


@hydra.main(version_base="1.3", config_path="pkg://conf.pretrain", config_name="config")
def main(config: DictConfig) -> None:
    """Runs the pretraining that the command line asks for."""
    try:
        pretrain(settings_of(config), sys.argv[1:], Console(stderr=True))
    except InputError as error:
        print(f"elmo.pretrain: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("elmo.pretrain: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
