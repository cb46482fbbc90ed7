"""The explorer of senses in the report: one picture a word, and text that cannot break out."""

import json
import re

import pytest

import results.report.__main__ as report
from results.figures.drawing import WIDTH, Dot
from results.report.explorer import explorer, read_senses, word_figure
from tests.results.making import make_record, save


def use(text, sense, *, known=True, x=0.0, nearest=0):
    return {"text": text, "x": x, "y": -x, "sense": sense, "known": known, "nearest": nearest}


PLAY = {
    "word": "play",
    "senses": ["sport", "theatre"],
    "static": ["game", "player"],
    "summary": "2 of 2 uses",
    "uses": [
        use("they *play* <script>", "sport", x=-1.0, nearest=2),
        use("a *play* opens", "theatre", x=1.0),
        use("to *play* on", "sport", known=False, x=0.5),
    ],
}
BANK = {**PLAY, "word": "bank", "senses": ["money"], "uses": [use("a *bank* here", "money")]}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "senses.json"
    file.write_text(json.dumps({"weights": "small", "words": [PLAY, BANK]}))
    return file


def test_each_word_can_be_opened(path):
    html = explorer(read_senses(path))
    opened = re.findall(r"<details class=\"more\"( open)?><summary>(\w+)</summary>", html)
    assert opened == [(" open", "play"), ("", "bank")]
    assert html.count('<div class="uses">') == html.count("<svg") == 2
    assert "<script" not in html
    assert "they <b>play</b> &lt;script&gt; (sport)" in html


def test_uses_have_the_colour_of_their_sense_and_stay_left_of_glove(path):
    word, _ = read_senses(path).words
    dots = [mark for mark in word_figure(word).marks if isinstance(mark, Dot)]
    legend, uses, glove = dots[:2], dots[2:-1], dots[-1]
    colour_of = dict(zip(word.senses, (dot.colour for dot in legend), strict=True))
    assert len(set(colour_of.values())) == 2
    assert [dot.colour for dot in uses] == [colour_of[sense] for sense in ("sport", "sport", "theatre")]
    assert [dot.radius for dot in uses] == [3.0, 5.0, 5.0]  # those without a sense of their own below the others
    assert max(dot.x for dot in uses) < glove.x < WIDTH


def test_the_report_shows_it_and_refuses_another_file(path, tmp_path, capsys):
    save(tmp_path / "runs", make_record(90.0))
    arguments = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "report.html"), "--senses", str(path)]
    assert report.main(arguments) == 0
    assert "<h2>Table 4: senses of a word</h2>" in (tmp_path / "report.html").read_text()
    assert report.main(arguments[:-2]) == 0
    assert "<h2>Table 4: senses of a word</h2>" not in (tmp_path / "report.html").read_text()
    path.write_text(json.dumps({"weights": "small", "words": [{**BANK, "uses": [use("a", "b", nearest=7)]}]}))
    capsys.readouterr()
    assert report.main(arguments) == 1
    assert "expected numbers of 1 uses. Make it with: python -m tasks.probes.table4" in capsys.readouterr().err
    path.unlink()
    assert report.main(arguments) == 1
    missing = f"{path}: expected uses of words, found: No such file or directory. Make it with"
    assert missing in capsys.readouterr().err
