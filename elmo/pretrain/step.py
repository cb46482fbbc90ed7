"""Loss and gradients of a step: eager on a CPU; on a GPU compiled, captured once per shape, and replayed.

Nothing in a step waits for the host. Its inputs (words, positions, negatives) arrive in two copies, and losses stay on
the device until they are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
from torch import Tensor, distributed
from torch.nn import functional

from elmo.pretrain.batches import IGNORED, Profile, Spelling, TokenBatch
from elmo.pretrain.language_model import LanguageModel, LogUniformSampler, sampled_loss, word_vectors


@dataclass(frozen=True)
class Upload:
    """A batch to be copied to the device, in two tensors.

    Attributes:
        numbers: types, inputs, targets and places, end to end.
        scalars: the sampler's offset, and one over the predictions of the step.
        shape: of the inputs; it decides the numbers of targets and places.
        sizes: of the four parts of `numbers`.
        profile: groups of the types.
        tokens: words and ends of sentences read, over all processes.
    """

    numbers: Tensor
    scalars: Tensor
    shape: tuple[int, ...]
    sizes: list[int]
    profile: Profile
    tokens: int

    @classmethod
    def of(cls, batch: TokenBatch, offset: float, pin: bool) -> Upload:
        """Converts a batch, to pinned memory if `pin` is set."""
        parts = [item.reshape(-1) for item in (batch.types, batch.inputs, batch.targets, batch.places)]
        numbers = torch.from_numpy(np.concatenate(parts))
        scalars = torch.tensor([offset, 1 / batch.predictions], dtype=torch.float64)
        if pin:
            numbers, scalars = numbers.pin_memory(), scalars.pin_memory()
        return cls(numbers, scalars, batch.inputs.shape, list(map(len, parts)), batch.profile, batch.tokens)


class Stepper:
    """Computes the gradients of a batch into the parameters' `grad`.

    Attributes:
        gradient: all gradients in one vector; each parameter's `grad` is a view into it.
        loss: this process's share of the mean loss of all predictions, set by a call.
    """

    def __init__(
        self,
        model: LanguageModel,
        spelling: Spelling,
        negatives: int,
        dropout: float,
        dtype: torch.dtype,
        captured: Profile | None = None,
        rows: int = 0,
    ) -> None:
        """Prepares for a model on its device.

        Args:
            model: to train.
            spelling: of every word of the text.
            negatives: size of the sample.
            dropout: see the model's `hidden`.
            dtype: of all products.
            captured: the profile of words of captured steps; None never captures.
            rows: predictions in captured steps, padding included.
        """
        self._model = model
        self._dropout = dropout
        self._dtype = dtype
        self._captured = captured
        self._rows = rows
        device = model.core.device
        self._device = device
        self._spelled = torch.from_numpy(spelling.ids).to(device)
        self._sampler = LogUniformSampler(len(model.output.weight), negatives).to(device)
        self._parameters = list(model.parameters())
        self.gradient = torch.zeros(sum(item.numel() for item in self._parameters), device=device)
        parts = torch.split(self.gradient, [item.numel() for item in self._parameters])
        self._gradients = [part.view_as(item) for part, item in zip(parts, self._parameters, strict=True)]
        for parameter, part in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = part
        self.loss = torch.zeros((), device=device)
        self._graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        if captured is not None:
            self._pool = torch.cuda.graph_pool_handle()
            self._encode = torch.compile(word_vectors, dynamic=False)
            self._loss_of = torch.compile(sampled_loss, dynamic=False)

    def __call__(self, upload: Upload) -> None:
        """Computes loss and gradients; call `torch.manual_seed` before it to fix the dropout."""
        _, _, n_targets, _ = upload.sizes
        if upload.profile == self._captured and n_targets <= self._rows:
            self._replay(upload)
            return
        numbers = upload.numbers.to(self._device, non_blocking=True)
        scalars = upload.scalars.to(self._device, non_blocking=True)
        self._compute(numbers, scalars, upload, fixed=False)

    def _replay(self, upload: Upload) -> None:
        if upload.shape not in self._graphs:
            self._graphs[upload.shape] = self._capture(upload)
        graph, numbers, scalars = self._graphs[upload.shape]
        numbers.copy_(upload.numbers, non_blocking=True)
        scalars.copy_(upload.scalars, non_blocking=True)
        graph.replay()

    def _capture(self, upload: Upload) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        numbers, scalars = upload.numbers.to(self._device), upload.scalars.to(self._device)
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # a first run: libraries initialise, kernels are compiled
            self._compute(numbers, scalars, upload, fixed=True)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Graphs run one after the other and keep only gradients, so they can share memory. Threads that prepare batches
        # may pin memory at the same time, hence the error mode.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            self._compute(numbers, scalars, upload, fixed=True)
        return graph, numbers, scalars

    def _compute(self, numbers: Tensor, scalars: Tensor, upload: Upload, fixed: bool) -> None:
        """Loss and gradients; `fixed` pads all shapes to one number of predictions, so that they compile once."""
        encode, loss_of = (self._encode, self._loss_of) if fixed else (word_vectors, sampled_loss)
        types, inputs, targets, places = torch.split(numbers, upload.sizes)
        spelled = self._spelled.index_select(0, types)
        vectors = encode(self._model.core, types, spelled, upload.profile, self._dtype)
        hidden = self._model.hidden(vectors, inputs.view(upload.shape), places, self._dropout)  # (targets, dim)
        if fixed:
            missing = self._rows - len(targets)
            hidden = functional.pad(hidden, (0, 0, 0, missing))
            targets = functional.pad(targets, (0, missing), value=IGNORED)
        output, sampler = self._model.output, self._sampler
        sampled = sampler.at(scalars[0])
        there = targets != IGNORED
        losses = loss_of(hidden, targets.clamp(min=0), sampled, output.weight, output.bias, sampler.log_expected)
        loss = (losses * there).sum() * scalars[1].float()
        torch._foreach_copy_(self._gradients, torch.autograd.grad(loss, self._parameters))
        self.loss.copy_(loss.detach())


LONGEST_WAIT = timedelta(days=7)  # the first process may build a store of a large text


@dataclass(frozen=True)
class Workers:
    """The rank of this process, the number of processes, and the group in which they wait for each other."""

    rank: int = 0
    world: int = 1
    waiting: distributed.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def sum(self, tensor: torch.Tensor) -> None:
        """Sums a tensor over all processes, in place."""
        if self.world > 1:
            distributed.all_reduce(tensor)

    def agree(self, value: float) -> float:
        """The value of the first process: clocks differ, and all must stop at the same step."""
        if self.world == 1:
            return value
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        shared = torch.tensor([value], dtype=torch.float64, device=device)
        distributed.broadcast(shared, src=0)
        return float(shared)

    def wait(self) -> None:
        """Waits for all processes, as long as it takes: torchrun ends them all when one of them fails."""
        if self.world > 1:
            distributed.barrier(self.waiting)


ALONE = Workers()


@contextmanager
def started(cuda: bool) -> Iterator[Workers]:
    """The processes that torchrun started, or a single one."""
    if "LOCAL_RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        # A group of its own: gradients keep torch's limit of minutes, after which a process that hangs is reported.
        waiting = distributed.new_group(timeout=LONGEST_WAIT, backend="gloo")
        yield Workers(distributed.get_rank(), distributed.get_world_size(), waiting)
    finally:
        distributed.destroy_process_group()
