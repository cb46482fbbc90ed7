"""The command lines of tasks.run, tasks.text and tasks.groups: options in any place, folders of configs."""

from pathlib import Path

import pytest
from hydra._internal.utils import get_args

import conf
import tasks.run
from tasks.groups import main as groups
from tasks.run import _settings_first
from tasks.running.export_text import main as export_text


@pytest.mark.parametrize(
    "words",
    [
        ["seed=1,2", "--config-dir", "mine", "limit=4", "-m"],
        ["seed=1,2", "-m", "limit=4", "--config-dir=mine"],
        ["-m", "--config-dir", "mine", "seed=1,2", "limit=4"],
    ],
)
def test_options_may_stand_anywhere(words):
    parsed = get_args(_settings_first(words))
    assert (parsed.multirun, parsed.config_dir, parsed.overrides) == (True, "mine", ["seed=1,2", "limit=4"])


def test_tasks_text_reads_the_configs_of_a_folder(place, capsys):
    arguments = ["data=mine", "--config-dir", str(place.config), f"data_dir={place.data}", "features=words"]
    assert export_text(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Niamh sleeps in Bern", "Theo sings in Cork ."]
    assert len(lines) == 12
    assert export_text(["task=ner", "data=mini", "limit=1"]) == 0, "the folder is forgotten"
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_tasks_groups_reads_the_configs_of_a_folder(place, tmp_path, capsys):
    settings = ["--config-dir", str(place.config), "data=mine", f"data_dir={place.data}", f"runs_dir={tmp_path}"]
    assert groups(settings) == 0
    assert Path(capsys.readouterr().out.strip()).is_file()


@pytest.mark.parametrize("command", [export_text, groups])
def test_a_folder_that_is_not_there_is_named(command, tmp_path, capsys):
    assert command(["--config-dir", str(tmp_path / "no"), "data=mine"]) == 1
    assert f"--config-dir {tmp_path / 'no'}: expected a folder" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(command, flag):
    code, out, _ = command(flag)
    assert code == 0
    tasks_there, experiments_there = (
        sorted(path.stem for path in Path(conf.__file__).parent.glob(f"{group}/*.yaml"))
        for group in ("task", "experiment")
    )
    expected = tasks.run.HELP.strip().replace("{tasks}", "|".join(tasks_there))
    assert out.split() == expected.replace("{experiments}", ", ".join(experiments_there)).split()
    assert max(map(len, out.splitlines())) <= 120
    for word in ("task=ner", "features=", "data=", "seed=", "limit=", "device=", "threads=", "runs_dir=", "data_dir="):
        assert word in out
