"""The table with a line for each arm, on records made by hand."""

import pytest

from elmo.common.errors import InputError
from results.records.experiment_file import load_experiment
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


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN, encoding="utf-8")
    return path


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
    assert lines[2].split()[:3] == ["features", "frozen", "ms"]
    assert lines[2].index("NER, WNUT-17") < lines[2].index("NER, CoNLL-2003")
    a, b, c = (next(line for line in lines[4:] if line.split()[:1] == [arm]) for arm in "abc")
    assert a.split()[1:4] == ["20.0", "M", "0.25"]
    assert "42.00±2.83 (2)† published 40" in a
    assert a.endswith("91.00 (1)†")
    assert b.split()[1:4] == ["13.6", "M", "123"]
    assert "62.00±1.41 (2)† [" in b
    low, high = map(float, b.partition("[")[2].partition("]")[0].split(".."))
    assert low < 20 < high, "the gain is 62 - 42"
    assert c.split() == ["c", "-", "-", "published", "50.5", "-"]
    assert "the 95 % interval of the difference to a" in out
    assert "Table 9, row 3" in out
    commands = [line for line in out.splitlines() if "python -m tasks.run" in line]
    assert not any("word2vec" in line and "data=paper" in line for line in commands), "that row has no such arm"


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
        ('arms = ["a", "b"]', 'arms = ["a", "d"]', r"rows\[1\]\.arms: expected names of arms, found d"),
        ("b = {parameters", "d = {parameters", r"costs: expected names of arms, found d"),
        ("milliseconds = 0.25", 'milliseconds = "fast"', r"costs\.a\.milliseconds: expected"),
    ],
)
def test_bad_files(own, before, after, message):
    own.write_text(OWN.replace(before, after), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_experiment(str(own))
