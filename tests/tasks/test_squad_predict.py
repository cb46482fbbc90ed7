"""The command that answers a SQuAD file with a model that a run has kept."""

import json
import sys

import pytest

from tasks.sources import SHIPPED
from tasks.squad.predict import main
from tasks.squad.scoring import answer_scores
from tests.tasks.making import ELMO

QUESTIONS = SHIPPED / "squad" / "test.json"


def ask(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["predict", *map(str, arguments)])
    main()


@pytest.mark.integration
def test_answers_are_those_that_the_run_was_scored_by(command, tmp_path, monkeypatch):
    settings = ["task=squad", "data=mini", *ELMO, "limit=12", "trainer.epochs=1", "task.hidden=6", "keep_weights=true"]
    code, _, err = command(*settings, f"runs_dir={tmp_path / 'runs'}")
    assert code == 0, err
    (record,) = tmp_path.rglob("record.json")
    assert "keep_weights" not in record.read_text(encoding="utf-8"), "it changes no score"

    content = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    asked = [(q, p["context"]) for a in content["data"] for p in a["paragraphs"] for q in p["qas"]]
    gold = [[answer["text"] for answer in question.pop("answers")] for question, _ in asked]
    unanswered = tmp_path / "unanswered.json"
    unanswered.write_text(json.dumps(content), encoding="utf-8")
    ask(monkeypatch, unanswered, tmp_path / "out.json", "--run", record.parent, "--device", "cpu")
    answers = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert list(answers) == [question["id"] for question, _ in asked]
    assert all(answers[question["id"]] in context for question, context in asked)
    scores = answer_scores(gold[:12], list(answers.values())[:12]).values
    assert scores == pytest.approx(json.loads(record.read_text(encoding="utf-8"))["scores"]["test"])


def test_a_run_without_weights(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"weights.pt: no such file. Weights are kept by a run with keep_weights=true"):
        ask(monkeypatch, QUESTIONS, tmp_path / "out.json", "--run", tmp_path)
    assert not (tmp_path / "out.json").exists()
