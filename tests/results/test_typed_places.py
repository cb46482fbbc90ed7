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


@pytest.mark.parametrize("name", ["plain", "two words", "über", "a(b)", "it's", "à [1]"])
def test_hydra_reads_the_paths_in_a_command_as_they_are(tmp_path, capsys, name):
    runs = tmp_path / name
    command = shlex.join(["python", "-m", "tasks.run", "-m", "task=ner", "data=paper"])
    write_manifest(runs, Manifest("sweep-1", command, [Identity("paper", "ner", "glove", 1, {})]))
    _, out, _ = run_table(capsys, "--runs", runs, "--experiment", "table1_paper", "task=ner")
    typed = next(line[line.index("python -m") :] for line in out.splitlines() if "-m experiment=table1_paper" in line)
    overrides = OverridesParser.create().parse_overrides(shlex.split(typed)[4:])
    values = {override.key_or_group: override.value() for override in overrides}
    assert getattr(values["runs_dir"], "text", values["runs_dir"]) == str(runs)  # text, if it is in quotes


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
