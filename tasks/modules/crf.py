"""A linear-chain CRF over tags of which some may not follow others: pytorch-crf's, faster, with lawful decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torchcrf import CRF

from elmo.common.device import has_triton
from tasks.modules import crf_in_torch


class Walks(Protocol):
    """The walks along the tokens of sentences; masks are (batch, tokens), and tokens come before padding."""

    def likelihood(
        self, emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, tags: Tensor, mask: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """The log-likelihood of the tags of each sentence, (batch,), float64, and what `gradients` needs.

        Args:
            emissions: scores of the tags of each token, (batch, tokens, tags).
            transitions: scores of a tag (row) before a tag (column), (tags, tags).
            starts: scores of the first tag, (tags,).
            ends: scores of the last tag, (tags,).
            tags: tag numbers, (batch, tokens), valid ones at padding too.
            mask: where there are tokens.
        """

    def gradients(
        self, weight: Tensor, kept: Sequence[Tensor], transitions: Tensor, ends: Tensor, tags: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of emissions, transitions, starts and ends, given the likelihood's, (batch,), float64."""

    def best_paths(self, emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor) -> Tensor:
        """The tag numbers of the highest sum of scores, (batch, tokens); those at padding mean nothing."""


def walks_for(x: Tensor) -> Walks:
    """The walks for a tensor's device."""
    if x.device.type == "cuda" and has_triton():
        from tasks.kernels import crf_in_triton

        return crf_in_triton
    return crf_in_torch


class LogLikelihood(torch.autograd.Function):
    """The log-likelihood of the tags of each sentence, (batch,); see `Walks.likelihood`.

    Its gradient is known: what is gold, less how likely each tag, and each pair of neighbours, is. So autograd need not
    remember step by step, and both passes are a product and a few operations a step. They take place in the domain of
    probabilities, scaled to one at each step, and in float64, whose range leaves room for scores that differ by 700.
    """

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any,  # noqa: ANN401
        emissions: Tensor,
        transitions: Tensor,
        starts: Tensor,
        ends: Tensor,
        tags: Tensor,
        mask: Tensor,
    ) -> Tensor:
        value, kept = walks_for(emissions).likelihood(emissions, transitions, starts, ends, tags, mask)
        ctx.save_for_backward(transitions, ends, tags, mask, *kept)
        ctx.kinds = [tensor.dtype for tensor in (emissions, transitions, starts, ends)]
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401, D102
        transitions, ends, tags, mask, *kept = ctx.saved_tensors
        weight = grad.double().contiguous()
        found = walks_for(weight).gradients(weight, kept, transitions, ends, tags, mask)
        return *(value.to(kind) for value, kind in zip(found, ctx.kinds, strict=True)), None, None


class ConstrainedCrf(CRF):  # type: ignore[misc]
    """pytorch-crf with a faster likelihood, and with decoding that never leaves the tag scheme.

    Parameters and what they mean are the library's, and so is the likelihood, over all tag sequences (tests hold the
    one to the other). Decoding is written here because the library has no constraints, and because its own walks back
    through every sentence token by token in Python.

    Args:
        tags: the tags, in the order of the emissions' last axis.
        may_follow: whether the second tag may stand right after the first; "" is the start and the end of a sentence.
    """

    def __init__(self, tags: Sequence[str], may_follow: Callable[[str, str], bool]) -> None:
        super().__init__(len(tags), batch_first=True)
        self.allowed: Tensor
        self.allowed_first: Tensor
        self.allowed_last: Tensor
        self.register_buffer("allowed", torch.tensor([[may_follow(a, b) for b in tags] for a in tags]))
        self.register_buffer("allowed_first", torch.tensor([may_follow("", tag) for tag in tags]))
        self.register_buffer("allowed_last", torch.tensor([may_follow(tag, "") for tag in tags]))

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """How likely the tags of each sentence are: (batch, tokens, tags), (batch, tokens) twice -> (batch,).

        Args:
            emissions: the scores of the tags.
            tags: tag numbers; those behind a sentence's end are not looked at.
            mask: where there are tokens; every sentence has at least one, and they come first.
        """
        weights = self.transitions, self.start_transitions, self.end_transitions
        likelihood: Tensor = LogLikelihood.apply(emissions, *weights, tags.masked_fill(~mask, 0), mask)  # type: ignore[no-untyped-call]
        return likelihood

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The best allowed tag numbers of each sentence: (batch, tokens, tags), (batch, tokens) -> lists.

        Emissions are added in float32 whatever their precision: ties that rounding makes would be broken by chance.
        """
        emissions = emissions.float()
        forbidden = float("-inf")
        paths = (
            walks_for(emissions)
            .best_paths(
                emissions,
                self.transitions.masked_fill(~self.allowed, forbidden),
                self.start_transitions.masked_fill(~self.allowed_first, forbidden),
                self.end_transitions.masked_fill(~self.allowed_last, forbidden),
                mask,
            )
            .tolist()
        )
        lengths = mask.sum(dim=1).tolist()
        return [tags[:length] for tags, length in zip(paths, lengths, strict=True)]
