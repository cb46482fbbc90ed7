"""A biLM with gradients: the values of the frozen one, and gradients that finite differences confirm."""

import pytest
import torch

from elmo import random_bilm
from elmo.bilm.options import SIZES
from elmo.sources.bilm import TunedBilm

SENTENCES = [["Ada", "plays", "chess"], [], ["the", "river", "bank", "of", "the", "town"], ["chess"]]


@pytest.fixture
def tuned():
    return TunedBilm(random_bilm("tiny", 3))


def test_layers_are_those_of_the_frozen_bilm(tuned):
    frozen = random_bilm("tiny", 3)
    found = tuned.token_layers(SENTENCES)
    torch.testing.assert_close(found.detach(), frozen.token_layers(SENTENCES), rtol=0, atol=1e-5)
    alone = torch.cat([tuned.token_layers([sentence]) for sentence in SENTENCES if sentence], dim=1)
    torch.testing.assert_close(found, alone, rtol=0, atol=1e-5)
    assert tuned.token_layers([[], []]).shape == (tuned.bilm.n_layers, 0, tuned.bilm.dim)
    assert (tuned.widths, tuned.fingerprint()) == (frozen.widths, frozen.fingerprint())


def test_layers_without_gradients_have_the_current_weights(tuned):
    """torch does not count the steps of a fused optimiser as changes of its weights."""
    optimizer = torch.optim.Adam(tuned.parameters(), lr=0.05, fused=True)
    with torch.no_grad():
        before = tuned.token_layers(SENTENCES)
        torch.testing.assert_close(tuned.bilm.token_layers(SENTENCES), before, rtol=0, atol=1e-5)
    tuned.token_layers(SENTENCES).sum().backward()
    optimizer.step()
    expected = tuned.token_layers(SENTENCES).detach()
    assert not torch.allclose(expected[0], before[0], atol=0.1)
    with torch.no_grad():
        torch.testing.assert_close(tuned.token_layers(SENTENCES), expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(tuned.bilm.token_layers(SENTENCES), expected, rtol=0, atol=1e-5)


def test_every_parameter_is_in_one_group_and_gets_the_slope_of_the_loss(tuned):
    groups = tuned.parameter_groups()
    assert len(groups) == SIZES["tiny"].n_layers + 1
    parameters = list(tuned.parameters())
    grouped = [parameter for group in groups for parameter in group]
    assert sorted(map(id, grouped)) == sorted(map(id, parameters))

    weights = torch.randn(3, 10, tuned.bilm.dim, generator=torch.Generator().manual_seed(1))

    def loss():
        return (tuned.token_layers(SENTENCES) * weights).sum()

    loss().backward()
    for parameter in parameters:
        gradient = parameter.grad
        assert gradient is not None
        assert gradient.any()
        direction, step = gradient / gradient.norm(), 3e-3
        with torch.no_grad():
            parameter += step * direction
            above = loss()
            parameter -= 2 * step * direction
            slope = (above - loss()) / (2 * step)
            parameter += step * direction
        assert slope.item() == pytest.approx(gradient.norm().item(), rel=0.03, abs=1e-2)
