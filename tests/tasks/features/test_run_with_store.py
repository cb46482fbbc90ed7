"""Runs with the layer store, cold, warm, shared by seeds and unusable."""

import re

import pytest

from elmo import load_bilm
from results.records.record import read_record
from tests.tasks.user import arguments, outcome, path_of

pytestmark = pytest.mark.integration


def test_scores_are_equal_cold_warm_and_without_to_the_last_digit(place, command, tmp_path):
    found, precise = [], "features.elmo.precision=float32"
    for name, store in (("cold", tmp_path / "store"), ("warm", tmp_path / "store"), ("none", "null")):
        runs = tmp_path / name
        code, _, err = command(*arguments(place, runs, precise, f"store.path={store}", features="elmo_tiny"))
        assert code == 0, err
        said = err.splitlines()
        embedding = [line for line in said if "sentences to embed" in line]
        if name == "warm":
            assert all(re.search(r"  0 of \d+ sentences to embed; store: ", line) for line in embedding)
        else:
            assert re.search(r"  (\d+) of \1 sentences to embed: \d+ tokens", embedding[0])
        assert len(embedding) == 2, "train and dev, then test"
        record = read_record(path_of(runs, "elmo_tiny", **{"features.elmo.precision": "float32"}))
        found.append((outcome(record), record.fingerprinted))
    assert found[0] == found[1] == found[2]


def test_precision_is_identity_and_the_store_is_not(place, command, tmp_path):
    store = f"store.path={tmp_path / 'store'}"
    assert command(*arguments(place, tmp_path / "runs", store, features="elmo_tiny"))[0] == 0
    code, _, err = command(*arguments(place, tmp_path / "runs", "store.path=null", features="elmo_tiny"))
    assert (code, "is done already" in err) == (0, True)
    record = read_record(path_of(tmp_path / "runs", "elmo_tiny"))
    assert record.config["features"]["elmo"]["precision"] == "float16"


def test_seeds_share_it_and_the_baseline_needs_none(place, command, tmp_path):
    store = tmp_path / "store"
    assert command(*arguments(place, tmp_path / "runs", f"store.path={store}", features="words"))[0] == 0
    assert not store.exists()
    settings = f"store.path={store}", "trainer.epochs=1"
    assert command(*arguments(place, tmp_path / "runs", *settings, "seed=1", features="elmo_tiny"))[0] == 0
    code, _, err = command(*arguments(place, tmp_path / "runs", *settings, "seed=2", features="elmo_tiny"))
    assert code == 0
    assert re.search(r"(?s)seed 2 .*  0 of \d+ sentences to embed", err)


def test_one_that_cannot_be_used_leaves_no_failed_record(place, command, tmp_path):
    """It says nothing of the run, which needs no retry=failed with another store."""
    (tmp_path / "file").touch()
    settings = ("trainer.epochs=1", f"store.path={tmp_path / 'file'}")
    code, _, err = command(*arguments(place, tmp_path / "runs", *settings, features="elmo_tiny"))
    assert code == 1
    assert "cannot keep layers there" in err
    assert "Traceback" not in err
    path = path_of(tmp_path / "runs", "elmo_tiny", **{"trainer.epochs": 1})
    assert not path.exists()
    again = ("trainer.epochs=1", f"store.path={tmp_path / 'store'}")
    assert command(*arguments(place, tmp_path / "runs", *again, features="elmo_tiny"))[0] == 0
    assert read_record(path).status == "finished"


@pytest.mark.parametrize("precision", ["float64", "half"])
def test_an_unknown_precision(place, command, tmp_path, precision):
    setting = f"features.elmo.precision={precision}"
    code, _, err = command(*arguments(place, tmp_path, setting, features="elmo_tiny"))
    assert code == 1
    assert f"features.elmo.precision: expected float16 or float32 or int8, found '{precision}'" in err


def test_int8_is_in_the_fingerprint_and_has_a_shelf_of_its_own(place, command, tmp_path):
    hashes, sizes = [], []
    for precision in ("float16", "int8"):
        settings = f"features.elmo.precision={precision}", f"store.path={tmp_path / 'store'}", "trainer.epochs=1"
        assert command(*arguments(place, tmp_path / "runs", *settings, features="elmo_tiny"))[0] == 0
        variant = {"features.elmo.precision": precision} if precision == "int8" else {}
        record = read_record(path_of(tmp_path / "runs", "elmo_tiny", **variant, **{"trainer.epochs": 1}))
        hashes.append(record.fingerprinted["weights"])
        sizes = sorted((path / "rows").stat().st_size for path in (tmp_path / "store").iterdir())
    assert hashes == [load_bilm(place.bilm, precision=name).fingerprint() for name in ("float32", "int8")]
    assert len(sizes) == 2
    assert sizes[0] == sizes[1], "layers in int8 are kept in float16, too"


def test_int8_cannot_be_tuned(place, command, tmp_path):
    settings = "features.elmo.precision=int8", "features.elmo.tune=true"
    code, _, err = command(*arguments(place, tmp_path, *settings, features="elmo_tiny"))
    assert code == 1
    assert "features.elmo.precision: expected float16 or float32 with tune=true, found int8. Leave one out" in err
