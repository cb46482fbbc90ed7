"""Lines of progress."""

from elmo.common.progress import Reporter


def test_markup_in_names_is_printed_as_it_is(capsys):
    Reporter("features.elmo.places=[input]").say("[red]x")
    assert capsys.readouterr().err == "features.elmo.places=[input]  [red]x\n"
