"""Selects faster forms of the loops in tasks.modules, from elmo.kernels.

Plain torch defines what the loops compute. It is used, and is slower, where the folder, a C compiler or Triton is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import torch
from torch import Tensor

from elmo.bilm import pointwise_in_torch
from elmo.bilm.fast import compiled as bilm_in_c
from elmo.bilm.fast import kernel_module, pointwise
from tasks.modules.packing import Packing


class Loops(Protocol):
    """The loop over the steps, for the one or two directions of a layer at once. H is the width of the state.

    An LSTM has four gates, o, i, f, g; a GRU three, r, z, n, and a bias of its own for the state. A highway LSTM has a
    gate r before those of an LSTM, and before r a projection of the input, to which the state adds nothing.
    """

    def forward(
        self, gates: Tensor, weight: Tensor, bias: Tensor | None, packing: Packing, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Three tensors, (ways, packed, H) each: what a step takes over from the one before, the states, and `kept`.

        A step takes over the cells of an LSTM, the states of a GRU. `kept` is the tanh of the cells, or the previous
        state's part of the candidate, before r is applied.

        Args:
            gates: the inputs' part of the gates, (ways, packed, gates * H); overwritten by the gates' values. Those of
                a highway LSTM have the projection before them.
            weight: from the previous state to the gates, (ways, gates * H, H).
            bias: of that product, (ways, gates * H); None for an LSTM.
            packing: the rows of each step.
            mask: factors of the states of each sentence, longest first, (ways, batch, H), of a highway LSTM; else None.
        """

    def backward(
        self,
        grad: Tensor,
        gates: Tensor,
        carried: Tensor,
        kept: Tensor,
        weight: Tensor,
        packing: Packing,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The gradients of the gates before their nonlinearity, of n in a GRU that of the state's part; as `gates`.

        `grad`, of the states, is overwritten; of a GRU it becomes the sum over all that reads a state.
        """


class Walks(Protocol):
    """The CRF's loops over the tokens of sentences; masks are (batch, tokens), with tokens before padding."""

    def likelihood(
        self, emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, tags: Tensor, mask: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """The log-likelihood of the tags of each sentence, (batch,), float64, and the tensors for `gradients`.

        Args:
            emissions: scores of the tags of each token, (batch, tokens, tags).
            transitions: scores of a tag (row) before a tag (column), (tags, tags).
            starts: scores of the first tag, (tags,).
            ends: scores of the last tag, (tags,).
            tags: tag numbers, (batch, tokens), valid ones at padding too.
            mask: true for tokens.
        """

    def gradients(
        self, weight: Tensor, kept: Sequence[Tensor], transitions: Tensor, ends: Tensor, tags: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of emissions, transitions, starts and ends, given that of the likelihood, (batch,), float64."""

    def best_paths(self, emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor) -> Tensor:
        """The tag numbers of the highest sum of scores, (batch, tokens); those at padding are undefined."""


def fast_loops(x: Tensor) -> Loops | None:
    """A faster form of `recurrence_in_torch` for a tensor's device and type, or None."""
    if x.device.type == "cuda":
        return cast(Loops | None, kernel_module("recurrence_in_triton"))
    in_c = kernel_module("in_c")
    return None if in_c is None else cast(Loops | None, in_c.loops(x))


def fast_walks(x: Tensor) -> Walks | None:
    """A faster form of `crf_in_torch` for a tensor's device, or None."""
    return cast(Walks | None, kernel_module("crf_in_triton")) if x.device.type == "cuda" else None


def kernels_for(device: torch.device) -> str:
    """What computes recurrences on a device, of heads and of the biLM: "C", "Triton", "torch", or two of them."""
    x = torch.empty(0, device=device)
    fast = "Triton" if device.type == "cuda" else "C"
    bilm = bilm_in_c(x) is not None or pointwise(device) is not pointwise_in_torch
    return " and ".join(sorted({fast if found else "torch" for found in (fast_loops(x) is not None, bilm)}))
