"""A CRF's walks along sentences, in plain torch; `tasks.crf.Walks` says what goes in and out."""

from __future__ import annotations

import torch
from torch import Tensor


def filtered(potentials: Tensor, first: Tensor, follow: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """How likely each tag is, given what came up to it, and by how much each step was scaled."""
    running = mask.t().unsqueeze(2)  # (tokens, batch, 1)
    reached = first * potentials[0]  # (batch, tags)
    totals = [reached.sum(dim=1, keepdim=True)]
    forward = [reached / totals[0]]
    for step in range(1, len(potentials)):
        reached = (forward[-1] @ follow) * potentials[step]
        # A finished sentence steps in place.
        total = torch.where(running[step], reached.sum(dim=1, keepdim=True), 1)
        forward.append(torch.where(running[step], reached / total, forward[-1]))
        totals.append(total)
    return torch.stack(forward), torch.stack(totals).squeeze(2)


def smoothed(scaled: Tensor, behind: Tensor, follow: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What comes after each tag, and the same with the tag's own potential."""
    running = mask.t().unsqueeze(2)  # (tokens, batch, 1)
    follow_back = follow.t().contiguous()
    backward, reading = [behind], []
    for step in range(len(scaled) - 1, 0, -1):
        read = torch.where(running[step], scaled[step] * behind, 0)
        behind = torch.where(running[step], read @ follow_back, behind)
        reading.append(read)
        backward.append(behind)
    reading.append(torch.zeros_like(behind))
    return torch.stack(backward[::-1]), torch.stack(reading[::-1])


def best_paths(emissions: Tensor, starts: Tensor, transitions: Tensor, ends: Tensor, mask: Tensor) -> Tensor:
    """The tag numbers of the highest sum of scores."""
    batch, tokens, n_tags = emissions.shape
    score = starts + emissions[:, 0]  # (batch, tags): of the best path that ends in each tag
    # A finished sentence steps in place, so that its score and its path wait for the others.
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
