"""NER's test score: seqeval computes it, and it equals the fast metric to the last bit."""

import random

import pytest
from seqeval.metrics import sequence_labeling

from tasks.data.text import Span, bioes
from tasks.ner import ColumnReader, Ner, NerExample, NerSettings
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


@pytest.mark.parametrize("tags", [["O"], ["O", "O", "S-PER"]])
def test_a_head_that_tags_padding_is_an_error_not_a_lower_score(tags):
    with pytest.raises(ValueError, match=rf"a tag for each of 2 words of 1, found {len(tags)}\."):
        TASK.score([NerExample("1", ("a", "b"), (), ("O", "O"))], [tags])


def test_the_recorded_values_are_those_of_seqeval(monkeypatch):
    examples = make_examples(0, 10)
    predictions = malformed(0, examples)
    fast = TASK.score(examples, predictions).values
    nearly = (fast["precision"] / 100, fast["recall"] / 100, fast["f1"] / 100 + 1e-13, 0)
    monkeypatch.setattr(sequence_labeling, "precision_recall_fscore_support", lambda *_, **__: nearly)
    assert TASK.score_test(examples, predictions).values["f1"] == 100 * nearly[2] != fast["f1"]


def test_the_confidence_in_an_entity_is_the_product_over_its_tokens():
    gold = (Span("PER", 0, 2), Span("LOC", 3, 4))
    example = NerExample("1", tuple("abcd"), gold, tuple(bioes(gold, 4)))
    tags = ["B-PER", "E-PER", "S-LOC", "S-ORG"]
    assert TASK.judged([example], [(tags, [0.5, 0.5, 0.75, 0.125])]) == [[(0.25, True), (0.75, False), (0.125, False)]]
    assert TASK.judged([example], [(["O"] * 4, [1.0] * 4)]) == [[]]


def test_labels_without_a_common_one_are_no_entities():
    gold = (Span("corporation", 0, 2), Span("group", 2, 4), Span("product", 4, 5))
    example = NerExample("1", tuple("abcde"), gold, tuple(bioes(gold, 5)))
    tables = {"corporation": "ORG", "group": "ORG", "product": None}, {"ORG": "ORG", "MISC": None}
    (mapped,), (tags,) = TASK.relabelled([example], [["B-ORG", "E-ORG", "B-ORG", "E-ORG", "S-MISC"]], *tables)
    assert mapped.spans == (Span("ORG", 0, 2), Span("ORG", 2, 4)), "neighbours stay two"
    assert TASK.score_test([mapped], [tags]).examples == [{"tp": 2, "fp": 0, "fn": 0, "document": 0}]
