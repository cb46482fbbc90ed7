"""Optimisers of the suite take the steps of torch's own, to the last bit, and resume as these do."""

import copy

import pytest
import torch

from tasks.training.trainer import OPTIMIZERS, plateau_schedule

PLAIN = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, fused=True),
    "adadelta": lambda parameters: torch.optim.Adadelta(parameters, lr=0.01, rho=0.95, eps=1e-8),
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_steps_are_those_of_torch_with_a_stop_in_between(name):
    generator = torch.Generator().manual_seed(1)
    start, *gradients = torch.randn(7, 5, 3, generator=generator)
    ends = []
    for make in (PLAIN[name], lambda parameters: OPTIMIZERS[name](parameters, lr=0.01)):
        weight = torch.nn.Parameter(start.clone())
        optimizer = make([weight])
        for number, gradient in enumerate(gradients):
            if number == 3:
                state = copy.deepcopy(optimizer.state_dict())
                optimizer = make([weight])
                optimizer.load_state_dict(state)
            weight.grad = gradient.clone()
            optimizer.step()
            assert not weight.grad_fn
            optimizer.zero_grad()
            assert weight.grad is None
        assert torch.is_grad_enabled()
        ends.append(weight.detach())
    assert not torch.equal(ends[0], start)
    assert torch.equal(*ends)


def test_a_small_improvement_is_no_plateau():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = plateau_schedule(optimizer, 0.5, 0)
    rates = []
    for score in (80.0, 80.006, 80.007, 80.007):
        schedule.step(score)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 1.0, 0.5]


def test_without_a_factor_the_rate_is_constant():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = plateau_schedule(optimizer, None, 0)
    for _ in range(5):
        schedule.step(1.0)
    assert optimizer.param_groups[0]["lr"] == 1.0
