"""Training from Python: `tasks.run.run` returns scores and a model; trials; the documented lines run as they stand."""

import re
from pathlib import Path

import pytest

import tasks
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME, RECORD_NAME
from results.records.record import read_record
from results.table import main as table
from tasks.data.datasets import SHIPPED
from tasks.ner import Ner
from tasks.running.config import typed_config
from tasks.running.experiment import run
from tests.tasks.making import WORDS

SMALL = [*WORDS, "task.hidden=6", "limit=8", "trainer.epochs=2", "device=cpu"]


def test_a_run_returns_its_scores_and_its_model(tmp_path):
    settings = ["task=sst5", "data=mini", *(word for word in SMALL if "characters" not in word)]
    config = typed_config([*settings, f"runs_dir={tmp_path}", "keep_weights=true"])
    ended = run(config)
    record = read_record(ended.folder / "record.json")
    assert (ended.status, ended.scores) == ("finished", record.scores)

    examples = ended.model.read(SHIPPED / "sst5" / "test.txt", labelled=True)[:8]
    found = ended.model.score(examples, ended.model.decode(examples)).values
    assert found["accuracy"] == ended.scores["test"]["accuracy"]
    text = ["A dull film .", "Wonderful , from start to end ."]
    assert ended.model.predict(text) == tasks.load_model(ended.folder, "cpu").predict(text)

    again = run(config)
    assert (again.status, again.scores, again.folder, again.model) == ("skipped", ended.scores, ended.folder, None)


def test_the_documented_lines_run(tmp_path, monkeypatch, capsys):
    readme = (Path(tasks.__file__).parent / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(
        r"^```python\n(from tasks\.running\.experiment import run\n.*?)^```", readme, re.MULTILINE | re.DOTALL
    )
    small = ", ".join(f'"{setting}"' for setting in SMALL if not setting.startswith("features="))
    small += ', "features.elmo.untrained=true", "features.elmo.weights=tiny"'
    monkeypatch.chdir(tmp_path)
    exec(lines.replace('"data=mini"', f'"data=mini", {small}'), {})
    printed = capsys.readouterr().out.splitlines()
    assert re.match(r"[\d.]+ results/runs/mini/ner/elmo/", printed[0])
    assert printed[1].startswith("[")


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run, and a trial of the same settings whose test set cannot be read."""
    place = f"runs_dir={tmp_path_factory.mktemp('runs')}"
    read = Ner.read

    def without_test(self, path, split):
        assert split != "test"
        return read(self, path, split)

    whole = run(typed_config(["task=ner", "data=mini", *SMALL, "store.path=null", place]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ner, "read", without_test)
        return whole, run(typed_config(["task=ner", "data=mini", *SMALL, "store.path=null", place, "trial=true"]))


def test_a_trial_has_the_dev_score_of_a_run_and_no_other(ended):
    whole, trial = ended
    record = read_record(trial.folder / RECORD_NAME)
    assert trial.scores == {"dev": whole.scores["dev"]}
    assert record.score == whole.scores["dev"]["f1"]
    assert trial.folder != whole.folder


def test_a_trial_keeps_nothing_of_test_examples(ended):
    whole, trial = ended
    for name in (EXAMPLES_NAME, PREDICTIONS_NAME):
        assert (whole.folder / name).exists()
        assert not (trial.folder / name).exists()


def test_a_table_of_test_scores_leaves_a_trial_out(ended, capsys):
    whole, trial = ended
    table(["--runs", str(trial.folder.parents[2]), "--include-limited", "--notes"])
    out = capsys.readouterr().out
    assert f"{whole.scores['test']['f1']:.2f} (1)" in out
    assert "trial=" not in out
    assert "trials left out: 1" in out
