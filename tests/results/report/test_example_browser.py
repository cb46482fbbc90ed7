"""The report's browser of test examples: which runs it shows, what it leaves out, and how many."""

import re
from html import unescape

import pytest

from results.records.identity import PREDICTIONS_NAME
from results.report.example_browser import MOST
from tests.results.examples.making import LOC, ORG, PER, SHIPPED, entities_run
from tests.results.making import run_report

RIGHT, WRONG = [PER, LOC], [PER, ORG]
FIRST = [RIGHT, WRONG, RIGHT, WRONG, WRONG]
SECOND = [RIGHT, RIGHT, WRONG, WRONG, RIGHT]


def pages(runs, **options):
    """The page of two arms, and the part with their examples."""
    for features, predicted in (("glove", FIRST), ("elmo", SECOND)):
        entities_run(runs, predicted, features=features, **options)
    status, text = run_report(runs)
    assert status == 0
    return text, text.partition("<h2>Test examples: fixed and broken</h2>")[2].partition("</section>")[0]


def test_a_task_has_its_examples(tmp_path):
    _, part = pages(tmp_path / "runs")
    assert part.startswith("<h3>mini NER</h3>")
    assert "Of 5 test examples, + ELMo fixes 2 that GloVe has wrong, and breaks 1 that it has right (seed 1)." in part
    outcomes = ["Fixed (2)", "Broken (1)", "Both wrong (1)", "Both right (1)"]
    assert re.findall("<summary>(.*?)</summary>", part) == outcomes
    assert [items.count("<li>") for items in part.split("<ol>")[1:]] == [2, 1, 1, 1]
    first = part.partition("<li>")[2].partition("</li>")[0]
    assert re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", first) == [
        ("text", "Ada Lind left Oslo"),
        ("gold", "PER Ada Lind · LOC Oslo"),
        ("GloVe", "PER Ada Lind · <del>LOC Oslo</del> · <mark>ORG Oslo</mark>"),
        ("+ ELMo", "PER Ada Lind · LOC Oslo"),
    ]


def test_of_many_examples_the_first_are_shown(tmp_path):
    entities_run(tmp_path / "runs", [RIGHT] * (MOST + 1), features="glove")
    entities_run(tmp_path / "runs", [WRONG] * (MOST + 1), features="elmo")
    text = run_report(tmp_path / "runs")[1]
    assert f"<summary>Broken ({MOST} of {MOST + 1})</summary>" in text
    assert text.count("<li><small>") == MOST


@pytest.mark.parametrize("data", [{**SHIPPED, "shipped": False}, {**SHIPPED, "hub": {"path": "licensed"}}, None])
def test_text_that_does_not_come_with_the_suite_is_not_shown(tmp_path, data):
    text, part = pages(tmp_path / "runs", data=data)
    assert part == ""
    assert "Ada Lind" not in text


def test_the_first_seed_with_predictions_of_both_arms_is_shown(tmp_path):
    runs = tmp_path / "runs"
    entities_run(runs, FIRST, features="glove", seed=1, kept=False)
    entities_run(runs, SECOND, features="elmo", seed=1)
    for seed in (3, 2):
        _, part = pages(runs, seed=seed)
    assert "(seed 2)" in part


def test_damaged_predictions_are_named(tmp_path):
    pages(tmp_path / "runs")
    (tmp_path / "runs" / "mini" / "ner" / "elmo" / "seed-1" / PREDICTIONS_NAME).write_bytes(b"half")
    status, text = run_report(tmp_path / "runs")
    assert status == 0
    assert "expected predictions, a JSON object a line" in unescape(text)


def test_text_of_examples_stays_text(tmp_path):
    evil = {**PER, "text": "<script>alert(1)</script>", "label": '"><img src=x>'}
    for features in ("glove", "elmo"):
        entities_run(tmp_path / "runs", [[evil]], gold=[LOC], features=features)
    status, text = run_report(tmp_path / "runs")
    assert status == 0
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
