"""Records of schema 1, as earlier versions wrote them, migrated to schema 2."""

import json

import pytest

import tasks.running.migrate
from elmo.common.files import write_json
from results.records.identity import fingerprint, record_path
from results.records.record import RecordUnreadable, read_record
from tasks.running.config import typed_config
from tasks.running.plan import RunPlan

VARIANT = {"trainer.epochs": 2, "limit": 3}


@pytest.fixture
def old(tmp_path):
    """The path of a record of schema 1, with examples; made from what the same run is today."""
    typed = [f"{key}={value}" for key, value in VARIANT.items()]
    plan = RunPlan.of(typed_config(["task=ner", "data=mini", "features=glove", *typed, f"runs_dir={tmp_path}"]))
    hashed = {"config": plan.config.resolved, **{k: plan.parts[k] for k in ("data", "vectors", "weights")}, "recipe": 1}
    named = plan.identity
    identity = {"data": named.data, "task": named.task, "features": named.features, "seed": named.seed}
    content = {
        "status": "finished",
        "identity": {**identity, "variant": dict(named.variant)},
        "fingerprinted": hashed,
        "metric": "f1",
        "scores": {"test": {"f1": 50.0}},
        "limit": 3,
        "epochs": [{"epoch": 1, "loss": 2.5}],
        "schema": 1,
        "fingerprint": fingerprint(hashed),
    }
    path = record_path(tmp_path, named)
    write_json(path, content)
    scores = [{"tp": 1, "fp": 1, "fn": 1}]
    write_json(path.with_name("examples.json"), {"schema": 1, "fingerprint": content["fingerprint"], "scores": scores})
    return path, plan


def test_the_run_is_found_again_with_its_scores(old, tmp_path, capsys):
    path, plan = old
    with pytest.raises(RecordUnreadable, match=r"run: python -m tasks\.migrate RUNS_DIR"):
        read_record(path)
    assert tasks.running.migrate.main([str(tmp_path)]) == 0
    record = read_record(path)
    assert record.fingerprint == plan.fingerprint
    assert record.config == plan.config.resolved
    assert (record.score, record.limit, record.epochs) == (50.0, 3, [{"epoch": 1, "loss": 2.5}])
    examples = json.loads(path.with_name("examples.json").read_text())
    assert examples == {"schema": 1, "fingerprint": record.fingerprint, "scores": [{"tp": 1, "fp": 1, "fn": 1}]}
    before = path.read_bytes()
    assert tasks.running.migrate.main([str(tmp_path)]) == 0
    assert path.read_bytes() == before
    assert capsys.readouterr().out == "1 records migrated\n0 records migrated\n"


def test_can_be_repeated_after_a_kill_between_the_two_files(old, tmp_path, monkeypatch):
    path, plan = old

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tasks.running.migrate, "write_record", killed)
        with pytest.raises(KeyboardInterrupt):
            tasks.running.migrate.main([str(tmp_path)])
    assert tasks.running.migrate.main([str(tmp_path)]) == 0
    assert read_record(path).fingerprint == plan.fingerprint


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c["fingerprinted"].update(recipe=2), "was it edited by hand"),
        (lambda c: c.update(limit=None), "limit: expected 3"),
        (lambda c: c["identity"].update(variant={}, limit=None), "limit: expected 3"),
        (lambda c: c["identity"]["variant"].update({"trainer.epochs": 20}), "trainer.epochs: expected 2"),
        (lambda c: c["identity"].update(features="elmo"), "features.name: expected 'glove'"),
        (lambda c: c["identity"].update(task="../x"), "task=../x: expected one of"),
        (lambda c: c.pop("scores"), "scores.test.f1: missing"),
        (lambda c: c.pop("identity"), "identity"),
    ],
)
def test_an_edited_record_is_reported_and_left_alone(old, tmp_path, capsys, edit, message):
    path, _ = old
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    before = path.read_bytes(), path.with_name("examples.json").read_bytes()
    assert tasks.running.migrate.main([str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == "0 records migrated, 1 left alone\n"
    assert f"{path}: " in said.err
    assert message in said.err
    assert (path.read_bytes(), path.with_name("examples.json").read_bytes()) == before
