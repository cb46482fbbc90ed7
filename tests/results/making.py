"""Records for the tests of results/, and the table of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import results.report.__main__
import results.table
from results.names import load_names
from results.records.environment import Environment
from results.records.example_scores import write_examples
from results.records.identity import EXAMPLES_NAME, Identity, Value
from results.records.metric import Metric, Ratio, mean_of
from results.records.record import RunError, RunRecord, write_record

CLEAN = Environment(
    python="3.11.7",
    packages={"torch": "2.6.0"},
    device="cpu",
    threads=2,
    platform="test",
    commit="a" * 40,
    dirty=False,
)


DECLARED_BY_ALL = {"accuracy": mean_of("correct", 100.0)}
DECLARED = {  # by tasks whose scores these tests compute from examples
    **{name: {"f1": Metric([[Ratio({"tp": 200.0}, {"tp": 2.0, "fp": 1.0, "fn": 1.0})]])} for name in ("ner", "srl")},
    "squad": {name: mean_of(name, 1.0, unit="article") for name in ("f1", "em")},
}


def make_record(
    score: float | None = 90.0,
    *,
    data: str = "paper",
    task: str = "ner",
    features: str = "glove",
    seed: int = 1,
    variant: Mapping[str, Value] | None = None,
    limit: int | None = None,
    metric: str = "f1",
    lr: float = 0.001,
    recipe: int | None = None,
    environment: Environment | None = CLEAN,
    error: RunError | None = None,
    dev: float | None = None,
    fold: int | None = None,
    folds: int | None = None,
) -> RunRecord:
    """A finished run with this test score, or with an error a failed one; by default of the task's newest recipe."""
    if recipe is None:
        recipe = load_names().tasks[task].recipe if task in load_names().tasks else 1
    variant = {**(variant or {}), **({} if limit is None else {"limit": limit})}
    hashed = {"recipes": {"task": recipe}, "data": {"train": "ab" * 32}, "weights": None}
    scores = {} if error or score is None else {"test": {metric: score}}
    return RunRecord(
        status="failed" if error else "finished",
        identity=Identity(data, task, features, seed, variant, fold),
        folds=folds,
        fingerprinted={**hashed, "settings": {"trainer.lr": lr}},
        config={"task": {"name": task}, "features": {"name": features}, "trainer": {"lr": lr}},
        metric=metric,
        metrics=DECLARED.get(task, {}) | DECLARED_BY_ALL,
        scores=scores if dev is None else {**scores, "dev": {metric: dev}},
        environment=environment,
        error=error,
    )


def first_right(right: int, of: int = 100) -> list[dict[str, int]]:
    """The scores of test examples of which the first `right` are correct."""
    return [{"correct": int(i < right)} for i in range(of)]


def save(runs: Path, record: RunRecord, examples: Sequence[Mapping[str, float]] | None = None) -> Path:
    """Writes the record where a run would, and next to it the scores of its test examples, if given."""
    path = runs / record.identity.path
    if examples is not None:
        write_examples(path.with_name(EXAMPLES_NAME), record.fingerprint, examples)
    write_record(path, record)
    return path


def with_config(record: RunRecord, **settings: object) -> RunRecord:
    """The record with further settings in its config, at their defaults, so that its name does not have them."""
    return replace(record, config={**record.config, **settings})


def run_table(capsys: pytest.CaptureFixture[str], *arguments: object, notes: bool = True) -> tuple[int, str, str]:
    """Exit status, output and errors of python -m results.table, by default with all notes."""
    status = results.table.main([*map(str, arguments), *["--notes"] * notes])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_report(runs: Path, *arguments: object) -> tuple[int, str]:
    """Exit status of python -m results.report, and its page: report.html next to the folder of the runs."""
    out = runs.parent / "report.html"
    status = results.report.__main__.main(["--runs", str(runs), "--out", str(out), *map(str, arguments)])
    return status, out.read_text(encoding="utf-8") if out.exists() else ""
