"""Commands that fill empty cells find the configs and data that the user's sweeps were typed with."""

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from results.records.identity import Identity
from results.records.sweep_manifest import Manifest, write_manifest
from tests.results.making import make_record, run_table, save


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    for day, words in enumerate(
        [
            "data=paper data_dir=old seed=1",
            "--config-dir 'my configs' data=paper data_dir=corpora seed=1",
            "seed=1",
            "'data_dir=edited by hand",
        ]
    ):
        identity = Identity("paper", "ner", "glove", day + 1, {})
        command = f"python -m tasks.run -m {words}"
        write_manifest(folder, Manifest(f"sweep-{day}", command, [identity], started_at=f"2026-11-0{day + 1}"))
    return folder


def test_in_the_table_of_all_runs(runs, capsys):
    save(runs, make_record(90.0))
    save(runs, make_record(60.0, data="mini"))
    _, out, _ = run_table(capsys, "--runs", runs, "--wide")
    commands = [line.split(" --config-dir ")[1] for line in out.splitlines() if "features=elmo" in line]
    assert commands == [f"'my configs' data_dir=corpora runs_dir={runs}", f"'my configs' runs_dir={runs}"]


def test_a_dataset_of_the_users_is_named_by_its_file(tmp_path, capsys):
    command = "python -m tasks.run -m task=ner data=paper,mine/letters.yaml features=glove"
    write_manifest(tmp_path, Manifest("sweep-1", command, [Identity("letters", "ner", "glove", 1, {})]))
    for data in ("letters", "paper"):
        save(tmp_path, make_record(60.0, data=data))
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    commands = [line.split()[5] for line in out.splitlines() if "features=elmo" in line]
    assert commands == ["data=paper", "data=mine/letters.yaml"]


@pytest.mark.parametrize("name", ["plain", "two words", "über", "a(b)", "it's", "à [1]"])
def test_hydra_reads_the_paths_in_a_command_as_they_are(tmp_path, capsys, name):
    runs, dataset = tmp_path / name, f"{name.replace(chr(39), '')}.yaml"
    command = shlex.join(["python", "-m", "tasks.run", "-m", "task=ner", f"data='{dataset}'"])
    data = dataset.removesuffix(".yaml")
    write_manifest(runs, Manifest("sweep-1", command, [Identity(data, "ner", "glove", 1, {})]))
    save(runs, make_record(60.0, data=data))
    _, out, _ = run_table(capsys, "--runs", runs)
    (typed,) = (line for line in out.splitlines() if "features=elmo" in line)
    overrides = OverridesParser.create().parse_overrides(shlex.split(typed)[3:])
    values = {override.key_or_group: override.value() for override in overrides}
    plain = {key: getattr(value, "text", value) for key, value in values.items()}  # of a value in quotes
    assert (plain["runs_dir"], plain["data"]) == (str(runs), dataset)


@pytest.mark.parametrize("filled", [True, False])
def test_in_the_table_of_an_experiment(runs, capsys, filled):
    if filled:
        save(runs, make_record(90.0))
    _, out, _ = run_table(capsys, "--runs", runs, "--experiment", "table1_paper", "task=ner")
    commands = [line for line in out.splitlines() if "python -m tasks.run -m experiment=table1_paper" in line]
    assert commands
    for command in commands:
        assert command.endswith(f" --config-dir 'my configs' data_dir=corpora runs_dir={runs}")


def test_published_runs_were_made_elsewhere(runs, capsys):
    _, out, _ = run_table(capsys, "--runs", runs, "--published", "--experiment", "figure2")
    assert "my configs" not in out
