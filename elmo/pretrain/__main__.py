"""Command line of `python -m elmo.pretrain`: trains a biLM, or another language model of the grid, on text."""

import os
import sys
from typing import cast

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from elmo.common.config_errors import CONFIG_ERRORS, explain, explain_plain
from elmo.common.errors import InputError, ending_with_reader, interrupts_kept
from elmo.common.files import CONF
from elmo.pretrain.run import pretrain
from elmo.pretrain.settings import Settings

# conf/pretrain/config.yaml names this schema: Hydra then rejects unknown keys and wrong types.
ConfigStore.instance().store(name="settings_schema", node=Settings)


def settings_of(config: DictConfig) -> Settings:
    """Converts the composed config to checked settings."""
    return cast(Settings, OmegaConf.to_object(config))  # Hydra has merged it into the schema


def _explained(error: Exception) -> str:
    return f"elmo.pretrain: {explain(error, _known_keys)}"


def _known_keys(parent: str) -> list[str]:
    node = OmegaConf.select(OmegaConf.structured(Settings), parent)
    return [str(key) for key in node] + ["size"] * (parent == "") if isinstance(node, DictConfig) else []


@hydra.main(version_base="1.3", config_path=f"pkg://{CONF}.pretrain", config_name="config")
def _hydra_main(config: DictConfig) -> None:
    try:
        with interrupts_kept():
            pretrain(settings_of(config), sys.argv[1:], Console(stderr=True))
    except InputError as error:
        sys.exit(f"elmo.pretrain: {error}")
    except OmegaConfBaseException as error:
        sys.exit(_explained(error))
    except OSError as error:
        sys.exit(f"elmo.pretrain: {error}. If that place is full or not writable, use another out=DIR or store=DIR")


def _list_of_one(word: str) -> str:
    """`corpus=FILE` as `corpus=['FILE']`; the same for `exclude`."""
    key, equals, value = word.partition("=")
    if key not in ("corpus", "exclude") or not equals or value.startswith("["):
        return word
    if value and "," not in value and value[0] not in "'\"":  # several files are quoted by the user where they need it
        escaped = value.replace("'", r"\'")
        value = f"'{escaped}'"  # Hydra would not accept names with ( or é
    return f"{key}=[{value}]"


def main() -> None:
    """Runs the pretraining of the command line."""
    sys.argv[1:] = map(_list_of_one, sys.argv[1:])
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # raise the original exceptions, which are explained here
    try:
        with ending_with_reader(), interrupts_kept():
            _hydra_main()
    except KeyboardInterrupt:
        print("elmo.pretrain: interrupted; the same command continues from the last checkpoint", file=sys.stderr)
        sys.exit(130)
    except CONFIG_ERRORS as error:
        sys.exit(_explained(error))
    except (ValueError, AssertionError) as error:
        if explained := explain_plain(error, sys.argv[1:]):
            sys.exit(f"elmo.pretrain: {explained}")
        raise


if __name__ == "__main__":
    main()
