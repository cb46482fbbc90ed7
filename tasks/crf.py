"""A linear-chain CRF over tags of which some may not follow others: pytorch-crf's likelihood, constrained decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torchcrf import CRF


class ConstrainedCrf(CRF):  # type: ignore[misc]
    """pytorch-crf with decoding that never leaves the tag scheme.

    The likelihood is the library's own, over all tag sequences. Decoding is written here because the library has no
    constraints, and because its own walks back through every sentence token by token in Python.

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

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The best allowed tag numbers of each sentence: (batch, tokens, tags), (batch, tokens) -> lists.

        Emissions are added in float32 whatever their precision: ties that rounding makes would be broken by chance.
        """
        emissions = emissions.float()
        batch, tokens, n_tags = emissions.shape
        forbidden = float("-inf")
        transitions = self.transitions.masked_fill(~self.allowed, forbidden)  # (from, to)
        ends = self.end_transitions.masked_fill(~self.allowed_last, forbidden)  # (tags,)
        starts = self.start_transitions.masked_fill(~self.allowed_first, forbidden)  # (tags,)

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
        paths = torch.cat(path[::-1], dim=1).tolist()  # (batch, tokens)
        lengths = mask.sum(dim=1).tolist()
        return [tags[:length] for tags, length in zip(paths, lengths, strict=True)]
