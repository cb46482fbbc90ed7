"""python -m tasks.predict: for a file of a run's test data, predictions score what the record says; raw text, pipes."""

import csv
import json
import os
import re
import shutil
import threading

import pytest
import torch

import tasks
from elmo.common.errors import InputError
from results.records.example_scores import read_examples, read_predictions
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME
from results.records.record import read_record
from tasks.data.datasets import SHIPPED
from tasks.data.text import bioes, spans_of
from tasks.predict import main
from tasks.running import predict
from tasks.running.predict import load_model
from tasks.squad.task import answer_scores
from tasks.sst5 import Sentiment
from tasks.task import NoSettings
from tests.tasks.making import WORDS, arm_of, keep, model_of, run_of
from tests.tasks.toy_tasks import Document, Neighbours

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
    return Sentiment(said["label"], False) if task == "sst5" else said["label"]


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
        assert by_id[one.id].keys() <= one.predicted.keys() | one.example.keys() | {"id", "probabilities"}
        assert one.gold.keys() == one.predicted.keys() or list(one.gold) == ["answers"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of an untrained NER model."""
    config = run_of("task=ner", "data=mini", *WORDS, "task.hidden=3")
    train = config.task.read(SHIPPED / "ner" / "dev.txt", "train")[:12]
    folder = tmp_path_factory.mktemp("run")
    return keep(folder, model_of(config, train), config).parent


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
        ("Ada left\n\nBo left\n", "text", "in, line 2: expected a text, found an empty line\n"),
        ('{"text": "Ada"}\nAda\n{"text": "Bo"}\n', "json", "in, line 2: expected a JSON object, found no JSON"),
        ('{"text": "Ada"}\n["Ada"]\n{"text": "Bo"}\n', "json", "in, line 2: expected a JSON object"),
        (
            '{"text": "Ada"}\n{"tokens": []}\n{"text": "Bo"}',
            "json",
            "in, line 2: expected a list of words as tokens, found []\n",
        ),
        (
            '{"text": "Ad\\u0061"}\n{"text": "Ada \\ud83d"}\n{"text": "Bo"}',
            "json",
            "in, line 2: expected a JSON object",
        ),
        ('id,text\na,"Ada\nleft"\nb, \nc,Bo\n', "csv", "in, line 4: expected words as text, found ' '\n"),
    ],
)
def test_a_wrong_line_has_an_error_and_the_others_are_answered(run, tmp_path, capsys, content, kind, expected):
    (tmp_path / "in").write_text(content, encoding="utf-8")
    for output in ("text", "json"):
        assert main([str(run), str(tmp_path / "in"), "--input", kind, "--output", output]) == 1
        out, err = capsys.readouterr()
        assert f"tasks.predict: {tmp_path}/{expected}" in err
        assert "tasks.predict: 1 of 3 have no prediction. Correct them: python -m tasks.predict --help" in err
        if output == "json":
            first, wrong, last = map(json.loads, out.splitlines())
            assert "tags" in first
            assert "tags" in last
            assert wrong == {"id": "b" if kind == "csv" else "2", "error": wrong["error"]}
            assert expected.strip().partition(": ")[2] in wrong["error"]
        else:  # the block of each sentence ends with an empty line; that of the wrong one has nothing else
            assert [len(block.split()) > 0 for block in out.removesuffix("\n\n").split("\n\n")] == [True, True]
            assert out.count("\n\n\n") == 1


def test_a_file_of_another_format_is_refused(run, tmp_path, capsys):
    (tmp_path / "in").write_text("Ada left\n", encoding="utf-8")
    assert main([str(run), str(tmp_path / "in"), "--input", "data"]) == 1
    assert f"tasks.predict: {tmp_path}/in, line 1: expected" in capsys.readouterr().err


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """The folder of an untrained classifier, whose own tables have the columns `review` and `stars`."""
    folder = tmp_path_factory.mktemp("reviews")
    rows = [("It broke,\nagain.", "bad"), ("Sturdy", "good"), ("It is fine.", "so so")]
    write_table(folder / "train.csv", rows)
    small = ["task.dim=5", "task.hidden=4", "task.maxout=[6]", "task.maxout_dropout=[0.1]"]
    reader = ["+datasets.csv.reader.text=review", "+datasets.csv.reader.label=stars"]
    config = run_of("task=classify", *arm_of("classify", "words"), *small, *reader, f"data_dir={folder}")
    train = config.task.read(folder / "train.csv", "train")
    return keep(folder, model_of(config, train), config).parent


def write_table(path, rows, header=("review", "stars")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


ROWS = [('He said: "no", then left.', "bad"), ("First line.\n\nSecond, line.", "good"), ("Fine", "?")]


class TestTables:
    """Files with columns; a table read as lines would have other texts, its header and its labels among them."""

    def test_every_row_is_one_text_of_the_run_s_column(self, reviews, tmp_path, capsys):
        write_table(tmp_path / "a.csv", ROWS)
        model = load_model(reviews)
        expected = model.predict([text for text, _ in ROWS])
        assert main([str(reviews), str(tmp_path / "a.csv"), "--output", "json"]) == 0
        assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected
        assert main([str(reviews), str(tmp_path / "a.csv")]) == 0
        assert capsys.readouterr().out.splitlines() == [one["label"] for one in expected]

    def test_tabs_json_and_standard_input_have_the_same_columns(self, reviews, tmp_path, capsys, monkeypatch):
        texts = ['A "quote', "Two words"]
        expected = load_model(reviews).predict([{"text": text, "id": f"r{n}"} for n, text in enumerate(texts)])
        table = "".join(f"{cells}\n" for cells in ["stars\treview\tid", *(f"\t{t}\tr{n}" for n, t in enumerate(texts))])
        (tmp_path / "a.tsv").write_text(table, encoding="utf-8")
        rows = [json.dumps({"id": f"r{n}", "review": text}) for n, text in enumerate(texts)]
        (tmp_path / "a.jsonl").write_text("\n".join(rows), encoding="utf-8")
        monkeypatch.setattr(predict, "STANDARD_INPUT", tmp_path / "stdin")
        (tmp_path / "stdin").write_text(table, encoding="utf-8")
        for source in ([str(tmp_path / "a.tsv")], [str(tmp_path / "a.jsonl")], ["-", "--input", "tsv"]):
            assert main([str(reviews), *source, "--output", "json"]) == 0
            assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected

    def test_other_tasks_read_the_columns_of_their_texts(self, run, tmp_path, capsys):
        (tmp_path / "a.csv").write_text('n,text\n1,"Ada, left"\n', encoding="utf-8")
        assert main([str(run), str(tmp_path / "a.csv"), "--output", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["tokens"] == ["Ada", ",", "left"]

    @pytest.mark.parametrize(
        ("header", "expected"),
        [
            ("text,stars", r"expected one column 'review' in the header, found text, stars\. Name the column"),
            ("review;stars", r"found review;stars\. .* save the table as a \.csv with commas or a"),
        ],
    )
    def test_a_table_without_the_column_is_explained(self, reviews, tmp_path, capsys, header, expected):
        (tmp_path / "a.csv").write_text(f"{header}\nFine,5\n", encoding="utf-8")
        assert main([str(reviews), str(tmp_path / "a.csv")]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert re.search(expected, err)


def test_labels_have_probabilities(reviews):
    """Those of a softmax over the head's scores; the label is the most probable one."""
    model, texts = load_model(reviews, "cpu"), ["It broke.", "A sturdy one, again and again"]
    said = model.predict(texts)
    model.model.eval()
    for text, one in zip(texts, said, strict=True):
        batch = model.task.collate([model.ask(text, "1").example])
        with torch.no_grad():
            features = model.model.features
            vectors = features.vectors_of(features.find(batch.texts))
            scores = model.model.head.logits(vectors, batch)[0].double()
        expected = scores.exp() / scores.exp().sum()
        assert list(one["probabilities"]) == ["bad", "good", "so so"]
        assert list(one["probabilities"].values()) == pytest.approx(expected.tolist(), abs=1e-4)
        assert one["label"] == max(one["probabilities"], key=one["probabilities"].get)


class TestMemory:
    """A text that needs too much has an error, and the others are answered."""

    TEXTS = ("It broke.", "a " * 40, "Fine")

    def error_of_the_second(self, model):
        """Its error, where the others have the answers that they have alone."""
        first, wrong, last = model.predict(self.TEXTS)
        assert wrong["id"] == "2"
        assert [first, last] == [{**one, "id": n} for n, one in zip("13", model.predict(self.TEXTS[::2]), strict=True)]
        return wrong["error"]

    def test_the_others_are_answered(self, reviews, monkeypatch):
        monkeypatch.setattr(predict, "LONGEST", 20)
        error = self.error_of_the_second(load_model(reviews, "cpu"))
        assert error == "expected a text of at most 20 tokens, found 40. Split the text"

    @pytest.mark.parametrize(
        "error",
        [
            MemoryError(),
            torch.OutOfMemoryError("CUDA out of memory."),
            RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        ],
    )
    @pytest.mark.parametrize("method", ["features", "head"])
    def test_memory_that_ends_nevertheless(self, reviews, monkeypatch, error, method):
        model = load_model(reviews, "cpu")
        if method == "features":
            own, meet = model.model.features, model.model.features.meet
            met = lambda sentences, reporter: refuse_long(texts := list(sentences)) or meet(texts, reporter)  # noqa: E731
            monkeypatch.setattr(own, "meet", met)
        else:
            own, logits = model.model.head, model.model.head.logits
            monkeypatch.setattr(own, "logits", lambda text, batch: refuse_long(batch.texts[0]) or logits(text, batch))

        def refuse_long(texts):
            if max(map(len, texts)) > 20:
                raise error

        assert self.error_of_the_second(model).startswith("out of memory with 40 tokens. Split the text")

    def test_other_errors_are_not_hidden(self, reviews, monkeypatch):
        model = load_model(reviews, "cpu")

        def fails(*_):
            raise RuntimeError("a bug")

        monkeypatch.setattr(model.model.head, "logits", fails)
        with pytest.raises(RuntimeError, match="a bug"):
            model.predict(self.TEXTS)


def test_scores_need_labels(run, tmp_path, capsys):
    (tmp_path / "in").touch()
    assert main([str(run), str(tmp_path / "in"), "--input", "data", "--score"]) == 1
    assert f"{tmp_path}/in: expected examples with labels, found none" in capsys.readouterr().err
    assert main([str(run), "--score"]) == 1
    assert "--score needs labels: use it with --input data" in capsys.readouterr().err


def test_models_that_cannot_be_applied_are_refused(run, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"weights\.pt: expected a model of task=coref, found one of task=ner"):
        load_model(run, task="coref")
    with pytest.raises(InputError, match=r"no such file\. Weights are kept by a run with keep_weights=true"):
        load_model(tmp_path)
    for name in ("a/lr=1/seed-1", "b/seed-1"):
        shutil.copytree(run, tmp_path / name)
    with pytest.raises(
        InputError, match=rf"^{tmp_path}: expected one run with weights, found 2: a/lr=1/seed-1, b/seed-1\. Name"
    ):
        load_model(tmp_path)
    assert load_model(tmp_path / "a").predict(LINES) == load_model(run).predict(LINES)
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
        predict.LoadedModel(config, model, torch.device("cpu")).predict(["Ada left"])
    assert task.prediction_fields(Document("1", (), "good"), "good") == {"prediction": "good"}
