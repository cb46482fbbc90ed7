"""Output layer: one softmax over the vocabulary for both directions, and sampled softmax for training.

Training scores every target and a sample of other words. Perplexity always uses all words
(`OutputLayer.log_likelihood`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# Logits in memory at once when all words are scored: 2^26 are 256 MB.
LOGITS_AT_ONCE = 2**26


class OutputLayer(nn.Module):
    """Scores of all words of the vocabulary, given the top of a biLM in either direction, or of a masked LM."""

    def __init__(self, n_words: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_words, dim))
        self.bias = nn.Parameter(torch.zeros(n_words))

    @classmethod
    def random(cls, n_words: int, dim: int, seed: int) -> OutputLayer:
        """An untrained layer; its weights are small, so that all words start about equally likely."""
        layer = cls(n_words, dim)
        with torch.no_grad():
            layer.weight.normal_(0.0, 1 / math.sqrt(dim), generator=torch.Generator().manual_seed(seed))
        return layer

    @torch.no_grad()
    def log_likelihood(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The natural logarithm of each target's probability among all words, (tokens,).

        Args:
            hidden: outputs of the biLM, (tokens, dim).
            targets: word numbers, (tokens,).
        """
        rows = max(1, LOGITS_AT_ONCE // len(self.weight))
        found = []
        for part, target in zip(torch.split(hidden.float(), rows), torch.split(targets, rows), strict=True):
            logits = torch.addmm(self.bias, part, self.weight.t())  # (rows, words)
            found.append(logits.gather(1, target[:, None])[:, 0] - logits.logsumexp(dim=1))
        return torch.cat(found)


class LogUniformSampler(nn.Module):
    """Draws negative samples, frequent words with higher probability (ids are ordered by falling frequency).

    Word i is expected min(1, c * log((i + 2) / (i + 1))) times in a sample, c such that a sample has exactly `size`
    words: the most frequent words are always in it, once, and a sample of the size of the vocabulary is the vocabulary.
    (TensorFlow's sampler draws until it has enough distinct words, which a GPU cannot do without the host, and its
    expected counts are approximate.)
    """

    log_expected: Tensor
    _ends: Tensor
    _factors: Tensor

    def __init__(self, n_words: int, size: int) -> None:
        super().__init__()
        self.size = min(size, n_words)
        ranks = torch.arange(n_words, dtype=torch.float64)
        weights = torch.log1p(1 / (ranks + 1))  # falling
        # The first k words are certain; the others share the rest of the sample in proportion to their weights.
        rest = weights.flip(0).cumsum(0).flip(0)  # (words,): the weight of word k and all after it
        scale = (self.size - ranks) / rest
        certain = int((scale * weights > 1).long().cumprod(0).sum())
        expected = torch.ones_like(weights)
        if certain < n_words:
            expected[certain:] = weights[certain:] * scale[certain]
        self.register_buffer("log_expected", expected.log().float(), persistent=False)
        self.register_buffer("_ends", expected.cumsum(0), persistent=False)
        generator = torch.Generator().manual_seed(0)
        factors = torch.randint(1, 2**20, (self.size,), generator=generator, dtype=torch.int64)
        self.register_buffer("_factors", factors.double(), persistent=False)

    def at(self, offset: Tensor) -> Tensor:
        """The sample, (size,), for a number drawn uniformly from [0, 1); the same in all processes."""
        # Lay the expected counts end to end, and take the word at one point in every unit of the line. The fraction of
        # an integer multiple of a uniform number is uniform, and different multiples are nearly independent.
        points = torch.arange(self.size, dtype=offset.dtype, device=offset.device) + (self._factors * offset).frac()
        return torch.searchsorted(self._ends, points, right=True).clamp_(max=len(self._ends) - 1)


def sampled_loss(
    hidden: Tensor, targets: Tensor, sampled: Tensor, weight: Tensor, bias: Tensor, log_expected: Tensor
) -> Tensor:
    """Minus the log probability of each target among itself and the sampled words, (tokens,).

    Every score is lowered by the logarithm of how often its word is expected in a sample; trained so, the scores of all
    words become log probabilities up to a constant (Jean et al. 2015, and TensorFlow's `sampled_softmax_loss`).

    Args:
        hidden: (tokens, dim); its precision is that of the large product.
        targets: word numbers, (tokens,).
        sampled: word numbers, shared by all tokens, (samples,).
        weight: of the output layer, (words, dim).
        bias: of the output layer, (words,).
        log_expected: log of the expected count in a sample, (words,).
    """
    corrected = bias - log_expected
    of_target = weight.index_select(0, targets).to(hidden.dtype)  # (tokens, dim)
    true = (hidden * of_target).sum(dim=1, dtype=torch.float32) + corrected[targets]
    scores = hidden @ weight.index_select(0, sampled).to(hidden.dtype).t()  # (tokens, samples)
    scores = scores.float() + corrected[sampled]
    scores = scores.masked_fill(targets[:, None] == sampled, -torch.inf)  # a target is not its own negative
    return torch.logaddexp(true, scores.logsumexp(dim=1)) - true
