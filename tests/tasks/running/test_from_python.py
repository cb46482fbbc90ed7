"""Training from Python: `tasks.run.run` returns scores and a model, and the documented lines run as they stand."""

import re
from pathlib import Path

import tasks
from results.records.record import read_record
from tasks.data.datasets import SHIPPED
from tasks.run import run
from tasks.running.config import typed_config
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
    (lines,) = re.findall(r"^```python\n(from tasks\.run import run\n.*?)^```", readme, re.MULTILINE | re.DOTALL)
    small = ", ".join(f'"{setting}"' for setting in SMALL if not setting.startswith("features="))
    small += ', "features.elmo.untrained=true", "features.elmo.weights=tiny"'
    monkeypatch.chdir(tmp_path)
    exec(lines.replace('"data=mini"', f'"data=mini", {small}'), {})
    printed = capsys.readouterr().out.splitlines()
    assert re.match(r"[\d.]+ results/runs/mini/ner/elmo/", printed[0])
    assert printed[1].startswith("[")
