"""Runs of one name that are not alike: no mean of different settings, no gain over other word vectors."""

from dataclasses import replace

import pytest

from results.names import load_names
from results.records.record import read_record, write_record
from tests.results.making import CLEAN, first_right, make_record, run_table, save

EXPERIMENT = """
title = "Own"
seeds = [1, 2]
compare = ["glove", "elmo"]
[arms]
glove = ["features=glove"]
elmo = ["features=elmo"]
elmo_random = ["features=elmo_random"]
[[rows]]
overrides = ["task=ner", "data=paper"]
"""


@pytest.fixture(params=["table", "experiment"])
def table(request, tmp_path, capsys):
    """The status with --check, and what is printed, of runs in tmp_path / "runs", in each kind of table."""
    (tmp_path / "own.toml").write_text(EXPERIMENT)
    chosen = ["--experiment", tmp_path / "own.toml"] if request.param == "experiment" else ["--wide"]

    def show():
        status, out, err = run_table(capsys, "--runs", tmp_path / "runs", "--check", *chosen)
        return status, out + err

    return show


@pytest.fixture
def change(tmp_path):
    """Changes a run of the fixture `pair` as code would that runs later: not its name or its fingerprint."""

    def changed(features, seed, **changes):
        path = tmp_path / "runs" / make_record(features=features, seed=seed).identity.path
        write_record(path, replace(read_record(path), **changes))

    return changed


def config(features, lr=0.001, **trainer):
    elmo = {"weights": "small", "l2": 0.1} if features != "glove" else None
    parts = {"name": features, "words": {"vectors": "glove-6b-50d", "dim": 50}, "elmo": elmo}
    return {"task": {"_target_": "tasks.ner.Ner"}, "features": parts, "trainer": {"lr": lr, **trainer}}


@pytest.fixture(autouse=True)
def pair(tmp_path):
    """Two seeds of three arms: 40 and 42, 50 and 52, 44 and 46."""
    for features, score in (("glove", 40), ("elmo", 50), ("elmo_random", 44)):
        for seed in (1, 2):
            record = make_record(score + 2.0 * (seed - 1), features=features, seed=seed)
            hashed = {**record.fingerprinted, "vectors": "aa" * 32}
            del hashed["settings"]  # only runs with a user's YAML have these
            save(tmp_path / "runs", replace(record, fingerprinted=hashed, config=config(features)))


def test_runs_that_are_alike(table):
    status, text = table()
    assert status == 0
    assert "41.00±1.41 (2)" in text
    assert "+10.00" in text


class TestSettings:
    """A default that was edited in a YAML of the suite changes no fingerprint."""

    def test_seeds_with_other_settings_are_not_averaged(self, table, change):
        change("glove", 2, config=config("glove", lr=0.01))
        status, text = table()
        assert status == 1
        assert "NER, CoNLL-2003, GloVe 50-d: runs that differ in trainer.lr are not averaged" in text
        assert "41.00" not in text

    @pytest.mark.parametrize(
        ("there", "here"),
        [
            ({}, {"eps": None, "batches": "length"}),  # added later, with these defaults
            ({"eps": None}, {"grad_value": None}),
        ],
    )
    def test_a_key_that_a_record_lacks_counts_as_its_first_default(self, table, change, there, here):
        change("glove", 1, config=config("glove", **there))
        change("glove", 2, config=config("glove", **here))
        status, text = table()
        assert status == 0
        assert "41.00±1.41 (2)" in text

    def test_another_value_of_such_a_key_is_a_difference(self, table, change):
        change("glove", 2, config=config("glove", eps=1e-6))
        assert "runs that differ in trainer.eps are not averaged" in table()[1]

    def test_an_unknown_key_of_one_seed_is_a_difference(self, table, change):
        change("glove", 2, config=config("glove", warmup=5))
        assert "runs that differ in trainer.warmup are not averaged" in table()[1]

    def test_what_cannot_change_a_score_is_no_difference(self, table, change):
        other = config("glove")
        other["features"] |= {"title": "Plain", "words": {**other["features"]["words"], "warning": "old"}}
        other |= {"seed": 2, "fold": 3, "data": {"splits": {"train": ["elsewhere"]}}}
        other["task"] = {"_target_": "tasks.tagging.Ner"}  # moved within the suite
        change("glove", 2, config=other)
        assert "41.00±1.41 (2)" in table()[1]

    def test_another_class_of_a_user_is_a_difference(self, table, change):
        for seed, target in ((1, "mine.Ner"), (2, "yours.Ner")):
            change("glove", seed, config=config("glove") | {"task": {"_target_": target}})
        assert "runs that differ in task._target_ are not averaged" in table()[1]


class TestInputs:
    def test_seeds_that_read_other_files_are_not_averaged(self, table, change):
        for seed in (1, 2):
            inputs = {"settings": f"{seed}" * 64, "data.train/a": f"{seed}" * 64, "elmo/x.safetensors": f"{seed}" * 64}
            change("elmo", seed, inputs=inputs)
        status, text = table()
        assert status == 1
        assert "+ ELMo: runs that differ in inputs.elmo/x.safetensors are not averaged" in text

    def test_a_record_of_before_has_no_list_to_differ_in(self, table, change):
        change("elmo", 2, inputs={"settings": "1" * 64, "elmo/x.safetensors": "2" * 64})
        assert "51.00±1.41 (2)" in table()[1]

    def test_threads_and_kernels_are_noted_at_most(self, table, change):
        change("elmo", 2, environment=replace(CLEAN, threads=8, kernels="torch", device="H200"))
        assert table()[0] == 0
        change("elmo", 2, environment=CLEAN, earlier=[replace(CLEAN, threads=8, kernels="torch")])
        status, text = table()
        assert status == 0
        assert "51.00±1.41 (2)" in text
        assert "+ ELMo: seed 2 was continued in another environment (kernels, threads)" in text


class TestVectors:
    """Word vectors of one name and another content, in arms with other parts: a file that was replaced in between."""

    @pytest.mark.parametrize("arm", ["elmo", "elmo_random"])
    def test_there_is_no_gain_but_a_line_that_says_why(self, table, change, arm):
        for seed in (1, 2):
            record = make_record()
            change(arm, seed, fingerprinted={**record.fingerprinted, "vectors": "bb" * 32, "settings": {}})
        status, text = table()
        assert status == 1
        title = {"elmo": "+ ELMo", "elmo_random": "untrained biLM (control)"}[arm]
        reason = "their word vectors glove-6b-50d have different content: aaaaaaaaaaaa and bbbbbbbbbbbb"
        assert text.count(f": GloVe and {title}: no gain, because {reason}") == 2, "below, and by --check"
        assert ("+10.00" in text) == (arm != "elmo")

    def test_packaged_vectors_are_compared_by_what_was_read(self, table, change):
        for arm, content in (("glove", "c"), ("elmo", "d")):
            for seed in (1, 2):
                change(arm, seed, inputs={"vectors/glove-6b-50d": content * 64, "data.train/a": content * 64})
        text = table()[1]
        assert "no gain, because their word vectors glove-6b-50d have different content: cccccccccccc and" in text

    def test_listed_trainings_of_one_name_are_comparable(self, table, change):
        first, second = list(load_names().trainings)[:2]
        for arm, content in (("glove", first), ("elmo", second)):
            for seed in (1, 2):
                hashed = {**make_record().fingerprinted, "vectors": content, "settings": {}}
                change(arm, seed, fingerprinted=hashed, inputs={"vectors/word2vec": content})
        assert "+10.00" in table()[1]


def test_why_there_is_no_interval_is_said(tmp_path, capsys):
    """All examples are wrong in one arm and right in the other."""
    for features, right in (("glove", 0), ("elmo", 100)):
        save(tmp_path / "equal", make_record(float(right), metric="accuracy", features=features), first_right(right))
    out = run_table(capsys, "--runs", tmp_path / "equal")[1]
    assert "no interval (NER, CoNLL-2003): examples.json.gz is missing, " in out
    assert "or all scores are equal" in out
