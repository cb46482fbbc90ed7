"""The command lines of tasks.run, tasks.text and tasks.groups: options in any place, folders of configs, imports."""

import subprocess
import sys
from pathlib import Path

import pytest
from hydra._internal.utils import get_args

import conf
import tasks.run
from elmo.common.errors import InputError
from results.records.typed_json import PAPER
from tasks.groups import main as groups
from tasks.running.schema import with_configs_of
from tasks.sweeps.command import _hand_to_hydra
from tasks.text import main as export_text

RUN = """
import sys
from tasks.run import main
sys.argv[1:] = ["task=ner", "data=mini", "features=glove", "limit=4", "trainer.epochs=1", "device=cpu", "runs_dir=runs"]
main()
print(*(name for name in ("torch._dynamo", "sklearn", "pandas", "datasets", "wandb", "transformers", "scipy.stats")
        if name in sys.modules))
import sklearn.metrics
print(sklearn.metrics.f1_score([1, 1], [1, 0]))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["seed=1,2", "--config-dir", "mine", "limit=4", "-m"],
        ["seed=1,2", "-m", "limit=4", "--config-dir=mine"],
        ["-m", "--config-dir", "mine", "seed=1,2", "limit=4"],
    ],
)
def test_options_may_stand_anywhere(words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tasks.run", *words, "--plan"])
    options, parsed = _hand_to_hydra(), get_args(sys.argv[1:])
    assert (options.plan, options.config_dir) == (True, Path("mine"))
    assert (parsed.multirun, parsed.overrides) == (True, ["seed=1,2", "limit=4"])


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
    tasks_there = sorted(path.stem for path in Path(conf.__file__).parent.glob("task/*.yaml"))
    experiments_there = [path.stem for path in sorted(PAPER.glob("*.toml")) if "[[rows]]" in path.read_text("utf-8")]
    expected = str(tasks.run.__doc__).strip().replace("{tasks}", "|".join(tasks_there))
    assert out.split() == expected.replace("{experiments}", ", ".join(experiments_there)).split()
    assert max(map(len, out.splitlines())) <= 120
    for word in ("task=ner", "features=", "data=", "seed=", "limit=", "device=", "threads=", "runs_dir=", "data_dir="):
        assert word in out


class TestUsersFiles:
    """A YAML of the user's own, in a folder given with --config-dir."""

    @pytest.mark.parametrize(
        ("group", "content", "expected"),
        [
            ("data", "name: mine\ntask: ner\nsplit: {train: [a], dev: [b], test: [c]}\n", "Did you mean data.splits?"),
            ("data", "name: mine\ntask: ner\nsplits: [a, b, c]\n", "data/mine"),
            ("data", "name: mine\ntask: ner\nsplits: {train: [a]}\nreader: {comment: true}\n", "data.reader.comments?"),
            ("data", "name: other\ntask: ner\nsplits: {train: [a]}\n", "data/other: no such config"),
            ("features", "name: mine\nword: {vectors: null}\n", "Did you mean features.words?"),
            ("features", "name: mine\nwords: {dim: wide}\n", "features.words.dim: In 'features/mine'"),
            ("features", "name: mine\ntrainer: {lr: 0.1}\n", "unknown key features.trainer."),
            ("task", "# @package _global_\ndefaults: [ner]\ntask: {hide: 3}\n", "unknown key task.hide. Did you mean"),
            ("features", "name: mine\nfrozen: {own: {place: [input]}}\n", "Did you mean features.frozen.own.places?"),
            ("features", "name: mine\n\twords: {}\n", '/features/mine.yaml", line 2, column 1. Correct the file'),
            ("task", "# @package _global_\ndefaults: [ner]\nhidden: 3\n", "unknown key hidden."),
        ],
    )
    def test_are_checked_like_the_command_line(self, command, tmp_path, group, content, expected):
        (tmp_path / group).mkdir()
        (tmp_path / group / "mine.yaml").write_text(content)
        code, _, err = command("--config-dir", tmp_path, f"{group}=mine", f"runs_dir={tmp_path / 'runs'}")
        assert code == 1
        assert expected in err
        assert "Traceback" not in err
        assert not (tmp_path / "runs").exists()

    @pytest.mark.parametrize("sweep", [[], ["-m"]], ids=["run", "sweep"])
    def test_may_not_have_the_name_of_a_file_of_the_suite(self, command, tmp_path, sweep):
        """Hydra prefers the suite's: the run would have ELMo, and not what the file says."""
        mine = tmp_path / "features" / "elmo.yaml"
        mine.parent.mkdir()
        mine.write_text("defaults: [glove, _self_]\nname: elmo\n")
        code, _, err = command("--config-dir", tmp_path, *sweep, "features=elmo", f"runs_dir={tmp_path / 'runs'}")
        assert code == 1
        assert f"--config-dir {tmp_path}: features/elmo.yaml: expected a name that the suite does not use" in err
        with pytest.raises(InputError, match=r"features/elmo\.yaml: expected a name"), with_configs_of(tmp_path):
            pass
        mine.write_bytes(
            (Path(conf.__file__).parent / "features" / "elmo.yaml").read_bytes()
        )  # a copy of conf/ changes nothing
        assert command("--config-dir", tmp_path, "--cfg", "job", "features=elmo")[0] == 0


@pytest.mark.integration
def test_a_run_imports_only_what_it_needs_and_leaves_packages_whole(tmp_path):
    """Importing is most of a short run's time."""
    done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    unneeded, score = done.stdout.splitlines()
    assert unneeded == ""
    assert float(score) == pytest.approx(2 / 3)
