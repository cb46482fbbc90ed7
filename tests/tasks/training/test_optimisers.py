"""Optimisers of the suite take the steps of torch's own, to the last bit, and resume as these do."""

import copy

import pytest
import torch

from tasks.training.optimisers import OPTIMIZERS

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
