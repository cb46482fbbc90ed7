"""The answer in words follows from the records: a gain only beyond noise, and a signal only beyond chance."""

import random
from dataclasses import replace

import pytest

from results.experiments import load_experiment
from tasks.compare.answer import answer_of, chance
from tasks.compare.plan import make_plan
from tasks.compare.reading import OwnData, OwnExample
from tasks.metrics import CLASS_METRICS
from tests.results.making import make_record, save

SIZE = 300


def planned(folder, size=SIZE, share=2):
    rows = [OwnExample((f"text {number}",), "no" if number % share else "yes") for number in range(size)]
    return make_plan(OwnData("classify", ["text", "label"], rows, []), "mine", folder, [1, 2, 3])


def answered(folder, **right):
    """The answer where each arm is right with this chance: an example that is hard is hard for all arms and seeds."""
    plan = planned(folder)
    for cell in load_experiment(str(plan.experiment)).cells:
        hard = random.Random(cell.identity.fold)
        luck = random.Random(f"{cell.arm} {cell.seed} {cell.identity.fold}")
        draws = [0.8 * hard.random() + 0.2 * luck.random() for _ in range(SIZE // 5)]
        examples = [{"correct": int(draw < right[cell.arm])} for draw in draws]
        score = 100 * sum(own["correct"] for own in examples) / len(examples)
        record = make_record(
            score, task="classify", metric="accuracy", data=plan.name, fold=cell.identity.fold, folds=5
        )
        save(folder, replace(record, identity=cell.identity, metrics=CLASS_METRICS), examples)
    return answer_of(plan, folder, 4.0)


def test_a_gain(tmp_path):
    answer = answered(tmp_path, bag_of_words=0.55, glove=0.65, elmo=0.85, elmo_layer0=0.66)
    assert answer.sentence.startswith("On these 300 texts ELMo adds +")
    assert " over GloVe and +" in answer.sentence
    assert answer.sentence.endswith(" over a bag of words; it costs 4.0 ms a text.")
    assert "5-fold cross-validation" in answer.text
    assert "<svg" in answer.svg
    gain = answer.scores["elmo"] - answer.scores["glove"]
    assert f"{gain:+.1f} points" in answer.sentence


def test_a_gain_that_needs_no_context(tmp_path):
    answer = answered(tmp_path, bag_of_words=0.55, glove=0.65, elmo=0.85, elmo_layer0=0.85)
    assert "ELMo adds +" in answer.sentence
    reached = answer.scores["elmo_layer0"]
    ending = f" These data do not show that context helps: the biLM without it reaches {reached:.1f}."
    assert answer.sentence.endswith(f"ms a text.{ending}")


def test_no_difference(tmp_path):
    answer = answered(tmp_path, bag_of_words=0.65, glove=0.75, elmo=0.755, elmo_layer0=0.74)
    assert "ELMo makes no difference to GloVe that these data can show: " in answer.sentence
    assert "costs" not in answer.sentence


def test_it_may_be_worse(tmp_path):
    answer = answered(tmp_path, bag_of_words=0.86, glove=0.85, elmo=0.65, elmo_layer0=0.7)
    assert "ELMo makes it worse: -" in answer.sentence


def test_no_signal(tmp_path):
    answer = answered(tmp_path, bag_of_words=0.5, glove=0.49, elmo=0.53, elmo_layer0=0.5)
    assert "no arm finds a signal in the labels" in answer.sentence
    assert "where always no gives 50.0" in answer.sentence or "where always yes gives 50.0" in answer.sentence


def test_chance_of_labels_is_the_most_frequent_one(tmp_path):
    level, error, what = chance(planned(tmp_path, share=3))
    assert (level, what) == (pytest.approx(100 * 2 / 3), "always no")
    assert error == pytest.approx(100 * (2 / 9 / SIZE) ** 0.5)


def test_chance_of_tags_is_what_reading_nothing_gives(tmp_path):
    """A noun in every second place: tagging each word as one is right half the time, and finds all: F1 2/3."""
    rows = [OwnExample(("a", "b") * 5, "", ("B-N", "O") * 5) for _ in range(50)]
    rows = [replace(row, texts=(*row.texts[:-1], str(number))) for number, row in enumerate(rows)]
    plan = make_plan(OwnData("ner", ["words", "tags"], rows, []), "mine", tmp_path, [1])
    assert chance(plan)[0] == pytest.approx(100 * 2 / 3)


def test_a_span_for_each_word_is_chance_too(tmp_path):
    """Most tags are I, but B for each word finds two of three spans with ten: F1 4/13."""
    tags = ("B-N", "O", "B-N", *["I-N"] * 5, "O", "B-N")
    rows = [OwnExample((*"abcdefghi", str(number)), "", tags) for number in range(50)]
    plan = make_plan(OwnData("ner", ["words", "tags"], rows, []), "mine", tmp_path, [1])
    assert chance(plan)[0] == pytest.approx(100 * 4 / 13)
