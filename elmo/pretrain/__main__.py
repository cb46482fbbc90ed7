"""The command `python -m elmo.pretrain`: trains a biLM, or another language model of the grid, on text.

conf/pretrain/config.yaml has its help, which ends with the settings of that file.
"""

import sys
from importlib.resources import files

import yaml

from elmo.common.errors import ending_with_reader
from elmo.common.files import CONF, print_lines


def main() -> None:
    """Runs the pretraining of the command line."""
    if any(argument in ("--help", "-h") for argument in sys.argv[1:]):
        text = files(f"{CONF}.pretrain").joinpath("config.yaml").read_text(encoding="utf-8")
        settings = text.partition("\n\n")[2].partition("\nhydra:")[0]
        with ending_with_reader():
            print_lines([yaml.safe_load(text)["hydra"]["help"]["template"].replace("$CONFIG", settings)])
        return
    from elmo.pretrain.command import run_command  # torch and Hydra take two seconds, which --help should not need

    run_command()


if __name__ == "__main__":
    main()
