"""The sampled softmax compared with the full one and with a naive one, and its sampler with the expected counts."""

import math

import pytest
import torch

from elmo.pretrain.language_model import LogUniformSampler, OutputLayer, sampled_loss


@pytest.fixture
def layer():
    torch.manual_seed(3)
    layer = OutputLayer(30, 6)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    return layer


def loss(layer, sampler, hidden, targets, offset):
    sampled = sampler.at(torch.tensor(offset, dtype=torch.float64))
    return sampled_loss(hidden, targets, sampled, layer.weight, layer.bias, sampler.log_expected)


@pytest.mark.parametrize(("words", "size"), [(1, 1), (5, 2), (1000, 200), (1000, 999), (50, 50), (20, 400)])
def test_a_sample_has_exactly_its_size_and_every_certain_word_once(words, size):
    sampler = LogUniformSampler(words, size)
    certain = (sampler.log_expected == 0).nonzero()[:, 0].tolist()
    for offset in (0.0, 0.3, 0.999999):
        sample = sampler.at(torch.tensor(offset, dtype=torch.float64)).tolist()
        assert len(sample) == min(size, words)
        assert all(0 <= word < words for word in sample)
        assert [sample.count(word) for word in certain] == [1] * len(certain)
    assert math.isclose(float(sampler.log_expected.exp().sum()), min(size, words), rel_tol=1e-5)


def test_words_are_sampled_as_often_as_expected_and_frequent_ones_more_often():
    sampler = LogUniformSampler(300, 40)
    torch.manual_seed(0)
    samples = sampler.at(torch.rand(20_000, 1, dtype=torch.float64))  # (samples, size)
    counts = torch.bincount(samples.flatten(), minlength=300)
    expected = sampler.log_expected.exp()
    torch.testing.assert_close(counts / 20_000, expected, atol=0.015, rtol=0)  # four standard deviations
    assert (expected.diff() <= 0).all()
    # Below certainty the probabilities are log-uniform: in proportion to log((rank + 2) / (rank + 1)).
    ranks = torch.arange(300.0)
    ratio = (expected / torch.log1p(1 / (ranks + 1)))[expected < 1]
    torch.testing.assert_close(ratio, ratio[0].expand_as(ratio))


def test_a_sample_of_all_words_is_the_full_softmax(layer):
    hidden, targets = torch.randn(9, 6), torch.randint(0, 30, (9,))
    found = loss(layer, LogUniformSampler(30, 30), hidden, targets, 0.5)
    full = torch.nn.functional.cross_entropy(hidden @ layer.weight.t() + layer.bias, targets, reduction="none")
    torch.testing.assert_close(found, full)
    torch.testing.assert_close(layer.log_likelihood(hidden, targets), -full)


def test_the_loss_equals_a_naive_one_word_by_word(layer):
    sampler = LogUniformSampler(30, 12)
    hidden, targets = torch.randn(20, 6), torch.arange(20)
    sample = sampler.at(torch.tensor(0.25, dtype=torch.float64)).tolist()
    assert set(sample) & set(targets.tolist())  # accidental hits are among them
    with torch.no_grad():
        found = loss(layer, sampler, hidden, targets, 0.25).tolist()
        for row, target in enumerate(targets.tolist()):
            score = {
                word: float(hidden[row] @ layer.weight[word] + layer.bias[word] - sampler.log_expected[word])
                for word in {*sample, target}
            }
            wrong = [word for word in sample if word != target]
            total = math.exp(score[target]) + sum(math.exp(score[word]) for word in wrong)
            assert found[row] == pytest.approx(math.log(total) - score[target], abs=1e-4)


def test_the_estimate_of_the_normaliser_is_right_on_average():
    torch.manual_seed(0)
    sampler = LogUniformSampler(30, 10)
    scores = torch.randn(30)
    samples = sampler.at(torch.rand(20_000, 1, dtype=torch.float64))  # (samples, size)
    totals = (scores - sampler.log_expected)[samples].exp().sum(dim=1)
    error = float(totals.mean() - scores.exp().sum())
    assert abs(error) < 4 * float(totals.std()) / math.sqrt(len(totals))


def test_training_with_samples_finds_the_distribution_that_the_full_softmax_would():
    torch.manual_seed(0)
    words, true = 20, torch.softmax(torch.randn(20) * 1.5, 0).sort(descending=True).values
    layer, sampler = OutputLayer(words, 1), LogUniformSampler(words, 10)
    hidden = torch.ones(4000, 1)
    optimiser = torch.optim.Adam([layer.bias], lr=0.1)
    for step in range(200):
        for group in optimiser.param_groups:
            group["lr"] = 0.1 * (1 - step / 200)
        targets = torch.multinomial(true, 4000, replacement=True)
        optimiser.zero_grad()
        loss(layer, sampler, hidden, targets, float(torch.rand(()))).mean().backward()
        optimiser.step()
    found = torch.softmax(layer.bias.detach(), 0)
    assert float((found - true).abs().sum()) < 0.06


def test_gradients_reach_only_targets_and_samples(layer):
    sampler = LogUniformSampler(30, 5)
    targets = torch.tensor([29, 28])
    loss(layer, sampler, torch.randn(2, 6), targets, 0.1).sum().backward()
    touched = set(layer.weight.grad.abs().sum(dim=1).nonzero()[:, 0].tolist())
    assert touched == {28, 29, *sampler.at(torch.tensor(0.1, dtype=torch.float64)).tolist()}
