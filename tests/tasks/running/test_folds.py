"""A dataset with folds, from the command line to the record."""

import pytest

from elmo.common.errors import InputError
from results.records.identity import Identity
from results.records.record import read_record
from tasks.running.config import recorded_config, typed_config
from tests.tasks.making import SMALL
from tests.tasks.user import sentences

FOLDED = """\
task: ner
folds: 3
splits:
  train: ["{fold}/train.txt"]
  dev: [dev.txt]
  test: ["{fold}/test.txt"]
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A dataset with three folds, as a file in the working directory; fold 2 has the largest test set."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(FOLDED)
    (tmp_path / "dev.txt").write_text(sentences(2, 40))
    for fold in range(3):
        (tmp_path / str(fold)).mkdir()
        (tmp_path / str(fold) / "train.txt").write_text(sentences(6, 10 * fold))
        (tmp_path / str(fold) / "test.txt").write_text(sentences(1 + fold, 100 * fold))
    return tmp_path


def test_a_fold_chooses_files_and_names_the_run(mine):
    config = typed_config(["data=mine.yaml", "fold=2", "seed=5"])
    assert config.data.splits == {"train": ["2/train.txt"], "dev": ["dev.txt"], "test": ["2/test.txt"]}
    assert config.identity == Identity("mine", "ner", "glove", 5, {}, fold=2)
    again = recorded_config(config.resolved, type(config.task))  # as a saved model does
    assert (again.fold, again.data.splits) == (2, config.data.splits)


def test_a_run_without_folds_has_no_trace_of_them():
    config = typed_config(["task=ner"])
    assert (config.fold, "fold" in config.resolved) == (None, False)
    assert config.identity.hashed().keys() == {"data", "task", "features", "seed", "variant"}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["data=mine.yaml"], r"folds 0 to 2 of data=mine, found none. Add fold=0, or .* -m 'fold=range\(3\)'"),
        (["data=mine.yaml", "fold=3"], "folds 0 to 2 of data=mine, found 3"),
        (["data=mine.yaml", "fold=-1"], "folds 0 to 2 of data=mine, found -1"),
        (["data=mini", "fold=0"], "fold: expected null, as data=mini has no folds, found 0"),
        (["data=mine.yaml", "fold=0", "data.folds=1"], "expected data.folds of at least 2 and .*, found 1 folds"),
        (["data=mine.yaml", "fold=0", "data.splits.test=[test.txt]"], r"and \{fold\} in the path of a test file"),
    ],
)
def test_an_impossible_fold_is_an_error_that_says_what_to_type(mine, overrides, expected):
    with pytest.raises(InputError, match=expected):
        typed_config(["task=ner", *overrides])


@pytest.mark.integration
def test_each_fold_is_a_run_on_its_own_files(mine, command):
    """The records say which of how many folds, and `fold` is part of the fingerprint."""
    small = (*SMALL, "task.hidden=4", "trainer.epochs=1", "device=cpu")
    code, _, err = command("-m", "data=mine.yaml", "fold=0,2", "data_dir=.", "runs_dir=runs", *small)
    assert code == 0, err
    variant = typed_config(["data=mine.yaml", "fold=0", *small]).variant
    paths = [mine / "runs" / Identity("mine", "ner", "glove", 1, variant, fold).path for fold in (0, 2)]
    first, second = map(read_record, paths)
    assert (first.folds, first.config["fold"], first.data["test"]["sentences"]) == (3, 0, 1)
    assert (second.folds, second.config["fold"], second.data["test"]["sentences"]) == (3, 2, 3)
    assert first.fingerprint != second.fingerprint
