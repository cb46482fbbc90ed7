"""The warning of a budget that is too small, and what the card says of it."""

import io
import math

from rich.console import Console

from elmo.pretrain.run import pretrain
from tests.elmo.pretrain.run_files import card_of, summary_of
from tests.elmo.pretrain.training_text import settings


def said_by(given):
    """The lines that a run prints."""
    said = io.StringIO()
    pretrain(given, [], Console(file=said, width=400))
    return said.getvalue().splitlines()


def test_a_run_of_less_than_one_pass_warns_at_its_end_and_on_the_card(text, tmp_path):
    lines = said_by(settings(text, tmp_path / "a", 1))
    assert [line.startswith("warning: ") for line in lines] == [False] * (len(lines) - 1) + [True]
    summary = summary_of(tmp_path / "a")
    one_pass = summary["counts"]["train_tokens"] + summary["counts"]["train_sentences"]
    share = f"{summary['position']['tokens'] / one_pass:.2%}"
    assert share in lines[-1]
    assert f"after {share} of one pass" in card_of(tmp_path / "a")
    lines = said_by(settings(text, tmp_path / "b", math.ceil(one_pass / summary["position"]["tokens"])))
    assert not [line for line in lines if line.startswith("warning: ")]
    assert summary_of(tmp_path / "b")["passes"] >= 1
    assert "Hardly trained" not in card_of(tmp_path / "b")
