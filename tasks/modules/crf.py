"""A linear-chain CRF: pytorch-crf with a faster likelihood and with decoding under constraints.

Masks are (batch, tokens), with tokens before padding.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torchcrf import CRF


def likelihood(
    emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, tags: Tensor, mask: Tensor
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
    running = mask.t().unsqueeze(2)  # (tokens, batch, 1)
    scores = emissions.transpose(0, 1).double().masked_fill(~running, 0)  # (tokens, batch, tags)
    highest = scores.amax(dim=2, keepdim=True)
    potentials = (scores - highest).exp()
    follow = transitions.double().exp()  # (from, to)

    reached = starts.double().exp() * potentials[0]  # (batch, tags)
    totals = [reached.sum(dim=1, keepdim=True)]
    forward = [reached / totals[0]]  # the probability of each tag, given the tokens so far
    for step in range(1, len(potentials)):
        reached = (forward[-1] @ follow) * potentials[step]
        # A finished sentence keeps its values.
        total = torch.where(running[step], reached.sum(dim=1, keepdim=True), 1)
        forward.append(torch.where(running[step], reached / total, forward[-1]))
        totals.append(total)
    scales = torch.stack(totals)  # (tokens, batch, 1)
    at_end = (forward[-1] * ends.double().exp()).sum(dim=1)  # (batch,)
    partition = (scales.log() + highest).sum(dim=(0, 2)) + at_end.log()

    of_tags = scores.gather(2, tags.t().unsqueeze(2)).sum(dim=(0, 2))  # (batch,)
    between = transitions[tags[:, :-1], tags[:, 1:]].double().masked_fill(~mask[:, 1:], 0).sum(dim=1)
    gold = of_tags + between + starts[tags[:, 0]] + ends[_last(tags, mask)]
    return gold - partition, (torch.stack(forward), potentials / scales, at_end)


def gradients(
    weight: Tensor, kept: Sequence[Tensor], transitions: Tensor, ends: Tensor, tags: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of emissions, transitions, starts and ends: gold counts minus marginal probabilities.

    `weight` is the gradient of the likelihood, (batch,), float64.
    """
    forward, scaled, at_end = kept
    running = mask.t().unsqueeze(2)  # (tokens, batch, 1)
    follow = transitions.double().exp()
    follow_back = follow.t().contiguous()
    behind = ends.double().exp() / at_end.unsqueeze(1) * weight.unsqueeze(1)  # (batch, tags): the backward values
    at_last = -forward[-1] * behind
    backward, reading = [behind], []
    for step in range(len(scaled) - 1, 0, -1):
        read = torch.where(running[step], scaled[step] * behind, 0)
        behind = torch.where(running[step], read @ follow_back, behind)
        reading.append(read)
        backward.append(behind)
    by_tag = -forward * torch.stack(backward[::-1]) * running  # (tokens, batch, tags)
    by_pair = torch.zeros_like(follow)
    if reading:
        by_pair -= forward[:-1].flatten(0, 1).t() @ torch.stack(reading[::-1]).flatten(0, 1) * follow

    by_tag.scatter_add_(2, tags.t().unsqueeze(2), weight[:, None] * running)
    pairs = tags[:, :-1] * len(follow) + tags[:, 1:]  # (batch, tokens - 1)
    by_pair.view(-1).index_add_(0, pairs.flatten(), (weight[:, None] * mask[:, 1:]).flatten())
    at_last.scatter_add_(1, _last(tags, mask).unsqueeze(1), weight.unsqueeze(1))
    return by_tag.transpose(0, 1), by_pair, by_tag[0].sum(dim=0), at_last.sum(dim=0)


@torch.no_grad()
def best_tags(emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor) -> list[list[int]]:
    """The tag numbers with the highest sum of scores of each sentence, by Viterbi.

    Scores are added in float32 for any precision of the emissions: rounding would create ties.
    """
    emissions = emissions.float()
    batch, tokens, n_tags = emissions.shape
    score = starts + emissions[:, 0]  # (batch, tags): of the best path that ends in each tag
    # A finished sentence keeps its score and its path until the others end.
    stay = torch.arange(n_tags, device=emissions.device).expand(batch, n_tags)
    history = []
    for step in range(1, tokens):
        best, previous = (score.unsqueeze(2) + transitions).max(dim=1)  # (batch, tags), over the tag before
        running = mask[:, step, None]  # (batch, 1)
        score = torch.where(running, best + emissions[:, step], score)
        history.append(torch.where(running, previous, stay))
    tag = (score + ends).argmax(dim=1, keepdim=True)  # (batch, 1)
    path = [tag]
    for previous in reversed(history):
        tag = previous.gather(1, tag)
        path.append(tag)
    paths = torch.cat(path[::-1], dim=1)  # (batch, tokens); those at padding are undefined
    return [tags[:length] for tags, length in zip(paths.tolist(), mask.sum(dim=1).tolist(), strict=True)]


def _last(tags: Tensor, mask: Tensor) -> Tensor:
    """The tag of each sentence's last token, (batch,)."""
    return tags.gather(1, mask.sum(dim=1, keepdim=True) - 1).squeeze(1)


class LogLikelihood(torch.autograd.Function):
    """The log-likelihood of the tags of each sentence, (batch,); see `likelihood`.

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
        value, kept = likelihood(emissions, transitions, starts, ends, tags, mask)
        ctx.save_for_backward(transitions, ends, tags, mask, *kept)
        ctx.kinds = [tensor.dtype for tensor in (emissions, transitions, starts, ends)]
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401, D102
        transitions, ends, tags, mask, *kept = ctx.saved_tensors
        weight = grad.double().contiguous()
        gradient = gradients(weight, kept, transitions, ends, tags, mask)
        return *(value.to(kind) for value, kind in zip(gradient, ctx.kinds, strict=True)), None, None


class TagRules(nn.Module):
    """Scores of the transitions of a tag scheme: 0 if it is allowed, else minus infinity.

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
        return LogLikelihood.apply(emissions, *weights, tags.masked_fill(~mask, 0), mask)  # type: ignore[no-untyped-call]

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
        _, (forward, scaled, at_end) = likelihood(emissions, between, first, last, tags, mask)
        gradient = gradients(one, (forward, scaled, at_end), between, last, tags, mask)[0]
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
