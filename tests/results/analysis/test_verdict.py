"""The verdict against the paper's number, by hand."""

import pytest

from results.analysis.paper_scores import load_paper
from results.analysis.rows import Group
from results.analysis.verdict import verdict
from tests.results.making import make_record

NER = load_paper().compared("paper", "ner")  # 90.15 and 92.22 +- 0.10
SQUAD = load_paper().compared("paper", "squad")  # 80.8 and 85.6, no deviation printed


def group(*scores, features="elmo", **options):
    return Group(
        features, {}, [make_record(score, features=features, seed=i, **options) for i, score in enumerate(scores)]
    )


@pytest.mark.parametrize(
    ("scores", "features", "kind", "text"),
    [
        ((92.0, 92.04), "elmo", "as paper", "as paper"),  # 0.20 away: on the edge of two deviations
        ((92.42, 92.42), "elmo", "as paper", "as paper"),
        ((92.01, 92.01), "elmo", "short", "0.21 short"),
        ((92.5, 92.7), "elmo", "above", "0.38 above"),
        ((90.0, 90.1), "glove", "as paper", "as paper"),
        ((89.0, 89.5), "glove", "short", "0.90 short"),
    ],
)
def test_two_deviations_of_the_papers_runs(scores, features, kind, text):
    found = verdict(group(*scores, features=features), NER)
    assert (found.kind, str(found)) == (kind, text)


def test_ours_where_the_paper_prints_none():
    wide, narrow = group(83.0, 87.0), group(84.6, 84.8)  # deviations 2.83 and 0.14
    assert verdict(wide, SQUAD).kind == "as paper"
    assert str(verdict(narrow, SQUAD)) == "0.90 short"
    assert str(verdict(group(84.0), SQUAD)) == "-1.60 (one run)"


def test_no_verdict_on_what_the_paper_did_not_run():
    assert verdict(None, NER) is None
    assert verdict(group(92.0), None) is None
    assert verdict(group(92.0, features="elmo_random"), NER) is None
    assert verdict(group(92.0, limit=100), NER) is None
    assert verdict(group(92.0, variant={"train_fraction": 0.1}), NER) is None
    assert verdict(group(92.0, variant={"train_fraction": 1.0}), NER) is not None
    assert verdict(group(92.0, metric="em"), NER) is None
