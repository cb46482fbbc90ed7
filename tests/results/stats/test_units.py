"""Articles of test examples: from the scores of new records, from sizes for those of earlier versions."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from results.records.record import read_record
from results.tables.rows import Group, Row, unit_numbers
from tests.results.making import make_record

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "results" / "published"
MINI = ROOT / "tasks" / "mini" / "squad" / "test.json"


def on_mini(record):
    """The record, made on the test file of the mini data."""
    digest = hashlib.sha256(hashlib.sha256(MINI.read_bytes()).digest()).hexdigest()
    return replace(record, fingerprinted={**record.fingerprinted, "data": {"test": digest}})


def test_sizes_of_the_mini_data_are_those_of_the_file():
    articles = json.loads(MINI.read_text(encoding="utf-8"))["data"]
    expected = [i for i, article in enumerate(articles) for p in article["paragraphs"] for _ in p["qas"]]
    assert unit_numbers(on_mini(make_record()), [{"f1": 1.0}] * len(expected), "article") == expected


@pytest.mark.parametrize("data", ["mini", "paper"])
def test_every_published_squad_record_has_its_articles(data):
    paths = sorted((PUBLISHED / data / "squad").rglob("record.json"))
    assert paths
    for path in paths:
        record = read_record(path)
        test = record.data["test"]
        numbers = unit_numbers(record, [{"f1": 1.0}] * test["questions"], "article")
        assert len(set(numbers)) == test["articles"]


def test_numbers_among_the_scores_come_first():
    scores = [{"f1": 1.0, "article": number} for number in (3, 3, 1)]
    assert unit_numbers(make_record(), scores, "article") == [3, 3, 1]


def test_unknown_articles():
    assert unit_numbers(make_record(), [{"f1": 1.0}] * 3, "article") is None  # another file
    assert unit_numbers(on_mini(make_record()), [{"f1": 1.0}] * 3, "article") is None  # a limited run
    assert unit_numbers(on_mini(make_record()), [{"f1": 1.0}] * 544, "document") is None
    assert unit_numbers(on_mini(make_record()), [{"f1": 1.0}] * 544, "") is None


def test_questions_of_one_article_are_left_out_together():
    """Six articles of ten equal questions: as sure as six questions."""

    def row(times, numbered):
        groups = []
        for features, right in (("glove", [0, 1, 0, 1, 1, 0]), ("elmo", [1, 1, 1, 0, 1, 1])):
            scores = [{"f1": 100.0 * score, "article": i} for i, score in enumerate(right)] * times
            own = scores if numbered else [{"f1": score["f1"]} for score in scores]
            record = make_record(100 * sum(right) / 6, features=features, task="squad")
            groups.append(Group(features, {}, [record], [own]))
        return Row("other", "squad", groups)

    single, clustered, alone = row(1, True).interval, row(10, True).interval, row(10, False).interval
    assert (clustered.low, clustered.high, clustered.clusters) == pytest.approx((single.low, single.high, 6))
    assert (alone.clusters, alone.unit) == (None, "article")
    assert alone.low > clustered.low
