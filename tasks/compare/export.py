"""A predictor to take away: the best model of a comparison, trained on nearly all data, with a card and hashes."""

import shutil
from pathlib import Path

import torch

from elmo.common.files import hashes_of
from results.records.identity import RECORD_NAME, WEIGHTS_NAME
from tasks.compare.answer import OwnAnswer
from tasks.compare.plan import Plan, quoted
from tasks.running.config import typed_config
from tasks.running.experiment import run

CARD = """\
# {name}

{text}
The model is the arm `{arm}`, made of {size:,} examples with torch {torch}: eight tenths to train on, one to choose the
epoch. It reads the columns {columns}. Its labels: {labels}. Its file has the words that it was trained on.

    python -m tasks.predict {folder} INPUT.csv --output csv   # in Python: tasks.load_model("{folder}").predict([...])
"""


def export(plan: Plan, runs_dir: Path, folder: Path, answer: OwnAnswer) -> str:
    """Trains the best arm, and writes what it needs elsewhere; returns the name of the arm."""
    arm = max(sorted(answer.scores), key=lambda name: answer.scores[name])
    words = [*plan.overrides("-export"), *plan.arms[arm], "keep_weights=true", f"runs_dir={quoted(runs_dir)}"]
    config = typed_config(words)
    kept = run(config, in_sweep=True).folder
    assert kept is not None
    folder.mkdir(parents=True, exist_ok=True)
    for name in (RECORD_NAME, WEIGHTS_NAME):
        shutil.copyfile(kept / name, folder / name)
    if config.features.elmo and (bilm := Path(config.features.elmo.weights)).is_dir():  # where load_weights finds it
        shutil.copytree(bilm, folder / bilm.name, dirs_exist_ok=True)
    lists = {"labels": ", ".join(plan.data.labels), "columns": ", ".join(plan.data.columns)}
    facts = {"name": plan.name, "text": answer.text, "arm": arm, "size": len(plan.data.rows), "folder": folder}
    card = CARD.format(**facts, **lists, torch=torch.__version__)
    (folder / "README.md").write_text(card, encoding="utf-8")
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "SHA256SUMS")
    sums = "".join(f"{sha256}  {name}\n" for name, sha256 in hashes_of(files, folder).items())
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return arm
