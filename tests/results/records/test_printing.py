"""Untrusted names in records are only text: on a terminal, in suggested commands and in spreadsheets."""

import csv
import io
import json
import os
import shlex
from importlib import import_module

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

import results.publish
import results.status
from results.records.identity import Identity
from results.records.printing import printable, write
from results.records.progress import LOCK_NAME, Manifest, Owner, write_manifest
from results.records.record import RecordConflict, RecordUnreadable, RunError, decide, read_record
from results.report.__main__ import main as report
from tests.results.examples.making import PER, entities_run
from tests.results.making import make_record, run_report, run_table, save

EVIL = "\x1b]0;owned\x07\x9b31m\r\x7f\u202e"  # a title, a colour, the line again, deleted, and read backwards
HARMLESS = r"\u001b]0;owned\u0007\u009b31m\r\u007f\u202e"


def acts(text):
    """The characters that a terminal would act on; lines are lines."""
    return {character for character in text if not character.isprintable()} - {"\n"}


@pytest.fixture
def runs(tmp_path):
    """Everything that has a name, with one that acts."""
    folder = tmp_path / f"runs{EVIL}"
    names = {"data": f"mini{EVIL}", "task": f"ner{EVIL}"}
    for features in ("glove", "elmo", f"own{EVIL}"):
        for variant in ({}, {f"x{EVIL}": EVIL}):
            save(folder, make_record(features=features, variant=variant, metric=f"f1{EVIL}", **names))
    save(folder, make_record(seed=2, error=RunError(f"Bad{EVIL}", EVIL, [EVIL]), **names))
    (save(folder, make_record(seed=3, **names))).write_text(f'{{"status": "{EVIL[0]}"')
    owner = Owner(f"far{EVIL}", 1, EVIL, progress=EVIL)
    (folder / f"x{EVIL}").mkdir()
    (folder / f"x{EVIL}" / LOCK_NAME).write_text(json.dumps(owner, default=vars))
    write_manifest(folder, Manifest(f"sweep{EVIL}", EVIL, [Identity(EVIL, EVIL, EVIL, 7)], [f"{EVIL}: {EVIL}"]))
    return folder


@pytest.mark.parametrize("form", ["text", "md", "csv", "tex", "json"])
def test_the_table_only_prints(capsys, runs, form):
    status, out, err = run_table(capsys, "--runs", runs, "--format", form, "--check")
    assert status == 1
    assert acts(out + err) == set()
    assert HARMLESS.replace("\\", "\\textbackslash{}" if form == "tex" else "\\")[:3] in out
    if form == "json":
        assert json.loads(out)[0]["data"] == f"mini{EVIL}"


def test_the_report_and_its_figures_only_print(capsys, runs, tmp_path):
    assert report(["--runs", str(runs), "--out", str(tmp_path / f"{EVIL}.html")]) == 0
    assert report(["--runs", str(tmp_path / EVIL), "--out", str(tmp_path / "none.html")]) == 1
    captured = capsys.readouterr()
    assert acts(captured.out + captured.err) == set()


@pytest.mark.parametrize("options", [[], ["--experiment", f"no{EVIL}"]], ids=str)
def test_the_status_only_prints(capsys, runs, options):
    results.status.main(["--runs", str(runs), *options])
    captured = capsys.readouterr()
    assert acts(captured.out + captured.err) == set()
    assert HARMLESS[:6] in captured.out + captured.err


def test_what_a_run_says_of_its_record_only_prints(tmp_path):
    identity = Identity(f"mini{EVIL}", "ner", "glove", 1, {"x": EVIL})
    assert identity.title == f"mini{HARMLESS} ner glove seed 1 x={HARMLESS}"
    record = make_record(variant={f"x{EVIL}": 1})
    path = save(tmp_path, record)
    with pytest.raises(RecordConflict) as conflict:
        decide(path, {**record.fingerprinted, f"y{EVIL}": 1})
    assert acts(str(conflict.value)) == set()
    path.write_text(path.read_text(encoding="utf-8").replace('"test": {', f'"test{HARMLESS}": {{"f1": "x",'))
    with pytest.raises(RecordUnreadable, match=r"scores\.test") as unreadable:
        read_record(path)
    assert acts(str(unreadable.value)) == set()
    assert acts(str(Owner(EVIL, 1, since=EVIL))) == set()


def test_what_can_be_read_stays_as_it_is():
    assert printable("Zürich ± 0.5 → 東京 'a' \"b\" \\n") == "Zürich ± 0.5 → 東京 'a' \"b\" \\n"
    assert printable("two\nlines\t\ud800") == r"two\nlines\t\ud800"


def test_a_stream_that_knows_ascii_alone():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    write("1.0±0.5 → \x1b\n", stream)
    stream.flush()
    assert stream.buffer.getvalue() == rb"1.0+-0.5 \u2192 \u001b" + b"\n"


@pytest.mark.parametrize("command", ["table", "status", "examples"])
def test_a_closed_output_is_no_error(capsys, tmp_path, monkeypatch, command):
    """`>&-` closes it: Python's sys.stdout is then None. The status is that of the command."""
    pair = [entities_run(tmp_path, [[PER]], features=features) for features in ("glove", "elmo")]
    given = pair if command == "examples" else ["--runs", tmp_path]
    monkeypatch.setattr("sys.stdout", None)
    assert import_module(f"results.{command}").main(list(map(str, given))) == 0
    assert capsys.readouterr().err == ""


def test_a_folder_whose_name_is_no_utf_8(capsys, tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    save(folder, make_record(data="mini"))
    assert run_table(capsys, "--runs", folder)[0] == 0
    assert results.status.main(["--runs", str(folder)]) == 0
    status, page = run_report(folder)
    assert (status, r"caf\udce9" in page) == (0, True)


def test_a_suggested_command_is_quoted(capsys, tmp_path):
    """For a shell each setting is one word, whatever is in it."""
    (tmp_path / "my runs").mkdir()
    _, out, _ = run_table(capsys, "--runs", tmp_path / "my runs", "--experiment", "mini", "data=mini")
    assert shlex.split(out.partition("to fill them: ")[2])[5:7] == ["data=mini", f"runs_dir={tmp_path / 'my runs'}"]
    results.status.main(["--runs", str(tmp_path), "--experiment", "a;b"])
    assert shlex.split(capsys.readouterr().err.split("To start it: ")[1])[-1] == "experiment=a;b"


@pytest.mark.parametrize("name", ["plain", "two words", "über", "a(b)", "it's", "à [1]"])
def test_hydra_reads_the_path_in_a_suggested_command_as_it_is(tmp_path, capsys, name):
    runs = tmp_path / name
    runs.mkdir()
    _, out, _ = run_table(capsys, "--runs", runs, "--experiment", "table1_paper", "task=ner")
    typed = next(line[line.index("python -m") :] for line in out.splitlines() if "-m experiment=table1_paper" in line)
    overrides = OverridesParser.create().parse_overrides(shlex.split(typed)[4:])
    values = {override.key_or_group: override.value() for override in overrides}
    assert getattr(values["runs_dir"], "text", values["runs_dir"]) == str(runs)  # text, if it is in quotes


def test_a_cell_is_no_formula(capsys, tmp_path):
    evil = "=cmd|' /C calc'!A0"
    save(tmp_path, make_record(70.0, data=evil, task="@x", metric="-1+1"))
    save(tmp_path, make_record(60.0, data=evil, task="@x", metric="-1+1", features="elmo"))
    save(tmp_path, make_record(80.0, data="plain", features="+x"))
    save(tmp_path, make_record(88.0))
    out = run_table(capsys, "--runs", tmp_path, "--format", "csv")[1]
    lines = list(csv.DictReader(io.StringIO(out)))
    rows = {line["data"]: line for line in lines}
    assert rows[f"'{evil}"]["task"] == "'@x"
    assert rows[f"'{evil}"]["metric"] == "'-1+1"
    assert float(rows[f"'{evil}"]["gain"]) == -10, "a number stays one"
    assert (rows["plain"]["arm"], float(rows["plain"]["mean"])) == ("'+x", 80)
    texts = [text for line in lines for key, value in line.items() for text in (key, value)]
    assert {float(text) for text in texts if text.startswith(("=", "@", "+", "-"))} >= {-10.0}, "none but numbers"


def test_a_figure_stays_in_its_folder(tmp_path):
    for features in ("elmo", "../../out"):
        save(tmp_path / "runs", make_record(features=features, data="../../out"))
    figures = tmp_path / "in" / "figures"
    assert run_report(tmp_path / "runs", "--figures", figures, "--compare", "elmo", "../../out")[0] == 0
    assert {path.parent for path in tmp_path.rglob("*.svg")} == {figures}
    assert not list(tmp_path.parent.glob("*.svg"))
