"""A linear-chain CRF over tags of which some may not follow others: pytorch-crf's, faster, with lawful decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torchcrf import CRF

from tasks.crf import in_torch

TRITON = find_spec("triton") is not None  # comes with torch where torch is built for a GPU, except on Windows


class Walks(Protocol):
    """The walks along the tokens of sentences; masks are (batch, tokens), and tokens come before padding."""

    def filtered(self, potentials: Tensor, first: Tensor, follow: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """How likely each tag is, given what came up to it, as `potentials`, and each step's scale, (tokens, batch).

        Args:
            potentials: of the emissions, (tokens, batch, tags).
            first: of the tags a sentence begins with, (tags,).
            follow: of a tag (row) before a tag (column), (tags, tags).
            mask: behind a sentence's end its last values are repeated, with a scale of one.
        """

    def smoothed(self, scaled: Tensor, behind: Tensor, follow: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What comes after each tag, and that times the tag's own potential where a tag comes before: as `scaled`.

        Args:
            scaled: potentials divided by the steps' scales, (tokens, batch, tags).
            behind: what comes after the last token, (batch, tags).
            follow: as in `filtered`.
            mask: behind a sentence's end `behind` is repeated, and the second result is zero.
        """

    def best_paths(self, emissions: Tensor, starts: Tensor, transitions: Tensor, ends: Tensor, mask: Tensor) -> Tensor:
        """The tag numbers of the highest sum of scores, (batch, tokens); those at padding mean nothing."""


def walks_for(x: Tensor) -> Walks:
    """The walks for a tensor's device."""
    if x.device.type == "cuda" and TRITON:
        from tasks.crf import in_triton

        return in_triton
    return in_torch


class LogPartition(torch.autograd.Function):
    """The log of the summed exponentials of the scores of all tag sequences, (batch,).

    Its gradient is known: how likely each tag, and each pair of neighbours, is. So autograd need not remember step by
    step, and both passes are a product and a few operations a step. They take place in the domain of probabilities,
    scaled to one at each step, and in float64, whose range leaves room for scores that differ by 700.
    """

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor) -> Tensor:  # noqa: ANN401, D102
        running = mask.t().unsqueeze(2)  # (tokens, batch, 1)
        scores = emissions.transpose(0, 1).double().masked_fill(~running, 0).contiguous()  # (tokens, batch, tags)
        highest = scores.amax(dim=2, keepdim=True)
        potentials = (scores - highest).exp()
        follow = transitions.double().exp()  # (from, to)
        last = ends.double().exp()

        forward, totals = walks_for(scores).filtered(potentials, starts.double().exp(), follow, mask)
        all_totals = totals.unsqueeze(2)  # (tokens, batch, 1)
        at_end = (forward[-1] * last).sum(dim=1)  # (batch,)
        ctx.save_for_backward(forward, potentials / all_totals, follow, last, at_end, mask)
        ctx.kinds = [tensor.dtype for tensor in (emissions, transitions, starts, ends)]
        return (all_totals.log() + highest).sum(dim=(0, 2)) + at_end.log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401, D102
        forward, scaled, follow, last, at_end, mask = ctx.saved_tensors
        weight = grad.double().unsqueeze(1)  # (batch, 1)
        behind = (last / at_end.unsqueeze(1)) * weight  # (batch, tags)
        backward, reading = walks_for(scaled).smoothed(scaled, behind, follow, mask)
        likely = forward * backward * mask.t().unsqueeze(2)  # (tokens, batch, tags)
        by_pairs = forward[:-1].flatten(0, 1).t() @ reading[1:].flatten(0, 1) * follow
        at_last = (forward[-1] * last / at_end.unsqueeze(1) * weight).sum(dim=0)
        grads = (likely.transpose(0, 1), by_pairs, likely[0].sum(dim=0), at_last)
        return *(value.to(kind) for value, kind in zip(grads, ctx.kinds, strict=True)), None


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
        tags = tags.masked_fill(~mask, 0)
        last = tags.gather(1, mask.sum(dim=1, keepdim=True) - 1).squeeze(1)  # (batch,)
        own = emissions.gather(2, tags.unsqueeze(2)).squeeze(2).masked_fill(~mask, 0)  # (batch, tokens)
        between = self.transitions[tags[:, :-1], tags[:, 1:]].masked_fill(~mask[:, 1:], 0)  # (batch, tokens - 1)
        score = self.start_transitions[tags[:, 0]] + self.end_transitions[last]
        score = score.double() + own.double().sum(dim=1) + between.double().sum(dim=1)
        weights = self.transitions, self.start_transitions, self.end_transitions
        partition: Tensor = LogPartition.apply(emissions, *weights, mask)  # type: ignore[no-untyped-call]
        likelihood: Tensor = score - partition
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
                self.start_transitions.masked_fill(~self.allowed_first, forbidden),
                self.transitions.masked_fill(~self.allowed, forbidden),
                self.end_transitions.masked_fill(~self.allowed_last, forbidden),
                mask,
            )
            .tolist()
        )
        lengths = mask.sum(dim=1).tolist()
        return [tags[:length] for tags, length in zip(paths, lengths, strict=True)]
