"""The look at the data as a run reads them: equal texts, labels that train lacks, labels that hardly occur."""

import random

import pytest

import results.table
from results.records.record import read_record
from tasks.classify import Classify, LabelledText, TableReader
from tasks.modules.biattentive import BcnSettings
from tasks.snli import EsimSettings, PairExample, PairReader, Snli
from tests.tasks.making import looks_at

CLASSIFY = Classify(BcnSettings(), TableReader())


def texts(*pairs):
    return [LabelledText(str(number), tuple(text.split()), label) for number, (text, label) in enumerate(pairs)]


def looked(train, dev, test):
    return looks_at(CLASSIFY, {"train": texts(*train), "dev": texts(*dev), "test": texts(*test)})


def numbered(count, label, first=0):
    return [(f"{label} {number}", label) for number in range(first, first + count)]


def test_equal_texts_are_counted_for_each_pair_of_splits():
    """Repeated texts count each time, words in another order are another text, and labels play no part."""
    train = [*numbered(20, "good"), *numbered(20, "bad")]
    dev = [("good 1", "good"), *numbered(19, "bad", 50)]
    test = [("good 1", "bad"), ("good 1", "good"), ("1 good", "good"), ("good 11 1", "good"), *numbered(16, "bad", 48)]
    found = looked(train, dev, test)
    assert found["train"] == ({}, [])
    assert found["dev"] == ({"also_in_train": {"examples": 1, "share": 0.05}}, [])
    assert found["test"][0] == {
        "also_in_train": {"examples": 2, "share": 0.1},
        "also_in_dev": {"examples": 16, "share": 0.8},
    }
    (warning,) = found["test"][1]
    assert warning.startswith("test: the texts of 16 of 20 examples (80%) are also in dev. ")


def test_more_than_a_tenth_in_train_is_a_warning():
    train = [*numbered(20, "good"), *numbered(20, "bad")]
    apart = [*numbered(10, "good", 50), *numbered(10, "bad", 50)]
    (warning,) = looked(train, apart, [*numbered(3, "good"), *numbered(17, "bad", 70)])["test"][1]
    assert warning == (
        "test: the texts of 3 of 20 examples (15%) are also in train. The score says little about new texts: remove "
        "these from train"
    )


def test_a_pair_is_equal_if_both_texts_are():
    task = Snli(EsimSettings(), PairReader())

    def pair(premise, hypothesis):
        return PairExample("x", tuple(premise.split()), tuple(hypothesis.split()), "neutral")

    train = [pair("a b", "c"), pair("a", "b c")]
    found = looks_at(task, {"train": train, "dev": train[:1], "test": [pair("a b", "d"), pair("a b c", ""), train[1]]})
    assert found["test"][0]["also_in_train"] == {"examples": 1, "share": 0.3333}


def test_labels():
    """Those that train lacks, with one that differs in case; those with few examples; those that dev lacks."""
    train = [*numbered(9, "praise"), *numbered(5, "blame"), *numbered(4, "doubt")]
    dev = [*numbered(9, "praise", 50), *numbered(1, "doubt", 50)]
    test = [*numbered(8, "praise", 70), *numbered(2, "Praise", 70), *numbered(1, "new", 70)]
    found = looked(train, dev, test)
    assert {split: warnings for split, (_, warnings) in found.items()} == {
        "train": ["train: labels with fewer than 5 examples: 'doubt' (4)"],
        "dev": ["dev: lacks labels of train, so no epoch is chosen by them: 'blame'"],
        "test": [
            "test: labels that train lacks, and that are never predicted: 'Praise' (2; train has 'praise'), 'new' (1)"
        ],
    }


def test_many_labels_make_a_short_line():
    train = [("a b", f"{'x' * 500}{number}") for number in range(200)]
    (warning,) = looked(train, train, train)["train"][1]
    assert len(warning) < 600
    assert warning.endswith(" and 195 more")


@pytest.mark.integration
def test_a_run_warns_and_the_table_repeats_it(place, command, tmp_path, capsys):
    """37 of 50 test texts are in train, and one label has another case; dev has too many texts of train, too."""
    draw = random.Random(3)
    words = [f"word{number}" for number in range(40)]

    def rows(count):
        return [f"{' '.join(draw.choices(words, k=6))},{draw.choice(['praise', 'blame'])}" for _ in range(count)]

    train, test = rows(60), rows(13)
    dev = [*train[:3], *rows(17)]
    test = [*train[:37], *test[:-1], f"{test[-1].split(',')[0]},Praise"]
    for split, own in {"train": train, "dev": dev, "test": test}.items():
        (tmp_path / f"{split}.csv").write_text("\n".join(["text,label", *own]) + "\n")
    small = "task.dim=4", "task.hidden=4", "task.maxout=[4]", "task.maxout_dropout=[0.1]", "trainer.epochs=1"
    setting = "task=classify", "features=words", "device=cpu", f"data_dir={tmp_path}", f"runs_dir={tmp_path / 'runs'}"
    code, _, err = command("--config-dir", place.config, *setting, *small)
    assert code == 0, err
    shared = "test: the texts of 37 of 50 examples (74%) are also in train. "
    label = "test: labels that train lacks, and that are never predicted: 'Praise' (1; train has 'praise')"
    assert -1 < err.find("warning: dev: the texts of 3 of 20 examples (15%) are also in train. ") < err.find("epoch 1")
    assert f"warning: {shared}" in err
    assert f"warning: {label}" in err
    (path,) = (tmp_path / "runs").rglob("record.json")
    assert read_record(path).data["test"]["also_in_train"] == {"examples": 37, "share": 0.74}
    results.table.main(["--runs", str(tmp_path / "runs"), "--notes"])
    out = capsys.readouterr().out
    assert out.count(shared) == out.count(label) == 1

    code, _, err = command("--config-dir", place.config, *setting, *small, "limit=40")
    assert (code, "warning: test" in err) == (0, False), "a limit is for quick tests"
