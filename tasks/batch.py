"""A task's examples as a model reads them: sentences, batches, and the vectors of a batch at each place of a head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from elmo.common.device import upload

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
Sentence = tuple[str, ...]
PLACES = ("input", "hidden", "output")  # where features may enter a head


@dataclass(frozen=True)
class Batch:
    """A batch of examples for a model.

    Attributes:
        ids: the names of the examples, for error messages.
        texts: one list of sentences for each kind of text that the task reads: one in tagging, two in inference
            (premises and hypotheses).
        targets: all else that the head needs, such as gold labels.
        owners: for each kind of text, the number of the example in the batch that each sentence belongs to,
            (sentences,); by default one sentence per example.
    """

    ids: list[str]
    texts: tuple[list[Sentence], ...]
    targets: dict[str, Tensor]
    owners: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        if not self.owners:
            object.__setattr__(self, "owners", tuple(torch.arange(len(text)) for text in self.texts))

    def to(self, device: torch.device) -> Batch:
        """The batch with its tensors on a device."""
        targets = {name: upload(tensor, device) for name, tensor in self.targets.items()}
        return Batch(self.ids, self.texts, targets, tuple(upload(owners, device) for owners in self.owners))


@dataclass(frozen=True)
class FeatureBatch:
    """The vectors of one kind of text at each place.

    A place where the features have nothing has width zero, so that a head can always join it.

    Attributes:
        input: [x_k; ELMo_k], the input of the head, (batch, tokens, input width).
        hidden: joined to the states between the layers of the head's encoder, (batch, tokens, hidden width).
        output: joined to the output of the head's encoder as [h_k; ELMo_k], (batch, tokens, output width).
        mask: true for tokens, false for padding, (batch, tokens).
        lengths: tokens of each sentence, on the CPU as packing needs them, (batch,).
    """

    input: Tensor
    hidden: Tensor
    output: Tensor
    mask: Tensor
    lengths: Tensor
