"""Trials: runs that are judged on dev and leave the test set alone."""

import pytest

from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME, RECORD_NAME
from results.records.record import read_record
from results.table import main as table
from tasks.ner.task import Ner
from tasks.run import run
from tasks.running.config import typed_config
from tests.tasks.making import WORDS

pytestmark = pytest.mark.integration
QUICK = ["task=ner", "data=mini", "limit=20", "trainer.epochs=2", "store.path=null", *WORDS]


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run, and a trial of the same settings whose test set cannot be read."""
    place = f"runs_dir={tmp_path_factory.mktemp('runs')}"
    read = Ner.read

    def without_test(self, path, split):
        assert split != "test"
        return read(self, path, split)

    whole = run(typed_config([*QUICK, place]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ner, "read", without_test)
        return whole, run(typed_config([*QUICK, place, "trial=true"]))


def test_it_has_the_dev_score_of_a_run_and_no_other(ended):
    whole, trial = ended
    record = read_record(trial.folder / RECORD_NAME)
    assert trial.scores == {"dev": whole.scores["dev"]}
    assert record.score == whole.scores["dev"]["f1"]
    assert trial.folder != whole.folder


def test_it_keeps_nothing_of_test_examples(ended):
    whole, trial = ended
    for name in (EXAMPLES_NAME, PREDICTIONS_NAME):
        assert (whole.folder / name).exists()
        assert not (trial.folder / name).exists()


def test_a_table_of_test_scores_leaves_it_out(ended, capsys):
    whole, trial = ended
    table(["--runs", str(trial.folder.parents[2]), "--include-limited"])
    out = capsys.readouterr().out
    assert f"{whole.scores['test']['f1']:.2f} (1)" in out
    assert f"{trial.scores['dev']['f1']:.2f}" not in out
    assert "trials left out: 1" in out
