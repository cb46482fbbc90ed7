"""The settings as Hydra's schema: unknown keys and wrong types are refused when the configuration is composed."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from elmo.errors import InputError
from elmo.pretrain.settings import Settings


def register() -> None:
    """Makes the schema known to Hydra, under the name that conf/pretrain/config.yaml begins with."""
    ConfigStore.instance().store(name="settings_schema", node=Settings)


def settings_of(config: DictConfig) -> Settings:
    """The composed configuration as plain, checked settings."""
    settings = OmegaConf.to_object(config)
    if not isinstance(settings, Settings):
        raise InputError(f"expected the settings of a pretraining, found {type(settings).__name__}")
    return settings
