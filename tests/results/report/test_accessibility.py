"""The report for all readers: screen reader, keyboard, no script, contrast of colours, and names for people."""

import re
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from results.figures.drawing import PALETTE, tint
from results.report.page import STYLE
from tests.results.making import make_record, run_report, save
from tests.results.report.conftest import save_runs


class Elements(HTMLParser):
    """All elements of a page as (tag, attributes), in order, and for each table what is directly in it."""

    def __init__(self, text):
        super().__init__()
        self.found, self.tables, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
            self.open.append(self.tables[-1])
        elif self.open:
            self.open[-1].append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag == "table":
            self.open.pop()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A page with all kinds of parts: several data sets of a task, a table of the paper, a failed run."""
    folder = tmp_path_factory.mktemp("page")
    runs = save_runs(folder)
    for place, score in (("[input]", 60.0), ("[input,output]", 62.0)):
        save(runs, make_record(score, data="ewt", task="srl", features="elmo", variant={"features.elmo.places": place}))
    for features, score in (("glove", 40.0), ("elmo", 50.0)):
        save(runs, make_record(score, task="sst5", metric="accuracy", features=features))
    return run_report(runs)[1]


def test_headings_have_no_gaps(text):
    levels = [int(tag[1]) for tag, _ in Elements(text).found if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert {2, 3, 4} <= set(levels), "the longest way: a chart of one of several data sets of a task"
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


def test_tables_have_captions_and_headers_their_scope(text):
    tables = Elements(text).tables
    assert len(tables) >= 5
    for inside in tables:
        assert [tag for tag, _ in inside].count("caption") == 1
        assert {attributes.get("scope") for tag, attributes in inside if tag == "th"} == {"col", "row"}


def test_drawings_say_their_numbers(text):
    drawings = [attributes for tag, attributes in Elements(text).found if tag == "svg"]
    drawings = [attributes for attributes in drawings if attributes.get("aria-hidden") != "true"]  # of the legend
    assert len(drawings) > 6
    for attributes in drawings:
        assert attributes["role"] == "img"
        caption, _, numbers = attributes["aria-label"].partition(". ")
        assert caption
        assert re.search(r"\d", numbers), attributes["aria-label"]
    labels = " ".join(attributes["aria-label"] for attributes in drawings)
    for number in ("+ ELMo: best mean 79.50 in epoch 3", "good · 50: 61.5 to 81.5"):
        assert number in labels, number


def test_without_the_script_all_is_there(text):
    """Hidden is what needs the script, and disabled what then is a header; details open without it."""
    found = Elements(text).found
    hidden = [(tag, attributes.get("class", "")) for tag, attributes in found if "hidden" in attributes]
    assert {tag for tag, _ in hidden} == {"input", "button"}
    assert {name for tag, name in hidden if tag != "input"} == {"copy"}
    assert {attributes["aria-sort"] for _, attributes in found if "aria-sort" in attributes} == {"none"}
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_names_for_people_outside_commands(text):
    """Keys of configs are in commands, in settings and paths of records, and in what the script searches."""
    body = text.partition("<body>")[2].partition("<script>")[0]
    own = (r'<(p|span) class="path">.*?</\1>', r'<ul class="findings">.*?</ul>')
    for part in (r"<code>.*?</code>", r"<pre>.*?</pre>", *own):
        body = re.sub(part, " ", body, flags=re.DOTALL)
    titles = re.findall(r'(?:aria-label|data-label|title)="(.*?)"', body)
    words = unescape(" ".join([re.sub(r"<[^>]*>", " ", body), *titles])).partition("Made 20")[0]
    assert "0.1 of the training examples" in words
    assert "biLM at [input,output]" in words
    for key in ("glove", "elmo", "sst5", "srl", "train_fraction", r"(features|trainer|task)\.\w+"):
        assert not re.search(rf"(?<![\w.]){key}(?!\w)", words), key


def test_a_table_that_says_nothing_new_is_left_out(runs):
    """Figure 1 of the whole training set alone is what the scores show; with a second share it is a table."""
    for share in (1, 0.1):
        for features in ("glove", "elmo"):
            variant = {} if share == 1 else {"train_fraction": share}
            save(runs, make_record(60.0, task="sst5", metric="accuracy", features=features, variant=variant))
        assert ("Figure 1: shares of the training examples" in run_report(runs)[1]) is (share == 0.1)


def shares_of(colour):
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def contrast(*colours):
    """By the definition of WCAG 2."""
    lights = []
    for shares in colours:
        red, green, blue = (s / 12.92 if s <= 0.03928 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
        lights.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_marks_and_text_stand_out_from_the_background(dark):
    own = [
        dict(re.findall(r"--(\w+): (#\w{6});", line)) for line in STYLE.read_text().splitlines() if ":root {" in line
    ]
    colours = {name: pair[dark] for name, pair in PALETTE.items()} | own[dark]
    assert {"page", "line", "edge", "code", "bad"} <= colours.keys()
    colours = {name: shares_of(colour) for name, colour in colours.items()}
    backgrounds = {name: colours.pop(name) for name in ("page", "card", "code")}
    del colours["grid"], colours["line"]  # faint lines say nothing that numbers do not say
    for name, colour in colours.items():
        for place in ("page", "card"):
            lowest = 4.5 if name in ("ink", "muted", "bad", "blue") else 3  # blue is the colour of links
            assert contrast(colour, backgrounds[place]) >= lowest, (name, place)
    assert contrast(colours["ink"], backgrounds["code"]) >= 4.5
    for name in PALETTE.keys() & colours.keys() - {"ink", "muted"}:
        mixed = zip(colours[name], backgrounds["card"], strict=True)
        cell = [tint(1) * colour + (1 - tint(1)) * below for colour, below in mixed]
        assert contrast(colours["ink"], cell) >= 4.5, f"text on {name}"
