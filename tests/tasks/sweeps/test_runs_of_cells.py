"""Cells of experiments and the runs that their overrides make: a cell has its own run, and not the run of others."""

import json

import pytest

from results.experiments import load_experiment
from tasks.running.config import typed_config

ELMO, WORDS, MODEL = "features=elmo", "features=glove", "features=transformer"


@pytest.fixture
def is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here" / "bert-base-cased").mkdir(parents=True)

    def check(of_cell, of_run):
        arm, *settings = of_cell
        row = ["task=ner", "data=mini", *settings]
        rows = f"title = 'One cell'\nseeds = [1]\n[arms]\na = ['{arm}']\n[[rows]]\noverrides = {json.dumps(row)}\n"
        (tmp_path / "one.toml").write_text(rows, encoding="utf-8")
        (cell,) = load_experiment(str(tmp_path / "one.toml")).cells
        config = typed_config(["task=ner", "data=mini", *of_run])
        return cell.is_run(config.identity, config.resolved)

    return check


@pytest.mark.parametrize(
    "typed",
    [
        [ELMO, "features.elmo.weights=here/small"],
        [ELMO, "features.elmo.places=['input','output']"],
        [ELMO, "features.elmo.enabled=false"],
        [MODEL, "features.transformer.model=owner/bert-base-cased"],
        [MODEL, "features.transformer.model=here/bert-base-cased"],
        [WORDS, "features.elmo.layers=last"],  # what one row sets for all arms
        [WORDS, "features.elmo.enabled=False"],
        [WORDS, "features.words.lowercase=False"],
        [WORDS, "~task.dropout"],
        [WORDS, "~datasets.mini.splits.dev"],
    ],
    ids=" ".join,
)
def test_a_cell_has_its_own_run(is_run, typed):
    assert is_run(typed, typed)


@pytest.mark.parametrize(
    ("of_cell", "of_run"),
    [
        ([ELMO, "features.elmo.weights=here/small"], [ELMO]),
        ([ELMO, "features.elmo.weights=small"], [ELMO, "features.elmo.weights=here/small"]),
        ([WORDS, "features.words.vectors=here/glove-6b-50d"], [WORDS]),
        ([MODEL, "features.transformer.model=owner/bert-base-cased"], [MODEL]),
        (
            [MODEL, "features.transformer.model=owner/bert-base-cased"],
            [MODEL, "features.transformer.model=here/bert-base-cased"],
        ),
        ([MODEL, "features.transformer.model=here/bert-base-cased"], [MODEL]),
        ([WORDS, "features.elmo.enabled=true"], [WORDS]),
        ([ELMO, "features.elmo.layers=last"], [ELMO]),
        ([ELMO, "features.elmo.layers=last"], [ELMO, "features.elmo.enabled=false"]),
        ([WORDS, "~task.dropout"], [WORDS]),
        ([WORDS], [WORDS, "~task.dropout"]),
    ],
)
def test_a_cell_has_no_other_run(is_run, of_cell, of_run):
    assert not is_run(of_cell, of_run)
