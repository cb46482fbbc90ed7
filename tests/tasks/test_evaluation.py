"""tasks.evaluate: one call gives the records and the table of the same runs as the command line."""

import pytest

import tasks
from elmo.common.errors import InputError
from results.records.record import read_record
from tasks.running.config import typed_config
from tests.tasks.making import SMALL

SETTINGS = [*SMALL[:3], "limit=12", "trainer.epochs=1"]


@pytest.mark.integration
def test_records_and_table(tmp_path):
    arm = "elmo features.elmo.untrained=true features.elmo.weights=tiny"
    found = tasks.evaluate(arm, ["sst5"], "mini", (1, 2), *SETTINGS, runs_dir=str(tmp_path))
    assert sorted((record.identity.features, record.identity.seed) for record in found.records) == [
        *(("elmo", 1), ("elmo", 2), ("glove", 1), ("glove", 2))
    ]
    typed = ["task=sst5", "data=mini", "features=glove", "seed=1", *SETTINGS, f"runs_dir={tmp_path}"]
    config = typed_config(typed)
    assert read_record(config.path).fingerprint == config.fingerprint
    assert config.fingerprint in {record.fingerprint for record in found.records}
    assert "mini SST-5" in str(found)
    assert r"\begin{tabular}" in found.to_latex()
    assert "seeds 1, 2; recipe " in found.methods()
    frame = found.to_pandas()
    means = sum(record.score for record in found.records if record.identity.features == "elmo") / 2
    assert any(abs(value - means) < 0.01 for value in frame.select_dtypes("number").to_numpy().ravel())


def test_a_wrong_name(tmp_path):
    with pytest.raises(InputError, match="elmoo"):
        tasks.evaluate("elmoo", ["sst5"], runs_dir=str(tmp_path))
    assert not list(tmp_path.iterdir()), "no run was started"
