"""ESIM, part by part and as a whole, against loops over each pair alone."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from tasks.modules.seeding import initialise
from tasks.snli import LABELS, Esim, EsimSettings, PairReader, Snli, align, enhance
from tasks.task import Batch, FeatureBatch
from tests.tasks.making import run_of

PREMISES, HYPOTHESES = [3, 5, 1, 4], [2, 1, 6, 4]
INPUT, HIDDEN = 7, 5


def text(lengths, output_dim, seed):
    """Features of sentences of these lengths; padding holds what no head may look at."""
    draw = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths) + 1) < torch.tensor(lengths)[:, None]
    values = torch.randn(*mask.shape, INPUT + output_dim, generator=draw)
    values[~mask] = 1e3
    return FeatureBatch(values[..., :INPUT], values[..., :0], values[..., INPUT:], mask, torch.tensor(lengths))


def head_of(output_dim=0, seed=1):
    head = Esim(EsimSettings(hidden=HIDDEN), LABELS, INPUT, output_dim)
    initialise(head, seed, "head")
    return head.eval()


def softmax(values):
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def found(own, other):
    """For each row of one matrix the mean of the other's rows, weighted by dot products: plain loops in numpy."""
    return np.stack([sum(w * row for w, row in zip(softmax(other @ x), other, strict=True)) for x in own])


class TestAlign:
    def test_against_loops_over_each_pair(self):
        draw = torch.Generator().manual_seed(0)
        a, b = torch.randn(4, 6, 3, generator=draw), torch.randn(4, 7, 3, generator=draw)
        masks = [torch.arange(n) < torch.tensor(of)[:, None] for n, of in ((6, PREMISES), (7, HYPOTHESES))]
        for_a, for_b = align(a, b, *masks)
        for i, (m, n) in enumerate(zip(PREMISES, HYPOTHESES, strict=True)):
            own, other = a[i, :m].numpy(), b[i, :n].numpy()
            np.testing.assert_allclose(for_a[i, :m].numpy(), found(own, other), atol=1e-5)
            np.testing.assert_allclose(for_b[i, :n].numpy(), found(other, own), atol=1e-5)

    def test_enhance_by_hand(self):
        enhanced = enhance(torch.tensor([[[2.0, 3.0]]]), torch.tensor([[[5.0, -1.0]]]))
        assert enhanced.tolist() == [[[2, 3, 5, -1, -3, 4, 10, -3]]]


def one_pair(head, premise, hypothesis):
    """The scores of a pair without padding, step by step: torch's LSTM and linear layers, the rest in numpy."""

    def lstm(birnn, x):
        return birnn.rnn(torch.from_numpy(x)[None])[0][0].numpy()

    def linear(layer, x):
        return x @ layer.weight.numpy().T + layer.bias.numpy()

    encoded = [np.concatenate([lstm(head.encoder, x), out], axis=1) for x, out in (premise, hypothesis)]
    pooled = []
    for own, other in (encoded, encoded[::-1]):
        other_for_own = found(own, other)
        local = np.concatenate([own, other_for_own, own - other_for_own, own * other_for_own], axis=1)
        composed = lstm(head.composition, np.maximum(linear(head.projection[0], local), 0).astype(np.float32))
        pooled += [composed.mean(axis=0), composed.max(axis=0)]
    hidden = np.maximum(linear(head.classifier[1], np.concatenate(pooled)), 0)
    return linear(head.classifier[4], hidden)


@pytest.mark.parametrize("output_dim", [0, 3])
@torch.no_grad()
def test_scores_are_those_of_each_pair_alone(output_dim):
    head = head_of(output_dim)
    features = [text(PREMISES, output_dim, 1), text(HYPOTHESES, output_dim, 2)]
    scores = head.logits(features, None)
    assert scores.shape == (4, 3)
    for i in range(4):
        pair = [(t.input[i, : t.lengths[i]].numpy(), t.output[i, : t.lengths[i]].numpy()) for t in features]
        np.testing.assert_allclose(scores[i].numpy(), one_pair(head, *pair), atol=1e-5)
    assert head.decode(features, None) == [LABELS[i] for i in scores.argmax(dim=1)]


def test_loss_is_the_mean_cross_entropy():
    head = head_of()
    features = [text(PREMISES, 0, 1), text(HYPOTHESES, 0, 2)]
    labels = torch.tensor([0, 2, 1, 1])
    loss = head.loss(features, Batch([], ([], []), {"label": labels}))
    shares = torch.softmax(head.logits(features, None), dim=1)
    assert loss.item() == pytest.approx(-np.log([shares[i, label].item() for i, label in enumerate(labels)]).mean())


def test_dropout_is_variational_on_the_inputs_of_both_lstms():
    """One mask a sentence: in training a dropped dimension is dropped for all of its words."""
    head = head_of().train()
    seen = []
    for birnn in (head.encoder, head.composition):
        birnn.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    nothing = torch.ones(2, 6, 0)
    ones = FeatureBatch(
        torch.ones(2, 6, INPUT), nothing, nothing, torch.ones(2, 6, dtype=torch.bool), torch.tensor([6, 6])
    )
    torch.manual_seed(0)
    head.logits([ones, ones], None)
    encoded, composed = seen  # premises above hypotheses
    assert torch.equal(encoded, encoded[:, :1].expand_as(encoded))
    assert set(encoded.unique().tolist()) == {0.0, 2.0}
    whole = (composed == 0).all(dim=1)  # (batch, dim)
    assert 0 < whole.sum() < whole.numel()


class TestTask:
    @pytest.fixture
    def task(self):
        return Snli(EsimSettings(), PairReader())

    def test_accuracy_and_scores_by_label(self, task):
        draw = random.Random(0)
        gold = [draw.choice(LABELS) for _ in range(200)]
        guesses = [draw.choice([label, draw.choice(LABELS)]) for label in gold]
        rows = [{"gold_label": label, "sentence1": "A b.", "sentence2": "C."} for label in gold]
        scores = task.score(task.from_rows(rows, "test"), guesses)
        right = [one == other for one, other in zip(gold, guesses, strict=True)]
        assert scores.values == {"accuracy": pytest.approx(sum(right) / 2)}
        assert [bool(example["correct"]) for example in scores.examples] == right
        for label in LABELS:
            hits = sum(r for r, g in zip(right, gold, strict=True) if g == label)
            found = scores.details["labels"][label]
            assert found["precision"] == pytest.approx(100 * hits / guesses.count(label))
            assert found["recall"] == pytest.approx(100 * hits / gold.count(label))

    def test_the_recipe(self):
        """Facts B.3: AllenNLP's esim preset, ELMo placed as in the paper."""
        config = run_of("task=snli", "features=elmo", "data=paper")
        assert vars(config.task.settings) == {"hidden": 300, "dropout": 0.5, "hypothesis_only": False}
        assert config.features.characters is None
        assert (config.features.words.lowercase, config.features.words.trainable) == (True, True)
        elmo = config.features.elmo
        assert (elmo.places, elmo.l2, elmo.dropout, elmo.layer_norm) == (["input", "output"], 0.001, 0.0, False)
        trainer = config.trainer
        assert (trainer.optimizer, trainer.lr, trainer.grad_norm, trainer.batch_size) == ("adam", 0.0004, 10.0, 32)
        assert (trainer.plateau_factor, trainer.plateau_patience) == (0.5, 0)
        assert (trainer.epochs, trainer.patience) == (75, 5)
        head = config.task.build_head({"input": 300, "hidden": 0, "output": 0})
        assert head.projection[0].in_features == 2400
        assert head.classifier[1].in_features == 2400
        assert [layer.p for layer in head.classifier if isinstance(layer, nn.Dropout)] == [0.5, 0.5]
