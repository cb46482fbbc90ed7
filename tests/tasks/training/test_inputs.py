"""Everything that a run reads is in its record, must stay as it is, and is compared when the run is resumed."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo import random_bilm, save_bilm
from elmo.common.errors import InputError
from results.records.record import read_record, write_record
from tasks.data.datasets import SHIPPED
from tasks.running.config import typed_config
from tasks.running.experiment import run
from tasks.running.schema import with_configs_of
from tasks.training.trainer import Trainer
from tests.elmo.sources.character_lms import save_lms

SETTINGS = (
    *("task=ner", "data=mini", "limit=8", "device=cpu", "task.hidden=4", "features.characters.filters=4"),
    *("trainer.epochs=2", "trainer.batch_size=4"),
)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def vectors(tmp_path):
    """Vectors of all words of the shipped data, also of those that only the test set has."""
    texts = [(SHIPPED / "ner" / f"{split}.txt").read_text(encoding="utf-8") for split in ("train", "dev", "test")]
    words = sorted({line.split()[0].lower() for text in texts for line in text.splitlines() if line.strip()})
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {len(word)} 0.5 {number % 7}\n" for number, word in enumerate(words)))
    return path


@pytest.fixture
def bilm(tmp_path):
    save_bilm(random_bilm("tiny", 3), tmp_path / "bilm" / "weights.hdf5")
    return tmp_path / "bilm" / "weights.hdf5"


@pytest.fixture
def config_of(tmp_path, vectors):
    def compose(*more, features="glove"):
        own = (f"features={features}", f"features.words.vectors={vectors}", f"runs_dir={tmp_path / 'runs'}")
        return typed_config([*SETTINGS, *own, *more])

    return compose


def record_of(config):
    (path,) = Path(config.runs_dir).rglob("record.json")
    return read_record(path)


def after_training(monkeypatch, change):
    """Calls `change` when training has ended and the test set is still to be read."""
    fit = Trainer.fit

    def fit_and_change(*arguments):
        state = fit(*arguments)
        change()
        return state

    monkeypatch.setattr(Trainer, "fit", fit_and_change)


def stopped(monkeypatch, config):
    """Runs until the second epoch, as if the process had been killed there."""
    train = Trainer._train_epoch

    def first_only(self, *arguments):
        if arguments[-1].epoch == 1:
            raise KeyboardInterrupt
        return train(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_train_epoch", first_only)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    (checkpoint,) = Path(config.runs_dir).rglob("checkpoint.pt")
    return checkpoint


def test_the_record_the_weights_and_the_checkpoint_list_what_was_read(config_of, vectors, bilm, monkeypatch):
    config = config_of(f"features.elmo.weights={bilm.parent}", "keep_weights=true", features="elmo")
    checkpoint = torch.load(stopped(monkeypatch, config), weights_only=True)
    ended = run(config)
    record = read_record(ended.folder / "record.json")
    settings = {key: value for key, value in record.config.items() if key not in ("seed", "fold")}
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()
    assert record.inputs == {
        **{
            f"data.{split}/ner/{split}.txt": sha256(SHIPPED / "ner" / f"{split}.txt")
            for split in ("train", "dev", "test")
        },
        "vectors/vectors.txt": sha256(vectors),
        "elmo/weights.hdf5": sha256(bilm),
        "elmo/options.json": sha256(bilm.with_name("options.json")),
        "settings": hashlib.sha256(canonical).hexdigest(),
    }
    assert checkpoint["inputs"] == record.inputs
    assert torch.load(ended.folder / "weights.pt", weights_only=True)["inputs"] == record.inputs
    assert record.model == sha256(ended.folder / "weights.pt")


def test_files_of_other_sources_are_listed(config_of, tmp_path, monkeypatch):
    folder = save_lms(tmp_path / "lms")
    monkeypatch.setenv("ELMO_FLAIR", str(folder))
    run(config := config_of("trainer.epochs=1", features="flair"))
    expected = {f"frozen.flair/{file.name}": sha256(file) for file in folder.iterdir()}
    found = record_of(config).inputs
    assert {name: it for name, it in found.items() if name.startswith("frozen.")} == expected != {}


def test_the_code_of_a_source_is_listed(config_of, tmp_path, monkeypatch):
    code = tmp_path / "ones_for_words.py"
    code.write_text(
        "import torch\nclass Ones:\n    widths = (2,)\n    fingerprint = lambda self: 'a' * 16\n"
        "    def token_layers(self, sentences):\n        return torch.ones(1, sum(map(len, sentences)), 2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own = tmp_path / "conf" / "features" / "ones.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("defaults: [glove, _self_]\nname: ones\nfrozen: {ones: {source: {_target_: ones_for_words.Ones}}}\n")
    with with_configs_of(tmp_path / "conf"):
        run(config := config_of("trainer.epochs=1", "features.frozen.ones.context=isolated", features="ones"))
    assert record_of(config).inputs["frozen.ones/module:ones_for_words"] == sha256(code)


def test_vectors_replaced_during_training_are_no_result(config_of, vectors, monkeypatch):
    """C1: words that only the test set has were read from the new file, under the fingerprint of the old one."""
    before = vectors.read_text()
    after_training(monkeypatch, lambda: vectors.write_text(before.replace(" 0.5 ", " -0.5 ")))
    with pytest.raises(InputError, match=rf"{vectors}: expected the vectors with sha256 .* the file has changed"):
        run(config := config_of())
    record = record_of(config)
    assert (record.status, record.error.type) == ("failed", "InputError")
    assert not record.scores["test"]
    assert record.inputs["vectors/vectors.txt"] == hashlib.sha256(before.encode()).hexdigest()


def test_weights_replaced_during_training_are_no_result(config_of, bilm, monkeypatch):
    after_training(monkeypatch, lambda: save_bilm(random_bilm("tiny", 4), bilm))
    with pytest.raises(InputError, match=r"^elmo/weights\.hdf5 changed during the run: .* run with retry=failed"):
        run(config := config_of(f"features.elmo.weights={bilm.parent}", features="elmo"))
    assert record_of(config).status == "failed"


def edited(config, rate):
    """The run after an edit of a default in conf/: its name and its recipe stay."""
    resolved = {**config.resolved, "trainer": {**config.resolved["trainer"], "lr": rate}}
    return replace(config, trainer=replace(config.trainer, lr=rate), resolved=resolved)


def test_a_run_is_not_resumed_on_other_inputs(config_of, monkeypatch):
    config = config_of()
    checkpoint = stopped(monkeypatch, config)
    with pytest.raises(InputError, match=rf"{checkpoint}: .* found other content of settings\. .*Delete it and run"):
        run(edited(config, 0.5))
    assert record_of(config).status == "failed"
    ended = run(replace(config, retry="failed"))
    assert (ended.status, len(record_of(config).epochs)) == ("finished", 2)


def test_a_finished_run_with_other_settings_says_so(config_of, capsys):
    """C3: a default was edited without a new recipe, and the run "is done already"."""
    config = config_of("trainer.epochs=1")
    run(config)
    rate = config.trainer.lr
    capsys.readouterr()
    assert run(config, in_sweep=True).status == "skipped"
    assert capsys.readouterr().err == ""
    assert run(edited(config, 0.5), in_sweep=True).status == "skipped"
    (line,) = capsys.readouterr().err.splitlines()
    assert f"warning: was done with other settings than now: trainer.lr {rate} there, 0.5 here. A default was" in line


def test_a_key_that_a_record_lacks_is_no_difference(config_of, capsys):
    config = config_of("trainer.epochs=1")
    folder = run(config).folder
    record = read_record(folder / "record.json")
    trainer = {key: value for key, value in record.config["trainer"].items() if key != "eps"}
    write_record(folder / "record.json", replace(record, config={**record.config, "trainer": trainer}))
    capsys.readouterr()
    run(config, in_sweep=True)
    assert capsys.readouterr().err == ""


def test_a_run_resumed_in_another_environment_keeps_both(config_of, monkeypatch):
    """M9: threads and kernels of the first epochs."""
    config = config_of()
    stopped(monkeypatch, config)
    monkeypatch.setenv("ELMO_KERNEL", "0")
    run(replace(config, threads=2))
    torch.set_num_threads(1)
    record = record_of(config)
    assert (record.environment.threads, record.environment.kernels) == (2, "torch")
    (earlier,) = record.earlier
    assert earlier.threads == 1
    assert replace(earlier, threads=2, kernels="torch") == record.environment


def test_a_run_resumed_in_the_same_environment_has_one(config_of, monkeypatch):
    config = config_of()
    stopped(monkeypatch, config)
    run(config)
    assert record_of(config).earlier == []
