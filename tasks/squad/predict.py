"""python -m tasks.squad.predict RUN FILE OUT: writes answers to a SQuAD file for the official script."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from elmo.common.device import CHOICES
from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import replacing
from tasks.running.predict import load_model
from tasks.running.schema import add_config_dir


def predict(file: Path, run: Path, device: str, config_dir: Path | None = None) -> dict[str, str]:
    """The predicted answer to each question of a file, by question id. The file needs no gold answers."""
    model = load_model(run, device, "squad", config_dir)
    answers = model.predict(model.read(file))
    if wrong := [f"{one['id']}: {one['error']}" for one in answers if "error" in one]:
        raise InputError(f"{file}: {wrong[0]}")
    return {one["id"]: one["answer"] for one in answers}


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.squad.predict", str(__doc__))
    about = "folder of a run made with keep_weights=true"
    parser.add_argument("run", metavar="RUN", type=Path, help=about)
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="questions in the format of SQuAD 1.1, with or without answers"
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="JSON to write: {question id: answer}")
    parser.add_argument("--device", choices=CHOICES, default="auto", help="default: a GPU if there is one")
    add_config_dir(parser)
    options = parser.parse_args(given)
    return exit_status("tasks.squad.predict", lambda: _write_answers(options))


def _write_answers(options: argparse.Namespace) -> None:
    answers = predict(options.file, options.run, options.device, options.config_dir)
    with replacing(options.out) as partial:
        partial.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
    print(f"{len(answers):,} answers in {options.out}")


if __name__ == "__main__":
    sys.exit(main())
