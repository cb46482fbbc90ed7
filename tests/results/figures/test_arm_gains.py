"""The figure of an experiment by arm: where its marks are, what it leaves out, and what it says in words."""

import dataclasses
import html
from itertools import combinations

import pytest

from results.experiments import load_experiment
from results.figures.drawing import ChartLine, Dot, Label, standalone_svg, with_title
from results.figures.errors_removed import arm_gains
from results.records.collect import collect
from results.tables.fill import fill
from results.tables.rows import Group
from tests.results.figures.test_errors_removed import boxes, texts
from tests.results.making import make_record, save

OWN = """
title = "Vectors"
seeds = [1, 2, 3]
compare = ["base", "first"]
by_arm = true
note = "costs: measured"
[arms]
base = ["features=glove"]
first = ["features=elmo"]
second = ["features=word2vec"]
third = ["features=flair"]
printed = ["features=cove"]
nothing = ["features=transformer"]
[titles]
base = "words"
first = "a long name of an arm"
[costs]
base = {parameters = 20_000_000, milliseconds = 0.25}
first = {parameters = 13_600_000, milliseconds = 400.0}
second = {parameters = 60_000_000, milliseconds = 4.0}
printed = {parameters = 60_000_000, milliseconds = 40.0}
[[rows]]
overrides = ["task=ner", "data=wnut17"]
paper = {base = 80.0, first = 85.0, printed = 90.0, second = 99.0}
same_baseline = ["first", "printed"]
[[rows]]
overrides = ["task=ner", "data=paper"]
arms = ["base", "first", "second"]
"""
# by data and features: the scores of seeds 1, 2, 3
SCORES = {
    ("wnut17", "glove"): [60.0, 60.2, 59.8],
    ("wnut17", "elmo"): [70.0, 70.2, 69.8],  # 25 % of the errors
    ("wnut17", "word2vec"): [56.0],  # -10 %
    ("wnut17", "flair"): [64.0, 54.0, 65.0],  # 2.5 %
    ("paper", "glove"): [50.0, 50.2, 49.8],
    ("paper", "elmo"): [60.0, 60.2, 59.8],  # 20 %
}


@pytest.fixture
def figure(tmp_path):
    """The figure of these scores; a function of other ones and of changes in the file."""

    def drawn(scores=SCORES, *changes):
        text = OWN
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        (tmp_path / "own.toml").write_text(text, encoding="utf-8")
        for (data, features), own in scores.items():
            for seed, score in enumerate(own, start=1):
                record = make_record(score, data=data, features=features, seed=seed)
                if features == "flair":
                    part = {"name": features, "frozen": {"flair": {"warning": "it knows the test"}}}
                    record = dataclasses.replace(record, config={**record.config, "features": part})
                save(tmp_path / "runs", record)
        return arm_gains(fill(collect([tmp_path / "runs"]), load_experiment(str(tmp_path / "own.toml"))))

    return drawn


def marks_of(figure, arm, kind=Dot):
    return [mark for mark in figure.marks if isinstance(mark, kind) and getattr(mark, "title", "").startswith(arm)]


def test_marks_are_where_their_shares_and_costs_are(figure):
    drawn = figure()
    zero, per_percent = scale_of(drawn)
    published, first, other = marks_of(drawn, "a long name")
    (loss,) = marks_of(drawn, "second, NER, WNUT-17")
    (printed,) = marks_of(drawn, "printed, NER, WNUT-17")
    found = [(mark.y - zero) / per_percent for mark in (published, first, loss, printed)]
    assert found == pytest.approx([25, 25, -10, 50])
    assert [mark.hollow for mark in (published, first, printed)] == [True, False, True]
    assert first.opacity == 1
    line = marks_of(drawn, "a long name", ChartLine)[0]
    assert line.points[0][1] > first.y > line.points[1][1]
    assert first.x - printed.x == pytest.approx(printed.x - loss.x), "400 ms are to 40 as 40 to 4"
    assert other.x > first.x, "another plot"


def test_pale_is_a_gain_within_noise(figure):
    """By Welch's interval this gain is 10.0 (-1.2 to 21.2); by Fieller's the share is 20.0 % (-3.0 to 34.6)."""
    scores = {**SCORES, ("wnut17", "glove"): [45.5, 50.0, 54.5], ("wnut17", "elmo"): [60.0, 60.1, 59.9]}
    drawn = figure(scores)
    assert "20.0 % (\N{MINUS SIGN}3.0 to 34.6)" in drawn.numbers
    *_, here, other = marks_of(drawn, "a long name")
    assert (here.opacity < 1, other.opacity) == (True, 1)


def test_marks_of_equal_cost_stand_next_to_each_other(figure):
    drawn = figure(SCORES, ("milliseconds = 40.0", "milliseconds = 4.0"))
    (loss,), (printed,) = marks_of(drawn, "second, NER"), marks_of(drawn, "printed, NER")
    assert 2 * loss.radius * 0.8 < abs(loss.x - printed.x) < 3 * loss.radius


def test_an_older_recipe_is_below_the_plots(figure, monkeypatch):
    monkeypatch.setattr(Group, "old_recipe", "recipe 1")
    found = " ".join(texts(figure()))
    assert "the baseline has 60.0 F1" in found
    assert "Older recipes than the task's: NER, WNUT-17 (recipe 1), NER, CoNLL-2003 (recipe 1)." in found


def scale_of(drawn):
    """Of the first task's plot: the pixel of zero, and the pixels of one percent; y is downwards."""
    labels = [mark for mark in drawn.marks if isinstance(mark, Label)]
    zero = next(mark for mark in labels if mark.text == "0")
    tick = next(mark for mark in labels if mark.x == zero.x and mark.text.isdecimal() and mark.y < zero.y)
    return zero.y - 4, (tick.y - zero.y) / int(tick.text)


def test_what_is_not_drawn_is_said(figure):
    shown = texts(figure())
    assert {"words", "third"}.isdisjoint(shown), "the baseline, and an arm without a cost"
    assert {"second", "printed", "a long name of an arm", "published by others"} <= set(shown)
    assert "third: it knows the test." in shown
    assert {"Without runs: nothing.", "Without a cost: third."} <= set(shown)


def test_all_numbers_are_in_the_description(figure):
    text = html.unescape(standalone_svg(figure()))
    assert "words (20.0 M, 0.2 ms): NER, WNUT-17 60.0 F1; NER, CoNLL-2003 50.0 F1." in text
    assert "second (60.0 M, 4.0 ms): NER, WNUT-17 \N{MINUS SIGN}10.0 %† (" in text
    assert "published 25.0 %; NER, CoNLL-2003 20.0 % (" in text
    assert "third (cost not measured): NER, WNUT-17 2.5 %‡ (" in text
    assert "printed (60.0 M, 40 ms): NER, WNUT-17 published 50.0 %." in text
    assert "‡ third: it knows the test." in text


def test_published_numbers_over_another_baseline_are_not_drawn(figure):
    assert "second (60.0 M, 4.0 ms): NER, WNUT-17 \N{MINUS SIGN}10.0 %†" in figure().numbers
    assert "published 95.0 %" not in figure().numbers, "99 of second, over 80"


@pytest.mark.parametrize(
    ("scores", "changes"),
    [
        ({key: SCORES[key] for key in list(SCORES)[:2]}, []),
        ({key: own for key, own in SCORES.items() if key[1] != "glove"}, []),
        (SCORES, [(OWN[OWN.index("[costs]") : OWN.index("[[rows]]")], "")]),
    ],
    ids=["two arms with runs", "no baseline", "no costs"],
)
def test_too_little_is_no_figure(figure, scores, changes):
    assert figure(scores, *changes) is None


def test_no_text_covers_another_text(figure):
    drawn = with_title(figure())
    found = [(mark, box) for mark, box in boxes(drawn) if isinstance(mark, Label)]
    for mark, (left, right, top, bottom) in found:
        assert 0 <= left < right <= drawn.width, mark
        assert 0 <= top < bottom <= drawn.height, mark
    for (one, a), (other, b) in combinations(found, 2):
        assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2], (one, other)
