"""Answers to a SQuAD file with the saved model of a run, which may be damaged."""

import json
from types import SimpleNamespace

import pytest
import torch

from elmo import InputError, random_bilm, save_bilm
from tasks.data.datasets import SHIPPED
from tasks.features.token_features import TokenFeatures
from tasks.running.predict import load_model, load_weights
from tasks.training.trainer import TaskModel
from tests.tasks.making import ELMO, change, keep, run_of

QUESTIONS = SHIPPED / "squad" / "test.json"


def test_a_run_without_weights(tmp_path):
    with pytest.raises(
        InputError, match=r"weights\.pt: no such file\. Weights are kept by a run with keep_weights=true"
    ):
        load_model(tmp_path, "cpu", "squad")


class TestKeptWeights:
    """A model with vectors and a biLM of the user's own, trained not at all and kept."""

    @pytest.fixture
    def kept(self, tmp_path):
        mine = tmp_path / "mine"
        save_bilm(random_bilm("tiny", 3), mine / "small" / "weights.safetensors")
        (mine / "vectors.txt").write_text("the 1 2 3\nof 4 5 6\n", encoding="utf-8")
        own = [f"features.words.vectors={mine / 'vectors.txt'}", f"features.elmo.weights={mine / 'small'}"]
        config = run_of("task=squad", "data=mini", *ELMO[:-2], *own, "task.hidden=3")
        features = TokenFeatures(config.features, [("the", "dog")], config.seed)
        model = TaskModel(features, config.task.build_head(features.widths))
        (tmp_path / "run").mkdir()
        path = keep(tmp_path / "run", model, config)
        return SimpleNamespace(path=path, model=model, config=config, mine=mine)

    def test_questions_without_answers_are_answered_from_their_passages(self, kept, tmp_path):
        content = json.loads(QUESTIONS.read_text(encoding="utf-8"))
        content["data"] = content["data"][:1]
        asked = [(q, p["context"]) for a in content["data"] for p in a["paragraphs"] for q in p["qas"]]
        for question, _ in asked:
            del question["answers"]
        (tmp_path / "unanswered.json").write_text(json.dumps(content), encoding="utf-8")
        model = load_model(kept.path.parent, "cpu", "squad")
        answers = {one["id"]: one["answer"] for one in model.predict(model.read(tmp_path / "unanswered.json"))}
        assert list(answers) == [question["id"] for question, _ in asked]
        assert all(answers[question["id"]] in context for question, context in asked)

    def test_files_given_by_path_are_found_again(self, kept, tmp_path, monkeypatch):
        monkeypatch.chdir("/")
        config, model = load_weights(kept.path, "squad")
        settings = {key: value for key, value in kept.config.resolved["task"].items() if key != "_target_"}
        assert config.resolved == {**kept.config.resolved, "task": settings}
        assert str(tmp_path) not in str(config.resolved)
        there = dict(kept.model.named_parameters())
        for name, value in model.named_parameters():
            assert torch.equal(value, there[name]), name

    def test_no_yaml_is_needed_that_the_run_was_composed_from(self, kept):
        saved = torch.load(kept.path, weights_only=True)
        saved["config"]["data"]["name"] = saved["config"]["features"]["name"] = "of_the_users_own"
        change(kept.path, config=saved["config"])
        config, _ = load_weights(kept.path, "squad")
        assert config.data.name == config.features.name == "of_the_users_own"
        assert config.trainer == kept.config.trainer

    def test_files_that_are_gone_are_named(self, kept):
        (kept.mine / "vectors.txt").unlink()
        with pytest.raises(InputError, match=rf"trained with {kept.mine / 'vectors.txt'}, which no longer exists"):
            load_weights(kept.path, "squad")

    @pytest.mark.parametrize("damage", ["cut", "part", "parameter", "shape"])
    def test_a_damaged_file_is_reported_with_a_remedy(self, kept, damage):
        saved = torch.load(kept.path, weights_only=True)
        if damage == "cut":
            kept.path.write_bytes(kept.path.read_bytes()[:-500])
        elif damage == "shape":
            saved["trained"]["head.start.weight"] = saved["trained"]["head.start.weight"][:, :1]
            change(kept.path, trained=saved["trained"])
        else:
            del saved["trained"]["head.start.weight"]
            change(kept.path, **({"words": None} if damage == "part" else {"trained": saved["trained"]}))
        with pytest.raises(InputError, match=rf"{kept.path}: .* run it again with keep_weights=true"):
            load_weights(kept.path, "squad")
