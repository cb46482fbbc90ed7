"""Kinds of test examples of single tasks, on cases written here, and the command."""

import gzip
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from elmo.common.errors import InputError
from results.records.example_scores import groups_path, read_groups, write_examples
from results.records.identity import EXAMPLES_NAME
from results.records.metric import Grouping
from tasks.data.datasets import DataConfig, DataSource
from tasks.data.text import Span
from tasks.groups import correct_in, main
from tasks.ner import ColumnReader, Ner, NerExample, NerSettings
from tasks.running import config
from tasks.snli import NO_PREMISE, EsimSettings, PairExample, PairReader, Snli
from tasks.squad.task import question_word
from tasks.srl import Srl, SrlExample, SrlSettings
from tasks.task import SPLITS, NoSettings
from tests.results.making import make_record, save

SNLI = {split: [f"snli/{split}.jsonl"] for split in SPLITS}


def ner_example(words, *spans):
    return NerExample("", tuple(words.split()), tuple(Span(*span) for span in spans), ())


def test_entities_are_seen_if_their_words_are_an_entity_of_training():
    task = Ner(NerSettings(), ColumnReader())
    train = [ner_example("Ada Moss saw Bern", ("PER", 0, 2), ("LOC", 3, 4))]
    test = [
        ner_example("Bern won", ("ORG", 0, 1)),  # of another label
        ner_example("Moss saw Bern", ("PER", 0, 1), ("LOC", 2, 3)),  # part of an entity
        ner_example("BERN won", ("ORG", 0, 1)),  # in other letters
        ner_example("nobody saw it"),
    ]
    found = task.groups(test, train)["entities"]
    assert [number if number is None else found.labels[number] for number in found.of] == [
        "every entity in training",
        "an entity not in training",
        "an entity not in training",
        None,
    ]
    assert found.from_train


def test_predicates_have_a_kind_and_sentences_without_one_have_none():
    words = ("It", "ran", "home")
    examples = [SrlExample("a", words, predicate=1, pos=pos) for pos in ("VBD", "NN", "JJ", "IN")] + [
        SrlExample("b", words)
    ]
    groups = Srl(SrlSettings(), NoSettings()).groups(examples, [])
    assert groups["predicate"] == Grouping(["verbal", "nominal", "adjectival", "other"], [0, 1, 2, 3, None])
    assert groups["length"].of == [0, 0, 0, 0, None]


def test_arguments_have_the_genre_of_their_document():
    """The first folder, or that below the English Web Treebank's; none if a document is in no folder."""
    places = ("google/ewt/weblog/00/a.xml.0:2", "google/ewt/email/00/b.xml.0:2", "nw/wsj/00/wsj_0001.0:7")
    examples = [SrlExample(f"{place}:0", ("w",), sentence=place, predicate=0) for place in places]
    task = Srl(SrlSettings(), NoSettings())
    genre = task.groups(examples, examples)["genre"]
    assert [genre.labels[number] for number in genre.of] == ["weblog", "email", "nw"]
    plain = SrlExample("mini", ("w",), sentence="mini.0:1", predicate=0)
    assert "genre" not in task.groups([*examples, plain], examples)


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Who was it ?", "who"),
        ("To whom , and when ?", "who"),
        ("In what year did Whose ship sink ?", "what"),
        ("How many ?", "how"),
        ("Name the river .", "other"),
    ],
)
def test_the_first_question_word_counts(question, word):
    assert question_word(tuple(question.split())) == word


def test_a_head_that_reads_only_hypotheses_never_sees_a_premise():
    task, usual = (Snli(EsimSettings(hypothesis_only=only), PairReader()) for only in (True, False))
    pair = PairExample("", ("A", "dog", "runs"), ("It", "moves"), "entailment")
    assert task.texts(pair) == (NO_PREMISE, ("It", "moves"))
    assert task.groups([pair], [pair]) == {}  # its lengths are not those of the pairs
    assert usual.texts(pair) == (pair.premise, pair.hypothesis)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The file of the mini SNLI test set, written by the command, with the answers of another run among its kinds."""
    runs = tmp_path_factory.mktemp("runs")
    task, source = Snli(EsimSettings(), PairReader()), DataSource(DataConfig("mini", splits=SNLI, shipped=True), runs)
    hashes, examples = source.fingerprint(), source.load(task, "test").examples
    record = make_record(50.0, data="mini", task="snli", metric="accuracy", variant={"task.hypothesis_only": True})
    record = replace(record, fingerprinted={"data": hashes})
    folder = save(runs, record).parent
    correct = [number % 3 == 0 for number in range(len(examples))]
    write_examples(folder / EXAMPLES_NAME, record.fingerprint, [{"correct": right} for right in correct])
    arguments = ["task=snli", "data=mini", f"runs_dir={runs}", "--as", "hypothesis_alone", "--right-in", str(folder)]
    assert main(arguments) == 0
    path = groups_path(runs, "snli", hashes["test"])
    return SimpleNamespace(path=path, known=read_groups(path), examples=examples, hashes=hashes, run=folder)


def test_the_command_writes_names_and_kinds_and_no_text(written):
    assert list(written.known.ids) == [example.id for example in written.examples]
    text = gzip.decompress(written.path.read_bytes()).decode()
    words = {word for example in written.examples for word in example.premise if len(word) > 5}
    assert words
    assert not [word for word in words if f" {word}" in text]


def test_right_and_wrong_answers_of_another_run_are_kinds(written):
    found = written.known.groups["hypothesis_alone"]
    assert list(found.labels) == ["right", "wrong"]
    assert found.of == [int(number % 3 != 0) for number in range(600)]
    assert "length" in written.known.groups


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": 599}, "expected a run of task=snli on the same 599 test examples"),
        ({"test": "0" * 64}, "expected a run of task=snli on the same 600 test examples"),
        ({"task": "sst5"}, "expected a run of task=sst5 on"),
        ({"run": "nowhere"}, "expected the folder of a finished run"),
    ],
)
def test_answers_of_other_examples_are_refused(written, changed, message):
    wanted = {"run": written.run, "task": "snli", "test": written.hashes["test"], "count": 600, **changed}
    with pytest.raises(InputError, match=message):
        correct_in(Path(wanted["run"]), wanted["task"], wanted["test"], wanted["count"])


def test_a_dataset_with_folds_has_a_test_set_for_each(monkeypatch):
    monkeypatch.setattr(config, "typed_config", list)
    litbank = ["task=coref", "data=litbank"]
    assert config.typed_folds(litbank) == [[*litbank, f"fold={fold}"] for fold in range(10)]
    assert config.typed_folds([*litbank, "fold=3"]) == [[*litbank, "fold=3"]]
    assert config.typed_folds(["task=coref", "data=mini"]) == [["task=coref", "data=mini"]]
