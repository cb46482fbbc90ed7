"""Semantic roles from files to batches: examples, counts, labels and targets."""

import pytest

from elmo.common.errors import InputError
from tasks.data.text import Span
from tasks.srl import Srl, SrlExample, SrlSettings, read_frames
from tasks.task import NoSettings

# "Ann likes singing" has a verb and a noun as predicates; "Yes" has none; "Bob slept" has one without arguments.
FILE = """\
#begin document (a/b); part 003
a/b 3 0 Ann NNP * - - - - * (ARG0*) (ARG0*) -
a/b 3 1 likes VBZ * like 01 - - * (V*) * -
a/b 3 2 loud JJ * - - - - * (ARG1* (ARGM-MNR*) -
a/b 3 3 singing NN * sing 01 - - * *) (V*) -

a/b 3 0 Yes UH * - - - - * -

a/b 3 0 Bob NNP * - - - - * * -
a/b 3 1 slept VBD * sleep 01 - - * (V*) -
#end document
"""
WORDS = ("Ann", "likes", "loud", "singing")


@pytest.fixture
def examples(tmp_path):
    (tmp_path / "f.conll").write_text(FILE)
    return read_frames(tmp_path / "f.conll")


@pytest.fixture
def task(examples):
    task = Srl(SrlSettings(), NoSettings())
    task.learn_labels(examples)
    return task


def test_training_files_without_predicates(examples):
    with pytest.raises(InputError, match=r"expected predicates with roles in the training files, found none in 1 sent"):
        Srl(SrlSettings(), NoSettings()).learn_labels([examples[2]])


def test_one_example_for_each_predicate(examples):
    likes, singing, yes, slept = examples
    assert likes == SrlExample(
        "a/b.3:2:1", WORDS, (Span("ARG0", 0, 1), Span("V", 1, 2), Span("ARG1", 2, 4)), (), "a/b.3:2", 1, "VBZ"
    )
    assert (singing.id, singing.words, singing.predicate, singing.pos) == ("a/b.3:2:3", WORDS, 3, "NN")
    assert singing.spans == (Span("ARG0", 0, 1), Span("ARGM-MNR", 2, 3), Span("V", 3, 4))
    assert (yes.id, yes.predicate, yes.spans) == ("a/b.3:7", None, ())
    assert [example.first for example in examples] == [True, False, True, True]
    assert len({example.id for example in examples}) == 4
    assert slept.spans == (Span("V", 1, 2),)


def test_counts_are_of_sentences_and_scored_arguments(task, examples):
    assert task.counts(examples) == {"sentences": 3, "tokens": 7, "predicates": 3, "arguments": 4}


def test_batches_hold_bio_tags_and_the_predicate(task, examples):
    likes, singing, yes, slept = examples
    batch = task.collate([singing, likes, yes])
    assert batch.texts == ([WORDS, WORDS, ("Yes",)],)
    assert batch.targets["predicate"].tolist() == [3, 1, -1]
    tags = [[task.tags[number] for number in row] for row in batch.targets["tags"].tolist()]
    assert tags == [
        ["B-ARG0", "O", "B-ARGM-MNR", "B-V"],
        ["B-ARG0", "B-V", "B-ARG1", "I-ARG1"],
        ["O", "O", "O", "O"],
    ]
    assert task.gold([likes, slept]) == [tags[1], ["O", "B-V"]]


def test_labels_come_from_training_alone(task, examples):
    likes, singing, *_ = examples
    task.learn_labels([likes])
    assert task.labels == ["ARG0", "ARG1", "V"]
    row = task.targets([singing])["tags"].tolist()[0]
    assert [task.tags[number] for number in row] == ["B-ARG0", "O", "O", "B-V"]
    saved = Srl(SrlSettings(), NoSettings())
    saved.labels = task.labels
    assert saved.tags == task.tags


def test_a_sentence_without_predicates_is_never_scored(task, examples):
    predictions = task.gold(examples)
    predictions[2] = ["B-ARG0"]
    scores = task.score(examples, predictions)
    assert scores.values["f1"] == 100
    assert [example["sentence"] for example in scores.examples] == [0, 0, 1, 2]
    assert [example["tp"] for example in scores.examples] == [2, 2, 0, 0]
