"""The main figure: where its marks are, what it says in words, and its files."""

import dataclasses
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from results.figures.drawing import PALETTE, ChartLine, Dot, Label, picture, published_files, text_width, with_title
from results.figures.errors_removed import errors_removed
from results.names import PaperScore
from results.tables.rows import Group, Row
from tests.results.making import make_record

PAIR = ("glove", "elmo")
PAPER = PaperScore("ner", "f1", "test", {"glove": 90.0, "elmo": 92.0}, "Table 1", compared=True, margin=0.3)


def group(features, *scores, data="paper", task="ner", **variant):
    records = [
        make_record(score, data=data, task=task, features=features, seed=seed, variant=variant)
        for seed, score in enumerate(scores, start=1)
    ]
    return Group(features, {key: str(value) for key, value in variant.items()}, records)


def panel(data="paper", task="ner", paper=None, **arms):
    groups = [group(arm, *scores, data=data, task=task) for arm, scores in arms.items()]
    return Row(data, task, groups, paper=paper)


def dots(figure, colour):
    """The markers of an arm, without that of the legend."""
    return [mark for mark in figure.marks if isinstance(mark, Dot) and mark.colour == colour][1:]


def texts(figure):
    return [mark.text for mark in figure.marks if isinstance(mark, Label)]


def zero_of(figure):
    lines = [mark for mark in figure.marks if isinstance(mark, ChartLine) and mark.colour == "muted"]
    (zero,) = {x for line in lines for x, _ in line.points}
    return zero


EXAMPLE = [
    panel(glove=[60.0], elmo=[70.0], elmo_random=[62.0], word2vec=[58.0], paper=PAPER),  # 25, 5, -5 %; paper's: 20 %
    panel("wnut17", glove=[60.0], elmo=[55.0]),  # -12.5 %
]


@pytest.mark.parametrize("narrow", [False, True])
def test_marks_are_where_their_shares_are(narrow):
    figure = errors_removed(EXAMPLE, PAIR)
    figure = figure.narrow if narrow else figure
    zero = zero_of(figure)
    (up, down), (paper,) = dots(figure, "blue"), dots(figure, "ink")
    (control,), (static,) = dots(figure, "orange"), dots(figure, "green")
    one = (up.x - zero) / 25
    assert [(mark.x - zero) / one for mark in (down, paper, control, static)] == pytest.approx([-12.5, 20, 5, -5])
    assert ([mark.shape for mark in (up, paper, control, static)], paper.hollow, up.hollow) == (
        ["diamond", "circle", "square", "triangle"],
        True,
        False,
    )
    assert {"60.0 → 70.0", "60.0 → 55.0", "share of the baseline's errors removed (%)"} <= set(texts(figure))


def test_controls_of_the_trained_bilm_are_drawn():
    """Of 40 errors, layer 0 removes 8 and the shuffled biLM none."""
    arms = {"elmo_layer0": [67.0, 68.0, 69.0], "elmo_shuffled": [60.0]}
    figure = errors_removed([panel(glove=[60.0], elmo=[70.0], elmo_random=[62.0], word2vec=[58.0], **arms)], PAIR)
    assert figure.numbers.endswith("biLM without context (control) 20.0 %, shuffled biLM (control) 0.0 %†.")
    looks = {(mark.colour, mark.shape) for mark in figure.marks if isinstance(mark, Dot)}
    assert len(looks) == len(dict(looks)) == 5, "each arm has a look of its own"


def test_marks_of_few_seeds_are_pale_and_explained():
    three = [60.0, 61.0, 62.0]
    figure = errors_removed([panel(glove=three, elmo=[70.0, 71.0, 72.0], elmo_random=three, word2vec=[62.0])], PAIR)
    (control,), (static,) = dots(figure, "orange"), dots(figure, "green")
    assert (control.opacity, static.opacity < 1) == (1, True)
    note = "† and pale marks: fewer than 3 seeds in an arm"
    assert note in texts(figure)
    assert note not in texts(errors_removed([panel(glove=three, elmo=three, elmo_random=three)], PAIR))


@pytest.mark.parametrize(("score", "number"), [(58.0, True), (61.0, False)])
def test_what_is_left_of_zero_has_a_number(score, number):
    figure = errors_removed([panel(glove=[60.0], elmo=[70.0], word2vec=[score])], PAIR)
    assert any(re.fullmatch("\N{MINUS SIGN}[0-9]+", text) for text in texts(figure)) == number


def test_the_interval_of_the_share_is_drawn():
    own = panel(glove=[60.0, 61.0, 59.0], elmo=[70.0, 71.0, 69.0])
    figure = errors_removed([own], PAIR)
    interval = own.cut_interval
    (line,) = [mark for mark in figure.marks if isinstance(mark, ChartLine) and mark.title]
    (dot,) = dots(figure, "blue")
    one = (dot.x - zero_of(figure)) / 25
    assert [(x - zero_of(figure)) / one for x, _ in line.points] == pytest.approx([interval.low, interval.high])


@pytest.mark.parametrize(("score", "text"), [(20.0, "\N{MINUS SIGN}100.0 %†"), (99.0, "97.5 %†")])
def test_what_is_far_off_is_a_note_with_its_number(score, text):
    figure = errors_removed([panel(glove=[60.0], elmo=[70.0], elmo_random=[score])], PAIR)
    assert dots(figure, "orange") == []
    assert f"Off the scale: NER, CoNLL-2003: untrained biLM (control) {text}" in texts(figure)
    (elmo,) = dots(figure, "blue")
    assert abs(elmo.x - zero_of(figure)) > 100, "the others keep their room"


def test_equal_shares_are_drawn_side_by_side():
    panels = [panel(glove=[60.0], elmo=[70.0], elmo_random=[62.0], word2vec=[62.0])]
    figure = errors_removed(panels, PAIR)
    (control,), (static,) = dots(figure, "orange"), dots(figure, "green")
    assert control.x == static.x
    assert abs(control.y - static.y) > 8
    (bottom,) = {mark.y for mark in figure.marks if isinstance(mark, Label) and mark.text == "0"}
    assert max(control.y, static.y) + 5 < bottom - 10, "above the axis"


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ([10, 4], "ELMo removes 10 to 25 % of the baseline's errors on all 2 data sets"),
        ([10], "ELMo removes 25 % of the baseline's errors on NER, CoNLL-2003"),
        ([10, 4, 0], "ELMo removes 10 to 25 % of the baseline's errors on 2 of 3 data sets; unclear on NER, WNUT-17"),
        ([0, 0.01], "The effect of ELMo on 2 data sets is unclear"),
        ([10, -8], "ELMo removes 25 % of the baseline's errors on 1 of 2 data sets; it adds errors on SST-5"),
    ],
)  # fmt: skip
def test_the_title_states_what_the_intervals_show(gains, expected):
    """Three seeds that differ by 0.1: an interval of about ± 0.2 points, 0.6 %."""
    places = [("paper", "ner"), ("paper", "sst5"), ("wnut17", "ner")]
    panels = [
        panel(*place, glove=[60.0, 60.1, 59.9], elmo=[60 + gain, 60.1 + gain, 59.9 + gain])
        for place, gain in zip(places, gains, strict=False)
    ]
    assert errors_removed(panels, PAIR).title.replace("\N{NO-BREAK SPACE}", " ") == expected


def test_runs_with_other_epochs_than_their_recipe_do_not_set_the_range():
    """NER is shortened and has the largest share, 25 %; alone, it is all there is to say."""
    near = (60.0, 60.1, 59.9)
    arms = [
        group(arm, *(s + gain for s in near), **{"trainer.epochs": 12}) for arm, gain in (("glove", 0), ("elmo", 10))
    ]
    short, full = (
        Row("paper", "ner", arms, {"trainer.epochs": "12"}),
        panel(task="sst5", glove=near, elmo=(64, 64.1)),
    )
    title = errors_removed([short, full], PAIR).title.replace("\N{NO-BREAK SPACE}", " ")
    expected = "ELMo removes 10 % of the baseline's errors on 1 of 2 data sets; 25 % on NER, CoNLL-2003 (12 epochs)"
    assert title == expected
    assert "removes 25" in errors_removed([short], PAIR).title


def test_the_title_is_by_the_interval_of_the_gain():
    """By Welch's interval this gain is 10.0 (-1.2 to 21.2); by Fieller's the share is 20.0 % (-3.0 to 34.6)."""
    figure = errors_removed([panel(glove=[45.5, 50.0, 54.5], elmo=[60.0, 60.1, 59.9])], PAIR)
    assert "20.0 % (\N{MINUS SIGN}3.0 to 34.6)" in figure.numbers
    assert figure.title == "The effect of ELMo on NER, CoNLL-2003 is unclear"


def test_other_settings_are_shown_where_there_are_no_plain_runs():
    arms = [group(arm, score, **{"trainer.epochs": 12}) for arm, score in (("glove", 60.0), ("elmo", 70.0))]
    figure = errors_removed([Row("paper", "ner", arms, {"trainer.epochs": "12"})], PAIR)
    assert {"NER, CoNLL-2003", "F1, 12 epochs", "60.0 → 70.0"} <= set(texts(figure))


def test_the_paper_is_left_out_of_other_comparisons():
    own = panel(glove=[60.0], elmo=[70.0], elmo_random=[62.0], paper=PAPER)
    own = dataclasses.replace(own, compared=("elmo_random", "elmo"))
    assert "the paper" in texts(errors_removed(EXAMPLE, PAIR))
    assert "the paper" not in texts(errors_removed([own], ("elmo_random", "elmo")))


def test_nothing_to_compare_is_no_figure():
    assert errors_removed([], PAIR) is None
    assert errors_removed([panel(glove=[60.0])], PAIR) is None
    assert errors_removed([panel(glove=[100.0], elmo=[100.0])], PAIR) is None


def boxes(figure):
    """Left, right, top and bottom of texts and markers; texts rather too wide."""
    for mark in figure.marks:
        if isinstance(mark, Label):
            width = text_width(mark.text, mark.size)
            left = mark.x - {"start": 0, "middle": width / 2, "end": width}[mark.anchor]
            yield mark, (left, left + width, mark.y - 0.75 * mark.size, mark.y + 0.2 * mark.size)
        elif isinstance(mark, Dot):
            yield mark, (mark.x - 5, mark.x + 5, mark.y - 5, mark.y + 5)


@pytest.mark.parametrize("narrow", [False, True])
def test_no_text_covers_another_or_a_marker(narrow):
    panels = [
        *EXAMPLE,
        panel("standin", "snli", glove=[65.0, 66.0, 65.5], elmo=[69.0, 70.0, 69.5], elmo_random=[36.0]),
        panel("my-very-long-data-name", "my-very-long-task-name", glove=[1.0, 2.0], elmo=[99.0, 2.0]),
    ]
    figure = errors_removed(panels, PAIR)
    figure = with_title(figure.narrow if narrow else figure)
    found = list(boxes(figure))
    assert sum(isinstance(mark, Label) for mark, _ in found) > 20
    for mark, (left, right, top, bottom) in found:
        assert 0 <= left < right <= figure.width, mark
        assert 0 <= top < bottom <= figure.height, mark
    for (one, a), (other, b) in combinations(found, 2):
        if isinstance(one, Label) or isinstance(other, Label):
            assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2], (one, other)


def test_files_for_light_and_dark_pages_and_phones():
    figure = errors_removed(EXAMPLE, PAIR)
    files = published_files(figure)
    html = picture(figure, "here")
    assert {f"here/{name}" for name in files} == set(re.findall(r'(?:src|srcset)="([^"]*)"', html))
    sources = ElementTree.fromstring(html.replace('">', '"/>'))
    assert [(own.get("media", ""), own.get("srcset") or own.get("src")) for own in sources] == [
        ("(max-width: 600px) and (prefers-color-scheme: dark)", "here/errors-removed-phone-dark.svg"),
        ("(max-width: 600px)", "here/errors-removed-phone.svg"),
        ("(prefers-color-scheme: dark)", "here/errors-removed-dark.svg"),
        ("", "here/errors-removed.svg"),
    ]
    for name, text in files.items():
        title, description, card = list(ElementTree.fromstring(text))[:3]
        assert title.text == figure.title
        assert "NER, CoNLL-2003, F1: 60.0 to 70.0, ELMo 25.0 %" in description.text
        assert "the paper 20.0 %" in description.text
        assert card.get("fill") == PALETTE["card"]["-dark" in name]
    assert sources[-1].get("alt").startswith(f"{figure.title}. ")
