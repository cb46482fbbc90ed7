"""Saved models: a file names its task, but cannot choose code to run."""

import shutil

import pytest
import torch

from elmo.common.errors import InputError
from results.records.record import read_record
from tasks.data.datasets import DataSource
from tasks.running.config import TASK_ENTRY_POINTS
from tasks.running.predict import load_model
from tasks.running.predict import main as predict
from tasks.running.saved_model import load_weights, save_weights
from tests.tasks.making import WORDS, model_of, run_of
from tests.tasks.user import arguments, path_of

KEPT = ["task=ner", "data=mini", *WORDS, "task.hidden=3"]


@pytest.fixture
def kept(tmp_path):
    """The weights of an untrained NER model."""
    config = run_of(*KEPT)
    train = DataSource(config.data, config.data_dir, 12).load(config.task, "train").examples
    path = tmp_path / "weights.pt"
    save_weights(path, model_of(config, train), config)
    return path


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module in the current folder that leaves a file when it is imported."""
    (tmp_path / "planted.py").write_text("import pathlib\npathlib.Path('ran').touch()\nclass Ner:\n    name = 'ner'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "ran"


def change(path, **parts):
    saved = torch.load(path, weights_only=True)
    saved.update(parts)
    torch.save({name: part for name, part in saved.items() if part is not None}, path)
    return saved


def test_the_file_names_a_task_and_no_class(kept):
    saved = torch.load(kept, weights_only=True)
    assert saved["task"] == "ner"
    assert saved["labels"] == ["LOC", "MISC", "ORG", "PER"]
    assert "_target_" not in str(saved)
    assert "tasks.ner" not in str(saved)


@pytest.mark.parametrize("target", ["planted.Ner", "tasks.planted.task.Ner", "planted", "tasks.ner.task.os.system", 5])
def test_a_class_named_in_the_file_is_not_imported(kept, planted, target):
    config = torch.load(kept, weights_only=True)["config"]
    change(kept, task=None, config={**config, "task": {**config["task"], "_target_": target}})
    with pytest.raises(InputError, match="expected a model of task=ner, found one of task="):
        load_weights(kept, "ner")
    change(kept, task="ner")
    assert load_weights(kept, "ner")[0].task.name == "ner", "the class in the file is ignored"
    assert not planted.exists()


def test_a_task_that_is_not_installed(kept, planted):
    change(kept, task="planted")
    with pytest.raises(InputError, match=rf"task=planted: expected one of .* entry point .*{TASK_ENTRY_POINTS}"):
        load_weights(kept, "planted")
    assert not planted.exists()


def test_a_task_of_an_installed_package(kept, tmp_path, monkeypatch):
    (tmp_path / "their_package.py").write_text("from tasks.ner.task import Ner\nclass Own(Ner):\n    name = 'own'\n")
    (tmp_path / "their_package-1.dist-info").mkdir()
    for name, content in {
        "METADATA": "Metadata-Version: 2.1\nName: their_package\nVersion: 1\n",
        "entry_points.txt": f"[{TASK_ENTRY_POINTS}]\nown = their_package:Own\n",
    }.items():
        (tmp_path / "their_package-1.dist-info" / name).write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    change(kept, task="own")
    config, _ = load_weights(kept, "own")
    assert type(config.task).__module__ == "their_package"


def test_a_file_of_an_earlier_version(kept, tmp_path):
    config = torch.load(kept, weights_only=True)["config"]
    target = {**config["task"], "_target_": "tasks.ner.task.Ner"}
    old = change(kept, task=None, paths=None, config={**config, "task": target})
    loaded, model = load_weights(kept, "ner")
    assert loaded.task.learned_labels() == old["labels"]
    assert all(torch.equal(value, old["trained"][name]) for name, value in model.trained().items())
    change(kept, labels=None)  # they were not kept
    with pytest.raises(InputError, match=r"the tensor head\..* Delete the run's folder and run it again with keep_wei"):
        load_weights(kept, "ner")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"labels": 5}, "expected a list as labels, found 5"),
        ({"paths": "x"}, "expected a dict as paths, found 'x'"),
        ({"config": {"task": {}, "no_such_key": 1}}, "unknown key no_such_key"),
        ({"config": {"task": {"hidden": "${oc.env:"}}}, "hidden"),
    ],
)
def test_wrong_content_is_explained(kept, parts, expected):
    change(kept, **parts)
    with pytest.raises(InputError) as caught:
        load_weights(kept, "ner")
    assert str(caught.value).startswith(f"{kept}: ")
    assert expected in str(caught.value)


@pytest.mark.integration
class TestRun:
    def test_a_saved_model_scores_as_the_run_did(self, place, command, tmp_path, capsys):
        code, _, err = command(*arguments(place, tmp_path, "keep_weights=true"))
        assert code == 0, err
        record = read_record(path_of(tmp_path))
        model, file = load_model(path_of(tmp_path).parent), place.data / "mine" / "test.txt"
        test = model.read(file, labelled=True)
        assert model.score(test, model.decode(test)).values == record.scores["test"]
        assert record.scores["test"]["f1"] > 0, "something has been learned"
        assert predict([str(path_of(tmp_path).parent), str(file), "--input", "data", "--score"]) == 0
        assert f"f1 {record.scores['test']['f1']:.2f}" in capsys.readouterr().err

    def test_a_finished_run_says_how_to_get_weights(self, place, command, tmp_path):
        asked = arguments(place, tmp_path, "trainer.epochs=1")
        folder = path_of(tmp_path, **{"trainer.epochs": 1}).parent
        assert command(*asked)[0] == 0
        code, _, err = command(*asked, "keep_weights=true")
        printed = " ".join(err.split())
        assert code == 0
        assert "is done already, and kept no weights" in printed
        assert "runs_dir=DIR" in printed
        assert f"delete {folder} first" in printed
        assert not (folder / "weights.pt").exists()
        shutil.rmtree(folder)
        assert command(*asked, "keep_weights=true")[0] == 0
        assert (folder / "weights.pt").exists()
        assert "is done already: " in command(*asked, "keep_weights=true")[2]
