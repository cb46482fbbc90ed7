"""Charts: positions of marks, and records with unexpected content."""

import dataclasses
import math
import re
from xml.etree import ElementTree

import pytest

from results.figures.charts import (
    class_differences,
    class_metric,
    class_runs,
    convergence,
    curve,
    efficiencies,
    layer_map,
    learning_curves,
    sample_efficiency,
    speeds,
)
from results.figures.drawing import (
    Area,
    Box,
    ChartLine,
    Dot,
    Label,
    Scale,
    arms_of,
    fitted,
    inline_svg,
    shown_tick,
    standalone_svg,
    swatch,
    with_legend,
    with_title,
)
from results.names import load_names
from results.records.record import Mix
from results.tables.rows import Group, Row
from tests.results.making import make_record

ARMS = arms_of({"glove": "glove", "elmo": "elmo"})


def group(features, *scores, settings=None, **fields):
    variant = settings or {}
    records = [make_record(s, features=features, seed=i, variant=variant) for i, s in enumerate(scores, start=1)]
    records = [dataclasses.replace(record, **fields) for record in records]
    return Group(features, {key: str(value) for key, value in variant.items()}, records)


def with_each(group, name, values):
    """The group with a value of this field for each of its records."""
    records = [dataclasses.replace(r, **{name: own}) for r, own in zip(group.records, values, strict=True)]
    return dataclasses.replace(group, records=records)


def row(*groups):
    return Row("mini", "ner", groups)


def rows(*groups):
    """A row for each choice of settings."""
    labels = dict.fromkeys(group.label for group in groups)
    own = [[group for group in groups if group.label == label] for label in labels]
    return [Row("mini", "ner", of, of[0].settings) for of in own]


def marks(figure, kind):
    return [mark for mark in figure.marks if isinstance(mark, kind)]


def with_curves(features, *curves):
    """A group whose runs have these dev scores, epoch by epoch."""
    epochs = [[{"epoch": i, "f1": score} for i, score in enumerate(own, start=1)] for own in curves]
    return with_each(group(features, *(own[-1] for own in curves)), "epochs", epochs)


def test_a_run_is_as_fast_as_its_first_epoch_that_equals_the_best_of_the_baseline():
    glove = with_curves("glove", [10, 30, 50, 60], [10, 40, 35], [20, 80, 70])
    elmo = with_curves("elmo", [40, 60, 55, 70], [50, 60], [30, 60, 79])
    panel = row(glove, elmo)
    assert [(own.best, own.reached, own.censored) for own in speeds(panel)] == [
        (4, 2, False),
        (2, 1, False),
        (2, 3, True),
    ]
    assert speeds(row(glove)) == []
    figure = convergence([panel, (row(glove))], ARMS)
    assert figure.numbers.endswith(": 2.7 → 2.0, 75 % (3 pairs of runs, 1 never).")
    large = {mark.colour: mark.x for mark in marks(figure, Dot) if mark.title}
    assert large[ARMS["elmo"].colour] < large[ARMS["glove"].colour]  # earlier is further left
    texts = [label.text for label in marks(figure, Label)]
    assert "2.7 → 2.0, 75 %" in texts
    assert [text for text in texts if text.endswith(" · 3, 1 never")]
    assert convergence([(row(group("glove", 1.0), group("elmo", 2.0)))], ARMS) is None


def test_a_scale_maps_its_ends_and_is_straight_or_logarithmic():
    straight = Scale(10, 20, 100, 300)
    assert [straight.at(value) for value in (10, 15, 20)] == [100, 200, 300]
    log = Scale(1, 100, 0, 200, log=True)
    assert log.at(10) == pytest.approx(100)  # ten times as much is as far again
    assert Scale(5, 5, 0, 100).at(5) == 50


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (37.9, 42.6, [38, 39, 40, 41, 42]), (-3, 19, [0, 5, 10, 15]), (0.1, 0.13, None)],
)
def test_ticks_are_round_and_within(low, high, expected):
    ticks = Scale(low, high, 0, 1).ticks(5)
    assert expected is None or ticks == pytest.approx(expected)
    assert all(low <= tick <= high for tick in ticks)
    assert len(ticks) >= 3


def test_numbers_and_names_are_shown_short():
    assert [shown_tick(value) for value in (0.5, 80.0, 14041.0, 1e-17)] == ["0.5", "80", "14,041", "1e\N{MINUS SIGN}17"]
    assert fitted("short", 100) == "short"
    assert fitted("a" * 50, 70).endswith("…")
    assert len(fitted("a" * 50, 70)) <= 10


def test_an_arm_looks_the_same_whatever_else_is_there():
    alone, many = arms_of({"elmo": "elmo"}), arms_of({name: name for name in ("bert", "elmo", "glove", "mine")})
    assert alone["elmo"] == many["elmo"]
    assert len({(arm.colour, arm.shape) for arm in many.values()}) == 4


def test_no_two_of_many_arms_look_the_same():
    names = [*load_names().arms, *(f"own{i}" for i in range(6))]
    looks = [(arm.colour, arm.shape) for arm in arms_of({name: name for name in names}).values()]
    assert len(set(looks)) == len(looks) == len(names) > 15


def test_curves_leave_out_epochs_without_a_number():
    epochs = [{"epoch": 1, "f1": 50.0}, {"epoch": 2, "f1": None}, {"epoch": "x", "f1": 60.0}, {"epoch": 4, "f1": 70}]
    elmo = group("elmo", 70.0, epochs=epochs)
    assert curve(elmo.records[0]) == [(1, 50), (4, 70)]
    figure = learning_curves((row(elmo)), ARMS)
    (line,) = [line for line in marks(figure, ChartLine) if line.title]
    assert len(line.points) == 2
    assert line.points[0][1] > line.points[1][1]  # y is downwards: the score rises
    assert "best mean 70.00 in epoch 4" in line.title
    assert learning_curves((row(group("elmo", 70.0))), ARMS) is None


def test_the_map_has_a_box_for_each_layer_of_each_task_and_place():
    """Means worked out by hand; a task without the second place has no boxes there, and one without mixes no line."""
    weights = [[0.2, 0.5, 0.3], [0.4, 0.5, 0.1]]  # of two seeds; mean 0.3, 0.5, 0.2
    gammas = [1.0, 2.0]
    learned = [{"input": Mix(w, g), "output": Mix([0.1, 0.1, 0.8], 2.0)} for w, g in zip(weights, gammas, strict=True)]
    both = with_each(group("elmo", 70.0, 71.0), "mixes", learned)
    one = group("elmo", 50.0, mixes={"input": Mix([0.0, 0.25, 0.75], 1.0)})
    single = group("elmo_layer0", 50.0, mixes={"input": Mix([1.0, 0.0, 0.0], 1.0)})
    figure = layer_map([("first", both), ("second", one), ("none", group("glove", 1.0)), ("one layer", single)])
    boxes = marks(figure, Box)
    texts = [label.text for label in marks(figure, Label)]
    assert [text for text in texts if "." in text] == [
        *("0.30", "0.50", "0.20", "1.50", "0.00", "0.25", "0.75", "1.00"),  # the last ones are gammas
        *("0.10", "0.10", "0.80", "2.00"),
    ]
    assert {label.text for label in marks(figure, Label) if label.bold} == {"input", "output", "0.50", "0.75", "0.80"}
    assert {"one layer", "characters"}.isdisjoint(texts)
    assert {"chars", "gamma"} <= set(texts)
    assert ("none" in texts, "2 runs" in texts, "1 run" in texts) == (False, True, True)
    darkness = [box.opacity for box in boxes]
    assert sorted(range(9), key=darkness.__getitem__)[-1] == 8, "0.8 is the darkest"
    assert len({box.x for box in boxes}) == 6, "two places with three layers"
    assert max(box.x + box.width for box in boxes[:6]) < min(box.x for box in boxes[6:]), "the output is at the right"
    assert "first, input, characters: 0.300, runs 0.200 to 0.400" in boxes[0].title
    assert layer_map([("none", group("glove", 1.0))]) is None


def test_scores_of_a_class_are_those_of_all_seeds():
    labels = [
        {"PER": {"f1": 80.0, "gold": 12}, "LOC": {"f1": 50.0}},
        {"PER": {"f1": 90.0, "gold": 12}, "ORG": {"f1": 1.0}},
    ]
    elmo = with_each(group("elmo", 70.0, 71.0), "details", [{"labels": own} for own in labels])
    assert class_metric([elmo]) == "f1"
    assert class_runs(elmo, "f1") == {"PER": [80.0, 90.0]}


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"labels": 3, "confusion": "none"},
        {"labels": {"PER": 80.0}, "confusion": {"labels": ["a"], "gold_by_predicted": [[1, 2]]}},
        {"labels": {"PER": {"f1": "high"}}, "confusion": {"labels": ["a"], "gold_by_predicted": [["x"]]}},
        {"labels": ["PER"], "confusion": {"labels": None, "gold_by_predicted": None}},
    ],
)
def test_details_of_any_other_shape_are_no_figure(details):
    panel = row(*(group(name, 70.0, details=details) for name in ("glove", "elmo")))
    assert class_differences(panel, ARMS) is None


def shares(features, counted=True):
    return [
        group(features, score, settings={"train_fraction": share} if share != 1 else {}, data=data)
        for share, score, count in ((1, 80.0, 1000), (0.01, 50.0, 10), (0.1, 70.0, 100))
        # a record of a share counts what its file holds, and what of it was used
        for data in [{"train": {"sentences": 1000} | ({"used": count} if share != 1 else {})} if counted else {}]
    ]


def test_sizes_are_those_of_the_training_sets_on_a_logarithmic_scale():
    (found,) = efficiencies(rows(*shares("glove"), *shares("elmo")))
    assert [size for size, _ in found.series["elmo"]] == [10, 100, 1000]
    assert found.unit == "training examples"
    figure = sample_efficiency(found, ARMS)
    (line, _) = [line for line in marks(figure, ChartLine) if line.colour in {arm.colour for arm in ARMS.values()}]
    xs = [x for x, _ in line.points]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1])
    assert "training examples (log)" in [label.text for label in marks(figure, Label)]


def test_without_counts_the_shares_stand_for_the_sizes():
    (found,) = efficiencies(rows(*shares("elmo", counted=False)))
    assert [size for size, _ in found.series["elmo"]] == [0.01, 0.1, 1]
    assert {"1 %", "10 %", "100 %"} <= {label.text for label in marks(sample_efficiency(found, ARMS), Label)}


def test_a_whole_set_that_is_counted_in_other_units_has_shares():
    """1 % of 2,000 pairs of sentence and predicate are 20; the whole set counts its 1,000 sentences."""
    groups = [
        group("elmo", 80.0, data={"train": {"sentences": 1000}}),
        group("elmo", 50.0, settings={"train_fraction": 0.01}, data={"train": {"sentences": 1000, "used": 20}}),
        group("elmo", 40.0, settings={"train_fraction": 0.001}, data={"train": {"sentences": 1000, "used": 2}}),
    ]
    (found,) = efficiencies(rows(*groups))
    assert [size for size, _ in found.series["elmo"]] == [0.001, 0.01, 1]
    assert {"0.1 %", "1 %", "100 %"} <= {label.text for label in marks(sample_efficiency(found, ARMS), Label)}


def test_a_part_of_a_known_whole_has_shares_of_that():
    """The paper's 0.1, 1 and 10 % of SNLI's 549,367 pairs, drawn from the 99,890 that are 18 % of them."""
    drawn = {0.0055: 549, 0.055: 5494, 0.549975: 54937}
    groups = [
        group("elmo", 80.0, settings={"train_fraction": share}, data={"train": {"pairs": 99890, "used": count}})
        for share, count in drawn.items()
    ]
    groups.append(group("elmo", 84.0, data={"train": {"pairs": 99890}}))
    (found,) = efficiencies([dataclasses.replace(own, data="snli100k", task="snli") for own in rows(*groups)])
    labels = [label.text for label in marks(sample_efficiency(found, ARMS), Label)]
    assert {"0.1 %", "1 %", "10 %", "18 %", "share of the official training examples (log)"} <= set(labels)


def test_one_size_is_no_curve():
    assert efficiencies(rows(group("elmo", 70.0), group("elmo", 71.0, settings={"trainer.lr": 1}))) == []


def test_svg_is_well_formed_and_escaped():
    elmo = group("elmo", 70.0, epochs=[{"epoch": 1, "f1": 50.0}, {"epoch": 2, "f1": 60.0}])
    figure = dataclasses.replace(learning_curves((row(elmo)), ARMS), title='<b> & "co"')
    file = ElementTree.fromstring(standalone_svg(with_title(figure)))
    texts = [element.text for element in file.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == '<b> & "co"'
    assert "var(" not in standalone_svg(figure)  # not every viewer knows variables
    page = ElementTree.fromstring(inline_svg(figure))
    assert page.get("aria-label").startswith('<b> & "co".')
    coordinates = [float(x) for line in page.iter("polyline") for p in line.get("points").split() for x in p.split(",")]
    assert coordinates
    assert all(math.isfinite(x) for x in coordinates)


def test_axes_have_labels():
    arms = [group(name, 70.0, 72.0, epochs=[{"epoch": 1, "f1": 50.0}], details={"labels": {"A": {"f1": 1.0}}})
            for name in ("glove", "elmo")]  # fmt: skip
    panel = row(*arms)
    expected = {
        learning_curves: {"epoch", "dev F1, points over the baseline's best"},
        class_differences: {"gain, points of F1"},
    }
    for draw, texts in expected.items():
        assert texts <= {label.text for label in marks(draw(panel, ARMS), Label)}, draw.__name__
    (sizes,) = efficiencies(rows(*shares("elmo")))
    texts = {label.text for label in marks(sample_efficiency(sizes, ARMS), Label)}
    assert {"training examples (log)", "test F1 (%)"} <= texts


def test_curves_are_means_with_the_range_of_the_runs():
    """Of three runs, one stopped after epoch 2: means 20 and 40, worked out by hand, within 10..30 and 30..50."""
    elmo = with_curves("elmo", [10, 40, 99], [20, 30, 90], [30, 50])
    figure = learning_curves((row(elmo)), ARMS)
    (band,), (line,) = marks(figure, Area), [line for line in marks(figure, ChartLine) if line.title]
    at = over_the_best(figure)
    assert [at(y) for _, y in line.points] == pytest.approx([20 - 40, 40 - 40])
    assert [at(y) for _, y in band.points] == pytest.approx([-10, 10, -10, -30]), "there above, back below"
    assert [at(dot.y) for dot in marks(figure, Dot)] == pytest.approx([59, 50, 10])
    assert figure.numbers == "elmo: best mean 40.00 in epoch 2."


def over_the_best(figure):
    """Pixels as points over the baseline's best, by two numbers of the axis."""
    labels = [label for label in marks(figure, Label) if label.anchor == "end"]
    zero, other = (next(label for label in labels if (label.text == "0") == is_zero) for is_zero in (True, False))
    per_pixel = float(other.text.replace("\N{MINUS SIGN}", "-")) / (other.y - zero.y)
    return lambda y: (y + 4 - zero.y) * per_pixel


def test_curves_begin_where_they_come_up_to_the_scale_of_the_best_scores():
    """Bests are 80 and 84, so that four points below 80 are shown; from 40 to 80 in one epoch, the last tenth of it."""
    figure = learning_curves(row(with_curves("glove", [20, 40, 80]), with_curves("elmo", [40, 84, 83])), ARMS)
    at, (first, second) = over_the_best(figure), [line for line in marks(figure, ChartLine) if line.title]
    assert [at(y) for _, y in first.points] == pytest.approx([-4 - 8 * 0.06, 0]), "six hundredths are the margin"
    assert [at(y) for _, y in second.points][1:] == pytest.approx([4, 3])
    epochs = {label.text: label.x for label in marks(figure, Label) if label.anchor == "middle"}
    per_epoch = epochs["3"] - epochs["2"]
    assert (epochs["3"] - first.points[0][0]) / per_epoch == pytest.approx(4.48 / 40)
    assert figure.numbers.endswith("elmo: best mean 84.00 in epoch 2, +4.00.")


def test_lines_of_arms_differ_in_more_than_colour():
    names = ("glove", "elmo", "elmo_random", "word2vec", "elmo_layer0", "elmo_shuffled")
    arms = arms_of({name: name for name in names})
    looks = [[arm.dash for arm in arms.values()], [arm.shape for arm in arms.values()]]
    looks.append([re.search('path d="(.*?)"', swatch(arm)).group(1) for arm in arms.values()])
    assert [len(set(own)) for own in looks] == [6, 6, 6]
    assert 'stroke-dasharray="7 4"' in swatch(arms["glove"])


def test_class_differences_have_the_interval_of_their_seeds():
    """PER: 50, 52, 54 and 60, 62, 64. A gain of 10; both variances are 4, so that df = 4 and t = 2.776 by Welch."""
    arms = []
    for name, scores in (("glove", (50.0, 52.0, 54.0)), ("elmo", (60.0, 62.0, 64.0))):
        rare = {"f1": 0.0, "gold": 3}
        details = [
            {"labels": {"PER": {"f1": s, "gold": 7}, "LOC": {"f1": 80 + s % 4, "gold": 4}, "RARE": rare}}
            for s in scores
        ]
        arms.append(with_each(group(name, *scores), "details", details))
    figure = class_differences((row(*arms)), ARMS)
    texts = [label.text for label in marks(figure, Label)]
    half = 2.776 * math.sqrt(4 / 3 + 4 / 3)
    assert f"+10.0, {10 - half:+.1f} to {10 + half:+.1f}" in texts
    assert [text for text in texts if "·" in text] == ["PER · 7", "LOC · 4"], "three examples are too few"
    assert "PER · 7: 52.0 to 62.0, +10.0" in figure.numbers
    sure, unsure = (line for line in marks(figure, ChartLine) if line.title)
    assert (sure.dash, unsure.dash) == ("", "3 3")
    assert class_differences((row(arms[0])), ARMS) is None, "there is nothing to compare"


def test_a_long_class_name_keeps_its_number_and_losses_have_minus_signs():
    pair = [
        group(name, score, details={"labels": {"a class " * 9: {"f1": score, "gold": 1234}}})
        for name, score in (("glove", 70.0), ("elmo", 50.0))
    ]
    texts = [label.text for label in marks(class_differences((row(*pair)), ARMS), Label)]
    assert [text for text in texts if text.endswith("… · 1,234")]
    assert "\N{MINUS SIGN}20" in texts
    assert not [text for text in texts if text.startswith("-")]


def test_a_legend_has_as_many_lines_as_it_needs():
    names = {name: f"an arm with a long name, {name}" for name in ("glove", "elmo", "elmo_random")}
    arms = [group(name, 70.0, epochs=[{"epoch": 1, "f1": 50.0}]) for name in names]
    figure = learning_curves((row(*arms)), arms_of(names))
    shown = with_legend(figure)
    labels = [label for label in marks(shown, Label) if label.text in names.values()]
    assert len({label.y for label in labels}) == 3
    assert shown.height - figure.height == 60
    assert min(mark.y for mark in marks(shown, Label) if mark not in labels) > max(label.y for label in labels)
    assert with_legend(shown) == shown
