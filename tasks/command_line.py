"""What the help of commands needs; loads neither torch nor Hydra."""

import argparse
from importlib.resources import files
from pathlib import Path

from elmo.common.files import CONF

INPUT_KINDS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "json"}  # --input by the ending of a file's name


def add_config_dir(parser: argparse.ArgumentParser) -> None:
    """Adds the option --config-dir to a command."""
    about = "a folder with your configs, trusted like code: its YAML may call functions"
    parser.add_argument("--config-dir", metavar="DIR", type=Path, help=about)


def group_options(group: str) -> list[str]:
    """The names to choose from in a group of conf/, such as "task"."""
    return sorted(Path(file.name).stem for file in files(CONF).joinpath(group).iterdir())
