"""The core table: 80 columns, one line per task, names for people, settings where nothing else was run."""

from pathlib import Path

import pytest

from results.analysis.aggregate import Selection, summarise
from results.records.collect import collect
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


def test_every_task_has_its_gain_on_one_line_of_80_columns(capsys):
    """Of the published records."""
    _, out, _ = run_table(capsys, "--published")
    header, lines = table_lines(out)
    assert max(map(len, [*header, *lines])) <= 80
    assert len(lines) >= len({item.record.identity.row for item in collect([PUBLISHED]).found}) > 5
    compared = [line for line in lines if "probe" not in line]  # probes have one layer an arm, and a table of their own
    assert all(".." in line for line in compared), "an interval, so a gain"


def test_names_are_for_people_and_keys_for_commands(capsys, tmp_path):
    both_arms(tmp_path, 90.0, 91.0)
    save(tmp_path, make_record(50.0, task="sst5", metric="accuracy"))
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    _, (ner, sst5) = table_lines(out)
    assert ner.split() == ["NER,", "CoNLL-2003", "90.00", "(1)", "91.00", "(1)", "+1.00", "10.0%", "21.0%"]
    assert sst5.split() == ["SST-5", "50.00", "(1)", "-", "-", "-", "6.8%"]
    assert "task=sst5 features=elmo data=paper" in out
    assert "F1: NER, CoNLL-2003\n  accuracy: SST-5\n" in out


def test_settings_take_the_row_where_there_are_no_plain_runs(capsys, tmp_path):
    both_arms(tmp_path, 77.0, 83.0, task="squad", variant={"trainer.epochs": 12})
    both_arms(tmp_path, 90.0, 91.0)
    both_arms(tmp_path, 80.0, 85.0, variant={"trainer.epochs": 3})
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    _, (squad, ner) = table_lines(out)
    assert squad.startswith("SQuAD 1.1, dev [1] ")
    assert "+6.00" in squad
    assert "+1.00" in ner
    assert "  [1] trainer.epochs=12\n" in out
    assert "85.00" not in out
    assert "--wide shows deviations, p and the paper's numbers; 1 rows of other settings" in out
    _, out, _ = run_table(capsys, "--runs", tmp_path, "--wide")
    assert "below" not in out
    assert any("trainer.epochs=3 " in line and "+5.00" in line for line in out.splitlines())


def test_other_arms_follow_where_there_is_room(capsys, tmp_path):
    for features in ("glove", "elmo", "elmo_random", "mine", "yours", "theirs"):
        save(tmp_path, make_record(50.0, data="mini", features=features))
    _, out, _ = run_table(capsys, "--runs", tmp_path)
    header, (line,) = table_lines(out)
    assert max(map(len, [*header, line])) <= 80
    assert "(control)" in header[-2]
    assert line.count("50.00 (1)") == 5
    assert "the paper's numbers; yours" in out


def test_a_setting_of_elmo_alone_is_paired_with_the_plain_baseline(tmp_path):
    """The baseline has no such setting; a rate of the trainer's it would have."""
    both_arms(tmp_path, 90.0, 91.0)
    save(tmp_path, make_record(92.5, features="elmo", variant={"features.elmo.layers": "last"}))
    save(tmp_path, make_record(94.0, features="elmo", variant={"trainer.lr": 0.5}, lr=0.5))
    (row,) = summarise(collect([tmp_path]), Selection()).rows
    assert row.gain("features.elmo.layers=last") == 2.5
    assert row.gain("trainer.lr=0.5") is None


@pytest.mark.parametrize(("metric", "share"), [("accuracy", 50.0), ("selectivity", None), ("control_accuracy", None)])
def test_errors_removed_only_where_a_score_has_errors(tmp_path, metric, share):
    both_arms(tmp_path, 60.0, 80.0, metric=metric)
    (row,) = summarise(collect([tmp_path]), Selection()).rows
    assert row.gain() == 20
    assert row.error_cut() == share
