"""The figure of gains against perplexity: what is drawn where, and that cards state the perplexities that we draw."""

import dataclasses
import re

import pytest

from elmo.common.errors import InputError
from results.experiments import ArmPerplexity, experiment_names, load_experiment
from results.figures.charts import gains_by_perplexity
from results.figures.drawing import Area, Dot, Label
from results.records.collect import collect
from results.tables.fill import fill
from tests.results.making import make_record, run_report, run_table, save

GOOD, FAIR, POOR = "a" * 64, "b" * 64, "c" * 64
OWN = f"""
title = "Three biLMs"
seeds = [1, 2]
compare = ["glove", "good"]
by_arm = true
[arms]
glove = ["features=glove"]
good = ["features=elmo", "features.elmo.weights=good"]
fair = ["features=elmo", "features.elmo.weights=fair"]
poor = ["features=elmo", "features.elmo.weights=poor"]
[perplexities]
good = {{mean = 50.0, unknown = 1.25, predictions = 1_000, weights = "{GOOD}", card = "good.md"}}
fair = {{mean = 100, unknown = 1.5, predictions = 1_000, weights = "{FAIR}", card = "fair.md"}}
poor = {{mean = 200.0, unknown = 2.0, predictions = 1_000, weights = "{POOR}", card = "poor.md"}}
[[rows]]
overrides = ["task=ner,sst5", "data=paper"]
split = "dev"
"""


def save_bilm(runs, name, weights, devs, task="ner", metric="f1"):
    for seed, dev in enumerate(devs, start=1):
        variant = {"features.elmo.weights": name}
        record = make_record(10.0, task=task, metric=metric, features="elmo", seed=seed, dev=dev, variant=variant)
        save(runs, dataclasses.replace(record, weights={"name": name, "sha256": weights}))


@pytest.fixture
def runs(tmp_path):
    """Gains over a baseline of 90: 4, 2 and 0, by two runs each."""
    for seed, dev in ((1, 89.0), (2, 91.0)):
        save(tmp_path / "runs", make_record(20.0, seed=seed, dev=dev))
    save_bilm(tmp_path / "runs", "good", GOOD, (93.0, 95.0))
    save_bilm(tmp_path / "runs", "fair", FAIR, (92.0, 92.0))
    save_bilm(tmp_path / "runs", "poor", POOR, (90.0, 90.0))
    return tmp_path / "runs"


def drawn(runs, own):
    (figure,) = gains_by_perplexity(fill(collect([runs]), load_experiment(str(own))))
    large = [mark for mark in figure.marks if isinstance(mark, Dot) and mark.radius > 4]
    means = {mark.title.partition(":")[0]: mark for mark in large}
    return figure, means


def test_gains_are_drawn_against_the_logarithm_of_the_perplexity(runs, own):
    figure, means = drawn(runs, own)
    good, fair, poor = (means[name] for name in ("good", "fair", "poor"))
    assert good.x > fair.x > poor.x, "lower perplexities are at the right"
    assert fair.x == pytest.approx((good.x + poor.x) / 2), "50, 100, 200"
    assert fair.y == pytest.approx((good.y + poor.y) / 2), "4, 2 and 0 points: dev scores, not those of the test set"
    assert good.y < poor.y
    dots = [mark.y for mark in figure.marks if isinstance(mark, Dot) and mark.radius == 2 and mark.x == good.x]
    point = (poor.y - good.y) / 4
    assert sorted(dots) == pytest.approx([good.y - point, good.y + point]), "its runs, 3 and 5 points"
    (band,) = (mark for mark in figure.marks if isinstance(mark, Area))
    ends = sorted({y for _, y in band.points})
    assert ends == pytest.approx([poor.y - point, poor.y + point]), "the baseline's runs, 89 and 91"
    text = "good: perplexity 50.00 (1.25 % of the words are <UNK>), gain +4.00 (2 runs: +3.00, +5.00)"
    assert text in figure.description
    assert good.title == text
    assert "1,000 held-out predictions" in figure.caption
    assert "gain in dev F1 over GloVe (points)" in [mark.text for mark in figure.marks if isinstance(mark, Label)]


def test_names_have_the_number_of_runs(runs, own):
    (runs / "paper/ner/elmo/features.elmo.weights=poor/seed-2/record.json").unlink()
    figure, _ = drawn(runs, own)
    assert [arm.title for arm in figure.legend] == ["good (2)", "fair (2)", "poor (1)"]
    assert len({(arm.colour, arm.shape) for arm in figure.legend}) == 3
    assert "GloVe (2)" in [mark.text for mark in figure.marks if isinstance(mark, Label)]


def test_another_bilm_is_not_drawn_at_this_perplexity(runs, own, capsys):
    other = "d" * 64
    for devs in ((99.0,), (99.0, 99.0)):  # of one run, then of both
        save_bilm(runs, "fair", other, devs)
        _, means = drawn(runs, own)
        assert set(means) == {"good", "poor"}
    code, out, err = run_table(capsys, "--runs", runs, "--experiment", own, "--check")
    assert code == 1
    assert f"fair.md states the perplexity of the biLM {FAIR}, found runs with {other}" in out
    assert f"the perplexity of the biLM {FAIR}" in err
    assert GOOD not in err


def test_the_table_names_bilms_without_a_perplexity(runs, own, capsys):
    own.write_text(re.sub("\nfair = {.*", "", OWN), encoding="utf-8")
    code, out, _ = run_table(capsys, "--runs", runs, "--experiment", own)
    assert code == 0
    assert f"fair: no perplexity of its biLM {FAIR}; to draw it, add [perplexities.fair]" in out
    assert "glove: no perplexity" not in out
    assert set(drawn(runs, own)[1]) == {"good", "poor"}


def test_one_bilm_or_none_is_no_figure(runs, own):
    for name in ("fair", "poor"):
        save_bilm(runs, name, "d" * 64, (90.0, 90.0))
    table = fill(collect([runs]), load_experiment(str(own)))
    assert gains_by_perplexity(table) == []
    plain = dataclasses.replace(table.experiment, perplexities={})
    assert gains_by_perplexity(dataclasses.replace(table, experiment=plain)) == []


def test_the_report_shows_a_panel_for_each_task_and_writes_their_files(runs, own, tmp_path):
    for seed in (1, 2):
        save(runs, make_record(20.0, task="sst5", metric="accuracy", seed=seed, dev=40.0))
    for name, weights in (("good", GOOD), ("poor", POOR)):
        save_bilm(runs, name, weights, (45.0, 46.0), task="sst5", metric="accuracy")
    status, text = run_report(runs, "--experiment", own, "--figures", tmp_path / "figures")
    assert status == 0
    section = text.partition("<h3>Three biLMs</h3>")[2].partition("</section>")[0]
    assert re.findall(r'aria-label="(.*?)\. Large marks', section) == ["NER, CoNLL-2003", "SST-5"]
    written = {path.name for path in (tmp_path / "figures").glob("mine*.svg")}
    assert written == {"mine-paper-ner.svg", "mine-paper-sst5.svg"}


def test_the_table_has_the_perplexities(runs, own, capsys):
    code, out, _ = run_table(capsys, "--runs", runs, "--experiment", own)
    assert code == 0
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    assert lines["fair"][:4] == ["100.00", "1.50", "%", "92.00±0.00"]
    assert lines["GloVe"][:2] == ["-", "-"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("mean = 50.0", "mean = 0.5", r"perplexities\.good\.mean: expected greater than or equal to 1, found 0\.5"),
        ("good = {", "best = {", "perplexities: expected names of arms, .*found best"),
        (', card = "poor.md"', "", r"perplexities\.poor\.card: missing"),
    ],
)
def test_bad_files(own, before, after, message):
    text = OWN.replace(before, after)
    assert text != OWN
    own.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_experiment(str(own))


def states(card, own):
    """Whether a row of the card has both directions, this mean of them, and these counts."""
    for line in card.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for forward, backward, mean in zip(cells, cells[1:], cells[2:], strict=False):
            if mean == f"{own.mean:.2f}" and {f"{own.unknown:.2f}%", f"{own.predictions:,}"} <= set(cells):
                numbers = re.fullmatch(r"([0-9.]+) ([0-9.]+)", f"{forward} {backward}")
                if numbers and abs((float(numbers[1]) + float(numbers[2])) / 2 - own.mean) < 0.011:
                    return True
    return False


STATED = [(name, arm) for name in experiment_names() for arm in load_experiment(name).perplexities]


@pytest.mark.parametrize(("experiment", "arm"), STATED)
def test_a_card_states_each_perplexity_that_we_draw(repository, experiment, arm):
    own = load_experiment(experiment).perplexities[arm]
    card = (repository / own.card).read_text(encoding="utf-8")
    assert states(card, own)
    for field, other in (("mean", own.mean + 0.01), ("unknown", own.unknown + 0.01), ("predictions", 762_058)):
        assert not states(card, dataclasses.replace(own, **{field: other})), field


def test_a_card_s_perplexity_of_another_bilm_is_not_its_own():
    row = "| five files | 57.94 | 58.60 | 58.27 | 1.67% | 67.23 | 561,812 |"
    assert states(row, ArmPerplexity(58.27, 1.67, 561_812, "", ""))
    assert not states(row, ArmPerplexity(67.23, 1.67, 561_812, "", ""))
