"""The table with a line for each arm, on records made by hand."""

import csv
import json

import pytest

from elmo.common.errors import InputError
from results.experiments import experiment_names, load_experiment, values_of
from tests.results.making import make_record, run_table, save

OWN = """
title = "By arm"
seeds = [1, 2]
compare = ["a", "b"]
by_arm = true
[arms]
a = ["features=glove"]
b = ["features=elmo"]
c = ["features=word2vec"]
[costs]
a = {parameters = 20_000_000, milliseconds = 0.25}
b = {parameters = 13_600_000, milliseconds = 123.4}
[[rows]]
overrides = ["task=ner", "data=wnut17"]
paper = {a = 40.0, c = 50.5}
source = "Table 9, row 3"
[[rows]]
overrides = ["task=ner", "data=paper"]
arms = ["a", "b"]
"""


def test_a_line_for_each_arm(own, tmp_path, capsys):
    runs = tmp_path / "runs"
    for features, scores in (("glove", (40.0, 44.0)), ("elmo", (61.0, 63.0))):
        for seed, score in enumerate(scores, start=1):
            record = make_record(score, data="wnut17", features=features, seed=seed)
            examples = [{"tp": 0, "fp": 0, "fn": 100 - score}, {"tp": score, "fp": 100 - score, "fn": 0}]
            save(runs, record, examples)
    save(runs, make_record(91.0))
    code, out, _ = run_table(capsys, "--runs", runs, "--experiment", own)
    assert code == 0
    lines = out.splitlines()
    assert lines[2].split()[:3] == ["features", "frozen", "parameters"]
    assert lines[2].index("NER, WNUT-17") < lines[2].index("NER, CoNLL-2003")
    a, b, c = (next(line for line in lines[4:] if line.split()[:1] == [arm]) for arm in "abc")
    assert a.split()[1:4] == ["20.0", "M", "0.2"]
    assert "42.00±2.83 (2)† published 40.0" in a
    assert a.endswith("91.00 (1)†")
    assert b.split()[1:4] == ["13.6", "M", "123"]
    assert "62.00±1.41 (2)† [" in b
    low, high = map(float, b.partition("[")[2].partition("]")[0].removesuffix("†").split(" to "))
    assert low < 20 < high, "the gain is 62 - 42"
    assert c.split() == ["c", "-", "-", "published", "50.5", "-"]
    assert "the 95 % interval of the difference to a" in out
    assert "Table 9, row 3" in out
    command = f"python -m tasks.run -m experiment={own} runs_dir={runs}"
    assert f"  2 of 5 cells are empty, 5 of 10 runs are missing; to fill them: {command}" in lines


def test_the_notes_explain_the_intervals_of_all_arms(own, tmp_path, capsys):
    """Of b's two seeds the deviation is known; c has one, as the baseline has."""
    for features, seed, right in (("glove", 1, 40), ("elmo", 1, 60), ("elmo", 2, 62), ("word2vec", 1, 50)):
        examples = [{"tp": int(i < right), "fp": int(i >= right), "fn": int(i >= right)} for i in range(100)]
        save(tmp_path / "runs", make_record(right, data="wnut17", features=features, seed=seed), examples)
    _, out, _ = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own)
    start = "  95 % intervals and p (NER, WNUT-17): over paired test examples"
    assert f"{start}, and over the seeds of both arms. " in out
    assert f"{start}; each arm has one seed, " in out


def test_commands_keep_what_was_typed(own, tmp_path, capsys):
    runs = tmp_path / "runs"
    save(runs, make_record(91.0, data="wnut17"))
    _, out, _ = run_table(capsys, "--runs", runs, "--experiment", own, "data=wnut17", "seed=1")
    assert f"python -m tasks.run -m experiment={own} data=wnut17 seed=1 runs_dir={runs}\n" in out


def test_all_arms_have_gains_and_costs_for_programs(own, tmp_path, capsys):
    runs = tmp_path / "runs"
    for features, score in (("glove", 40), ("elmo", 55), ("word2vec", 37)):
        save(runs, make_record(score, data="wnut17", features=features))
    _, out, _ = run_table(capsys, "--runs", runs, "--experiment", own, "--format", "csv")
    lines = {line["arm"]: line for line in csv.DictReader(out.splitlines()) if line["data"] == "wnut17"}
    assert [lines[arm]["gain"] for arm in "abc"] == ["", "15.0", "-3.0"]
    assert [lines[arm]["errors_removed"] for arm in "abc"] == ["", "25.0", "-5.0"]
    assert [lines[arm]["milliseconds"] for arm in "abc"] == ["0.25", "123.4", ""]
    _, out, _ = run_table(capsys, "--runs", runs, "--experiment", own, "--format", "json")
    arms = json.loads(out)[0]["arms"]
    assert [arms[arm]["gain"] for arm in "abc"] == [None, 15.0, -3.0]
    assert [arms[arm]["milliseconds"] for arm in "bc"] == [123.4, None]


def test_a_row_may_have_some_of_the_arms(own):
    cells = load_experiment(str(own)).cells
    assert [(cell.named["data"], cell.arm) for cell in cells[:5]] == [
        *(("wnut17", arm) for arm in "abc"),
        *(("paper", arm) for arm in "ab"),
    ]
    assert len(cells) == 2 * 5


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('arms = ["a", "b"]', 'arms = ["a", "d"]', r"rows\[1\]\.arms: expected names of arms, .*found d"),
        ("b = {parameters", "d = {parameters", r"costs: expected names of arms, .*found d"),
        ("[costs]", "[titles]\nd = 'D'\n[costs]", r"titles: expected names of arms, .*found d"),
        (
            "source =",
            'same_baseline = ["b"]\nsource =',
            r"rows\[0\]\.same_baseline: expected all in `paper`, without b",
        ),
        ("milliseconds = 0.25", 'milliseconds = "fast"', r"costs\.a\.milliseconds: expected"),
    ],
)
def test_bad_files(own, before, after, message):
    own.write_text(OWN.replace(before, after), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_experiment(str(own))


@pytest.mark.parametrize("name", [name for name in experiment_names() if load_experiment(name).by_arm])
def test_what_an_arm_of_ours_names_chooses_it_alone(name):
    """So the command of a line runs that line; two arms may have the same features."""
    experiment = load_experiment(name)
    for arm, overrides in experiment.arms.items():
        assert {cell.arm for cell in experiment.narrowed(dict(map(values_of, overrides))).cells} == {arm}
