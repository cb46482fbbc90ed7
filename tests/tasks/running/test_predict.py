"""python -m tasks.predict: for a file of a run's test data, predictions score what the record says; raw text, pipes."""

import json
import os
import threading

import pytest
import torch

import tasks
from elmo.common.errors import InputError
from results.records.example_scores import read_examples, read_predictions
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME
from results.records.record import read_record
from tasks.data.datasets import SHIPPED
from tasks.data.tag_schemes import bioes, spans_of
from tasks.running import predict
from tasks.running.predict import load_model, main
from tasks.running.saved_model import save_weights
from tasks.squad.scoring import answer_scores
from tasks.sst5.data import LABELS
from tasks.sst5.head import Sentiment
from tests.tasks.making import WORDS, arm_of, model_of, run_of
from tests.tasks.toy_tasks import Document, Neighbours, NoSettings

TEST_FILES = {
    **{"ner": "test.txt", "sst5": "test.txt", "snli": "test.jsonl", "squad": "test.json"},
    **{"srl": "test.conll", "coref": "test.conll"},
}


def as_scored(task, said):
    """A prediction in the form that the task scores, from its JSON."""
    if task == "ner":
        return bioes(spans_of(said["tags"]), len(said["tokens"]))
    if task == "srl":
        return said["tags"]
    if task == "coref":
        return tuple(tuple((mention["start"], mention["end"]) for mention in own) for own in said["chains"])
    return Sentiment(LABELS.index(said["label"]), False) if task == "sst5" else said["label"]


@pytest.mark.integration
@pytest.mark.parametrize("task", TEST_FILES)
def test_predictions_score_what_the_record_says(task, command, tmp_path, capsys):
    limit = 2 if task == "coref" else 12
    small = ["task.hidden=6", *(["task.layers=2"] if task == "srl" else [])]
    settings = [*arm_of(task, "words"), *small, f"limit={limit}", "trainer.epochs=2", "keep_weights=true"]
    code, _, err = command(f"task={task}", "data=mini", *settings, f"runs_dir={tmp_path}")
    assert code == 0, err
    (path,) = tmp_path.rglob("record.json")
    file = SHIPPED / task / TEST_FILES[task]
    assert main([str(path.parent), str(file), "--input", "data", "--output", "json", "--device", "cpu"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    own = run_of(f"task={task}", "data=mini").task
    examples = own.read(file, "test")
    assert [one["id"] for one in said] == [example.id for example in examples]
    if task == "squad":
        gold = [example.answers for example in examples[:limit]]
        scores = answer_scores(gold, [one["answer"] for one in said[:limit]])
    else:
        usable = [number for number, example in enumerate(examples) if own.usable(example)][:limit]
        kept = [as_scored(task, said[number]) for number in usable]
        scores = own.score([examples[number] for number in usable], kept)
    record = read_record(path)
    assert scores.values[record.metric] == record.scores["test"][record.metric]
    counted = read_examples(path.with_name(EXAMPLES_NAME), record.fingerprint)
    for found, expected in zip(scores.examples, counted, strict=True):
        assert {name: expected[name] for name in found if name != "polar_correct"} == {
            name: value for name, value in found.items() if name != "polar_correct"
        }
    assert any(value for example in counted for value in example.values())
    kept = read_predictions(path.with_name(PREDICTIONS_NAME), record.fingerprint)
    by_id = {one["id"]: one for one in said}
    assert len(kept) == len(counted)
    for one in kept:
        assert one.predicted.items() <= by_id[one.id].items()
        assert by_id[one.id].keys() <= one.predicted.keys() | one.example.keys() | {"id"}
        assert one.gold.keys() == one.predicted.keys() or list(one.gold) == ["answers"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of an untrained NER model."""
    config = run_of("task=ner", "data=mini", *WORDS, "task.hidden=3")
    train = config.task.read(SHIPPED / "ner" / "dev.txt", "train")[:12]
    folder = tmp_path_factory.mktemp("run")
    save_weights(folder / "weights.pt", model_of(config, train), config)
    return folder


LINES = ["Ada Lind's boat sank.", "Bo Moe didn't see it in the U.S. today"]
WORDS_OF_LINES = ["Ada Lind 's boat sank .", "Bo Moe did n't see it in the U.S. today"]


def test_text_becomes_columns_that_the_task_reads_again(run, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("\n".join(LINES), encoding="utf-8")
    assert main([str(run), str(tmp_path / "in.txt")]) == 0
    (tmp_path / "out.txt").write_text(capsys.readouterr().out, encoding="utf-8")
    model = tasks.load_model(run)
    again = model.task.read(tmp_path / "out.txt", "test")
    assert [example.words for example in again] == [tuple(words.split()) for words in WORDS_OF_LINES]
    assert [list(example.tags) for example in again] == [said["tags"] for said in model.predict(LINES)]


def test_json_lines_keep_their_ids(run, tmp_path, capsys):
    items = [{"text": LINES[0], "id": "a"}, {"tokens": ["Bo", "left"]}, {"text": LINES[1], "id": None}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    assert main([str(run), str(tmp_path / "in.jsonl"), "--input", "json", "--output", "json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["id"] for one in said] == ["a", "2", "3"]
    assert said[1]["tokens"] == ["Bo", "left"]
    for entity in said[0]["entities"]:
        begin, end = entity["characters"]
        assert LINES[0][begin:end].replace(" ", "") == entity["text"].replace(" ", "")


def test_a_pipe_is_read_once_and_some_lines_at_a_time(run, tmp_path, capsys, monkeypatch):
    """Without INPUT, standard input is read; here another pipe takes its place."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(predict, "STANDARD_INPUT", tmp_path / "pipe")
    monkeypatch.setattr(predict, "LINES_AT_ONCE", 2)
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=["\n".join([*LINES, *LINES, LINES[0]])])
    writer.start()
    status = main([str(run), "--output", "json"])
    writer.join()
    assert status == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["id"] for one in said] == ["1", "2", "3", "4", "5"]
    assert said[4]["tags"] == said[2]["tags"] == said[0]["tags"]


@pytest.mark.parametrize(
    ("content", "kind", "expected"),
    [
        ("Ada left\n\n", "text", "in, line 2: expected a text, found an empty line. Remove the line\n"),
        ('{"text": "Ada"}\nAda\n', "json", "in, line 2: expected a JSON object, found no JSON"),
        ('["Ada"]\n', "json", "in, line 1: expected a JSON object"),
        ('{"tokens": []}\n', "json", "in, line 1: expected a list of words as tokens, found []: {'tokens': []}. "),
        ('{"text": "Ad\\u0061"}\n{"text": "Ada \\ud83d"}\n', "json", "in, line 2: expected text, found half"),
        ("Ada left\n", "data", "in, line 1: expected"),
    ],
)
def test_wrong_lines_are_named(run, tmp_path, capsys, content, kind, expected):
    (tmp_path / "in").write_text(content, encoding="utf-8")
    assert main([str(run), str(tmp_path / "in"), "--input", kind]) == 1
    assert f"tasks.predict: {tmp_path}/{expected}" in capsys.readouterr().err


def test_scores_need_labels(run, tmp_path, capsys):
    (tmp_path / "in").touch()
    assert main([str(run), str(tmp_path / "in"), "--input", "data", "--score"]) == 1
    assert f"{tmp_path}/in: expected examples with labels, found none" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(run), "--score"])
    assert "--score needs labels: use it with --input data" in capsys.readouterr().err


def test_models_that_cannot_be_applied_are_refused(run, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"weights\.pt: expected a model of task=coref, found one of task=ner"):
        load_model(run, task="coref")
    with pytest.raises(InputError, match=r"no such file\. Weights are kept by a run with keep_weights=true"):
        load_model(tmp_path)
    (tmp_path / "seed-2").symlink_to(run)
    with pytest.raises(InputError, match=rf"^{tmp_path}: expected the folder of one run, found those of seed-2\. Name"):
        load_model(tmp_path)
    for path, found in ((tmp_path / "no", "nothing"), (run / "weights.pt", "a file")):
        with pytest.raises(InputError, match=rf"{path}: expected the folder of a run, found {found}\. Check the path"):
            load_model(path)
    with pytest.raises(InputError, match=r"expected a list of texts, such as \['Ada left'\], found a text"):
        load_model(run).predict("Ada left")
    with pytest.raises(
        InputError, match=r"mappings, or examples from `read`, found \['Ada', 'left'\]\. A text that is in"
    ):
        load_model(run).predict([["Ada", "left"]])
    task = Neighbours(NoSettings(), NoSettings())
    config, model = predict.load_weights(run / "weights.pt")
    object.__setattr__(config, "task", task)
    monkeypatch.setattr(predict, "load_weights", lambda *_: (config, model))
    with pytest.raises(InputError, match="found one of task=toy_neighbours, which learns in another way"):
        load_model(run)
    with pytest.raises(InputError, match=r"task=toy_neighbours predicts files of its format only\. Give"):
        predict.LoadedModel(config, model, torch.device("cpu")).examples(["Ada left"])
    assert task.prediction_fields(Document("1", (), "good"), "good") == {"prediction": "good"}
