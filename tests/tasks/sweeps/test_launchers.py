"""Launchers of other packages: presets, messages when one is missing or fails, and the lines of their runs."""

import re
import tomllib

import hydra_plugins.hydra_submitit_launcher.config  # noqa: F401 (registers the launcher that a test takes away)
import pytest
import submitit
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

from tasks.sweeps.launchers import LAUNCHER_EXTRAS, explain_launcher, explain_stop
from tasks.sweeps.sweeper import where_to_look
from tests.tasks.making import NO_COLUMN, SMALL, WORD_COLUMN

TINY = ["device=cpu", "limit=6", "trainer.epochs=1", "features=glove", *SMALL]


def launcher_of(*overrides):
    with initialize_config_module("conf", version_base="1.3"):
        return compose("config", list(overrides), return_hydra_config=True).hydra.launcher


class TestPresets:
    def test_slurm_requests_what_a_run_needs(self):
        settings = launcher_of("hydra/launcher=slurm", "threads=4")
        assert settings._target_.endswith(".SlurmLauncher")
        assert (settings.cpus_per_task, settings.nodes, settings.tasks_per_node) == (4, 1, 1)
        assert launcher_of("hydra/launcher=slurm", "hydra.launcher.gpus_per_node=1").gpus_per_node == 1

    def test_ray_gives_a_run_its_threads(self):
        settings = launcher_of("hydra/launcher=ray", "threads=4", "hydra.launcher.ray.remote.num_gpus=0.5")
        assert settings._target_.endswith(".RayLauncher")
        assert (settings.ray.remote.num_cpus, settings.ray.remote.num_gpus) == (4, 0.5)
        assert settings.ray.init.include_dashboard is False

    def test_every_extra_exists_in_the_package(self, repository):
        package = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
        assert set(LAUNCHER_EXTRAS.values()) <= package["optional-dependencies"].keys()


class TestMissing:
    def test_slurm_without_submitit(self, command, tmp_path, monkeypatch):
        monkeypatch.delitem(ConfigStore.instance().repo["hydra"]["launcher"], "submitit_slurm.yaml")
        code, _, err = command("-m", "hydra/launcher=slurm", f"runs_dir={tmp_path}")
        assert code == 1
        assert "the launcher submitit_slurm is not installed: in the checkout, pip install -e '.[slurm]'" in err
        assert "Traceback" not in err

    def test_ray(self, command, repository, tmp_path, monkeypatch):
        target = launcher_of("hydra/launcher=ray")._target_
        monkeypatch.delitem(Plugins.instance().class_name_to_class, target, raising=False)
        code, _, err = command("-m", "hydra/launcher=ray", "seed=1,2", f"runs_dir={tmp_path}")
        assert code == 1
        assert (
            "the launcher ray is not installed: in the checkout, pip install -c constraints-ray.txt -e '.[ray]'" in err
        )
        assert (repository / "constraints-ray.txt").is_file()
        assert "Traceback" not in err

    def test_a_machine_without_slurm(self, command, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        code, _, err = command("-m", "hydra/launcher=slurm", "seed=1,2", f"runs_dir={tmp_path}", *TINY)
        assert code == 1
        assert "slurm: there is no srun on this machine" in err
        assert "hydra/launcher=cores" in err
        assert "Traceback" not in err


def test_errors_of_a_cluster_say_how_to_continue():
    lost = submitit.core.utils.UncompletedJobError("Job 7_1 (task: 0) with path /somewhere has not produced any output")
    assert "Job 7_1 (task: 0)" in explain_launcher(lost)
    assert "the same command continues with the others" in explain_launcher(lost)
    assert explain_launcher(ConnectionError("Could not find any running Ray instance")).startswith("ray: ")
    assert explain_launcher(ConnectionError("refused")) is None
    assert explain_launcher(RuntimeError("anything else")) is None


def test_ctrl_c_ends_the_runs_of_this_machine_but_not_those_in_a_queue():
    assert explain_stop("") == explain_stop("a.JoblibLauncher") == "stopped; the same command continues from here"
    assert "scancel" in explain_stop(launcher_of("hydra/launcher=slurm")._target_)


def test_the_sweep_says_where_runs_on_a_cluster_print(tmp_path, monkeypatch):
    with initialize_config_module("conf", version_base="1.3"):
        settings = [f"runs_dir={tmp_path}", f"hydra.sweep.dir={tmp_path}/.sweep"]
        slurm = compose("config", ["hydra/launcher=slurm", *settings], return_hydra_config=True)
        ray = compose("config", ["hydra/launcher=ray", *settings], return_hydra_config=True)
    follow = f"To follow them: python -m results.status --watch --runs {tmp_path}"
    assert where_to_look(slurm) == f"Logs: {tmp_path}/.sweep/.submitit. {follow}"
    monkeypatch.setenv("RAY_TMPDIR", "/scratch")
    assert where_to_look(ray) == f"Logs: /scratch/ray/session_latest/logs on each machine. {follow}"


@pytest.mark.processes
def test_the_sweep_prints_a_line_for_each_run_that_writes_to_a_log(command, tmp_path):
    """With submitit on this machine, which writes the output of a run to a log as SLURM does."""
    settings = ["hydra/launcher=submitit_local", f"{WORD_COLUMN}=0,{NO_COLUMN}", f"runs_dir={tmp_path}", *TINY]
    code, _, err = command("-m", *settings)
    assert code == 1
    lines = err.splitlines()
    assert lines[0].startswith(
        f"sweep  2 runs are handed to submitit_local. Logs: {tmp_path}/.sweep/.submitit. To follow"
    )
    assert len(list((tmp_path / ".sweep" / ".submitit").glob("*/*_log.out"))) == 2
    assert len([line for line in lines if re.search(r"^mini ner glove seed 1 .*f1: dev .*, test .* s$", line)]) == 1
    assert len([line for line in lines if re.search(rf"word_column={NO_COLUMN} .*failed: InputError: ", line)]) == 1
    assert lines[-1].startswith("sweep  1 runs finished, 1 failed; retry=failed runs those again. The scores: ")
    assert len(lines) == 4
