"""A linear-chain CRF: pytorch-crf with a faster likelihood and with decoding under constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torchcrf import CRF

from elmo.bilm.fast import kernel_module
from tasks.modules import crf_in_torch


def walks_for(x: Tensor) -> ModuleType:
    """The module with the fastest likelihood for a tensor's device."""
    return (kernel_module("crf_in_triton") if x.device.type == "cuda" else None) or crf_in_torch


class LogLikelihood(torch.autograd.Function):
    """The log-likelihood of the tags of each sentence, (batch,); see `crf_in_torch.likelihood`.

    The gradient has a closed form: gold counts minus the marginal probabilities of tags and of pairs of neighbours. So
    autograd does not record each step, and both passes need one product and a few operations per step. They use
    probabilities, scaled to one at each step, in float64, which allows scores that differ by up to 700.
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
        return cast(Tensor, value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401, D102
        transitions, ends, tags, mask, *kept = ctx.saved_tensors
        weight = grad.double().contiguous()
        gradients = walks_for(weight).gradients(weight, kept, transitions, ends, tags, mask)
        return *(value.to(kind) for value, kind in zip(gradients, ctx.kinds, strict=True)), None, None


class TagRules(nn.Module):
    """What a tag scheme allows, as scores: 0 if it is allowed, else minus infinity.

    Args:
        tags: the tags in their order.
        may_follow: whether the second tag may follow the first; "" is the start and the end of a sentence.

    Attributes:
        between: of a tag (row) before a tag (column), (tags, tags).
        first: of a tag at the start, (tags,).
        last: of a tag at the end, (tags,).
    """

    between: Tensor
    first: Tensor
    last: Tensor

    def __init__(self, tags: Sequence[str], may_follow: Callable[[str, str], bool]) -> None:
        super().__init__()
        allowed = {
            "between": [[may_follow(first, second) for second in tags] for first in tags],
            "first": [may_follow("", tag) for tag in tags],
            "last": [may_follow(tag, "") for tag in tags],
        }
        for name, values in allowed.items():
            self.register_buffer(name, torch.where(torch.tensor(values), 0.0, float("-inf")), persistent=False)


@torch.no_grad()
def best_tags(emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor) -> list[list[int]]:
    """The tag numbers with the highest sum of scores of each sentence, by Viterbi; see `crf_in_torch.best_paths`.

    Scores are added in float32 for any precision of the emissions: rounding would create ties.
    """
    emissions = emissions.float()
    paths = crf_in_torch.best_paths(emissions, transitions, starts, ends, mask)
    lengths = mask.sum(dim=1).tolist()
    return [tags[:length] for tags, length in zip(paths.tolist(), lengths, strict=True)]


def padded(paths: Sequence[Sequence[int]], mask: Tensor) -> Tensor:
    """The tag numbers of decoded sentences as a tensor next to the mask, with 0 at padding, (batch, tokens)."""
    return nn.utils.rnn.pad_sequence([torch.tensor(path) for path in paths], batch_first=True).to(mask.device)


class ConstrainedCrf(CRF):  # type: ignore[misc]
    """pytorch-crf with a faster likelihood, and with decoding that follows the tag scheme.

    The parameters are those of the library, and so is the likelihood over all tag sequences; tests compare the two. The
    library cannot decode under constraints, and its decoder loops over the tokens of each sentence in Python.

    Args:
        tags: the tags, in the order of the emissions' last axis.
        may_follow: whether the second tag may follow the first; "" is the start and the end of a sentence.
    """

    def __init__(self, tags: Sequence[str], may_follow: Callable[[str, str], bool]) -> None:
        super().__init__(len(tags), batch_first=True)
        self.rules = TagRules(tags, may_follow)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The log-likelihood of each sentence's tags: (batch, tokens, tags), (batch, tokens) twice -> (batch,).

        Args:
            emissions: the scores of the tags.
            tags: tag numbers; those after a sentence's end are ignored.
            mask: true for tokens; every sentence has at least one, and they come first.
        """
        weights = self.transitions, self.start_transitions, self.end_transitions
        likelihood: Tensor = LogLikelihood.apply(emissions, *weights, tags.masked_fill(~mask, 0), mask)  # type: ignore[no-untyped-call]
        return likelihood

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The best allowed tag numbers of each sentence: (batch, tokens, tags), (batch, tokens) -> lists."""
        return best_tags(emissions, *self._allowed(), mask)

    @torch.no_grad()
    def probabilities(self, emissions: Tensor, paths: Sequence[Sequence[int]], mask: Tensor) -> tuple[Tensor, Tensor]:
        """The probability of each tag of decoded paths, and of each given the tag after it: (batch, tokens) twice.

        They are those of the allowed sequences, by a forward and a backward pass. The probability of several tags in a
        row is that of the last one times those of the others, each given the next.

        Args:
            emissions: as for `decode`.
            paths: what `decode` returns.
            mask: as for `decode`.
        """
        between, first, last = self._allowed()
        tags = padded(paths, mask)
        one = torch.ones(len(tags), dtype=torch.float64, device=mask.device)
        _, (forward, scaled, at_end) = crf_in_torch.likelihood(emissions, between, first, last, tags, mask)
        gradient = crf_in_torch.gradients(one, (forward, scaled, at_end), between, last, tags, mask)[0]
        by_tag = (gradient, forward.transpose(0, 1), scaled.transpose(0, 1))  # (batch, tokens, tags)
        against, reached, step = (values.gather(2, tags.unsqueeze(2)).squeeze(2) for values in by_tag)
        follow = between.double().exp()[tags[:, :-1], tags[:, 1:]]  # (batch, tokens - 1)
        given_next = reached[:, :-1] * follow * step[:, 1:] / reached[:, 1:]
        # The gradient is 1, the gold count of these tags, minus their probability.
        return 1 - against, nn.functional.pad(given_next, (0, 1), value=1.0)

    def _allowed(self) -> tuple[Tensor, Tensor, Tensor]:
        """The scores of transitions, of first and of last tags; minus infinity where the rules forbid one."""
        rules = self.rules
        return (
            self.transitions + rules.between,
            self.start_transitions + rules.first,
            self.end_transitions + rules.last,
        )
