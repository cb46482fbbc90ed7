"""A user's own dataset and arms, and the command on them."""

import os
import subprocess
import sys
from types import SimpleNamespace

from elmo import random_bilm, save_bilm
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME, RECORD_NAME, Identity
from results.records.record import read_record

PEOPLE, PLACES = ("Niamh", "Theo", "Iyer Moss", "Ada"), ("Bern", "Cork", "New Delhi")
ARMS = ("words", "elmo_tiny")


def sentences(n, start):
    """Column text in which people do things in places."""
    lines = []
    for i in range(start, start + n):
        person, place = PEOPLE[i % 4].split(), PLACES[i % 3].split()
        lines += [f"{word} {'B' if k == 0 else 'I'}-PER" for k, word in enumerate(person)]
        lines += ["sings O" if i % 2 else "sleeps O", "in O"]
        lines += [f"{word} {'B' if k == 0 else 'I'}-LOC" for k, word in enumerate(place)]
        lines += [". O"] * (i % 3) + [""]
    return "\n".join(lines) + "\n"


def make_place(root):
    """A user's folder: data, a biLM, and YAML files that name them."""
    data, config = root / "data", root / "conf"
    for name, content in (("train", sentences(12, 0)), ("dev", sentences(5, 3)), ("test", sentences(7, 5))):
        path = data / "mine" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    save_bilm(random_bilm("tiny", 5), root / "bilm" / "weights.safetensors")
    small = "words: {vectors: null, dim: 8}\ncharacters: {filters: 8}\n"
    for name, content in {
        "data/mine.yaml": (
            "name: mine\ntask: ner\n"
            "splits: {train: [mine/train.txt], dev: [mine/dev.txt], test: [mine/test.txt]}\n"
            "expected: {train: {sentences: 13, tokens: 67}}\n"
        ),
        "sized/ner_mine.yaml": (
            "# @package _global_\ntask: {hidden: 16, dropout: 0.2}\n"
            "trainer: {batch_size: 4, epochs: 8, patience: null, lr: 0.02}\n"
        ),
        "features/words.yaml": f"name: words\n{small}",
        "features/elmo_tiny.yaml": f"name: elmo_tiny\n{small}elmo: {{weights: {root / 'bilm'}}}\n",
        "features/broken.yaml": "name: broken\nwords: {vectors: nowhere.txt}\n",
    }.items():
        path = config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return SimpleNamespace(root=root, data=data, config=config, bilm=root / "bilm" / "weights.safetensors")


def arguments(place, runs, *more, features="words", data=None):
    return [
        *("--config-dir", str(place.config), "data=mine", "device=cpu", f"features={features}"),
        *(f"data_dir={data or place.data}", f"runs_dir={runs}", *more),
    ]


def start(place, runs, *more, **settings):
    """The command in a process of its own, elsewhere."""
    elsewhere = place.root / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "tasks.run", *arguments(place, runs, *more, **settings)],
        cwd=elsewhere,
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def path_of(runs, features="words", **variant):
    return runs / Identity("mine", "ner", features, 1, variant).path


def outcome(record):
    """What must be equal to the last digit: all scores and the curve, without its seconds."""
    curve = [{key: value for key, value in epoch.items() if key != "seconds"} for epoch in record.epochs]
    return record.scores, record.details, curve, record.mixes


def outcomes(runs):
    """For each record by its path: the status, the fingerprint, what `outcome` returns, and the files next to it."""
    found = {}
    for path in runs.rglob(RECORD_NAME):
        record, files = read_record(path), [path.with_name(name) for name in (EXAMPLES_NAME, PREDICTIONS_NAME)]
        contents = [file.read_bytes() if file.exists() else None for file in files]
        found[path.relative_to(runs)] = (record.status, record.fingerprint, *outcome(record), *contents)
    return found
