"""The biattentive classification network against itself written out for one sentence at a time."""

import numpy as np
import pytest
import torch
from torch import nn

from tasks.modules.biattentive import BcnSettings, Maxout, attend_to_self
from tasks.modules.seeding import initialise
from tasks.sst5 import LABELS, Sentiment, SentimentClassifier
from tasks.task import Batch, FeatureBatch

LENGTHS = [4, 1, 6]
SETTINGS = BcnSettings(dim=7, hidden=5, maxout=[8, 6], pool=3)


def features(input_dim=9, output_dim=3, padding=0.0, seed=0):
    """Random vectors of three sentences, with something in the padding."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor(LENGTHS)
    mask = torch.arange(max(LENGTHS)) < lengths[:, None]
    parts = [torch.randn(3, max(LENGTHS), dim, generator=generator) for dim in (input_dim, output_dim)]
    for part in parts:
        part[~mask] = padding
    return FeatureBatch(parts[0], parts[0][..., :0], parts[1], mask, lengths)


def batch(labels=(0, 2, 4)):
    return Batch(["a", "b", "c"], ([("x",)] * 3,), {"label": torch.tensor(labels)})


def head(output_dim=3, settings=SETTINGS):
    network = SentimentClassifier(settings, LABELS, 9, output_dim).eval()
    initialise(network, 1, "head")
    return network


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def lstm(rnn, x):
    """Both directions of an LSTM over one sentence in numpy, gates in torch's order i, f, g, o."""
    outputs = []
    for suffix, order in (("", 1), ("_reverse", -1)):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w, u, b, c = (getattr(rnn, f"{name}_l0{suffix}").detach().numpy() for name in names)
        hidden = cell = np.zeros(u.shape[1])
        states = []
        for token in x[::order]:
            i, f, g, o = np.split(w @ token + b + u @ hidden + c, 4)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            cell = f * cell + i * np.tanh(g)
            hidden = o * np.tanh(cell)
            states.append(hidden)
        outputs.append(np.stack(states[::order]))
    return np.concatenate(outputs, axis=1)


def linear(layer, x):
    bias = layer.bias.detach().numpy() if layer.bias is not None else 0
    return x @ layer.weight.detach().numpy().T + bias


def written_out(network, x, output):
    """The logits of one sentence without padding, in numpy: facts B.2, step by step."""
    encoded = lstm(network.encoder.rnn, np.maximum(linear(network.feedforward[0], x), 0))
    attended = softmax(encoded @ encoded.T) @ encoded
    joined = np.concatenate([encoded, encoded - attended, encoded * attended], axis=1)
    integrated = np.concatenate([lstm(network.integrator.rnn, joined), output], axis=1)
    weights = softmax(linear(network.attention, integrated)[:, 0])
    pools = [integrated.max(axis=0), integrated.min(axis=0), integrated.mean(axis=0), weights @ integrated]
    hidden = np.concatenate(pools)
    for layer in network.classifier:
        if isinstance(layer, Maxout):
            pieces = linear(layer.linear, hidden)
            hidden = np.array([max(pieces[i : i + layer.pool]) for i in range(0, len(pieces), layer.pool)])
    return hidden


@pytest.mark.parametrize("output_dim", [0, 3])
def test_against_numpy(output_dim):
    network, tokens = head(output_dim), features(output_dim=output_dim)
    logits = network.logits([tokens], batch()).detach().numpy()
    for i, n in enumerate(LENGTHS):
        expected = written_out(network, tokens.input[i, :n].numpy(), tokens.output[i, :n].numpy())
        np.testing.assert_allclose(logits[i], expected, rtol=1e-4, atol=1e-5)


def test_values_in_the_padding_do_not_matter():
    """Also where it is far from zero: the reference's mean would be wrong then."""
    network = head()
    torch.testing.assert_close(
        network.logits([features(padding=0.0)], batch()), network.logits([features(padding=1e4)], batch())
    )


def test_pooling_of_constant_tokens_is_that_constant():
    tokens = features()
    vector = torch.randn(13)
    same = vector.expand(3, max(LENGTHS), 13).clone()
    same[~tokens.mask] = 100.0
    torch.testing.assert_close(head().pool(same, tokens.mask), vector.repeat(3, 4))


def test_attention_to_self():
    x = torch.randn(2, 3, 4)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    attended = attend_to_self(x, mask)
    torch.testing.assert_close(attended[1, 0], x[1, 0])  # the only token
    a, b = x[0, 0], x[0, 1]
    share = torch.sigmoid(a @ a - a @ b)  # of two
    torch.testing.assert_close(attended[0, 0], share * a + (1 - share) * b)


def test_maxout_is_the_largest_of_its_pieces():
    layer = Maxout(2, 2, pool=2)
    with torch.no_grad():
        layer.linear.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
        layer.linear.bias.zero_()
    torch.testing.assert_close(layer(torch.tensor([[-3.0, -1.0], [2.0, 4.0]])), torch.tensor([[3.0, 0.0], [2.0, 8.0]]))


@pytest.mark.parametrize(("output_dim", "pooled"), [(0, 2400), (1024, 6496)])
def test_widths_of_the_preset(output_dim, pooled):
    """Facts B.2: 2400 pooled without, 6496 with the original ELMo at the integrator's output."""
    with torch.device("meta"):
        network = SentimentClassifier(BcnSettings(), LABELS, 1324, output_dim)
    assert network.integrator.rnn.input_size == 1800
    linears = [(layer.linear.in_features, layer.linear.out_features) for layer in network.classifier[1::2]]
    assert linears == [(pooled, 4800), (1200, 2400), (600, 20)]
    assert [layer.p for layer in network.classifier[::2]] == [0.1, 0.2, 0.3]
    assert [layer.p for layer in network.feedforward if isinstance(layer, nn.Dropout)] == [0.25]


def test_loss_is_the_mean_cross_entropy():
    network, tokens = head(), features()
    logits = network.logits([tokens], batch()).detach().double()
    expected = -sum(torch.log_softmax(row, dim=0)[label] for row, label in zip(logits, (0, 2, 4), strict=True)) / 3
    assert network.loss([tokens], batch()).item() == pytest.approx(expected.item(), rel=1e-5)


def test_decoding_label_and_side():
    """A neutral label may lean to either side; two weak positive labels outweigh one strong negative one."""
    network = head()
    shares = torch.tensor([[0.1, 0.2, 0.4, 0.2, 0.1 + 1e-3], [0.4, 0.0, 0.0, 0.3, 0.3], [0.0, 0.4, 0.3, 0.1, 0.2]])
    network.logits = lambda *_: shares.log()
    predictions = network.decode([features()], batch())
    assert predictions == [Sentiment(LABELS[2], True), Sentiment(LABELS[0], True), Sentiment(LABELS[1], False)]
    assert [prediction.positive for prediction in predictions] == [True, True, False]


def test_predictions_are_equal_by_label():
    assert Sentiment(LABELS[2], True) == Sentiment(LABELS[2], False)
    assert Sentiment(LABELS[3], True) != Sentiment(LABELS[4], True)
