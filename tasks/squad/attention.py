"""Attention between a passage and a question, and of a passage to itself (Seo et al. 2017; Clark and Gardner 2018).

All similarities are tri-linear: w1.x + w2.y + w3.(x * y). The last term is computed as (w3 * x) y^T, so that nothing
larger than one number for each pair of tokens is kept: memory is bounded by batch * tokens * tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tasks.modules.layers import masked_softmax, product


class Trilinear(nn.Module):
    """The similarity of each token of one text to each of another.

    There is no bias: it cancels in a softmax over tokens, and together with a null score it would be redundant.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.empty(3, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights again, as a linear layer over [x; y; x * y] would."""
        bound = (3 * self.weights.shape[1]) ** -0.5
        nn.init.uniform_(self.weights, -bound, bound)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(batch, m, dim), (batch, n, dim) -> (batch, m, n)."""
        of_x, of_y, of_both = self.weights
        # The terms of one text are extra columns of the product: baddbmm would need one more (batch, m, n).
        left = torch.cat([x * of_both, (x @ of_x)[..., None], torch.ones_like(x[..., :1])], dim=-1)
        right = torch.cat([y, torch.ones_like(y[..., :1]), (y @ of_y)[..., None]], dim=-1)
        return product(left, right.transpose(1, 2))


class BiAttention(nn.Module):
    """Attention from each token of the passage to the question, and from the question to the passage."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = Trilinear(dim)
        self.output_dim = 4 * dim

    def forward(self, passage: Tensor, question: Tensor, passage_mask: Tensor, question_mask: Tensor) -> Tensor:
        """[x; a; x * a; x * c] with c one vector per passage, (batch, tokens, 4 * dim)."""
        similarity = self.similarity(passage, question)  # (batch, tokens, words)
        attended = product(masked_softmax(similarity, question_mask[:, None]), question)  # (batch, tokens, dim)
        closest = similarity.masked_fill(~question_mask[:, None], torch.finfo(similarity.dtype).min).amax(dim=2)
        wanted = product(masked_softmax(closest, passage_mask)[:, None], passage)  # (batch, 1, dim)
        return torch.cat([passage, attended, passage * attended, passage * wanted], dim=-1)


class SelfAttention(nn.Module):
    """Attention from each token to the other tokens of its passage, or to nothing.

    `null` is the score of nothing: its share of the attention goes to no token.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = Trilinear(dim)
        self.null = nn.Parameter(torch.empty(1))
        self.output_dim = 3 * dim
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the null score to its initial value."""
        nn.init.constant_(self.null, -1.0)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[a; x; a * x], (batch, tokens, 3 * dim)."""
        scores = self.similarity(x, x)  # (batch, tokens, tokens)
        hidden = ~mask[:, None] | torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(hidden, float("-inf"))
        null = self.null.to(scores.dtype).expand(*scores.shape[:2], 1)
        shares = torch.softmax(torch.cat([scores, null], dim=2), dim=2)[..., :-1]
        attended = product(shares, x)  # (batch, tokens, dim)
        return torch.cat([attended, x, attended * x], dim=-1)
