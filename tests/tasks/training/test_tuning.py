"""Tuning of a biLM by a task: rates, gradual unfreezing, checkpoints, saved models."""

import re

import pytest
import torch
from torch import nn

from elmo import InputError
from elmo.common.checks import check_tree
from tasks.features.token_features import ElmoConfig, TokenFeatures, TunedGroup, TuningConfig
from tasks.running.predict import load_weights, save_weights
from tasks.training.trainer import OPTIMIZERS, TaskModel
from tests.tasks.making import ELMO, run_of
from tests.tasks.training.test_trainer import Lengths, Line, LineHead, fit
from tests.tasks.training.test_training_again import Real, same

TUNED = [*ELMO, "features.elmo.tune=true", "features.elmo.tuning.lr=0.01"]
RISING = (1, 2, 3)  # the last weights are the best


class Stopped(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize(
    ("progress", "share"), [(0.0, 0.0), (0.1, 0.5), (0.2, 1.0), (0.6, 0.5), (0.8, 0.25), (1.0, 0.0)]
)
def test_rates_rise_and_fall_and_are_lower_for_lower_layers(progress, share):
    config = TuningConfig(lr=0.08, decay=0.5, warmup=0.2)
    rates = [TunedGroup([], depth, config).rate(progress) for depth in (0, 1, 2)]
    assert rates == pytest.approx([0.08 * share, 0.04 * share, 0.02 * share])
    assert TunedGroup([], 0, TuningConfig(lr=0.08, warmup=0.0)).rate(0.0) == 0.08


def test_the_rate_of_a_tuned_layer_follows_the_steps_of_the_run(monkeypatch):
    """Two epochs of three steps, and rates that rise in the first of them."""
    rates = []

    class Watched(torch.optim.SGD):
        def step(self):
            rates.append([group["lr"] for group in self.param_groups])
            super().step()

    class Tuned(Lengths):
        def tuned_groups(self):
            return [TunedGroup([scale], 0, TuningConfig(lr=0.6, warmup=0.5))]

    scale = nn.Parameter(torch.ones(()))
    task = Line([1, 2])
    task.model = TaskModel(Tuned(), LineHead())
    monkeypatch.setitem(OPTIMIZERS, "adam", Watched)
    fit(task, epochs=2, batch_size=1, lr=0.1)
    assert [rate for rate, _ in rates] == [0.1] * 6
    assert [rate for _, rate in rates] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.4, 0.2])


def test_layers_start_one_after_the_other():
    def frozen(unfreeze, depth):
        group = TunedGroup([], depth, TuningConfig(unfreeze=unfreeze))
        return [group.frozen_in(epoch) for epoch in (1, 2, 3, 4, 5)]

    assert [frozen(1, depth) for depth in (0, 1, 2)] == [[False] * 5, [True, *[False] * 4], [True, True, *[False] * 3]]
    assert frozen(2, 2) == [True] * 4 + [False]
    assert frozen(0, 2) == [False] * 5


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (TuningConfig(lr=0), "elmo.tuning.lr: expected a positive number, found 0"),
        (TuningConfig(decay=1.5), "elmo.tuning.decay: expected more than 0 and at most 1, found 1.5"),
        (TuningConfig(warmup=1), "elmo.tuning.warmup: expected at least 0 and below 1, found 1"),
        (TuningConfig(unfreeze=-1), "elmo.tuning.unfreeze: expected at least 0, found -1"),
        (TuningConfig(lr=0.1), "expected elmo.tune=true with these settings, found tune=false"),
    ],
)
def test_settings_out_of_range(settings, said):
    with pytest.raises(InputError, match=re.escape(said)):
        check_tree("elmo", ElmoConfig(tuning=settings))


def test_a_source_without_gradients():
    config = run_of("features=elmo_matched", "features.elmo.tune=true").features
    with pytest.raises(InputError, match=r"features.elmo.tune: expected a biLM, .* found Matched"):
        TokenFeatures(config, [("a",)], 1)


@pytest.mark.parametrize("by_sentence", [False, True])
def test_before_training_vectors_are_those_of_the_frozen_bilm(by_sentence):
    texts = [("It", "rained", ".", "He", "left", "!"), ("No", "end"), ("It", "rained", ".")]
    typed = [*ELMO, "task=ner", "features.elmo.precision=float32", f"features.elmo.by_sentence={by_sentence}"]
    frozen, tuned = (
        TokenFeatures(run_of(*typed, f"features.elmo.tune={tune}").features, texts, 1).eval() for tune in (False, True)
    )
    assert tuned.meet(texts) == 0
    torch.testing.assert_close(tuned(texts).input, frozen(texts).input, rtol=0, atol=1e-5)
    assert tuned.mix_weights() == frozen.mix_weights()


def changed(before, after, group):
    """Which of the tuned parameters of a group have other values."""
    names = {"encoder": "bilm.encoder.", "first": r"directions\.\d\.0\.", "second": r"directions\.\d\.1\."}
    return {not torch.equal(before[name], after[name]) for name in after if re.search(names[group], name)}


def values(model):
    return {name: value.detach().clone() for name, value in model.trained().items()}


@pytest.fixture(scope="module")
def whole():
    """Three epochs in which the layers start one after the other, and the weights after each of them."""
    real, seen = Real(TUNED, epochs=3), []
    seen.append(values(real.model))
    real.trainer.on_epoch = lambda _: seen.append(values(real.model))
    return real, real.fit(script=RISING), seen


@pytest.mark.integration
class TestFit:
    def test_layers_change_from_the_top(self, whole):
        _, _, (start, one, two, three) = whole
        expected = {"encoder": [False, False, True], "first": [False, True, True], "second": [True, True, True]}
        for group, epochs in expected.items():
            steps = ((start, one), (one, two), (two, three))
            assert [changed(*step, group) for step in steps] == [{moved} for moved in epochs], group

    def test_the_loss_falls_below_that_of_frozen_layers(self, whole):
        """The same head, seed and batches: what is left is due to the tuned weights."""
        frozen, _ = Real([*ELMO, "features.elmo.precision=float32"], epochs=3).fit(script=RISING)
        assert whole[1][0][-1]["loss"] < frozen[-1]["loss"]

    def test_a_resumed_run_ends_like_one_that_was_never_stopped(self, whole, tmp_path):
        path = tmp_path / "checkpoint.pt"
        first = Real(TUNED, epochs=3)

        def stop(_):
            raise Stopped

        first.trainer.on_epoch = stop
        with pytest.raises(Stopped):
            first.fit(path, "mine", RISING)
        trained = first.model.trained()
        saved = torch.load(path, weights_only=True)
        assert set(saved["model"]) == set(saved["best"]) == set(trained)
        source = first.model.features.elmo.source
        own = [name for name in trained if name.startswith("features.elmo.source.")]
        assert len(own) == len({trained[name].data_ptr() for name in own}) == len(list(source.parameters()))
        curve, weights = Real(TUNED, epochs=3).fit(path, "mine", RISING)
        assert curve == whole[1][0]
        assert same(weights, whole[1][1])

    def test_a_saved_model_has_the_tuned_weights(self, whole, tmp_path):
        real, (_, weights), _ = whole
        save_weights(tmp_path / "weights.pt", real.model, real.config)
        _, loaded = load_weights(tmp_path / "weights.pt", "ner")
        assert same({name: value.detach() for name, value in loaded.trained().items()}, weights)
        assert real.trainer.predict(loaded, real.dev) == real.trainer.predict(real.model, real.dev)
