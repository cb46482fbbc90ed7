"""Arms of experiment=representations that need a download: each runs with a tiny random model of its architecture."""

import pytest
import torch
from torch import nn

from results.experiments import load_experiment
from results.records.record import read_record
from tests.elmo.sources import tiny_transformers

ARMS = ["gpt2", "bert", "distilbert", "roberta", "cove"]
TINY = {"data": "mini", "device": "cpu", "limit": "4", "trainer.epochs": "1", "task.hidden": "8", "store.path": "null"}
DRAWN = {"features.words.vectors": "null", "features.words.dim": "12", "features.words.trainable": "true"}


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_that_needs_a_download_runs(arm, command, tmp_path):
    (cell,) = (
        cell
        for cell in load_experiment("representations")
        .narrowed({"task": ["ner"], "data": ["paper"], "seed": ["1"]})
        .cells
        if cell.arm == arm
    )
    if arm == "cove":
        torch.save(nn.LSTM(3, 4, num_layers=2, bidirectional=True).state_dict(), tmp_path / "lstm.pth")
        (tmp_path / "vectors.txt").write_text("The 1 0 -1\n. 0.5 2 0.25\n", encoding="utf-8")
        files = {"weights": tmp_path / "lstm.pth", "vectors": tmp_path / "vectors.txt"}
        tiny = {f"features.frozen.cove.source.{name}": str(path) for name, path in files.items()}
        tiny["features.words.vectors"] = tiny["features.frozen.cove.source.vectors"]
    else:
        pytest.importorskip("transformers", reason="needs the extra `transformer`")
        tiny = {"features.transformer.model": tiny_transformers.save(tmp_path / arm, arm), **DRAWN}
    settings = {**cell.settings, **TINY, **tiny, "runs_dir": str(tmp_path / "runs")}
    code, _, said = command(*(f"{key}={value}" for key, value in settings.items()))
    assert code == 0, said
    (path,) = (tmp_path / "runs").rglob("record.json")
    record = read_record(path)
    assert record.identity.features == cell.value("features")
    (mix,) = record.mixes.values()
    if arm == "cove":
        assert mix.weights == [0.0, 1.0]  # the top layer, as published
    else:
        assert sum(mix.weights) == pytest.approx(1.0, abs=1e-3)
        assert len(set(mix.weights)) > 1, "the mix of the three layers was trained"
