"""Articles of test examples, which their scores name."""

from pathlib import Path

import pytest

from results.records.example_scores import read_examples
from results.records.identity import EXAMPLES_NAME
from results.records.record import read_record
from results.tables.rows import Group, Row, unit_numbers
from tests.results.making import make_record

PUBLISHED = Path(__file__).parents[3] / "results" / "published"


@pytest.mark.parametrize("data", ["mini", "paper"])
def test_every_published_squad_record_has_its_articles(data):
    paths = sorted((PUBLISHED / data / "squad").rglob("record.json"))
    assert paths
    for path in paths:
        record = read_record(path)
        examples = read_examples(path.with_name(EXAMPLES_NAME), record.fingerprint)
        assert len(set(unit_numbers(examples, "article"))) == record.data["test"]["articles"]


def test_unknown_articles():
    assert unit_numbers([{"f1": 1.0, "article": number} for number in (3, 3, 1)], "article") == [3, 3, 1]
    assert unit_numbers([{"f1": 1.0}] * 3, "article") is None
    assert unit_numbers([{"f1": 1.0}] * 3, "") is None


def test_questions_of_one_article_are_left_out_together():
    """Six articles of ten equal questions: as sure as six questions."""

    def row(times, numbered):
        groups = []
        for features, right in (("glove", [0, 1, 0, 1, 1, 0]), ("elmo", [1, 1, 1, 0, 1, 1])):
            scores = [{"f1": 100.0 * score, "article": i} for i, score in enumerate(right)] * times
            scores = [{**score, "article": i} for i, score in enumerate(scores)] if numbered == "apart" else scores
            own = scores if numbered else [{"f1": score["f1"]} for score in scores]
            record = make_record(100 * sum(right) / 6, features=features, task="squad")
            groups.append(Group(features, {}, [record], [own]))
        return Row("other", "squad", groups)

    single, clustered, alone = row(1, True).interval, row(10, True).interval, row(10, False).interval
    assert (clustered.low, clustered.high, clustered.clusters) == pytest.approx((single.low, single.high, 6))
    assert (alone.clusters, alone.unit) == (None, "article")
    apart = row(10, "apart").interval
    assert (apart.low, apart.high, apart.clusters, apart.unit) == (alone.low, alone.high, None, "")
    assert alone.low > clustered.low
