import numpy as np
import pytest
import torch

from elmo import InputError, ScalarMix

N, B, T, D = 3, 2, 4, 5


@pytest.fixture
def batch():
    """Layers of a batch whose second sentence ends after two tokens, and the mask."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    layers = 2.0 + 3.0 * torch.randn(N, B, T, D, generator=generator)
    return layers * mask[:, :, None], mask


def with_scalars(mix, scalars, gamma):
    with torch.no_grad():
        mix.scalars.copy_(torch.tensor(scalars))
        mix.gamma.fill_(gamma)
    return mix


def test_starts_as_the_plain_average(batch):
    layers, mask = batch
    mix = ScalarMix(N)
    np.testing.assert_allclose(mix(layers, mask).detach().numpy(), layers.numpy().mean(axis=0), rtol=1e-6, atol=1e-6)
    assert mix.weights() == pytest.approx([1 / 3] * 3)


def test_softmax_weights_and_gamma(batch):
    layers, mask = batch
    mix = with_scalars(ScalarMix(N), [1.0, -0.5, 2.0], gamma=0.7)
    shares = np.exp([1.0, -0.5, 2.0]) / np.exp([1.0, -0.5, 2.0]).sum()
    expected = 0.7 * sum(share * layer for share, layer in zip(shares, layers.numpy(), strict=True))
    np.testing.assert_allclose(mix(layers, mask).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert mix.weights() == pytest.approx(shares.tolist())


@pytest.mark.parametrize(("choice", "layer"), [("last", 2), (0, 0), (1, 1), (2, 2)])
def test_a_single_layer(batch, choice, layer):
    layers, mask = batch
    mix = ScalarMix(N, choice, l2=0.5)
    with torch.no_grad():
        mix.gamma.fill_(1.5)
    assert torch.equal(mix(layers, mask), 1.5 * layers[layer])
    assert mix.weights() == [float(j == layer) for j in range(N)]
    assert mix.penalty() == 0.0
    assert [name for name, _ in mix.named_parameters()] == ["gamma"]


def normalised(layer, mask):
    inside = layer[mask]  # (tokens, D): one mean and variance over all tokens and dimensions
    return np.where(mask[:, :, None], (layer - inside.mean()) / np.sqrt(inside.var() + 1e-12), 0.0)


@pytest.mark.parametrize("choice", ["mix", "last", 0])
def test_masked_layer_norm(batch, choice):
    layers, mask = batch
    mix = ScalarMix(N, choice, layer_norm=True)
    parts = [normalised(layer.double().numpy(), mask.numpy()) for layer in layers]
    expected = sum(parts) / 3 if choice == "mix" else parts[2 if choice == "last" else choice]
    np.testing.assert_allclose(mix(layers, mask).detach().numpy(), expected, atol=1e-6)


def test_layer_norm_ignores_padding(batch):
    layers, mask = batch
    mix = ScalarMix(N, layer_norm=True)
    clean = mix(layers, mask)
    dirty = mix(torch.where(mask[None, :, :, None], layers, torch.tensor(1e4)), mask)
    torch.testing.assert_close(dirty, clean)
    assert not clean[~mask].any()


def test_layer_norm_of_nothing_and_of_equal_values_is_finite(batch):
    layers, mask = batch
    mix = ScalarMix(N, layer_norm=True)
    assert torch.isfinite(mix(layers, torch.zeros_like(mask))).all()
    assert torch.isfinite(mix(torch.ones_like(layers), mask)).all()
    assert mix(layers[:, :, :0], mask[:, :0]).shape == (B, 0, D)


def test_penalty_is_on_the_raw_scalars_alone():
    mix = with_scalars(ScalarMix(N, l2=0.1), [1.0, -2.0, 3.0], gamma=50.0)
    assert mix.penalty().item() == pytest.approx(0.1 * (1 + 4 + 9))
    mix.penalty().backward()
    np.testing.assert_allclose(mix.scalars.grad.numpy(), [0.2, -0.4, 0.6], rtol=1e-6)
    assert mix.gamma.grad is None


def test_gradients_reach_scalars_and_gamma(batch):
    layers, mask = batch
    scalars, gamma = [0.3, -0.2, 0.5], 0.9
    mix = with_scalars(ScalarMix(N), scalars, gamma)
    mix(layers, mask).sum().backward()
    shares = np.exp(scalars) / np.exp(scalars).sum()
    sums = layers.double().numpy().sum(axis=(1, 2, 3))
    # d/ds_j of gamma * sum_i p_i S_i is gamma * p_j * (S_j - sum_i p_i S_i); d/dgamma is sum_i p_i S_i.
    np.testing.assert_allclose(mix.scalars.grad.numpy(), gamma * shares * (sums - shares @ sums), rtol=1e-4)
    assert mix.gamma.grad.item() == pytest.approx(shares @ sums, rel=1e-5)


def test_wrong_number_of_layers(batch):
    layers, mask = batch
    with pytest.raises(ValueError, match="made for 3 layers, found 2"):
        ScalarMix(N)(layers[:2], mask)


@pytest.mark.parametrize("choice", ["first", 3, -1, None])
def test_unknown_choice(choice):
    with pytest.raises(InputError, match=r"layers must be 'mix', 'last' or 0\.\.2, found"):
        ScalarMix(N, choice)
