"""Shifts: drops on further test sets and kinds against scores added up here, and their intervals against a formula."""

from dataclasses import replace

import numpy as np
import pytest

from results import shift
from results.records.example_scores import add_groups, write_examples
from results.records.identity import also_name
from results.records.metric import Grouping, Metric, Ratio
from results.records.record import FurtherTest, read_record, write_record
from results.stats import quantile
from results.studies import estimate
from tests.results.making import make_record, save

F1 = Metric([[Ratio({"tp": 100}, {"tp": 1, "fp": 1}), Ratio({"tp": 100}, {"tp": 1, "fn": 1})]])
HASHES = {"train": "a" * 64, "dev": "b" * 64, "test": "c" * 64}
NAMES = ("tp", "fp", "fn")
DRAWN = np.random.default_rng(0)
OWN = {arm: [DRAWN.poisson(rates, (60, 3)) for _ in (1, 2)] for arm, rates in
       {"glove": (3, 1, 1), "elmo": (4, 0.5, 0.5)}.items()}  # fmt: skip
FAR = {arm: [DRAWN.poisson(rates, (40, 3)) for _ in (1, 2)] for arm, rates in
       {"glove": (1, 2, 2), "elmo": (2, 2, 1)}.items()}  # fmt: skip


def f1(counts):
    tp, fp, fn = np.sum(counts, axis=0)
    return 200 * tp / (2 * tp + fp + fn)


def as_examples(counts):
    return [dict(zip(NAMES, map(int, row), strict=True)) for row in counts]


def save_arm(runs, arm, of_arm, far_of_arm):
    for seed, (own, far) in enumerate(zip(of_arm, far_of_arm, strict=True), start=1):
        record = make_record(f1(own), features=arm, seed=seed)
        also = {"tweets": FurtherTest({"f1": f1(far)}, {"sentences": 40}, {})}
        record = replace(record, fingerprinted={**record.fingerprinted, "data": HASHES}, metrics={"f1": F1}, also=also)
        path = save(runs, record, as_examples(own))
        write_examples(path.with_name(also_name("tweets")), read_record(path).fingerprint, as_examples(far))


@pytest.fixture
def runs(tmp_path):
    for arm, of_arm in OWN.items():
        save_arm(tmp_path, arm, of_arm, FAR[arm])
    kinds = {"genre": Grouping(("news", "mail"), [0] * 45 + [1] * 15), "length": Grouping(("a", "b"), [0, 1] * 30)}
    add_groups(tmp_path, "ner", HASHES, list(map(str, range(60))), kinds)
    return tmp_path


def printed(runs, capsys):
    assert shift.main(["--runs", str(runs), "--format", "md", "--write", str(runs / "kept")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| NER")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {cell[1]: cell[2:] for cell in cells}


def test_a_drop_is_the_score_on_the_test_set_minus_the_other(runs, capsys):
    shown = printed(runs, capsys)
    assert list(shown) == ["further test set: tweets", "genre: news", "genre: mail"]  # lengths: where there is no other
    sides = {"further test set: tweets": FAR}
    sides |= {name: {arm: [own[at] for own in OWN[arm]] for arm in OWN}
              for name, at in (("genre: news", slice(0, 45)), ("genre: mail", slice(45, 60)))}  # fmt: skip
    for name, side in sides.items():
        pairs = {arm: zip(OWN[arm], side[arm], strict=True) for arm in OWN}
        drops = {arm: np.mean([f1(own) - f1(far) for own, far in of_arm]) for arm, of_arm in pairs.items()}
        values = [cell.split(",")[0] for cell in shown[name][4:]]
        expected = [drops["glove"], drops["elmo"], drops["elmo"] - drops["glove"]]
        assert values == [f"{value:+.2f}" for value in expected]


def test_the_control_without_context_is_next_to_both_arms(runs, capsys):
    before = printed(runs, capsys)
    own, far = OWN["elmo"], FAR["elmo"][::-1]
    save_arm(runs, "elmo_layer0", own, far)
    for name, cells in printed(runs, capsys).items():
        n, glove, elmo, control, gain, *drops, more = cells
        assert [n, glove, elmo, gain, *drops[:2], more] == before[name]
        side = far if name.endswith("tweets") else [it[:45] if name.endswith("news") else it[45:] for it in own]
        assert control.startswith(f"{np.mean(list(map(f1, side))):.2f}")
        drop = np.mean([f1(one) - f1(other) for one, other in zip(own, side, strict=True)])
        assert drops[2].split(",")[0] == f"{drop:+.2f}"
    assert "tweets (further test set), NER, CoNLL-2003, biLM without context" in (runs / "kept/shift.svg").read_text()
    assert shift.main(["--runs", str(runs), "--compare", "elmo_layer0", "elmo"]) == 0


def test_a_line_without_runs_of_the_control_has_none(runs, capsys):
    save_arm(runs, "elmo_layer0", OWN["elmo"], FAR["elmo"])
    for path in sorted(runs.rglob("elmo_layer0/*/record.json")):
        write_record(path, replace(read_record(path), also={}))
    cells = printed(runs, capsys)["further test set: tweets"]
    assert (cells[3], cells[7]) == ("-", "-")
    assert "-" not in printed(runs, capsys)["genre: news"]


def test_the_interval_of_a_drop_between_two_sets_is_that_of_two_samples():
    """Accuracy: the variances of both shares add up; leaving out examples estimates that sum."""
    own, far = ([1] * 320 + [0] * 80), ([1] * 180 + [0] * 120)
    counts = np.zeros((1, 700, 4))
    counts[0, :400, 0], counts[0, :400, 1], counts[0, 400:, 2], counts[0, 400:, 3] = own, 1, far, 1

    def drop(sums):
        return 100 * (sums[..., 0] / np.maximum(sums[..., 1], 1) - sums[..., 2] / np.maximum(sums[..., 3], 1))

    found = estimate(drop, None, counts)
    half = quantile(0.975, 699) * 100 * (0.8 * 0.2 / 399 + 0.6 * 0.4 / 299) ** 0.5
    assert found.value == pytest.approx(20)
    assert found.interval.ends == pytest.approx((20 - half, 20 + half), rel=0.01)


def test_a_kind_that_is_the_whole_test_set_costs_nothing_for_sure(runs):
    counts = np.concatenate([np.stack(OWN["glove"]), np.stack(OWN["glove"])], axis=2).astype(float)

    def drop(sums):
        here, there = np.split(sums, 2, axis=-1)
        return here.sum(-1) - there.sum(-1)

    assert estimate(drop, None, counts).value == 0


def test_the_table_and_the_figure_are_kept(runs, capsys):
    printed(runs, capsys)
    assert (runs / "kept" / "shift.md").read_text().startswith("| trained on | tested on |")
    figure = (runs / "kept" / "shift.svg").read_text()
    assert "tweets (further test set), NER, CoNLL-2003" in figure
    assert ("news (genre), NER" in figure) != ("mail (genre), NER" in figure)  # the one that loses most


@pytest.mark.parametrize("compared", [("glove", "elmo"), ("elmo", "glove")])
def test_the_figure_gives_each_arm_its_drop(runs, compared):
    assert shift.main(["--runs", str(runs), "--compare", *compared, "--write", str(runs / "kept")]) == 0
    figure = (runs / "kept" / "shift.svg").read_text()
    for arm, title in (("glove", "GloVe"), ("elmo", "+ ELMo")):
        drop = np.mean([f1(own) - f1(far) for own, far in zip(OWN[arm], FAR[arm], strict=True)])
        assert f"tweets (further test set), NER, CoNLL-2003, {title}: {drop:.2f}" in figure


def test_runs_that_lack_a_further_test_set_are_named(runs, capsys):
    """Without both arms there is no drop on it; a kept model can still be tested."""
    for path in sorted(runs.rglob("record.json")):
        record = read_record(path)
        if record.identity.features == "elmo":
            write_record(path, replace(record, also={}, model="d" * 64 if record.identity.seed == 2 else None))
    assert shift.main(["--runs", str(runs)]) == 0
    shown = capsys.readouterr()
    assert "further test set" not in shown.out
    (said,) = shown.err.splitlines()
    assert "elmo seed 1: no scores on tweets, no kept model" in said
    assert "elmo seed 2: no scores on tweets, a kept model" in said
    assert "glove" not in said


def test_runs_without_kinds_are_said_to_lack_them(tmp_path, capsys):
    for arm in OWN:
        save(
            tmp_path, replace(make_record(f1(OWN[arm][0]), features=arm), metrics={"f1": F1}), as_examples(OWN[arm][0])
        )
    assert shift.main(["--runs", str(tmp_path)]) == 1
    assert "kinds of examples are not known" in capsys.readouterr().err
