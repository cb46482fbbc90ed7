"""Saved models: a file names its task and its sources, but cannot choose code to run."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo.common.errors import InputError
from results.records.record import read_record, write_record
from tasks.data.datasets import DataSource
from tasks.predict import main as predict
from tasks.running.predict import LoadedModel, load_model, load_weights
from tasks.running.schema import with_configs_of
from tests.elmo.sources.character_lms import save_lms
from tests.tasks.making import ELMO, SMALL, WORDS, arm_of, change, keep, model_of, run_of
from tests.tasks.user import arguments, path_of

KEPT = ["task=ner", "data=mini", *WORDS, "task.hidden=3"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The weights of an untrained NER model."""
    config = run_of(*KEPT)
    train = DataSource(config.data, config.data_dir, 12).load(config.task, "train").examples
    return keep(tmp_path_factory.mktemp("saved"), model_of(config, train), config)


@pytest.fixture
def kept(saved, tmp_path):
    """A copy of them, which a test may change, and of their record."""
    shutil.copy(saved.with_name("record.json"), tmp_path)
    return Path(shutil.copy(saved, tmp_path))


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module in the current folder that leaves a file when it is imported."""
    (tmp_path / "planted.py").write_text("import pathlib\npathlib.Path('ran').touch()\nclass Ner:\n    name = 'ner'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "ran"


def test_the_file_names_a_task_and_no_class(kept):
    saved = torch.load(kept, weights_only=True)
    assert saved["task"] == "ner"
    assert saved["labels"] == ["LOC", "MISC", "ORG", "PER"]
    assert "_target_" not in str(saved)
    assert "tasks.ner" not in str(saved)


@pytest.mark.parametrize("target", ["planted.Ner", "tasks.planted.task.Ner", "planted", "tasks.ner.os.system", 5])
def test_a_class_named_in_the_file_is_not_imported(kept, planted, target):
    config = torch.load(kept, weights_only=True)["config"]
    change(kept, config={**config, "task": {**config["task"], "_target_": target}})
    assert load_weights(kept, "ner")[0].task.name == "ner", "the class in the file is ignored"
    assert not planted.exists()


def test_a_task_that_is_not_installed(kept, planted):
    change(kept, task="planted")
    with pytest.raises(InputError, match=r"task=planted: expected one of .* use --config-dir DIR") as error:
        load_weights(kept, "planted")
    assert "Delete" not in str(error.value), "the file is good; the task is what is missing"
    assert not planted.exists()


def test_a_task_of_a_users_folder(kept, planted, tmp_path, monkeypatch):
    folder = tmp_path / "conf"
    (folder / "task").mkdir(parents=True)
    (folder / "task" / "own.yaml").write_text("# @package _global_\ntask: {_target_: their_module.Own}\n")
    (folder / "planted.yaml").write_text("task: {_target_: planted.Ner}\n")
    (tmp_path / "their_module.py").write_text("from tasks.ner import Ner\nclass Own(Ner):\n    name = 'own'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    change(kept, task="own")
    with pytest.raises(InputError, match=r"use --config-dir DIR, config_dir in Python, with DIR/task/own\.yaml"):
        load_weights(kept)
    assert type(load_weights(kept, "own", folder)[0].task).__module__ == "their_module"
    change(kept, task="../planted")
    with pytest.raises(InputError, match=r"task=\.\./planted: expected one of"):
        load_weights(kept, config_dir=folder)
    assert not planted.exists()


def nan_weights(saved):
    name, value = next(iter(saved["trained"].items()))
    return {"trained": {**saved["trained"], name: torch.full_like(value, torch.nan)}}


def permuted_labels(saved):
    return {"labels": saved["labels"][::-1]}


@pytest.mark.parametrize("edit", [nan_weights, permuted_labels])
def test_edited_weights_are_refused(kept, edit, capsys):
    """M10: also with a right seal, which anyone can compute."""
    parts = edit(torch.load(kept, weights_only=True))
    record = kept.with_name("record.json").read_bytes()
    change(kept, **parts)
    load_model(kept.parent)  # the record names them
    kept.with_name("record.json").write_bytes(record)
    with pytest.raises(InputError, match=r"weights\.pt: expected the weights of mini ner .* found others: .* Delete"):
        load_model(kept.parent)
    assert predict([str(kept.parent)]) == 1
    assert "They were edited, or are those of another run" in capsys.readouterr().err


def test_a_model_of_another_task_is_refused(kept, tmp_path_factory):
    """H1: an SST-5 model in the folder of an NER run."""
    config = run_of("task=sst5", "data=mini", *arm_of("sst5", "words"))
    train = DataSource(config.data, config.data_dir, 12).load(config.task, "train").examples
    other = keep(tmp_path_factory.mktemp("other"), model_of(config, train), config)
    assert load_model(other.parent).task.name == "sst5"
    shutil.copy(other, kept)
    with pytest.raises(InputError, match="expected the weights of mini ner "):
        load_model(kept.parent)


def test_weights_without_a_record_or_of_a_run_that_kept_none(kept):
    record = kept.with_name("record.json")
    write_record(record, replace(read_record(record), model=None))
    with pytest.raises(InputError, match=r"\(none by its record\.json\), found others"):
        load_model(kept.parent)
    record.write_text("{")
    with pytest.raises(InputError, match=r"record\.json: expected one whole JSON object"):
        load_model(kept.parent)
    record.unlink()
    with pytest.raises(InputError, match=r"expected the run's record\.json next to it, found none\. Copy the whole"):
        load_model(kept.parent)


def test_weights_of_another_program_are_refused(kept):
    torch.save(torch.load(kept, weights_only=True), kept)
    with pytest.raises(InputError, match=r"expected a file that this suite wrote, found.*Delete the run's f"):
        load_weights(kept)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"labels": 5}, "expected a list as labels, found a int"),
        ({"words": ["a", None]}, "expected texts as words, found others"),
        ({"paths": None}, "expected a dict as paths, found nothing"),
        ({"config": {"task": {}, "no_such_key": 1}}, "unknown key no_such_key"),
        ({"config": {"task": {"hidden": "${oc.env:"}}}, "hidden"),
        ({"features": {"weights": "0" * 64}}, "weights differ from those that the model was trained with"),
    ],
)
def test_wrong_content_is_explained(kept, parts, expected):
    change(kept, **parts)
    with pytest.raises(InputError) as caught:
        load_weights(kept, "ner")
    assert str(caught.value).startswith(f"{kept}: ")
    assert expected in str(caught.value)


class TestSources:
    """Models with layers of features.frozen."""

    OWN = (
        "import hashlib, pathlib, torch\npathlib.Path('ran').touch()\n"
        + """
class Lengths:
    def __init__(self, scale):
        self.scale, self.widths = scale, (3,)
    def fingerprint(self):
        return hashlib.sha256(f"lengths {self.scale}".encode()).hexdigest()
    def token_layers(self, sentences):
        lengths = [self.scale * len(word) for sentence in sentences for word in sentence]
        return torch.tensor(lengths).float()[None, :, None].expand(1, -1, 3)
"""
    )

    def saved(self, path, *overrides):
        """The answer of an untrained model of these features, which is then kept."""
        config = run_of("task=ner", "data=mini", *overrides, *SMALL, "task.hidden=3")
        train = DataSource(config.data, config.data_dir, 12).load(config.task, "train").examples
        model = model_of(config, train)
        keep(path.parent, model, config)
        return LoadedModel(config, model, torch.device("cpu")).predict(["Ada Lind left Oslo."])

    def test_flair_is_found_from_another_folder(self, tmp_path, monkeypatch):
        lms = save_lms(tmp_path / "lms")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("ELMO_FLAIR", "lms")
        answer = self.saved(tmp_path / "weights.pt", "features=flair_elmo", *ELMO[-2:])
        monkeypatch.delenv("ELMO_FLAIR")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        model = load_model(tmp_path, "cpu", "ner")
        assert model.model.features.frozen["flair"].widths == {"input": 10}
        assert model.predict(["Ada Lind left Oslo."]) == answer
        shutil.rmtree(lms)
        with pytest.raises(InputError, match=rf"model was trained with {lms}, which no longer exists\. Put it back"):
            load_model(tmp_path)

    def test_one_s_own_source_needs_the_folder_of_its_config(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "own_lengths.py").write_text(self.OWN)
        own = tmp_path / "configs" / "features" / "lengths.yaml"
        own.parent.mkdir(parents=True)
        own.write_text(
            "defaults: [glove, _self_]\nname: lengths\nfrozen:\n"
            "  lengths: {source: {_target_: own_lengths.Lengths, scale: 2}, dropout: 0.0}\n"
        )
        with with_configs_of(tmp_path / "configs"):
            answer = self.saved(tmp_path / "weights.pt", "features=lengths")
        (tmp_path / "ran").unlink()
        del sys.modules["own_lengths"]
        with pytest.raises(InputError, match=r"found own_lengths\.Lengths\. A file must not .* use --config-dir DIR"):
            load_model(tmp_path)
        assert not (tmp_path / "ran").exists(), "nothing was imported"
        with pytest.raises(InputError, match=r"--config-dir .*: expected a folder `features` in it, found none"):
            load_model(tmp_path, config_dir=tmp_path)
        assert load_model(tmp_path, "cpu", config_dir="configs").predict(["Ada Lind left Oslo."]) == answer
        (tmp_path / "own_lengths.py").unlink()
        del sys.modules["own_lengths"]
        assert predict([str(tmp_path), "--config-dir", "configs"]) == 1

    def test_a_source_that_cannot_be_downloaded(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ELMO_FLAIR", str(save_lms(tmp_path / "lms")))
        self.saved(tmp_path / "weights.pt", "features=flair")
        saved = torch.load(tmp_path / "weights.pt", weights_only=True)
        saved["config"]["features"]["frozen"]["flair"]["source"]["weights"] = "flair/news-fast"
        change(tmp_path / "weights.pt", config=saved["config"], paths={})
        monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("ELMO_MIRROR", "http://127.0.0.1:1")
        monkeypatch.setenv("no_proxy", "*")
        with pytest.raises(InputError, match=rf"(?s)flair/news-fast.*{tmp_path}/cache/flair/news-fast/\S+  from  http"):
            load_model(tmp_path)


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
