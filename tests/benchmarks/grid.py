"""Benchmark of results.table and results.report on 5,000 records: `python -m tests.benchmarks.grid`.

The records are the published ones of the mini data with other seeds and learning rates, and their examples in another
order, so that files, pages and intervals have the sizes of real ones.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from elmo.common.files import read_json
from results.records.collect import PUBLISHED
from results.records.example_scores import write_examples
from results.records.identity import EXAMPLES_NAME
from results.records.record import RunRecord, read_record, write_record

TASKS = ("ner", "sst5", "snli", "squad")
ARMS = ("glove", "elmo")
SEEDS = range(1, 6)


def write_grid(runs: Path, records: int) -> None:
    """Writes about this many records, at most: the same number of settings for each task."""
    for task in TASKS:
        for arm in ARMS:
            there = PUBLISHED / "mini" / task / arm / "seed-1"
            record = read_record(there / "record.json")
            scores = read_json(there / EXAMPLES_NAME)["scores"]
            for setting in range(records // (len(TASKS) * len(ARMS) * len(SEEDS))):
                for seed in SEEDS:
                    _write(runs, _with(record, setting, seed), scores)


def _with(record: RunRecord, setting: int, seed: int) -> RunRecord:
    """The record with another seed and setting; the first setting is the default."""
    trainer = record.config["trainer"]
    assert isinstance(trainer, Mapping)
    changed = {"lr": 0.001 * setting} if setting else {}
    identity = replace(record.identity, seed=seed, variant={f"trainer.{key}": value for key, value in changed.items()})
    config = {**record.config, "trainer": {**trainer, **changed}, "seed": seed}
    return replace(record, identity=identity, config=config)


def _write(runs: Path, record: RunRecord, scores: Sequence[Mapping[str, float]]) -> None:
    path = runs / record.identity.path
    write_record(path, record)
    order = random.Random(record.fingerprint)
    write_examples(path.with_name(EXAMPLES_NAME), record.fingerprint, order.sample(scores, len(scores)))


def cpu_seconds(*command: str) -> float:
    """CPU seconds of a command and its children; its output is dropped."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", *command], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(given: Sequence[str] | None = None) -> int:
    """Writes the grid into a temporary folder and measures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.grid", description=__doc__.split("\n\n")[0])
    parser.add_argument("--records", type=int, default=5000, help="default: 5000")
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder:
        runs, page = Path(folder, "runs"), Path(folder, "report.html")
        write_grid(runs, options.records)
        found = len(list(runs.rglob("record.json")))
        print(f"{found} records")
        print(f"results.table: {cpu_seconds('results.table', '--runs', str(runs)):.1f} CPU s")
        seconds = cpu_seconds("results.report", "--runs", str(runs), "--out", str(page))
        print(f"results.report: {seconds:.1f} CPU s, a page of {page.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
