"""Sweeps: parallel runs, one line for each run, failures and Ctrl-C."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import hydra_plugins.hydra_joblib_launcher.config  # noqa: F401 (registers the launcher that a test takes away)
import pytest
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from elmo.common.config_errors import CONFIG_ERRORS
from results.records.progress import read_manifests
from results.records.record import RunError, read_record
from results.status import main as status
from tasks.predict import main as predict
from tasks.running.config import run_config
from tasks.running.experiment import Ended
from tasks.running.schema import compose_config
from tasks.sweeps import runs as sweep_runs
from tasks.sweeps import sweeper
from tests.elmo.common.waiting import group_is_alive, wait_for
from tests.results.making import make_record, save
from tests.tasks.making import NO_COLUMN, SMALL, WORD_COLUMN, arm_of
from tests.tasks.user import outcomes

TINY = ["device=cpu", "limit=6", "trainer.epochs=1", "task.hidden=8", *SMALL]
TINY += ["features.elmo.untrained=true", "features.elmo.weights=tiny"]
SIDE_BY_SIDE = ["hydra/launcher=cores", "hydra.launcher.n_jobs=2"]
GRID = ["features=glove,elmo", f"{WORD_COLUMN}=0,{NO_COLUMN}"]  # four runs, two of which fail
PATIENCE = 300  # seconds for what takes a few
LINE = re.compile(
    r"^mini ner (glove|elmo) seed (\d) .*f1: dev [\d.]+, test [\d.]+  \d+ s  (\d) of (\d) done", re.MULTILINE
)


def manifest_of(*overrides, runs=None):
    """The list of runs of a command, or of the given runs."""
    with initialize_config_module("conf", version_base="1.3"):
        config = compose("config", list(overrides), return_hydra_config=True)
        configs = sweep_runs.composed(config, sweep_runs.runs_in(config) if runs is None else runs)
        return sweep_runs.manifest_of(config, configs)


class TestManifest:
    def test_the_experiments_name_and_runs(self):
        manifest = manifest_of("experiment=mini", "task=ner")
        assert manifest.name == "mini"
        names = [(run.data, run.task, run.features, run.seed) for run in manifest.runs]
        assert names == [("mini", "ner", arm, seed) for seed in (1, 2, 3) for arm in ("glove", "elmo", "elmo_random")]
        assert all(run.variant == {} for run in manifest.runs)
        assert manifest.refused == []

    def test_the_same_runs_are_the_same_sweep(self):
        runs = [["seed=1", "limit=5"], ["seed=2", "limit=5"]]
        first = manifest_of(runs=runs)
        assert first.name.startswith("sweep-")
        assert [run.title for run in first.runs] == [f"mini ner glove seed {seed} limit=5" for seed in (1, 2)]
        assert manifest_of(runs=[[*run, "retry=failed", "device=cpu", "data=mini"] for run in runs]).name == first.name
        assert manifest_of(runs=[[*run, "features=elmo"] for run in runs]).name != first.name

    def test_a_run_that_can_never_start_is_named_with_its_reason(self):
        manifest = manifest_of(runs=[["data=wnut17", "task=ner"], ["data=wnut17", "task=squad"]])
        assert [run.title for run in manifest.runs] == ["wnut17 ner glove seed 1"]
        (refused,) = manifest.refused
        assert refused.startswith("data=wnut17 task=squad: data=wnut17 is for task=ner")

    @pytest.mark.parametrize("word", ["task=nerd", "seed=x"])
    def test_no_list_of_runs_if_one_cannot_be_composed(self, word):
        with pytest.raises(CONFIG_ERRORS):
            manifest_of(runs=[["task=ner"], [word]])

    def test_settings_that_depend_on_the_seed(self):
        manifest = manifest_of(
            runs=[["features=elmo_shuffled", "features.elmo.draw=${seed}", f"seed={n}"] for n in (1, 2)]
        )
        assert [(run.seed, run.variant) for run in manifest.runs] == [(n, {"features.elmo.draw": n}) for n in (1, 2)]


class TestProgress:
    def test_two_workers(self):
        """Ten runs of 20 s take two workers 100 s; after 40 s four have ended, and 60 s are left."""
        assert sweeper.progress(10, left=6, ended=4, elapsed=40) == "4 of 10 done, about 60 s left"

    def test_skipped_runs_are_done_but_take_no_time(self):
        assert sweeper.progress(13, left=1, ended=2, elapsed=40) == "12 of 13 done, about 20 s left"

    def test_no_time_is_left_after_the_last_run(self):
        assert sweeper.progress(3, left=0, ended=2, elapsed=5) == "3 of 3 done"

    def test_the_last_line_counts_skipped_and_failed_runs(self):
        finished, skipped = Ended("finished", "f1: 1", "a"), Ended("skipped")
        failed, failed_before = Ended("failed", "ValueError: 1"), Ended("failed before", "ValueError: 2")
        assert sweeper.summary([finished] * 3, False) == ""
        assert sweeper.summary([skipped] * 3, False) == "0 runs finished, 3 were done already"
        assert sweeper.summary([finished, Ended("elsewhere")], False) == "1 runs finished, 1 are running elsewhere"
        assert sweeper.summary([failed], True) == "0 runs finished, 1 failed; retry=failed runs those again"
        assert sweeper.summary([failed], False) == "0 runs finished, 1 failed; the same command runs those again"
        expected = "1 runs finished, 2 failed, 1 had failed before; retry=failed runs those again"
        assert sweeper.summary([failed, finished, failed_before, failed], False) == expected

    @pytest.mark.parametrize(
        ("typed", "command"),
        [
            (["experiment=mini", "seed=1"], "--experiment mini"),
            (["experiment=mini", "trainer.epochs=1", "device=cpu"], "--experiment mini trainer.epochs=1"),
            (["experiment=mini", "trainer.epochs=1,2", "limit=5"], "--wide --include-limited"),
            (["experiment=figure1", "task=ner", "train_fraction=0.1"], "--experiment figure1"),
            (["task=ner", "limit=20"], "--wide --include-limited"),
            (["task=ner", "device=cpu"], ""),
            (["task=ner", "keep_weights=true", "store.limit_gb=1", "logger=wandb", "hydra.launcher.n_jobs=4"], ""),
            (["task=ner", "runs_dir=my runs"], "--runs 'my runs'"),
        ],
    )
    def test_the_last_line_names_the_command_that_shows_the_scores(self, typed, command):
        name = typed[0].removeprefix("experiment=")
        chosen = {"experiment": name if name != typed[0] else None}
        runs_dir = next((word.partition("=")[2] for word in typed if word.startswith("runs_dir")), "results/runs")
        config = OmegaConf.create({"runs_dir": runs_dir, "hydra": {"sweeper": chosen, "overrides": {"task": typed}}})
        assert sweeper.next_command(config) == f"The scores: python -m results.table {command}".rstrip()

    @pytest.mark.parametrize(
        ("launcher", "left", "line"),
        [
            ({}, 36, "36 runs, 1 at a time; python -m results.status --watch"),
            ({"n_jobs": 2}, 36, "36 runs, 2 at a time; python -m results.status --watch"),
            ({"n_jobs": 8}, 3, "36 runs, 33 of them done before, 3 at a time; python -m results.status --watch"),
        ],
    )
    def test_the_first_line_of_a_sweep(self, launcher, left, line):
        config = OmegaConf.create({"runs_dir": "results/runs", "hydra": {"launcher": launcher}})
        assert sweeper.first_words(config, 36, left) == line

    def test_a_failed_run_gets_one_line_with_its_reason(self):
        failed, failed_before = Ended("failed", "ValueError: 2\nof two"), Ended("failed before", "ValueError")
        assert sweeper.end_line("seed=1", failed) == "seed=1  failed: ValueError: 2 of two"
        assert sweeper.end_line("seed=1", failed_before) == "seed=1  failed before: ValueError"
        assert sweeper.end_line("seed=1", Ended("skipped")) == ""


def runs_with(runs_dir, *overrides):
    """Three runs with seeds 1 to 3, as a sweep knows them."""
    seeds = [f"seed={seed}" for seed in (1, 2, 3)]
    return {seed: run_config(compose_config([f"runs_dir={runs_dir}", *overrides, seed])) for seed in seeds}


class TestRecordsToWrite:
    def test_runs_without_a_record_are_to_do_until_they_write_one(self, tmp_path):
        runs = runs_with(tmp_path)
        first, second, third = (run.path for run in runs.values())
        first.parent.mkdir(parents=True)
        first.write_text("{}")
        sweep = sweeper.SweepJob(None)
        sweep.to_do = sweeper.records_to_write(runs.values())
        assert list(sweep.to_do) == [second, third]
        assert sweep.runs_ended() == 0
        second.parent.mkdir(parents=True)
        second.write_text("{}")
        assert sweep.runs_ended() == 1

    def test_failed_runs_are_to_do_only_with_retry(self, tmp_path):
        path = save(tmp_path, make_record(data="mini", error=RunError("ValueError", "too small")))
        runs = runs_with(tmp_path, "retry=failed")
        sweep = sweeper.SweepJob(None)
        sweep.to_do = sweeper.records_to_write(runs.values())
        assert len(sweep.to_do) == 3
        assert sweep.runs_ended() == 0, "the failed record was there before"
        os.utime(path, (0, 0))  # as if written again
        assert sweep.runs_ended() == 1
        assert path not in sweeper.records_to_write(runs_with(tmp_path).values())


def start(runs, *more):
    return subprocess.Popen(
        [sys.executable, "-m", "tasks.run", "-m", f"runs_dir={runs}", *TINY, *more],
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that a signal to the group reaches these processes and no others
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored where tests run behind a shell's &
    )


@pytest.fixture(scope="module")
def parallel(tmp_path_factory):
    """A sweep of two runs at a time: its folder, exit status, output and errors."""
    runs = tmp_path_factory.mktemp("parallel")
    process = start(runs, *SIDE_BY_SIDE, *GRID)
    out, err = process.communicate(timeout=PATIENCE)
    return SimpleNamespace(runs=runs, code=process.returncode, out=out, err=err)


@pytest.mark.integration
def test_a_sweep_names_its_models_as_tasks_predict_reads_them(command, tmp_path, capsys):
    """As in CONTRIBUTING, "Text of your own": a small head, whose settings are in the name of a folder."""
    rows = ["id,review,stars", *(f'{n},"It is {"fine" if n % 2 else "bad"},\nagain",{n % 2}' for n in range(8))]
    (tmp_path / "all.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "reviews.yaml").write_text(
        "task: classify\nsplits: {train: [all.csv], dev: [all.csv], test: [all.csv]}\n"
        "reader: {text: review, label: stars}\n"
    )
    small = ["task.hidden=4", "task.dim=4", "task.maxout=[4]", "task.maxout_dropout=[0.2]", "trainer.epochs=1"]
    asked = ["-m", "task=classify", f"data={tmp_path}/reviews.yaml", *arm_of("classify", "words"), *small]
    asked += ["device=cpu", f"data_dir={tmp_path}", f"runs_dir={tmp_path}/runs", "keep_weights=true"]
    for _ in ("trained", "done already"):
        code, _, err = command(*asked)
        assert code == 0, err
        _, _, named = err.partition("The models: python -m tasks.predict RUN INPUT, where RUN is\n")
        (folder,) = shlex.split(named)
        assert folder == str(next((tmp_path / "runs").rglob("weights.pt")).parent)
    capsys.readouterr()
    assert predict([folder, str(tmp_path / "all.csv"), "--output", "json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["id"] for one in said] == list("01234567")
    assert {frozenset(one["probabilities"]) for one in said} == {frozenset("01")}
    _, _, err = command(*asked, "seed=1,2")
    _, _, named = err.partition("where RUN is\n")
    assert [Path(name.strip("'")).name for name in named.split()] == ["seed-1", "seed-2"]
    assert all((Path(name.strip("'")) / "weights.pt").exists() for name in named.split())


@pytest.mark.integration
class TestSideBySide:
    def test_one_line_for_each_run_that_finished(self, parallel):
        assert parallel.out == ""
        lines = LINE.findall(parallel.err)
        assert {(arm, seed) for arm, seed, _, _ in lines} == {("glove", "1"), ("elmo", "1")}
        counts = [int(done) for _, _, done, _ in lines]
        assert all(place <= done <= 4 for place, done in enumerate(sorted(counts), 1)), "records that are there by then"
        assert {total for _, _, _, total in lines} == {"4"}
        assert len(parallel.err.splitlines()) == 1 + 2 + 2 * 2 + 1, "two for each failed run, the first and the last"
        follow = f"python -m results.status --watch --runs {parallel.runs}"
        assert parallel.err.splitlines()[0] == f"sweep  4 runs, 2 at a time; {follow}"

    def test_a_failed_run_does_not_stop_the_others(self, parallel):
        assert parallel.code == 1
        statuses = sorted(record[0] for record in outcomes(parallel.runs).values())
        assert statuses == ["failed", "failed", "finished", "finished"]
        for arm in ("glove", "elmo"):
            assert len(re.findall(rf"^mini ner {arm} .* failed, see .*record\.json$", parallel.err, re.MULTILINE)) == 1
        told = parallel.err.count(f"expected {NO_COLUMN + 1} columns") + parallel.err.count("the same error\n")
        assert told == 2, "why they failed; a process that has said so does not repeat it"
        assert "sweep  2 runs finished, 2 failed; retry=failed runs those again" in parallel.err
        left = sorted(path.name for path in (parallel.runs / ".sweep").iterdir())
        assert len(left) == 1, "the list of its runs"

    def test_its_list_of_runs_names_the_records(self, parallel, capsys):
        (manifest,), problems = read_manifests(parallel.runs)
        assert problems == []
        assert {identity.path for identity in manifest.runs} == set(outcomes(parallel.runs))
        status(["--runs", str(parallel.runs)])
        assert capsys.readouterr().out.startswith(f"{manifest.name}: 2 of 4 done, 2 failed; ")

    def test_records_equal_those_of_sequential_runs(self, parallel, command, tmp_path):
        def sweep(*settings):
            code, _, err = command("-m", f"runs_dir={tmp_path}", *TINY, *settings)
            return code, err

        code, err = sweep(*GRID)
        assert code == 1
        assert [(done, total) for _, _, done, total in LINE.findall(err)] == [("1", "4"), ("3", "4")]
        assert outcomes(parallel.runs) == outcomes(tmp_path)
        assert len(outcomes(tmp_path)) == 4

        right = f"{WORD_COLUMN}=0"
        code, err = sweep("features=glove", "seed=1,2", right)
        assert code == 0
        assert [(seed, done, total) for _, seed, done, total in LINE.findall(err)] == [("2", "2", "2")]
        assert err.strip().splitlines()[-1].startswith("sweep  1 runs finished, 1 were done already. The scores: ")

        code, err = sweep("features=glove", "seed=2,1", right)
        assert (code, err.strip().partition(". ")[0]) == (0, "sweep  all 2 runs were done already")

        left = next(path for path in tmp_path.rglob("elmo/**/record.json") if read_record(path).status == "finished")
        left = left.with_name("checkpoint.pt")
        left.touch()  # killed when its record was written
        code, err = sweep("features=glove,elmo", right)
        assert (code, err.strip().partition(". ")[0]) == (0, "sweep  0 runs finished, 2 were done already")
        assert not left.exists()

    @pytest.mark.processes
    def test_ctrl_c_stops_all_and_the_same_command_continues(self, command, tmp_path):
        settings = ["limit=40", "trainer.epochs=30", "trainer.patience=null", "features=glove,elmo"]
        process = start(tmp_path, *SIDE_BY_SIDE, *settings)
        wait_for(lambda: process.poll() is not None or any(tmp_path.rglob("checkpoint.pt")))
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        _, *lines = err.splitlines()
        # If Ctrl-C comes while joblib deletes a semaphore, its tracker deletes it and warns: two lines with its name.
        lines = [line for line in lines if "resource_tracker" not in line and not line.startswith("  warnings.warn(")]
        assert lines == ["tasks.run: stopped; the same command continues from here"]
        assert outcomes(tmp_path) == {}
        wait_for(lambda: not group_is_alive(process.pid))  # all processes of the sweep have ended

        code, _, err = command("-m", f"runs_dir={tmp_path}", *TINY, *settings)
        assert code == 0
        assert len(LINE.findall(err)) == 2
        assert [len(curve) for *_, curve, _, _, _ in outcomes(tmp_path).values()] == [30, 30]
        assert list(tmp_path.rglob("checkpoint.pt")) == []


def test_a_missing_launcher_names_the_extra_that_brings_it(command, tmp_path, monkeypatch):
    monkeypatch.delitem(ConfigStore.instance().repo["hydra"]["launcher"], "joblib.yaml")
    for choice in ("experiment=mini", "hydra/launcher=cores", "hydra/launcher=joblib"):
        code, _, err = command("-m", choice, f"runs_dir={tmp_path}")
        assert code == 1
        assert "the launcher joblib is not installed: in the checkout, pip install -e '.[joblib]'" in err
        assert "hydra/launcher=basic" in err
        assert "Traceback" not in err
