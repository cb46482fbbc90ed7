"""A run with weights and vectors by name, from a server on loopback."""

import io
import re
import zipfile
from dataclasses import replace

import pytest

from elmo import random_bilm, save_bilm
from elmo.published import PUBLISHED, VECTORS
from results.records.identity import Identity
from results.records.record import read_record
from tests.serving import Site, serving
from tests.tasks.making import run_of

SETTINGS = ["task=ner", "features=elmo", "limit=8", "trainer.epochs=1", "device=cpu", "threads=1", "store.path=null"]
NAMED = ["features.elmo.weights=allennlp/medium", "features.words.vectors=glove/6B.100d"]
VARIANT = {"limit": 8, "trainer.epochs": 1} | dict(setting.split("=") for setting in NAMED)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    save_bilm(random_bilm("tiny", 5), tmp_path / "weights.hdf5")
    glove = io.BytesIO()
    with zipfile.ZipFile(glove, "w") as archive:
        text = "".join(word + " 0.5" * 100 + "\n" for word in ("the", "."))  # of the few training words, too
        archive.writestr("glove.6B.100d.txt", text)
    entry = VECTORS["glove/6B.100d"]
    archive = replace(entry.archive, size=None, sha256=None)
    monkeypatch.setitem(VECTORS, "glove/6B.100d", replace(entry, archive=archive))
    monkeypatch.setitem(PUBLISHED, "glove/6B.100d", (archive,))
    files = {
        f"/allennlp/medium/elmo_2x2048_256_2048cnn_1xhighway_{name}": (tmp_path / name).read_bytes()
        for name in ("options.json", "weights.hdf5")
    }
    with serving(Site({**files, "/glove/glove.6B.zip": glove.getvalue()})) as site:
        monkeypatch.setenv("ELMO_MIRROR", site.url)
        yield site


def test_names_that_end_alike_are_different_runs():
    shipped, published = (
        run_of("features=elmo", f"features.elmo.weights={name}") for name in ("small", "allennlp/small")
    )
    assert shipped.variant == {}
    assert published.variant == {"features.elmo.weights": "allennlp/small"}
    assert published.resolved["features"]["elmo"]["weights"] == "allennlp/small"


@pytest.mark.integration
def test_the_record_has_the_names_and_the_hash_of_the_content(site, command, tmp_path):
    code, _, err = command(*SETTINGS, *NAMED, f"runs_dir={tmp_path / 'runs'}")
    assert code == 0, err
    record = read_record(tmp_path / "runs" / Identity("mini", "ner", "elmo", 1, VARIANT).path)
    assert record.status == "finished"
    assert record.weights["name"] == "allennlp/medium"
    assert record.weights["sha256"] == random_bilm("tiny", 5).fingerprint()
    assert record.config["features"]["words"]["vectors"] == "glove/6B.100d"
    assert len(site.asked) == 3  # each file once, although the fingerprint and the features ask for it
    assert "allennlp/medium: downloading" in err


@pytest.mark.integration
def test_the_baseline_of_a_sweep_that_names_weights_downloads_none(site, command, tmp_path):
    code, _, err = command(
        *SETTINGS, NAMED[0], "features=glove", "features.words.vectors=null", f"runs_dir={tmp_path / 'runs'}"
    )
    assert code == 0, err
    assert site.asked == []


@pytest.mark.integration
def test_without_a_network_the_run_says_what_to_place_where(command, tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ELMO_MIRROR", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "*")
    code, _, err = command(*SETTINGS, NAMED[0], f"runs_dir={tmp_path / 'runs'}")
    assert code == 1
    options = "http://127.0.0.1:1/allennlp/medium/elmo_2x2048_256_2048cnn_1xhighway_options.json"
    assert re.search(rf"^  {re.escape(options)}: .*Connection refused", err, re.MULTILINE)
    assert f"{tmp_path}/cache/allennlp/medium/elmo_2x2048_256_2048cnn_1xhighway_weights.hdf5  from  " in err
    assert "Traceback" not in err
