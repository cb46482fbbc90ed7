"""The model of a task before training: the seed alone decides its values."""

from types import SimpleNamespace

import torch
from torch import nn

from tasks.training.trainer import TaskModel
from tests.tasks.training.line_task import Lengths


class OwnParameters(nn.Module):
    """A head with parameters that have no `reset_parameters`; one of them is never trained."""

    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2)
        self.direction = nn.Parameter(torch.randn(width))
        self.fixed = nn.Parameter(torch.randn(width), requires_grad=False)


def test_the_seed_alone_decides_where_any_head_starts():
    task = SimpleNamespace(build_head=lambda widths: OwnParameters(widths["input"]))
    features = Lengths()
    features.widths = {"input": 4}

    def start(seed):
        torch.rand(3)  # whatever was drawn before
        return {name: value.detach() for name, value in TaskModel.start(task, features, seed).head.named_parameters()}

    first, again, other = start(1), start(1), start(2)
    assert {"attention.in_proj_weight", "direction", "fixed"} <= first.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert {name for name in first if torch.equal(first[name], other[name])} == {"attention.in_proj_bias"}, "zeros"
