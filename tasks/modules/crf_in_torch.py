"""The CRF's loops over the tokens of sentences in plain torch; masks are (batch, tokens), with tokens before padding.

It defines what the form in elmo.kernels computes, with the same three functions; `tasks.modules.crf` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


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

    own = scores.gather(2, tags.t().unsqueeze(2)).sum(dim=(0, 2))  # (batch,)
    between = transitions[tags[:, :-1], tags[:, 1:]].double().masked_fill(~mask[:, 1:], 0).sum(dim=1)
    gold = own + between + starts[tags[:, 0]] + ends[_last(tags, mask)]
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


def best_paths(emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor) -> Tensor:
    """The tag numbers of the highest sum of scores, (batch, tokens); those at padding are undefined."""
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
    return torch.cat(path[::-1], dim=1)


def _last(tags: Tensor, mask: Tensor) -> Tensor:
    """The tag of each sentence's last token, (batch,)."""
    return tags.gather(1, mask.sum(dim=1, keepdim=True) - 1).squeeze(1)
