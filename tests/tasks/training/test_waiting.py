"""A training step never waits for its device: it reads no value or size of a tensor there."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tasks.data.datasets import DataSource
from tasks.training.trainer import OPTIMIZERS
from tests.tasks.making import arm_of, model_of, run_of

TASKS = ("ner", "sst5", "snli", "squad", "srl")
# What gives a value to Python, or a tensor whose shape depends on values.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive"}


class Waiting(TorchDispatchMode):
    """Collects the operations for which the host of a GPU would wait."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.partition("::")[2]
        by_mask = name.startswith("index") and any(
            isinstance(index, torch.Tensor) and index.dtype == torch.bool
            for index in (args[1] if isinstance(args[1], list | tuple) else [])
        )
        if name in WAITING or by_mask:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def one_step(task, arm, device):
    """A function that does one training step of a task, and has done one already."""
    run = run_of(f"task={task}", "data=mini", "limit=8", *arm_of(task, arm))
    train = DataSource(run.data, run.data_dir, run.limit).load(run.task, "train").examples
    model = model_of(run, train).to(device).train()
    model.features.meet([text for example in train for text in run.task.texts(example)])
    trained = list(model.trained().values())
    optimizer = OPTIMIZERS[run.trainer.optimizer](trained, lr=run.trainer.lr)

    def step():
        batch = run.task.collate(train)
        loss = model.loss(batch.to(device), model.features.find(batch.texts))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 5.0)
        optimizer.step()
        optimizer.zero_grad()

    step()  # what is computed of the sentences' lengths, which are on the CPU, is remembered from here on
    return step


@pytest.mark.parametrize("arm", ["words", "elmo"])
@pytest.mark.parametrize("task", TASKS)
def test_no_operation_of_a_step_makes_the_host_wait(task, arm):
    step = one_step(task, arm, torch.device("cpu"))
    with Waiting() as waiting:
        step()
    assert waiting.seen == []


def test_a_step_that_waits_is_detected():
    mask = torch.tensor([True, False])
    with Waiting() as waiting:
        mask.nonzero()
        torch.unique(torch.zeros(2))
        float(torch.ones(()))
        torch.zeros(2)[mask]
    assert waiting.seen == ["nonzero", "_unique2", "_local_scalar_dense", "index"]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("arm", ["words", "elmo"])
@pytest.mark.parametrize("task", TASKS)
def test_the_host_does_not_wait_for_the_gpu(task, arm):
    """In this mode torch raises a RuntimeError from an operation that waits."""
    step = one_step(task, arm, torch.device("cuda"))
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
