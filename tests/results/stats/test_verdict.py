"""The verdict against the paper's number, by hand."""

import math

import pytest

from results.names import load_paper
from results.stats import quantile
from results.tables.rows import Group, verdict
from tests.results.making import make_record

NER = load_paper().compared("paper", "ner")  # 90.15 and 92.22 +- 0.10 of five runs; margin 0.3
SQUAD = load_paper().compared("paper", "squad")  # 80.8 and 85.6, no deviation printed


def group(*scores, features="elmo", **options):
    return Group(
        features, {}, [make_record(score, features=features, seed=i, **options) for i, score in enumerate(scores)]
    )


def test_the_interval_is_that_of_welch():
    """Ours: 92.0, 92.1, 92.2, variance 0.01; the paper's: variance 0.01 of five."""
    found = verdict(group(92.0, 92.1, 92.2), NER)
    parts = 0.01 / 3, 0.01 / 5
    df = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 4)
    half = quantile(0.975, df) * math.sqrt(sum(parts))
    assert found.difference == pytest.approx(-0.12)
    assert (found.low, found.high) == pytest.approx((-0.12 - half, -0.12 + half))


def test_without_a_printed_deviation_the_papers_runs_have_ours():
    """The paper prints none for baselines: variance 0.01 of our three runs and of its five; it says 1 for no number."""
    for paper, runs in ((NER, 5), (SQUAD, 1)):
        printed = paper.scores["glove"]
        found = verdict(group(printed - 0.1, printed, printed + 0.1, features="glove"), paper)
        half = 4.303 * math.sqrt(0.01 * (1 / 3 + 1 / runs))
        assert (found.low, found.high) == pytest.approx((-half, half), abs=1e-4)


def test_one_run_of_ours_has_the_papers_deviation():
    alone = verdict(group(92.0), NER)
    half = 2.776 * math.sqrt(0.01 * (1 + 1 / 5))
    assert (alone.low, alone.high) == pytest.approx((-0.22 - half, -0.22 + half), abs=1e-4)


@pytest.mark.parametrize(
    ("scores", "features", "kind"),
    [
        ((92.20, 92.25, 92.15, 92.20, 92.30), "elmo", "equivalent"),
        ((92.12, 92.10, 92.08, 92.11, 92.09), "elmo", "equivalent"),  # 0.12 below, and surely less than 0.3
        # Variances 0.01 / 3 and 0.01 / 5, about 4 degrees of freedom: 0.12 + 2.13 * 0.073 is below the margin, and
        # 0.12 + 2.57 * 0.073, for tests at 2.5 %, is not.
        ((92.0, 92.1, 92.2), "elmo", "equivalent"),
        ((92.0, 92.4), "elmo", "open"),  # no difference to see, but two runs show nothing
        ((91.1, 91.2, 91.15), "elmo", "short"),
        ((92.9, 93.0, 92.95), "elmo", "above"),
        ((90.0, 90.3, 90.15), "glove", "open"),
    ],
)
def test_kinds(scores, features, kind):
    assert verdict(group(*scores, features=features), NER).kind == kind


def test_equal_scores_decide_nothing():
    """The paper prints no deviation of its baseline, and ours is 0."""
    found = verdict(group(90.1, 90.1, features="glove"), NER)
    assert (found.kind, found.low, str(found)) == ("open", None, "-0.05 open")


def test_more_seeds_decide_what_few_leave_open():
    few, many = (group(*[92.12, 92.32] * n) for n in (1, 5))
    assert (verdict(few, NER).kind, verdict(many, NER).kind) == ("open", "equivalent")


def test_a_verdict_as_text():
    found = verdict(group(91.0, 91.0), NER)  # 2.776 * 0.1 / sqrt(5)
    assert str(found) == "-1.22 short (-1.34 to -1.10)"
    assert str(verdict(group(84.0), SQUAD)) == "-1.60 one run"


def test_no_verdict_on_what_the_paper_did_not_run():
    assert verdict(None, NER) is None
    assert verdict(group(92.0), None) is None
    assert verdict(group(92.0, features="elmo_random"), NER) is None
    assert verdict(group(92.0, limit=100), NER) is None
    assert verdict(group(92.0, variant={"train_fraction": 0.1}), NER) is None
    assert verdict(group(92.0, variant={"train_fraction": 1.0}), NER) is not None
    assert verdict(group(92.0, metric="em"), NER) is None
