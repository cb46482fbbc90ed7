"""The contract of every task: tests for each YAML under conf/task/, with each kind of features.

A new task is picked up by its YAML; it needs mini data, and nothing here. The tests of a task without mini data use
`TestContract` with a `setup` of their own.
"""

import importlib
import json
import math
import re
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn

import conf
from elmo.common.errors import InputError
from elmo.common.progress import Reporter
from results.records.example_scores import read_predictions
from results.records.identity import PREDICTIONS_NAME
from results.records.metric import mean_of
from results.records.record import read_record
from tasks.data.datasets import DataSource
from tasks.running.predict import load_model
from tasks.task import SPLITS
from tasks.training.trainer import Trainer
from tests.tasks.making import ARMS, DRAWN_WORDS, arm_of, keep, model_of, run_of

DATASETS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["datasets"]
    for path in sorted((Path(conf.__file__).parent / "task").glob("*.yaml"))
}
TASKS = [task for task, datasets in DATASETS.items() if "mini" in datasets]
NARROW = {"coref": ["task.hidden=50", "task.feedforward=50"]}  # a document takes as long as many sentences
CPU = torch.device("cpu")


def without_dropout(model):
    """The same model, dropping nothing, so that what it learns and says can be compared."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase):
            module.dropout = 0.0
        elif hasattr(module, "recurrent_dropout"):
            module.recurrent_dropout = 0.0
    return model


class Setup:
    """A task with eight examples, or two documents, of mini data or of other data; models of one arm for it."""

    def __init__(self, task, arm, data=("data=mini",)):
        self.config = run_of(f"task={task}", *arm_of(task, arm), *NARROW.get(task, ()), *data)
        self.task = self.config.task
        self.source = DataSource(self.config.data, self.config.data_dir)
        self.splits = {split: self.source.load(self.task, split).examples for split in SPLITS}
        count = 2 if self.task.documents else 8
        self.train = self.splits["train"][:count]
        assert len(self.train) == count

    def model(self, seed=1):
        return without_dropout(model_of(self.config, self.train, seed))

    def trainer(self, **settings):
        size = 1 if self.task.documents else 8  # a document takes as long as many sentences: more steps, fewer epochs
        recipe = replace(self.config.trainer, patience=None, batch_size=size, **settings)
        return Trainer(self.task, recipe, 1, CPU, Reporter("contract", quiet=True))


@pytest.fixture(scope="module", params=[(task, arm) for task in TASKS for arm in ARMS], ids="-".join)
def setup(request):
    return Setup(*request.param)


@pytest.fixture(scope="module")
def fitted(setup):
    """A model that has learned these examples."""
    model = setup.model()
    epochs = 65 if setup.task.documents else 60

    def end_at_the_best(state):
        if state.best_score == 100:  # no later epoch is kept
            state.epoch = epochs

    state = replace(setup.trainer(epochs=epochs, lr=0.01), on_epoch=end_at_the_best).fit(
        model, setup.train, setup.train
    )
    return model, state


class TestContract:
    def test_loads_every_split(self, setup):
        for split, examples in setup.splits.items():
            assert examples
            counts = setup.task.counts(examples)
            assert counts, split
            assert all(isinstance(count, int) and count > 0 for count in counts.values())
            for example in examples:
                texts = setup.task.texts(example)
                assert texts
                assert all(isinstance(word, str) for text in texts for word in text)
                assert 0 < max(map(len, texts)) <= setup.task.size(example) <= sum(map(len, texts))
            setup.task.notes(examples)

    def test_every_test_example_has_a_kind_of_each_distinction(self, setup):
        """Kinds are for breakdowns; lengths are checked by counting."""
        test = setup.splits["test"]
        groups = setup.task.groups(test, setup.splits["train"])
        assert groups.keys() >= {"length", "casing"}
        for grouping in groups.values():
            assert len(grouping.of) == len(test)
            assert set(grouping.of) <= {None, *range(len(grouping.labels))}
        shortest, *_, longest = setup.task.length_edges
        numbered = [pair for pair in zip(test, groups["length"].of, strict=True) if pair[1] is not None]
        assert numbered
        for example, number in numbered:
            tokens = sum(map(len, setup.task.texts(example)))
            label = groups["length"].labels[number]
            assert (label.startswith("under"), label.endswith("more")) == (tokens < shortest, tokens >= longest)

    def test_its_yaml_and_its_settings_agree(self, setup):
        assert setup.task.name in DATASETS
        assert isinstance(setup.task.settings, setup.task.settings_type)
        assert isinstance(setup.task.reader, setup.task.reader_type)
        assert isinstance(setup.task.recipe, int)

    def test_collates(self, setup):
        setup.task.learn_labels(setup.train)
        batch = setup.task.collate(setup.train)
        assert len(batch.ids) == len(set(batch.ids)) == len(setup.train)
        of_each = [setup.task.texts(example) for example in setup.train]
        kinds = [chain.from_iterable(of_each)] if setup.task.documents else zip(*of_each, strict=True)
        assert list(batch.texts) == [list(kind) for kind in kinds]
        assert all(isinstance(target, torch.Tensor) for target in batch.targets.values())
        assert batch.to(CPU).ids == batch.ids

    def test_loss_is_a_finite_number_also_for_examples_never_trained_on(self, setup):
        model = setup.model()
        for examples in (setup.train, setup.splits["dev"][: len(setup.train)]):
            loss = model.eval().loss(setup.task.collate(examples))
            assert loss.shape == ()
            assert math.isfinite(loss.item())

    def test_every_trained_parameter_gets_a_gradient(self, setup):
        model = setup.model().train()
        model.loss(setup.task.collate(setup.train)).backward()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                assert parameter.grad is not None, name
                assert parameter.grad.abs().sum() > 0, name
            else:
                assert parameter.grad is None, name

    def test_a_model_that_was_saved_predicts_the_same(self, setup, tmp_path):
        model = setup.model()
        keep(tmp_path, model, setup.config)
        loaded = load_model(tmp_path, "cpu", setup.task.name)
        assert loaded.task is not setup.task
        dev = setup.splits["dev"][:8]
        predictions = setup.trainer().predict(model, dev)
        assert loaded.decode(dev) == predictions
        said = loaded.predict(dev)
        assert json.loads(json.dumps(said)) == said
        assert [one["id"] for one in said] == [example.id for example in dev]
        assert list(said[0])[1:], "a prediction"
        assert all(map(setup.task.prediction_text, dev, predictions))
        labels = loaded.task.probability_labels()
        assert all(list(one.get("probabilities", {})) == list(labels) for one in said)
        if setup.task.raw_fields:
            self.check_raw_text(loaded)

    def check_raw_text(self, loaded):
        """Raw text has a prediction, which depends on neither the other texts nor the way it is given."""
        text, other = "Ada *sold* the well-made boat.", "She *left* it to Bo Moe in the U.S., who didn't want it."
        fields = [dict.fromkeys(loaded.task.raw_fields, one) for one in (text, other)]
        both = loaded.predict(fields)
        assert json.loads(json.dumps(both)) == both
        assert [one["id"].split(":")[0] for one in both] == ["1", "2"]
        assert loaded.predict([{**fields[1], "id": "2"}]) == both[1:]
        assert loaded.predict(["\t".join(one.values()) for one in fields]) == both
        wrong, right = loaded.predict([dict.fromkeys(loaded.task.raw_fields, " "), {**fields[1], "id": "2"}])
        assert wrong["error"].startswith("expected ")
        assert right == both[1]

    @pytest.mark.integration
    def test_fits_a_few_examples_to_a_perfect_score(self, setup, fitted):
        model, state = fitted
        assert state.best_values[setup.task.metric] == 100
        assert setup.trainer(epochs=1).predict(model, setup.train) == setup.task.gold(setup.train)
        untrained = setup.trainer(epochs=1).evaluate(setup.model(), setup.train).values[setup.task.metric]
        assert untrained < 100, "there was something to learn"

    @pytest.mark.integration
    def test_confidences_are_those_of_the_predictions_that_are_scored(self, setup, fitted):
        """The share of parts that are right is a score of the record; chains and probes have no confidences."""
        for model, examples in ((fitted[0], setup.train), (fitted[0], setup.splits["dev"][:20])):
            answers = setup.trainer().answers(model, examples)
            predictions = [prediction for prediction, _ in answers]
            assert predictions == setup.trainer().predict(model, examples)
            judged = setup.task.judged(examples, answers)
            assert len(judged) == len(examples)
            parts = [part for own in judged for part in own]
            assert all(0 <= share <= 1 and isinstance(right, bool) for share, right in parts)
            if setup.task.documents or setup.task.name.endswith("_probe"):
                assert parts == []
                continue
            values = setup.task.score(examples, predictions).values
            name = next(name for name in ("accuracy", "em", "precision") if name in values)
            assert 100 * sum(right for _, right in parts) / len(parts) == pytest.approx(values[name])
            assert examples is not setup.train or all(right for _, right in parts), "learned by heart"

    @pytest.mark.integration
    def test_a_batch_of_one_equals_a_batch_of_eight(self, setup, fitted):
        """Padding and other examples change nothing; a loss is a sum or a mean over examples."""
        for model in (fitted[0], setup.model(seed=3)):
            model.eval()
            with torch.no_grad():
                batch = setup.task.collate(setup.train)
                alone = [setup.task.collate([example]) for example in setup.train]
                head, features = model.head, model.features
                decoded = [head.decode(features.vectors_of(features.find(one.texts)), one)[0] for one in alone]
                assert head.decode(features.vectors_of(features.find(batch.texts)), batch) == decoded
                losses = [head.loss(features.vectors_of(features.find(one.texts)), one).item() for one in alone]
                loss = head.loss(features.vectors_of(features.find(batch.texts)), batch).item()
            total = math.fsum(losses)
            assert loss in (
                pytest.approx(total, rel=1e-4, abs=1e-4),
                pytest.approx(total / len(setup.train), rel=1e-4, abs=1e-4),
            )

    def test_gold_scores_100(self, setup):
        for examples in setup.splits.values():
            scores = setup.task.score(examples, setup.task.gold(examples))
            assert scores.values[setup.task.metric] == 100
            assert all(0 <= value <= 100 for value in scores.values.values())
            assert len(scores.examples) == len(examples)
            assert all(isinstance(value, int | float) for example in scores.examples for value in example.values())

    def test_predictions_have_the_shape_of_gold(self, setup):
        model = setup.model()
        for examples in (setup.train, setup.splits["dev"][:50]):
            predictions = setup.trainer(epochs=1).predict(model, examples)
            gold = setup.task.gold(examples)
            assert len(predictions) == len(examples)
            for predicted, right in zip(predictions, gold, strict=True):
                assert type(predicted) is type(right)
                if isinstance(right, list):
                    assert len(predicted) == len(right)
            assert len(setup.task.score(examples, predictions).examples) == len(examples)

    def test_every_metric_follows_from_the_scores_of_single_examples(self, setup):
        """Tables and intervals compute scores from the declaration alone."""
        examples = setup.splits["dev"][:50]
        guesses = setup.trainer(epochs=1).predict(setup.model(), examples)
        half = [*setup.task.gold(examples)[:25], *guesses[25:]]
        for predictions in (guesses, half):
            scores = setup.task.score(examples, predictions)
            for name, value in scores.values.items():
                metric = setup.task.metrics.get(name, mean_of(name))
                assert metric.of_examples(scores.examples) == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize("task", sorted(DATASETS.keys() - set(TASKS)))
def test_a_task_without_mini_data_says_which_it_has(task):
    with pytest.raises(
        InputError, match=f"data=mini: this task has no such dataset, only {', '.join(DATASETS[task])}$"
    ):
        run_of(f"task={task}", "data=mini")
    assert run_of(f"task={task}").data.name in DATASETS[task], "the default is another one"


@pytest.mark.parametrize("task", ["ner", "sst5", "snli", "squad"])
def test_tasks_with_published_runs_keep_the_sizes_that_made_their_batches(task):
    """The tokens of the longest text, though `Task.size` counts all: other batches would give other scores."""
    config = run_of(f"task={task}", "data=mini")
    examples = DataSource(config.data, config.data_dir).load(config.task, "dev").examples
    longest = [max(map(len, config.task.texts(example))) for example in examples]
    assert [config.task.size(example) for example in examples] == longest


@pytest.fixture
def topics(repository, tmp_path, monkeypatch):
    """Writes the task of CONTRIBUTING, with some changes, and returns the words that run it."""
    section = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Add a task")[1].split("\n## ")[0]
    code, yaml = (re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL)[1] for kind in ("python", "yaml"))
    lines = "sport\tThe team won the cup\nmoney\tShares of banks fall\nsport\tA late goal wins\nmoney\tOil is cheap\n"
    monkeypatch.syspath_prepend(tmp_path)

    def written(before="", after=""):
        assert before in code
        files = {"topics/task.py": code.replace(before, after), "conf/task/topics.yaml": yaml}
        for name, text in {**files, **{f"data/topics/{split}.txt": lines for split in SPLITS}}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        for name in ("topics", "topics.task"):  # of another test
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        places = f"data_dir={tmp_path / 'data'}", f"runs_dir={tmp_path / 'runs'}"
        return (
            "--config-dir",
            tmp_path / "conf",
            "task=topics",
            "data=headlines",
            "features=glove",
            *DRAWN_WORDS,
            *places,
        )

    return written


def test_the_task_in_contributing_runs_as_written(topics, command):
    status, _, err = command(*topics())
    assert status == 0, err
    assert "accuracy: dev 100.00, test 100.00" in err


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["task.droput=0.1"], "unknown key task.droput. Did you mean task.dropout? Known there: dropout.\n"),
        (["-m", "task.droput=0.1,0.2"], "Did you mean task.dropout? Known there: dropout.\n"),
        (["--config-dir", "nowhere"], "--config-dir nowhere: expected a folder of configs, found none. Check the path"),
    ],
)
def test_mistakes_are_explained_with_the_keys_of_a_users_task(topics, command, typed, message):
    status, _, err = command(*topics(), *typed)
    assert status == 1
    assert message in err


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "def build_head(",
            "def build(",
            "expected topics.task.Topics to define all that a task needs, found no build_head().",
        ),
        (", recipe, ", ", recipes, ", "found no recipe. See tasks.task.Task"),
        (
            "    def build_head(",
            "    def texts(self, example):\n        return example.words\n\n    def build_head(",
            "examples of Topics: expected a text as id, and as texts a tuple of sentences",
        ),
        (
            "    def logits(",
            "    def choose(self, logits):\n        return super().choose(logits[1:])\n\n    def logits(",
            "of the 4 examples of a batch, found 3",
        ),
        (
            'f"{path.name}:{number}"',
            "number",
            "examples of Topics: expected a text as id, and as texts a tuple of sentences, each a ",
        ),
        (
            "    def build_head(",
            "    def notes(self, examples):\n        return {'words': {'all': {1, 2}}}\n\n    def build_head(",
            "counts() and notes() of task=topics: words.all: expected text, a number, a list or a mapping, found set",
        ),
    ],
)
def test_a_task_that_lacks_something_is_explained(topics, command, before, after, message):
    status, _, err = command(*topics(before, after))
    assert status == 1
    assert message in err
    assert "Traceback" not in err
    assert "epoch 1" not in err, "it says so before training"


@pytest.mark.parametrize("sweep", [[], ["-m"]])
def test_a_name_that_the_users_task_does_not_have(topics, command, sweep):
    words = ["data=headline" if word == "data=headlines" else word for word in topics()]
    status, _, err = command(*sweep, *words)
    assert status == 1
    assert "data=headline: no such choice. Did you mean data=headlines? There are: btc, csv, ewt, headlines, " in err
    assert "Traceback" not in err


def test_a_saved_model_of_a_users_task_needs_its_folder_and_its_labels(topics, command, tmp_path):
    status, _, err = command(*topics(), "keep_weights=true")
    assert status == 0, err
    (weights,) = (tmp_path / "runs").rglob("weights.pt")
    model = load_model(weights.parent, config_dir=tmp_path / "conf")
    examples = model.read(tmp_path / "data" / "topics" / "test.txt")
    assert model.decode(examples) == ["sport", "money", "sport", "money"]
    fixed = "    def learn_labels(self, train):\n        Topics.labels = ['money', 'sport']\n\n"
    words = topics("    def build_head(", f"{fixed}    def build_head(")
    status, _, err = command(*words, "keep_weights=true", "seed=2")
    assert status == 1
    assert "keep_weights=true: expected learn_labels() of task=topics to set self.labels, found none" in err
    assert "epoch 1" not in err


def test_numbers_of_numpy_in_all_that_a_task_returns(topics, command, tmp_path):
    """Counts, notes with a number as key, and predictions that are numbers."""
    facts = """    def counts(self, examples):
        return {"examples": np.int64(len(examples))}

    def notes(self, examples):
        return {"mean": np.float32(0.5), "lengths": {np.int64(3): np.arange(2)}}

    def prediction_fields(self, example, prediction):
        return {"number": np.int64(self.labels.index(prediction))}

    def gold_fields(self, example):
        return {"number": self.labels.index(example.label)}

    def build_head("""
    words = topics("    def build_head(", facts)
    code = tmp_path / "topics" / "task.py"
    code.write_text(code.read_text().replace("import torch\n", "import numpy as np\nimport torch\n", 1))
    status, _, err = command(*words)
    assert status == 0, err
    (path,) = (tmp_path / "runs").rglob("record.json")
    record = read_record(path)
    few = ["train: labels with fewer than 5 examples: 'money' (2), 'sport' (2)"]
    assert record.data["train"] == {"examples": 4, "mean": 0.5, "lengths": {"3": [0, 1]}, "warnings": few}
    predictions = read_predictions(path.with_name(PREDICTIONS_NAME), record.fingerprint)
    assert (
        [item.predicted["number"] for item in predictions]
        == [item.gold["number"] for item in predictions]
        == [1, 0, 1, 0]
    )
