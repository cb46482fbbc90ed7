"""The identity of a run: paths of records, fingerprints, and differences between runs."""

import hashlib
import itertools
import os
from pathlib import Path

import pytest

from results.records.identity import Identity, differences, fingerprint
from tests.results.making import make_record

RUNS = Path("runs")


def test_plain_path_reads_like_the_command():
    assert RUNS / Identity("mini", "ner", "elmo", 1).path == Path("runs/mini/ner/elmo/seed-1/record.json")


def test_variant_path_is_sorted_and_readable():
    one = Identity("mini", "ner", "elmo", 1, {"trainer.epochs": 2, "limit": 200})
    other = Identity("mini", "ner", "elmo", 1, {"limit": 200, "trainer.epochs": 2})
    assert RUNS / one.path == Path("runs/mini/ner/elmo/limit=200,trainer.epochs=2/seed-1/record.json")
    assert RUNS / one.path == RUNS / other.path


AWKWARD = ["a/b", "a_b", "a%2Fb", "..", ".", "", "a,b=c", "a b", "ä", "A\0B", "x" * 300, "x" * 301, "../../etc", "~"]


def test_awkward_values_stay_apart_and_below_the_folder():
    identities = [Identity(value, "ner", "elmo", 1) for value in AWKWARD]
    identities += [Identity("mini", "ner", "elmo", 1, {"key": value}) for value in AWKWARD]
    identities += [
        Identity("mini", "ner", "elmo", 1, {"a": "1,b=2"}),
        Identity("mini", "ner", "elmo", 1, {"a": 1, "b": 2}),
    ]
    paths = [RUNS / identity.path for identity in identities]
    assert len(set(paths)) == len(identities)
    for path in paths:
        assert os.path.normpath(path) == str(path)
        assert path.parts[0] == "runs"
        assert len(path.parts) in (6, 7)
        assert all(len(os.fsencode(part)) <= 143 and "\0" not in part for part in path.parts)


def test_long_paths_can_be_created(tmp_path):
    variant = {f"trainer.some_option_number_{i}": "value" * 10 for i in range(20)}
    path = tmp_path / Identity("mini", "ner", "elmo", 1, variant).path
    path.parent.mkdir(parents=True)
    assert path.parent.parent.name.startswith("trainer.some_option_number_0=value")


def test_fingerprint_is_the_hash_of_canonical_json():
    expected = hashlib.sha256(b'{"a":{"c":0.001,"d":[1,null]},"b":true}').hexdigest()
    assert fingerprint({"b": True, "a": {"d": [1, None], "c": 1e-3}}) == expected


def test_fingerprint_sees_every_change():
    variants = [{"a": 1}, {"a": 1.0}, {"a": "1"}, {"a": True}, {"a": None}, {"a": [1]}, {"a": {}}, {}, {"b": 1}]
    for one, other in itertools.combinations(variants, 2):
        assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("value", [Path("x"), float("nan"), {1, 2}])
def test_fingerprint_refuses_what_is_not_plain(value):
    with pytest.raises((TypeError, ValueError)):
        fingerprint({"config": {"trainer": {"where": value}}})


def test_only_the_runs_own_seed_is_removed():
    def run(seed, bilm_seed=0, lr=0.1):
        return make_record(90.0, seed=seed, lr=lr, variant={"features.random.seed": bilm_seed})

    assert run(1).without_seed == run(2).without_seed
    assert run(1).fingerprint != run(2).fingerprint
    assert run(1).without_seed != run(1, bilm_seed=1).without_seed
    assert run(1).without_seed != run(1, lr=0.2).without_seed


def test_differences_are_keys_as_typed():
    there = {"settings": {"trainer.lr": 0.001, "trainer.same": 1, "old": "x"}, "recipes": {"task": 1}}
    here = {"settings": {"trainer.lr": 0.002, "trainer.same": 1, "new": None}, "recipes": {"task": 2}}
    assert differences(there, here) == {
        "trainer.lr": ("0.001", "0.002"),
        "old": ('"x"', "absent"),
        "new": ("absent", "null"),
        "recipes.task": ("1", "2"),
    }
    assert differences(there, there) == {}
