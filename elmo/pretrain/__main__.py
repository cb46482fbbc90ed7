"""python -m elmo.pretrain: text in, a trained biLM out."""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig
from rich.console import Console

from elmo.errors import InputError
from elmo.pretrain.run import pretrain
from elmo.pretrain.schema import register, settings_of

register()


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
