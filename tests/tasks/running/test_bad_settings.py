"""Settings out of range: one line names the setting, before anything is read or trained."""

import pytest
import torch

from results.records.record import read_record
from tasks.ner import Ner
from tests.tasks.user import arguments, path_of

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("trainer.lr=inf", "trainer.lr: expected a finite number, found inf"),
        ("trainer.lr=nan", "trainer.lr: expected"),
        ("keep_weights=2", "keep_weights: expected true or false, found 2"),
        ("store.limit_gb=inf", "store.limit_gb: expected a finite number, found inf"),
        ("store.memory_gb=-1", "store.memory_gb: expected at least 0, found -1.0"),
        ("threads=99999999999999999999999", "threads: expected at most 1,024, found 99999999999999999999999"),
        ("task.hidden=1000000000", "task.hidden: expected at most 65,536, found 1000000000"),
        ("task.layers=100000", "task.layers: expected at most 100, found 100000"),
        ("features.words.dim=1000000000", "features.words.dim: expected at most 65,536, found 1000000000"),
        ("features.characters.filters=1000000000", "features.characters.filters: expected at most 65,536"),
        ("runs_dir='~nobodyhere/x'", "runs_dir=~nobodyhere/x: expected a home folder, but ~nobodyhere has none"),
        ("data_dir='~nobodyhere/x'", "data_dir=~nobodyhere/x: expected a home folder"),
        ("store.path=''", "store.path: expected a path, found ''; for the current folder, write ."),
        ("store.path='~nobodyhere/x'", "store.path=~nobodyhere/x: expected a home folder"),
        ("features.words.vectors='~nobodyhere/x'", "features.words.vectors=~nobodyhere/x: expected a home folder"),
        ("runs_dir=~/x", "Quote it twice: \"runs_dir='~/x'\""),
        ("runs_dir=${nope}", "runs_dir: Interpolation key 'nope' not found"),
        ("seed=${seed}", "seed: Recursive interpolation detected"),
        ("data_dir=${oc.env:NOPE}", "data_dir: expected the environment variable NOPE, found none. Set it: "),
        ("features.words.vectors=${oc.env:NOPE}", "features.words.vectors: expected the environment variable NOPE, "),
        ("task._target_=nope", "task._target_: expected the class of a task such as tasks.ner.Ner, found 'nope'"),
        ("task._target_=os.system", "task._target_: expected the class of a task"),
        ("task._target_=tasks.ner.NerExample", "task._target_: expected the class of a task"),
        ("task._target_=tasks.nope.Task", "task._target_: 'tasks.nope.Task' cannot be imported: No module named"),
        ("~task._target_", "task._target_: expected the class of a task"),
        ("seed=-1", "seed: expected at least 0, found -1"),
        ("seed=1,2", "seed=1,2: expected one value. A list is seed=[1,2]; a sweep over several needs -m"),
        ("elmo", "elmo: expected KEY=VALUE, found no value. --help shows the keys"),
        ("task=null", "Config group override must be a string or a list. Got NoneType. A group cannot be null"),
    ],
)
def test_one_line_says_what_is_wrong(place, command, tmp_path, monkeypatch, setting, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*arguments(place, "runs", setting))
    assert (code, out) == (1, "")
    assert err.startswith("tasks.run: ")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_does_not_fit_in_memory(place, command, tmp_path, monkeypatch):
    """Each width is in range, but together they need too much memory; here, more than any machine can address."""
    monkeypatch.setattr(Ner, "build_head", lambda *_: torch.empty(1 << 60))
    code, _, err = command(*arguments(place, tmp_path))
    assert code == 1
    last = err.splitlines()[-1]
    assert last.startswith("tasks.run: ")
    assert "you tried to allocate" in last
    assert last.endswith("Make the model smaller")
    assert "Traceback" not in err
    assert read_record(path_of(tmp_path)).status == "failed"


class TestHome:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path, monkeypatch):
        """An empty home folder and an empty current folder."""
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        return tmp_path / "home"

    def test_a_run_writes_below_it(self, place, command, home, tmp_path):
        assert command(*arguments(place, "'~/x'", "trainer.epochs=1"))[0] == 0
        assert read_record(path_of(home / "x", **{"trainer.epochs": 1})).status == "finished"
        assert list((tmp_path / "here").iterdir()) == []

    def test_a_sweep_writes_below_it(self, place, command, home, tmp_path):
        code, _, err = command("-m", *arguments(place, "'~/x'", "trainer.epochs=1,2"))
        assert code == 0, err
        for epochs in (1, 2):
            assert read_record(path_of(home / "x", **{"trainer.epochs": epochs})).status == "finished"
        assert (home / "x" / ".sweep").is_dir()
        assert list((tmp_path / "here").iterdir()) == []


class TestSweep:
    def test_bad_interpolation(self, place, command, tmp_path):
        code, _, err = command("-m", *arguments(place, "${nope}", "seed=1,2"))
        assert code == 1
        assert err == "tasks.run: hydra.sweep.dir: Interpolation key 'nope' not found\n"

    @pytest.mark.parametrize("option", [("--cfg", "job"), ("--info", "all")])
    def test_an_option_that_prints_settings(self, place, command, tmp_path, option):
        code, out, err = command("-m", *arguments(place, tmp_path, "seed=1,2"), *option)
        assert (code, out) == (1, "")
        assert "Only one of --run, --multirun, " in err
        assert err.endswith("--cfg and --info print the settings of one run: drop -m\n")
        assert err.count("\n") == 1

    def test_zero_parallel_runs(self, place, command, tmp_path):
        at_once = ("hydra/launcher=cores", "hydra.launcher.n_jobs=0")
        code, _, err = command("-m", *arguments(place, tmp_path, "seed=1,2", *at_once))
        assert code == 1
        assert err.startswith("tasks.run: hydra.launcher.n_jobs: expected a number of runs at once, or -1")
        assert "Traceback" not in err

    def test_hydra_prints_no_extra_line(self, place, command, tmp_path):
        code, _, err = command("-m", *arguments(place, tmp_path, "trainer.lr=0,-1"))
        assert code == 1
        first, *others = err.splitlines()
        assert first == "tasks.run: 2 of 2 runs lack what they need. Nothing was started:"
        wrong = "trainer.lr: expected a positive number, found "
        assert [line.partition(wrong)[2] for line in others] == ["0.0", "-1.0"]
