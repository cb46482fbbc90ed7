"""Readers of results/: records, locks, lists of sweeps, scores and predictions of examples, experiments."""

import gzip
from dataclasses import asdict
from pathlib import Path

from elmo.common.files import write_json
from results.experiments import load_experiment
from results.records.example_scores import (
    ExamplesUnreadable,
    add_groups,
    read_examples,
    read_groups,
    read_predictions,
    write_examples,
    write_predictions,
)
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME
from results.records.metric import Grouping
from results.records.progress import HeldLock, Manifest, Owner, is_locked, read_lock, read_manifests, run_lock
from results.records.record import RecordUnreadable, read_record, write_record
from tests.fuzz.reading import Reader
from tests.results.making import first_right, make_record

RECORD = make_record(variant={"limit": 3}, dev=88.5)
PREDICTIONS = [
    {"id": f"dev:{i}", "example": {"tokens": ["Ada", "sang"]}, "gold": {"label": "B"}, "predicted": {"label": "O"}}
    for i in range(3)
]
EXPERIMENT = """\
title = "One task on two datasets"
seeds = [1, 2, 3]
compare = ["words", "bilm"]

[arms]
words = ["features=glove"]
bilm = ["features=elmo", "trainer.epochs=10"]

[costs.bilm]
milliseconds = 1.5
parameters = 3

[[rows]]
overrides = ["task=ner", "data=mini,mine.yaml"]
paper = {words = 90.1}

[[rows]]
overrides = ["task=coref", "data=litbank"]
folds = 10
seeds = [1]
split = "dev"
"""
OWNER = Owner("another", 17, "2026-01-01T00:00:00+00:00")


def _made(name, write):
    """Writes one file of this name."""

    def make(folder):
        write(folder / name)
        return [folder / name]

    return make


def _take(path):
    """Reads the owner of a lock that no process holds, and takes it."""
    owner = read_lock(path)
    assert not is_locked(path)
    with run_lock(path.parent) as held:
        assert isinstance(held, HeldLock)
    return str(owner)


def _make_manifest(folder):
    runs = [make_record(seed=seed, variant={"trainer.lr": 0.1}).identity for seed in (1, 2)]
    command = "python -m tasks.run -m --config-dir d data=mine.yaml"
    write_json(folder / ".sweep" / "mine.json", asdict(Manifest("mine", command, runs, ["a run"])))
    return [folder / ".sweep" / "mine.json"]


def _read_manifests(path):
    _, problems = read_manifests(path.parents[1])
    if problems:
        raise ValueError(problems[0])


def _make_groups(folder):
    hashes = {"train": "ab" * 32, "test": "cd" * 32}
    return [add_groups(folder, "ner", hashes, ["t:1", "t:2"], {"length": Grouping(("short", "long"), [0, None], True)})]


def _read_lines(path):
    """Reads predictions whose lines are damaged, in a good gzip file."""
    packed = Path(f"{path}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    return read_predictions(packed, "ab" * 32)


def _write_lines(path):
    packed = Path(f"{path}.gz")
    write_predictions(packed, "ab" * 32, PREDICTIONS)
    path.write_bytes(gzip.decompress(packed.read_bytes()))


READERS = [
    Reader("record", _made("record.json", lambda p: write_record(p, RECORD)), read_record, (RecordUnreadable,)),
    Reader("lock", _made("lock.json", lambda path: write_json(path, asdict(OWNER))), _take),
    Reader("list of a sweep", _make_manifest, _read_manifests, (ValueError,)),
    Reader(
        "examples",
        _made(EXAMPLES_NAME, lambda path: write_examples(path, "ab" * 32, first_right(2, 5))),
        lambda path: read_examples(path, "ab" * 32),
        (ExamplesUnreadable,),
    ),
    Reader(
        "predictions",
        _made(PREDICTIONS_NAME, lambda path: write_predictions(path, "ab" * 32, PREDICTIONS)),
        lambda path: read_predictions(path, "ab" * 32),
        (ExamplesUnreadable,),
    ),
    Reader("lines of predictions", _made("predictions.jsonl", _write_lines), _read_lines, (ExamplesUnreadable,)),
    Reader("groups", _make_groups, read_groups, (ExamplesUnreadable,)),
    Reader(
        "experiment",
        _made("mine.toml", lambda path: path.write_text(EXPERIMENT)),
        lambda path: load_experiment(str(path)),
    ),
]
