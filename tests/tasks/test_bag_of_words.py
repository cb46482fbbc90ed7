"""The head without vectors: what it learns from, and that its runs are ordinary ones."""

import pytest

from elmo.common.errors import InputError
from results.records.example_scores import read_examples
from results.records.identity import EXAMPLES_NAME
from results.records.record import read_record
from tasks.bag_of_words import BagOfWords, of_texts, of_token
from tasks.classify import Classify, TableReader
from tasks.kinds import LabelledText
from tasks.modules.biattentive import BcnSettings
from tasks.running.config import typed_config
from tasks.running.experiment import run
from tasks.running.predict import load_model


def test_a_text_is_its_words_and_pairs_of_neighbours():
    assert of_texts([("Not", "so", "good")]) == ["not", "so", "good", "not so", "so good"]


def test_a_pair_also_says_what_both_have():
    found = of_texts([("a", "cat"), ("a", "dog")])
    assert {"0: a", "0: a cat", "1: dog", "both: a", "one: cat", "one: dog"} <= set(found)
    assert "both: cat" not in found


def test_a_token_has_its_neighbours_and_its_form():
    assert of_token(("In", "Oslo", "2"), 1) == ["oslo", "form: Aaaa", "end: slo", "before: in", "after: 2"]


@pytest.mark.parametrize("task", ["sst5", "snli", "ner"])
def test_its_runs_are_ordinary_and_do_not_depend_on_the_seed(tmp_path, task):
    typed = [f"task={task}", "data=mini", "features=bag_of_words", "limit=60", f"runs_dir={tmp_path}"]
    scores = []
    for seed in (1, 2):
        ended = run(typed_config([*typed, f"seed={seed}"]), in_sweep=True)
        record = read_record(ended.folder / "record.json")
        examples = read_examples(ended.folder / EXAMPLES_NAME, record.fingerprint)
        metric = record.metrics[record.metric]
        assert metric.of_examples(examples) == pytest.approx(record.score)
        scores.append(record.score)
    assert scores[0] == scores[1]


def texts(first, count, labels="-+"):
    of = range(first, first + count)
    return [LabelledText(str(i), (f"is{labels[i % len(labels)]}", f"w{i}"), labels[i % len(labels)]) for i in of]


def fitted(labels="-+"):
    task = Classify(BcnSettings(), TableReader())
    task.learn_labels(texts(0, 60, labels))
    head = BagOfWords(task)
    assert head.fit(texts(0, 60, labels), texts(100, 12, labels)) == {"accuracy": 100}
    return task, head


def test_words_that_tell_the_label_are_learned():
    task, head = fitted()
    assert head.decode([], task.collate(texts(200, 4))) == ["-", "+", "-", "+"]


@pytest.mark.parametrize("labels", ["-+", "-0+"])
def test_what_is_kept_predicts_the_same(labels):
    task, head = fitted(labels)
    again = BagOfWords(task)
    again.expect(head.grams, head.labels)
    again.load_state_dict(head.state_dict())
    batch = task.collate(texts(200, 6, labels))
    answers = head.decode_with_probabilities([], batch)
    assert again.decode_with_probabilities([], batch) == answers
    for example, (label, shares) in zip(texts(200, 6, labels), answers, strict=True):
        assert label == example.label == max(zip(shares, task.probability_labels(), strict=True))[1]
        assert sum(shares) == pytest.approx(1)


@pytest.mark.parametrize("task", ["sst5", "ner"])
def test_a_run_that_kept_it_predicts_the_same(tmp_path, task):
    """The first of them has labels that are no texts, the second one tags."""
    typed = [f"task={task}", "data=mini", "features=bag_of_words", "limit=60", f"runs_dir={tmp_path}"]
    ended = run(typed_config([*typed, "keep_weights=true"]), in_sweep=True)
    lines = ["Ada Lind lives in Oslo.", "A lovely film, and a warm one."]
    assert load_model(ended.folder).predict(lines) == ended.model.predict(lines)


def test_a_task_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match="expected a task that classifies texts or tags words, found task=coref"):
        run(typed_config(["task=coref", "data=mini", "features=bag_of_words", "limit=2", f"runs_dir={tmp_path}"]), True)
