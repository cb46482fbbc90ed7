"""experiment=table1_paper, on small files that have the names and the formats of the published ones."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmo.bilm.model import random_bilm
from elmo.bilm.options import BilmOptions
from elmo.bilm.weight_files import save_bilm
from elmo.published import PUBLISHED, VECTORS
from results.experiments import load_experiment
from results.records.record import read_record
from tasks.running.config import typed_config

MINI = Path(__file__).parents[3] / "tasks" / "mini"
OFFICIAL = {
    **{f"snli/{split}.jsonl": f"snli/snli_1.0_{split}.jsonl" for split in ("train", "dev", "test")},
    **{f"sst5/{split}.txt": f"sst5/{split}.txt" for split in ("train", "dev", "test")},
    **{"squad/train.json": "squad/train-v1.1.json", "squad/test.json": "squad/dev-v1.1.json"},
}
TASKS = ("squad", "snli", "ner", "sst5")
# As small as tests need it. The recipe of a full-size run is in the other test.
QUICK = ["limit=6", "trainer.epochs=1", "device=cpu", "seed=1"]
SMALL = {
    "squad": ["task.hidden=8"],
    "snli": ["task.hidden=8"],
    "ner": ["task.hidden=8"],
    "sst5": ["task.hidden=8", "task.dim=8", "task.maxout=[8,8]"],
}


@pytest.fixture
def ingredients(tmp_path, monkeypatch):
    """Folders with the official data, weights and vectors: the published names and formats, and a little content."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    for own, official in OFFICIAL.items():
        (data / official).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(MINI / own, data / official)
    (data / "conll2003").mkdir()
    for split, name in (("train", "eng.train"), ("dev", "eng.testa"), ("test", "eng.testb")):
        (data / "conll2003" / name).write_text(conll(MINI / "ner" / f"{split}.txt"), encoding="utf-8")

    # The original's format and its two highways, but narrow: its 93.6 M parameters would take the test minutes.
    options = BilmOptions(cell_dim=16, projection_dim=8, n_highway=2, filters=((1, 4), (2, 8)))
    save_bilm(random_bilm(options, 5), tmp_path / "made" / "weights.hdf5")
    folder = cache / "allennlp" / "original"
    folder.mkdir(parents=True)
    files = [replace(file, size=None, sha256=None) for file in PUBLISHED["allennlp/original"]]
    monkeypatch.setitem(PUBLISHED, "allennlp/original", tuple(files))
    for made, file in zip(("options.json", "weights.hdf5"), files, strict=True):
        assert file.name.endswith(made)
        shutil.copy(tmp_path / "made" / made, folder / file.name)

    text = (MINI / "ner" / "train.txt").read_text(encoding="utf-8")
    words = sorted({line.partition(" ")[0] for line in text.split("\n")} - {""})
    vectors = np.random.default_rng(0).normal(size=(len(words), 300)).round(3)
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words, vectors, strict=True)]
    (cache / "glove").mkdir()
    (cache / "glove" / VECTORS["glove/840B.300d"].member).write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setenv("ELMO_CACHE", str(cache))
    monkeypatch.setenv("ELMO_MIRROR", "http://127.0.0.1:9")  # nothing is downloaded
    return data


def conll(path):
    """Two columns as CoNLL-2003's four, in IOB1, with document boundaries."""
    lines, before = ["-DOCSTART- -X- -X- O", ""], "O"
    for line in path.read_text(encoding="utf-8").splitlines():
        word, _, tag = line.partition(" ")
        # IOB1 begins an entity with B- only directly after another one of its type
        first = tag.startswith("B-") and before[2:] != tag[2:]
        lines.append(f"{word} NN I-NP {f'I-{tag[2:]}' if first else tag}" if word else "")
        before = tag if word else "O"
    return "\n".join(lines) + "\n"


def test_every_cell_composes_with_the_paper_s_ingredients():
    cells = load_experiment("table1_paper").cells
    assert len(cells) == 4 * 2 * 5
    for cell in cells:
        if cell.seed > 1:
            continue
        config = typed_config(cell.overrides)
        assert config.data.name == "paper"
        assert config.limit is None
        words, elmo = config.features.words, config.features.elmo
        assert words.vectors == ("glove-6b-50d" if config.task.name == "ner" else "glove/840B.300d")
        assert (elmo and elmo.weights) == (None if cell.arm == "glove" else "allennlp/original")
        # Nothing but the ingredients differs from the recipe of the task.
        assert set(config.variant) <= {"features.words.vectors", "features.words.lowercase", "features.elmo.weights"}
        assert cell.is_run(config.identity, config.resolved)


@pytest.mark.integration
@pytest.mark.parametrize("task", TASKS)
def test_each_task_runs_on_files_of_these_shapes(task, ingredients, command, tmp_path):
    runs, small = tmp_path / "runs", [*QUICK, *SMALL[task]]
    settings = [f"task={task}", f"data_dir={ingredients}", f"runs_dir={runs}", f"store.path={tmp_path / 'store'}"]
    code, _, err = command("-m", "experiment=table1_paper", *settings, *small)
    assert code == 0, err
    records = {path.parts[-4]: read_record(path) for path in runs.rglob("record.json")}
    assert set(records) == {"glove", "elmo"}
    assert {record.status for record in records.values()} == {"finished"}
    for arm, record in records.items():
        text = json.dumps(record.config["features"])
        assert ("allennlp/original" in text) == (arm == "elmo")
        assert ("glove/840B.300d" in text) == (task != "ner")
    (mix, *_) = records["elmo"].mixes.values()
    assert len(mix.weights) == 3
