"""Mini NER training: the same scores again, resumed from a checkpoint, and with a frozen biLM."""

from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest
import torch

from elmo.common.progress import Reporter
from tasks.data.datasets import DataSource
from tasks.metrics import Scores
from tasks.training.trainer import FitState, Trainer
from tests.tasks.making import ELMO, WORDS, model_of, run_of

CPU = torch.device("cpu")
LAST_IS_BEST = (1, 0, 0, 0, 2)  # the rate falls between, and the weights of the end are the ones that are kept

SETTINGS = [
    "data=mini",
    "limit=12",
    "task.hidden=6",
    "trainer.batch_size=4",
    "trainer.lr=0.01",
    "trainer.patience=null",
]


@cache
def config_of(*arm):
    return run_of(*arm, *SETTINGS)


class Real:
    """NER on the shipped sentences: new objects for one fit."""

    def __init__(self, arm, seed=1, epochs=5, **trainer):
        self.config = deepcopy(config_of(*arm))
        source = DataSource(self.config.data, self.config.data_dir, self.config.limit)
        self.train, self.dev = (source.load(self.config.task, split).examples for split in ("train", "dev"))
        self.model = model_of(self.config, self.train, seed)
        # As a run does, all at once: words have their numbers, and sums their order, before the first batch.
        texts = self.config.task.texts
        self.model.features.meet(text for example in [*self.train, *self.dev] for text in texts(example))
        recipe = replace(self.config.trainer, epochs=epochs, **trainer)
        self.trainer = Trainer(self.config.task, recipe, seed, CPU, Reporter("test", quiet=True))

    def fit(self, checkpoint=None, fingerprint="", script=None):
        """Curve and weights; `script` has the score of each epoch, where so few examples would score 0 in all."""
        state, task = FitState(), self.config.task
        if script is not None:
            task.score = lambda *_: Scores({task.metric: float(script[state.epoch])})
        self.trainer.checkpoint, self.trainer.fingerprint = checkpoint, fingerprint
        self.trainer.fit(self.model, self.train, self.dev, state)
        assert script is None or script[state.best_epoch - 1] == max(script[: state.epoch])
        curve = [{key: value for key, value in epoch.items() if key != "seconds"} for epoch in state.curve]
        weights = {name: value.detach().clone() for name, value in self.model.trained().items()}
        return curve, weights


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def undisturbed():
    """Five epochs with dropout, a learning rate that falls, and ELMo."""
    return Real(ELMO, plateau_factor=0.5).fit(script=LAST_IS_BEST)


@pytest.mark.integration
class TestDeterminism:
    def test_the_same_seed_gives_the_same_losses_to_the_last_digit(self, undisturbed):
        torch.manual_seed(99)
        torch.rand(3)  # whatever was drawn before
        curve, weights = Real(ELMO, plateau_factor=0.5).fit(script=LAST_IS_BEST)
        assert curve == undisturbed[0]
        assert same(weights, undisturbed[1])
        assert len({epoch["loss"] for epoch in curve}) == 5
        assert len({epoch["lr"] for epoch in curve}) > 1


@pytest.mark.integration
class TestCheckpoint:
    def test_a_resumed_run_ends_like_one_that_was_never_stopped(self, undisturbed, tmp_path):
        path = tmp_path / "checkpoint.pt"
        Real(ELMO, epochs=3, plateau_factor=0.5).fit(path, "mine", LAST_IS_BEST)
        torch.rand(7)
        curve, weights = Real(ELMO, plateau_factor=0.5).fit(path, "mine", LAST_IS_BEST)
        assert curve == undisturbed[0]
        assert same(weights, undisturbed[1])

    def test_a_checkpoint_of_another_run_is_ignored(self, tmp_path):
        path = tmp_path / "checkpoint.pt"
        Real(WORDS, seed=2, epochs=2).fit(path, "other")
        curve, weights = Real(WORDS, epochs=2).fit(path, "mine")
        expected = Real(WORDS, epochs=2).fit()
        assert curve == expected[0]
        assert same(weights, expected[1])
        assert torch.load(path, weights_only=True)["fingerprint"] == "mine"

    def test_holds_what_is_trained_and_nothing_else(self, tmp_path):
        path = tmp_path / "checkpoint.pt"
        real = Real(ELMO, epochs=1)
        real.fit(path, "mine")
        saved = torch.load(path, weights_only=True)  # plain tensors, numbers and text: no code is run on loading
        trained = {name for name, value in real.model.named_parameters() if value.requires_grad}
        assert set(saved["model"]) == set(saved["best"]) == trained
        assert any(name.startswith("features.elmo.mixes.") for name in trained)
        assert not any("source" in name for name in trained)
        numbers = sum(value.numel() for value in real.model.trained().values())
        bilm = sum(value.numel() for value in real.model.features.elmo.source.parameters())
        # weights, best weights and Adam's two moments
        assert 4 * numbers * 4 < path.stat().st_size < 4 * numbers * 4 + 40_000 < 4 * numbers * 4 + bilm * 4
        assert list(tmp_path.iterdir()) == [path], "no partial file is left"


@pytest.mark.integration
class TestFrozen:
    def test_training_does_not_change_the_bilm(self):
        real = Real(ELMO, epochs=2)
        source = real.model.features.elmo.source
        before = {name: value.clone() for name, value in source.state_dict().items()}
        fingerprint = source.fingerprint()
        start = {name: value.detach().clone() for name, value in real.model.trained().items()}
        _, weights = real.fit()
        assert source.fingerprint() == fingerprint
        assert same(dict(source.state_dict()), before)
        assert len(before) > 10
        for parameter in source.parameters():
            assert not parameter.requires_grad
            assert parameter.grad is None
        assert not torch.equal(weights["features.elmo.mixes.input.scalars"], start["features.elmo.mixes.input.scalars"])
        assert not torch.equal(weights["features.elmo.mixes.input.gamma"], start["features.elmo.mixes.input.gamma"])
