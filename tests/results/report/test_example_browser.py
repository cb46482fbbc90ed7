"""The report's browser of test examples: which runs it shows, what it leaves out, and its buttons."""

import re
from html import unescape

import pytest

from results.examples import ComparedExample, Comparison
from results.records.identity import PREDICTIONS_NAME
from results.report.example_browser import MOST, choose_examples
from tests.results.browser import browser, look
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
    return text, text.partition('<div id="examples-0"')[2].partition("</ol>")[0]


def test_a_task_has_its_examples(tmp_path):
    text, part = pages(tmp_path / "runs")
    block = text.partition('<article id="task-0-0"')[2].partition("</article>")[0]
    assert '<div id="examples-0" class="part"><h3>Test examples: fixed and broken</h3>' in block
    assert "Of 5 test examples, + ELMo fixes 2 that GloVe has wrong, and breaks 1 that it has right (seed 1)." in part
    assert re.findall('<li class="(.*?)">', part) == ["fixed", "fixed", "broken", "both-wrong", "both-right"]
    assert re.findall("<label .*?>(.*?) <small>(.*?)</small>", part) == [
        *(("All", "5"), ("Fixed", "2"), ("Broken", "1"), ("Both wrong", "1"), ("Both right", "1"))
    ]
    first = part.partition("<li")[2].partition("</li>")[0]
    assert re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", first) == [
        ("text", "Ada Lind left Oslo"),
        ("gold", "PER Ada Lind · LOC Oslo"),
        ("GloVe", "PER Ada Lind · <del>LOC Oslo</del> · <mark>ORG Oslo</mark>"),
        ("+ ELMo", "PER Ada Lind · LOC Oslo"),
    ]
    assert "left out" not in text


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
        text, part = pages(runs, seed=seed)
    assert "(seed 2)" in part
    assert text.count("Test examples: fixed and broken") == 1


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


def compared(fixed, broken, both_wrong, both_right):
    counts = {(False, True): fixed, (True, False): broken, (False, False): both_wrong, (True, True): both_right}
    rights = [right for right, count in counts.items() for _ in range(count)]
    examples = [ComparedExample(str(n), {}, {}, ({}, {}), right, (0.0, 0.0)) for n, right in enumerate(rights)]
    return Comparison("", "", ("", ""), examples)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((100, 100, 100, 100), (20, 20, 20, 0)),
        ((100, 5, 100, 100), (28, 5, 27, 0)),
        ((3, 2, 1, 100), (3, 2, 1, 54)),
        ((0, 0, 19, 0), (0, 0, 19, 0)),
        ((70, 0, 0, 9), (60, 0, 0, 0)),
    ],
)
def test_outcomes_take_turns_until_there_are_enough(counts, expected):
    chosen = choose_examples(compared(*counts))
    outcomes = [one.outcome for one in chosen]
    assert tuple(outcomes.count(name) for name in ("fixed", "broken", "both wrong", "both right")) == expected
    assert len(chosen) <= MOST
    assert [int(one.id) for one in chosen] == sorted(int(one.id) for one in chosen)


@pytest.mark.integration
@pytest.mark.skipif(browser() is None, reason="no chromium on the path: apt-get install chromium")
def test_the_buttons_choose_without_a_script(tmp_path):
    """The script of the page is taken out; the probe clicks as a reader would."""
    text, _ = pages(tmp_path / "runs")
    page = tmp_path / "plain.html"
    page.write_text(re.sub("<script>.*</script>", "", text, flags=re.DOTALL), encoding="utf-8")
    script = """
      all("details").forEach(e => e.open = true);
      const shown = () => all(".examples li").filter(e => e.checkVisibility()).map(e => e.className);
      return [shown(), ...all(".examples input").map(e => { e.click(); return shown(); })];"""
    seen = look(page, 390, script=script)
    everything = ["fixed", "fixed", "broken", "both-wrong", "both-right"]
    assert seen.found == [everything, everything, ["fixed", "fixed"], ["broken"], ["both-wrong"], ["both-right"]]
    assert (seen.console, seen.width, seen.too_wide) == ([], 390, [])
