"""NER's test score: seqeval computes it, and it equals the fast metric to the last bit."""

import random

import pytest
from seqeval.metrics import sequence_labeling

from tasks.data.tag_schemes import Span, bioes
from tasks.interface import ScorersDisagree
from tasks.ner.data import ColumnReader, NerExample
from tasks.ner.head import NerSettings
from tasks.ner.task import Ner
from tests.tasks.data.test_tag_schemes import ALL_TAGS, random_spans

TASK = Ner(NerSettings(), ColumnReader())


def make_examples(seed, count):
    draw = random.Random(seed)
    lengths = [draw.randrange(1, 25) for _ in range(count)]
    spans = [random_spans(draw, length) for length in lengths]
    return [
        NerExample(str(i), ("w",) * length, tuple(found), tuple(bioes(found, length)))
        for i, (length, found) in enumerate(zip(lengths, spans, strict=True))
    ]


def malformed(seed, examples):
    """Gold tags with some replaced by any other tag, so that many sequences break BIOES."""
    draw = random.Random(seed)
    return [[draw.choice(ALL_TAGS) if draw.random() < 0.3 else tag for tag in tags] for tags in TASK.gold(examples)]


@pytest.mark.parametrize("seed", range(20))
def test_seqeval_and_the_fast_metric_agree_to_the_last_bit(seed):
    examples = make_examples(seed, 100)
    predictions = malformed(seed, examples)
    fast, recorded = TASK.score(examples, predictions), TASK.score_test(examples, predictions)
    assert 10 < fast.values["f1"] < 90
    assert recorded == fast
    assert all(type(value) is float for value in recorded.values.values())


@pytest.mark.parametrize("predicted", [["O", "O"], ["S-PER", "O"]])
@pytest.mark.parametrize("gold", [(), (Span("PER", 0, 1),)])
def test_they_agree_where_nothing_is_gold_or_predicted(gold, predicted):
    example = NerExample("1", ("a", "b"), gold, tuple(bioes(gold, 2)))
    assert TASK.score_test([example], [predicted]) == TASK.score([example], [predicted])


def test_the_recorded_values_are_those_of_seqeval(monkeypatch):
    examples = make_examples(0, 10)
    predictions = malformed(0, examples)
    fast = TASK.score(examples, predictions).values
    nearly = (fast["precision"] / 100, fast["recall"] / 100, fast["f1"] / 100 + 1e-13, 0)
    monkeypatch.setattr(sequence_labeling, "precision_recall_fscore_support", lambda *_, **__: nearly)
    assert TASK.score_test(examples, predictions).values["f1"] == 100 * nearly[2] != fast["f1"]


def test_a_disagreement_is_an_error_with_both_values(monkeypatch):
    examples = make_examples(0, 10)
    monkeypatch.setattr(sequence_labeling, "precision_recall_fscore_support", lambda *_, **__: (1.0, 1.0, 0.5, 10))
    with pytest.raises(ScorersDisagree, match=r"test f1: expected the same value .* found 50\.0 and 100\.0\. Install"):
        TASK.score_test(examples, TASK.gold(examples))
