"""Warnings of a budget that is too small, and what the card says of it and of the held-out text."""

import io
import re

import pytest
from rich.console import Console

from elmo.pretrain.run import pretrain
from elmo.pretrain.settings import Budget
from tests.elmo.pretrain.run_files import card_of, summary_of
from tests.elmo.pretrain.training_text import QUIET, settings


def said_by(given):
    """The lines that a run prints."""
    said = io.StringIO()
    pretrain(given, [], Console(file=said, width=400))
    return said.getvalue().splitlines()


@pytest.mark.parametrize(
    ("budget", "needed"),
    [({"steps": 1}, r"budget\.steps=\d+;"), ({"tokens": 9}, r"budget\.tokens=[\d,]+;"), ({"minutes": 1e-5}, "minutes")],
)
def test_a_budget_below_one_pass_warns_before_and_after_and_on_the_card(text, tmp_path, budget, needed):
    lines = said_by(settings(text, tmp_path, budget=Budget(**budget)))
    warnings = [i for i, line in enumerate(lines) if line.startswith("warning: ")]
    (step,) = (i for i, line in enumerate(lines) if line.startswith("100.0 %"))
    assert len(warnings) == 2
    assert warnings[0] < step < warnings[1] == len(lines) - 1
    summary = summary_of(tmp_path)
    one_pass = summary["counts"]["train_tokens"] + summary["counts"]["train_sentences"]
    assert f"of the {one_pass:,} words of the text" in lines[warnings[0]]
    assert re.search(needed, lines[warnings[0]])
    share = f"{summary['position']['tokens'] / one_pass:.2%}"
    assert share in lines[warnings[1]]
    assert f"after {share} of one pass" in card_of(tmp_path)


def test_the_budget_that_a_warning_names_is_one_pass(text, tmp_path):
    (first, _) = (line for line in said_by(settings(text, tmp_path / "a", 1)) if line.startswith("warning: "))
    steps = int(re.search(r"takes budget\.steps=(\d+);", first)[1])
    lines = said_by(settings(text, tmp_path / "b", steps))
    assert not [line for line in lines if line.startswith("warning: ")]
    summary = summary_of(tmp_path / "b")
    assert summary["passes"] == pytest.approx(1)
    assert "Hardly trained" not in card_of(tmp_path / "b")


def test_the_card_says_what_was_held_out(text, tmp_path):
    marked = tmp_path / "marked.txt"
    marked.write_text(text.read_text().replace(" .\n", " .\n\n"))
    for unit in ("document", "paragraph"):
        pretrain(settings(marked, tmp_path / unit, 1, heldout_unit=unit), [], QUIET)
    counts = summary_of(tmp_path / "document")["counts"]
    card = card_of(tmp_path / "document")
    assert f"held out are {counts['heldout_documents']:,} of {counts['documents']:,} documents" in card
    card = card_of(tmp_path / "paragraph")
    assert "held out are single paragraphs (10.00% of them" in card
