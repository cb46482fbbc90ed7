"""python -m tasks.squad.predict FILE OUT --run DIR: writes answers to a SQuAD file for the official script."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from elmo.common.errors import InputError
from elmo.common.files import replacing
from tasks.running.predict import load_model


def predict(file: Path, run: Path, device: str) -> dict[str, str]:
    """The predicted answer to each question of a file, by question id. The file needs no gold answers."""
    model = load_model(run, device, task="squad")
    return {said["id"]: said["answer"] for said in model.predict(model.read(file))}


def main() -> None:
    """Runs the command; the exit status is 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tasks.squad.predict", description=__doc__)
    parser.add_argument("file", type=Path, help="questions in the format of SQuAD 1.1, with or without answers")
    parser.add_argument("out", type=Path, help="JSON to write: {question id: answer}")
    parser.add_argument("--run", type=Path, required=True, help="folder of a run made with keep_weights=true")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    arguments = parser.parse_args()
    try:
        answers = predict(arguments.file, arguments.run, arguments.device)
        with replacing(arguments.out) as partial:
            partial.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
    except (InputError, OSError) as error:
        sys.exit(f"tasks.squad.predict: {error}")
    print(f"{len(answers):,} answers in {arguments.out}")


if __name__ == "__main__":
    main()
