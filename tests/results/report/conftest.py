"""Runs to make a page of."""

import dataclasses

import pytest

from results.records.record import Mix, RunError
from tests.results.making import first_right, make_record, save


def save_runs(folder):
    """Two arms of two seeds with all that a record can hold, two training sizes, and a failed run."""
    for features, right in (("glove", 60), ("elmo", 80)):
        for seed in (1, 2):
            for share in (1.0, 0.1):
                score = right + seed - (10 if share < 1 else 0)
                variant = {} if share == 1 else {"train_fraction": share}
                record = dataclasses.replace(
                    make_record(score, data="mini", task="sst5", features=features, seed=seed, metric="accuracy",
                                variant=variant, dev=score),
                    epochs=[{"epoch": e, "accuracy": score - 5 + e} for e in (1, 2, 3)],
                    mixes={"input": Mix([0.2, 0.5, 0.3], 1.1)} if features == "elmo" else {},
                    data={"train": {"sentences": 500 * share}},
                    details={
                        "labels": {"good": {"f1": score, "gold": 50}, "bad": {"f1": score - 3, "gold": 50}},
                        "confusion": {"labels": ["good", "bad"], "gold_by_predicted": [[40, 10], [20, 30]]},
                    },
                    seconds=61.0,
                    peak_memory_mb=512.0,
                    started_at="2026-11-15T08:00:00+00:00",
                    finished_at="2026-11-15T08:01:01+00:00",
                )  # fmt: skip
                save(folder / "runs", record, first_right(score))
    error = RunError("RuntimeError", "out of memory", ["Traceback", "  File x, line 1", "RuntimeError: out of memory"])
    save(folder / "runs", make_record(data="mini", task="sst5", features="elmo", seed=9, error=error))
    return folder / "runs"


@pytest.fixture
def runs(tmp_path):
    """The runs above, for one test."""
    return save_runs(tmp_path)
