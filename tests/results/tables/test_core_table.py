"""The table of all records: 100 columns, one line per task, names for people, settings where nothing else was run."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from results.records.collect import collect
from results.table import main
from results.tables.fill import Selection, fill_all
from tests.results.making import make_record, run_table, save

PUBLISHED = Path(__file__).parents[3] / "results" / "published"


def table_lines(out):
    """The lines of the first table, below its rule."""
    lines = out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("---"))
    return lines[2 : start + 1], lines[start + 1 : lines.index("", start)]


def both_arms(runs, glove, elmo, **options):
    save(runs, make_record(glove, **options))
    save(runs, make_record(elmo, features="elmo", **options))


@pytest.fixture(scope="module")
def published():
    """What python -m results.table --published prints."""
    with redirect_stdout(StringIO()) as out:
        main(["--published"])
    return out.getvalue()


def test_every_task_has_its_gain_on_one_line_of_100_columns(published):
    """Of the published records, with fewer lines of notes than of results."""
    header, lines = table_lines(published)
    assert max(map(len, [*header, *lines])) <= 100
    rows = {item.record.identity.row for item in collect([PUBLISHED]).files} - {("standin", "snli")}  # earlier records
    assert len(lines) == len({row for row in rows if "probe" not in row[1]}) > 5  # probes have tables of their own
    assert all(" to " in line for line in lines), "an interval, so a gain"
    notes = published.partition("Notes:")[2].splitlines()
    assert len(notes) == 2, "one line"
    assert "warnings" in notes[1]


def test_probes_have_tables_of_their_own(capsys, tmp_path):
    save(tmp_path, make_record(60.0, task="pos_probe", data="ewt"))
    alone = run_table(capsys, "--runs", tmp_path)[1]
    assert "POS probe" in alone
    both_arms(tmp_path, 80.0, 90.0)
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--notes")
    assert "POS probe" not in out
    assert "left out: pos_probe; --experiment table6 or table6_wsj shows them" in out


def test_readme_and_the_page_of_tables_show_the_same_strings(published):
    """For Table 1, which all three take from the records that are the headline."""
    rows = [line for line in table_lines(published)[1] if not line.startswith("mini")]
    documents = [(PUBLISHED.parents[1] / name).read_text() for name in ("README.md", "results/tables.md")]
    assert len(rows) == 7
    for row in rows:
        title, *cells = re.split("  +", row)
        for text in documents:
            start = f"| {title} |".partition("…")[0]
            line = next(line for line in text.splitlines() if line.startswith(start))
            assert set(cells) <= set(line.strip("| ").split(" | "))


def test_names_are_for_people(capsys, tmp_path):
    both_arms(tmp_path, 90.0, 91.0)
    save(tmp_path, make_record(50.0, task="sst5", metric="accuracy"))
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    _, (ner, sst5) = table_lines(out)
    assert ner.split() == ["NER,", "CoNLL-2003", "90.00", "(1)", "91.00", "(1)", "+1.00", "90.15", "→", "92.22"]
    assert sst5.split() == ["SST-5", "50.00", "(1)", "-", "-", "51.4", "→", "54.7"]
    assert "SST-5: no runs of elmo" in out


def test_settings_take_the_row_where_there_are_no_plain_runs(capsys, tmp_path):
    both_arms(tmp_path, 77.0, 83.0, task="squad", variant={"trainer.epochs": 12})
    both_arms(tmp_path, 90.0, 91.0)
    both_arms(tmp_path, 80.0, 85.0, variant={"trainer.epochs": 3})
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    _, (squad, ner) = table_lines(out)
    assert squad.startswith("SQuAD 1.1, dev, 12 epochs ")
    assert "+6.00" in squad
    assert "+1.00" in ner
    assert "85.00" not in out
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--wide")
    assert any("3 epochs " in line and "+5.00" in line for line in out.splitlines())


def test_other_arms_are_in_the_wide_table(capsys, tmp_path):
    for features in ("glove", "elmo", "elmo_random", "mine", "yours", "theirs"):
        save(tmp_path, make_record(50.0, data="mini", features=features))
    _, (line,) = table_lines(run_table(capsys, "--runs", tmp_path)[1])
    assert line.count("50.00 (1)") == 2
    _, (line,) = table_lines(run_table(capsys, "--runs", tmp_path, "--wide")[1])
    assert line.count("50.00 (1)") == 6


def test_a_title_is_cut_only_where_the_table_would_be_wider_than_100_characters(capsys, tmp_path):
    settings = {"trainer.epochs": 12, "features.elmo.weights": "small"}
    both_arms(tmp_path, 90.0, 91.0, variant=settings)
    _, (line,) = table_lines(run_table(capsys, "--runs", tmp_path)[1])
    assert line.startswith("NER, CoNLL-2003, biLM small, 12 epochs  90.00")
    cut = {**settings, "trainer.patience": 3, "trainer.eval_batch_size": 64, "task.input_dropout": 0.25}
    both_arms(tmp_path / "cut", 90.0, 91.0, variant=cut)
    _, (line,) = table_lines(out := run_table(capsys, "--runs", tmp_path / "cut")[1])
    assert line.startswith("NER, CoNLL-2003, biLM small,")
    assert re.search("[^ ]…  90.00", line)
    assert max(map(len, out.partition("Notes")[0].splitlines())) == 100
    assert "…" not in run_table(capsys, "--runs", tmp_path / "cut", "--format", "markdown")[1]


def test_a_setting_of_elmo_alone_is_paired_with_the_plain_baseline(tmp_path):
    """The baseline has no such setting; a rate of the trainer's it would have."""
    both_arms(tmp_path, 90.0, 91.0)
    save(tmp_path, make_record(92.5, features="elmo", variant={"features.elmo.layers": "last"}))
    save(tmp_path, make_record(94.0, features="elmo", variant={"trainer.lr": 0.5}, lr=0.5))
    rows = {row.label: row for row in fill_all(collect([tmp_path]), Selection()).others}
    assert rows["features.elmo.layers=last"].gain == 2.5
    assert rows["trainer.lr=0.5"].gain is None


@pytest.mark.parametrize(("metric", "share"), [("accuracy", 50.0), ("selectivity", None), ("control_accuracy", None)])
def test_errors_removed_only_where_a_score_has_errors(tmp_path, metric, share):
    both_arms(tmp_path, 60.0, 80.0, metric=metric)
    (row,) = fill_all(collect([tmp_path]), Selection()).rows
    assert row.gain == 20
    assert row.error_cut == share
