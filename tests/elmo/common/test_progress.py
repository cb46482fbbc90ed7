"""Lines of progress."""

import pytest

from elmo.common.files import fitted
from elmo.common.progress import Reporter


def test_markup_in_names_is_printed_as_it_is(capsys):
    Reporter("features.elmo.places=[input]").say("[red]x")
    assert capsys.readouterr().err == "features.elmo.places=[input]  [red]x\n"


@pytest.mark.parametrize(("brief", "second"), [(False, ""), (True, "ner seed 1")])
def test_runs_of_a_sweep_are_named_in_each_line_and_a_run_alone_in_its_first(capsys, brief, second):
    reporter = Reporter("ner seed 1", brief=brief)
    reporter.warn("a")
    reporter.warn("b")
    assert capsys.readouterr().err == f"ner seed 1  a\n{second}  b\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("  464,668 to train, 13,593,296 frozen", ["  464,668 to train,", "    13,593,296", "    frozen"]),
        ("do it: python -m tasks.run -m a=b; then", ["do it:", "  python -m tasks.run -m a=b;", "  then"]),
        ("short", ["short"]),
    ],
)
def test_terminals_get_whole_words_and_commands(text, lines):
    assert fitted(text, 20).split("\n") == lines
    assert fitted(text, 0) == text
