"""A representation of the user's own, outside the suite: CONTRIBUTING's example as it stands."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

import elmo
from elmo.common.progress import Reporter
from elmo.sources.source import fingerprint_of
from results.records.environment import commit_state
from results.records.identity import Identity
from results.records.record import read_record
from tasks.features.token_features import FrozenLayers, SourceConfig, StoreConfig

SMALL = ["features.words.vectors=null", "features.words.dim=8", "features.characters.filters=8", "task.hidden=8"]
LIMITED = ["task=ner", "data=mini", "device=cpu", "limit=20", "trainer.epochs=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, repository):
    """One Python file and one YAML, cut out of CONTRIBUTING."""
    page = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:python|yaml)\n(.*?)```", page[page.index("`mine/endings.py`") :], re.DOTALL)
    root = tmp_path_factory.mktemp("mine")
    (root / "configs" / "features").mkdir(parents=True)
    (root / "endings.py").write_text(blocks[0], encoding="utf-8")
    (root / "configs" / "features" / "endings.yaml").write_text(blocks[1], encoding="utf-8")
    return root


def arguments(seed):
    return ["--config-dir", "configs", *LIMITED, "features=endings", *SMALL, "runs_dir=runs", f"seed={seed}"]


def imported(folder):
    """The module, imported again as a new process would."""
    spec = importlib.util.spec_from_file_location("endings", folder / "endings.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["endings"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def alone(monkeypatch):
    """Forgets the module afterwards."""
    monkeypatch.setitem(sys.modules, "endings", None)


def test_it_can_be_checked(folder, alone):
    found = elmo.check_source(imported(folder).Endings(), imported(folder).Endings(letters=2))
    assert found.startswith("endings.Endings: 2 layers of 32 values, the same twice and in any batch; fingerprint ")


def test_layers_of_changed_code_are_not_those_of_before(folder, alone, tmp_path):
    """The author changes the code and leaves the fingerprint as it is."""
    (tmp_path / "endings.py").write_text((folder / "endings.py").read_text(encoding="utf-8"), encoding="utf-8")
    store, sentences = StoreConfig(str(tmp_path / "store")), [("a", "word"), ("one", "more", "word")]
    config = SourceConfig(source={"_target_": "endings.Endings"}, precision="float32")

    def layers():
        imported(tmp_path)
        part = FrozenLayers("frozen.endings", config, store)
        part.prepare(sentences, Reporter(quiet=True))
        return part.source.token_layers(sentences), config.fingerprint()

    before, first = layers()
    again, same = layers()
    assert (again.tolist(), same) == (before.tolist(), first)
    text = (tmp_path / "endings.py").read_text(encoding="utf-8")
    changed = text.replace("torch.stack([words, before])", "torch.zeros(2, *before.shape)")
    assert changed != text
    (tmp_path / "endings.py").write_text(changed, encoding="utf-8")
    after, second = layers()
    assert before.any()
    assert not after.any()
    assert first != second


@pytest.mark.processes
def test_it_runs_is_stored_and_its_record_says_what_it_is(folder, command, monkeypatch):
    """In a process of its own, as CONTRIBUTING starts it, and with another seed in this one."""
    monkeypatch.setenv("ELMO_STORE", str(folder / "store"))
    monkeypatch.chdir(folder)
    done = subprocess.run(
        [sys.executable, "-m", "tasks.run", *arguments(seed=1)],
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"[1-9]\d* of \d+ sentences to embed", done.stderr)
    monkeypatch.syspath_prepend(folder)
    code, _, again = command(*arguments(seed=2))
    assert code == 0, again
    assert not re.search(r"[1-9]\d* of \d+ sentences to embed", again), "the store has them"
    variant = {"limit": 20, "trainer.epochs": 1, "features.words.vectors": None, "features.words.dim": 8}
    variant |= {"features.characters.filters": 8, "task.hidden": 8}
    records = [read_record(folder / "runs" / Identity("mini", "ner", "endings", seed, variant).path) for seed in (1, 2)]
    expected = fingerprint_of(imported(folder).Endings(letters=3))
    assert expected != fingerprint_of(imported(folder).Endings(letters=2))
    for record in records:
        assert record.status == "finished"
        assert record.fingerprinted["frozen"] == {"endings": expected}
        assert record.fingerprinted["recipes"]["frozen.endings"] == 1
        assert not any("source" in key for key in record.fingerprinted["settings"])
        assert record.fingerprinted["settings"]["features.frozen.endings.dropout"] == 0.0
        assert list(record.mixes) == ["endings.input"]
    assert records[0].fingerprint != records[1].fingerprint


@pytest.mark.slow
def test_its_results_are_handed_in_as_printed(folder, repository):
    """One task and one seed of those in CONTRIBUTING; from a clean checkout, as it says."""
    if commit_state(repository / "results" / "submit.py")[1]:
        pytest.skip("runs of code with uncommitted changes are refused")
    page = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8").split("### Hand in results")[1]
    typed = re.search(r"```\ncd mine\n(.*?)```", page, re.DOTALL)[1]
    typed = typed.replace("ner,srl", "srl").replace("1,2,3", "1").replace("python ", f"{sys.executable} ")
    paths = {"PYTHONPATH": str(repository), "ELMO_STORE": str(folder / "store"), "OMP_WAIT_POLICY": "PASSIVE"}
    shell = ["bash", "-euc", typed]
    done = subprocess.run(shell, cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "endings.tar.gz: mini/srl: self-reported"
