"""Tasks that are more than sentences: examples of many sentences, and a task that brings its own `fit`.

Both toy tasks are outside the suite: a module and a YAML in a folder given with --config-dir.
"""

import itertools
import json
import math
import random
import re

import numpy as np
import pytest
import torch

from elmo.common.tensor_files import read_tensors, write_tensors
from results.records.example_scores import read_examples
from results.records.identity import EXAMPLES_NAME, Identity
from results.records.metric import mean_of
from results.records.record import read_record
from tasks.features.token_features import TokenFeatures
from tasks.metrics import Scores
from tasks.task import Batch, NoSettings
from tasks.training.trainer import TaskModel
from tests.tasks.making import features_config
from tests.tasks.toy_tasks import Document, Documents, Neighbours

WORDS = {"good": ("sun", "sings", "bright"), "bad": ("rain", "weeps", "dark")}
ALL = (*WORDS["good"], *WORDS["bad"])
YAML = """# @package _global_
task: {{_target_: tests.tasks.toy_tasks.{name}}}
trainer: {{epochs: 30, lr: 0.05, batch_size: 8, batch_tokens: 60}}
datasets:
  mini: {{splits: {{train: [train.txt], dev: [dev.txt], test: [test.txt]}}}}
"""


def document(draw):
    """A text of one to five sentences, whose label is that of most of them."""
    kinds = draw.choices(("good", "bad"), k=draw.choice((1, 3, 5)))
    label = "good" if kinds.count("good") * 2 > len(kinds) else "bad"
    lines = [" ".join(draw.choices(WORDS[kind], k=draw.randrange(1, 5))) for kind in kinds]
    return "\n".join([label, *lines])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder: data, a YAML for each task, and word vectors of one 1 each."""
    root, draw = tmp_path_factory.mktemp("documents"), random.Random(1)
    for split, count in (("train", 60), ("dev", 60), ("test", 30)):
        (root / f"{split}.txt").write_text("\n\n".join(document(draw) for _ in range(count)) + "\n")
    vectors = root / "vectors.txt"
    vectors.write_text("".join(f"{word} {' '.join(str(int(word == one)) for one in ALL)}\n" for word in ALL))
    for group in ("task", "features"):
        (root / "conf" / group).mkdir(parents=True)
    features = root / "conf" / "features" / "ones.yaml"
    features.write_text(f"name: ones\nwords: {{vectors: {vectors}}}\ncharacters: null\n")
    for task in ("Documents", "Neighbours"):
        (root / "conf" / "task" / f"toy_{task.lower()}.yaml").write_text(YAML.format(name=task))
    return root


def read(path):
    return Documents(NoSettings(), NoSettings()).read(path, "train")


def finished(command, folder, runs, task):
    chosen = f"task={task}", "features=ones", f"data_dir={folder}", f"runs_dir={runs}"
    code, _, err = command("--config-dir", folder / "conf", *chosen)
    assert code == 0, err
    path = runs / Identity("mini", task, "ones", 1, {}).path
    return path, read_record(path)


def examples_of(path, record):
    return read_examples(path.with_name(EXAMPLES_NAME), record.fingerprint)


def test_a_batch_knows_the_example_of_each_sentence(folder):
    task, examples = Documents(NoSettings(), NoSettings()), read(folder / "train.txt")[:9]
    batch = task.collate(examples)
    (sentences,), (owners,) = batch.texts, batch.owners
    assert len(set(map(len, (example.sentences for example in examples)))) == 3
    by_owner = {
        owner: tuple(sentence for _, sentence in pairs)
        for owner, pairs in itertools.groupby(zip(owners.tolist(), sentences, strict=True), key=lambda pair: pair[0])
    }
    assert by_owner == {number: example.sentences for number, example in enumerate(examples)}
    assert torch.equal(batch.to(torch.device("cpu")).owners[0], owners)
    assert task.size(examples[0]) == sum(len(sentence) for sentence in examples[0].sentences)


def test_a_document_without_sentences():
    """Alone in its batch, too: it adds nothing, so its scores are those of no sentence."""
    task, empty = Documents(NoSettings(), NoSettings()), Document("empty", (), "good")
    full = Document("full", (("sun", "sings"), ("dark",)), "bad")
    model = TaskModel(TokenFeatures(features_config(), full.sentences, 1), task.build_head({"input": 30})).eval()
    assert torch.equal(model.head.logits(*vectors_and_batch(model, task, [empty])), torch.zeros(1, 2))
    both = model.head.logits(*vectors_and_batch(model, task, [empty, full]))
    assert torch.equal(both[:1], torch.zeros(1, 2))
    torch.testing.assert_close(both[1:], model.head.logits(*vectors_and_batch(model, task, [full])))


def vectors_and_batch(model, task, examples):
    batch = task.collate(examples)
    return model.features.vectors_of(model.features.find(batch.texts)), batch


def test_by_default_each_example_has_one_sentence_of_each_kind():
    batch = Batch(["a", "b"], ([("x",), ("y",)], [("u",), ("v",)]), {"label": torch.zeros(2)})
    moved = batch.to(torch.device("cpu"))
    assert [owners.tolist() for owners in moved.owners] == [[0, 1], [0, 1]]
    assert list(moved.targets) == ["label"]


@pytest.mark.integration
def test_a_task_over_documents_runs_to_a_record(folder, command, tmp_path):
    path, record = finished(command, folder, tmp_path, "toy_documents")
    train = read(folder / "train.txt")
    assert record.data["train"] == {
        "examples": 60,
        "sentences": sum(len(example.sentences) for example in train),
        "tokens": sum(len(sentence) for example in train for sentence in example.sentences),
        "warnings": [],
    }
    # The label is that of most sentences, so a model that mixed up their owners would not learn it.
    assert record.scores["dev"]["accuracy"] > 95
    assert record.scores["test"]["accuracy"] > 85
    assert len(record.epochs) > 1
    assert len(examples_of(path, record)) == 30


@pytest.mark.integration
def test_a_task_with_its_own_fit_runs_to_a_record(folder, command, tmp_path):
    """The predictions are those of a search by hand: with such vectors, a mean vector is a bag of words."""
    path, record = finished(command, folder, tmp_path, "toy_neighbours")
    assert record.status == "finished"
    assert record.epochs == []
    train, test = read(folder / "train.txt"), read(folder / "test.txt")
    bags = [np.array([[sum(e.sentences, ()).count(word) for word in ALL] for e in split]) for split in (train, test)]
    keys, queries = (bag / np.linalg.norm(bag, axis=1, keepdims=True) for bag in bags)
    found = examples_of(path, record)
    assert record.scores["test"]["accuracy"] == pytest.approx(100 * np.mean([scored["correct"] for scored in found]))
    assert 50 < record.scores["test"]["accuracy"] < 100
    for example, similarity, scored in zip(test, queries @ keys.T, found, strict=True):
        nearest = {train[number].label for number in np.flatnonzero(similarity > similarity.max() - 1e-6)}
        assert scored["correct"] in {int(label == example.label) for label in nearest}


@pytest.mark.parametrize("returned", [None, {"loss": 1.0}])
@pytest.mark.integration
def test_a_fit_without_the_main_score_leaves_a_failed_record(returned, folder, command, tmp_path, monkeypatch):
    monkeypatch.setattr(Neighbours, "fit", lambda *arguments: returned)
    chosen = "task=toy_neighbours", "features=ones", f"data_dir={folder}", f"runs_dir={tmp_path}"
    code, _, err = command("--config-dir", folder / "conf", *chosen)
    assert code == 1
    assert "fit of task=toy_neighbours: expected the scores on dev with accuracy, found " in err
    record = read_record(tmp_path / Identity("mini", "toy_neighbours", "ones", 1, {}).path)
    assert record.status == "failed"


@pytest.mark.parametrize(
    ("metric", "warning"),
    [
        (mean_of("correct", 100), None),
        (mean_of("correct"), r"accuracy of the test examples is 0\.\d+ as declared, but score\(\) returns \d\d\.\d+"),
        (mean_of("right", 100), "expected right in the score of each test example"),
    ],
)
@pytest.mark.integration
def test_a_declared_metric_that_is_not_the_score(metric, warning, folder, command, tmp_path, monkeypatch):
    monkeypatch.setattr(Neighbours, "metrics", {"accuracy": metric})
    chosen = "task=toy_neighbours", "features=ones", f"data_dir={folder}", f"runs_dir={tmp_path}"
    code, _, err = command("--config-dir", folder / "conf", *chosen)
    assert code == 0, err
    if warning is None:
        assert "metrics of task" not in err
    else:
        assert re.search(f"warning: metrics of task=toy_neighbours: {warning}", err)


@pytest.mark.parametrize("number", [np.float64, np.float32, torch.tensor])
def test_numbers_of_numpy_and_torch_are_scores(number, tmp_path):
    """A checkpoint has them too, and refuses to load what is not plain."""
    details = {"confusion": np.eye(2, dtype=int), "by label": {"a": number(0.5)}}
    scores = Scores({"accuracy": number(12.5)}, details, [{"correct": number(1.0), "tokens": np.int64(3)}])
    write_tensors(tmp_path / "checkpoint.pt", {"values": scores.values})
    assert read_tensors(tmp_path / "checkpoint.pt", {"values": dict}, "cpu", "")["values"] == {"accuracy": 12.5}
    assert json.loads(json.dumps(scores.examples)) == [{"correct": 1, "tokens": 3}]
    assert json.loads(json.dumps(scores.details)) == {"confusion": [[1, 0], [0, 1]], "by label": {"a": 0.5}}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"values": {"accuracy": 1.0, "other": math.nan}}, "other: expected a finite number, found nan"),
        (
            {"values": {"accuracy": 1.0}, "details": {"confusion": {1, 2}}},
            "details.confusion: expected text, a number, ",
        ),
    ],
)
def test_scores_that_no_record_can_have_end_the_first_epoch(scores, message, folder, command, tmp_path, monkeypatch):
    monkeypatch.setattr(Documents, "score", lambda *_: Scores(**scores))
    chosen = "task=toy_documents", "features=ones", f"data_dir={folder}", f"runs_dir={tmp_path}"
    code, _, err = command("--config-dir", folder / "conf", *chosen)
    assert code == 1
    assert f"tasks.run: score of the task: {message}" in err
    record = read_record(tmp_path / Identity("mini", "toy_documents", "ones", 1, {}).path)
    assert (record.status, record.epochs) == ("failed", [])
