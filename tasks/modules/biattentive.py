"""A head that classifies texts: a biattentive classification network (McCann et al. 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from elmo.common.checks import Dropout, Width
from elmo.common.errors import InputError
from tasks.kinds import Classifier
from tasks.modules.layers import BiRnn, masked_max, masked_mean, masked_softmax, product
from tasks.task import Batch, FeatureBatch


@dataclass
class BcnSettings:
    """The head's sizes and dropouts.

    Attributes:
        dim: width of the feed-forward layer before the encoder.
        dim_dropout: dropout after it.
        hidden: width of one direction of the encoder and of the integrator.
        pooled_dropout: dropout of the pooled vector.
        maxout: widths of the maxout layers before the last one.
        maxout_dropout: dropout after each of these.
        pool: the number of linear maps of which a maxout unit takes the largest value.
    """

    dim: Width = 300
    dim_dropout: Dropout = 0.25
    hidden: Width = 300
    pooled_dropout: Dropout = 0.1
    maxout: list[Width] = field(default_factory=lambda: [1200, 600])
    maxout_dropout: list[Dropout] = field(default_factory=lambda: [0.2, 0.3])
    pool: Width = 4

    def __post_init__(self) -> None:
        if len(self.maxout) != len(self.maxout_dropout):
            raise InputError(
                f"task.maxout_dropout: expected one for each of the {len(self.maxout)} layers of task.maxout, "
                f"found {len(self.maxout_dropout)}"
            )


class Maxout(nn.Module):
    """The largest value of several linear maps, for each unit (Goodfellow et al. 2013)."""

    def __init__(self, input_dim: int, output_dim: int, pool: int) -> None:
        super().__init__()
        self.pool = pool
        self.linear = nn.Linear(input_dim, output_dim * pool)

    def forward(self, x: Tensor) -> Tensor:
        """The units' values: (batch, input_dim) -> (batch, output_dim)."""
        return self.linear(x).unflatten(-1, (-1, self.pool)).amax(dim=-1)


def attend_to_self(x: Tensor, mask: Tensor) -> Tensor:
    """For each token the mean of its sentence, weighted by dot products with it: (batch, tokens, dim), same shape."""
    return product(masked_softmax(product(x, x.transpose(1, 2)), mask[:, None, :]), x)


class BiattentiveClassifier(Classifier):
    """Encodes [x_k; ELMo_k], attends to itself, integrates to h_k, pools [h_k; ELMo_k], classifies by maxout.

    With one text instead of two, bi-attention is attention of the text to itself. All pooling is masked. The reference
    includes padding in the sum of its mean, which is only correct if padding is zero.

    Args:
        settings: the sizes.
        labels: what to predict.
        input_dim: width of the features at the input.
        output_dim: their width next to the integrator's states.
    """

    def __init__(self, settings: BcnSettings, labels: Sequence[str], input_dim: int, output_dim: int) -> None:
        super().__init__(labels)
        self.feedforward = nn.Sequential(
            nn.Linear(input_dim, settings.dim), nn.ReLU(), nn.Dropout(settings.dim_dropout)
        )
        self.encoder = BiRnn(settings.dim, settings.hidden)
        self.integrator = BiRnn(3 * self.encoder.output_dim, settings.hidden)
        integrated_dim = self.integrator.output_dim + output_dim
        # No bias: added to every token's score, it would cancel in the softmax.
        self.attention = nn.Linear(integrated_dim, 1, bias=False)
        layers: list[nn.Module] = [nn.Dropout(settings.pooled_dropout)]
        width = 4 * integrated_dim
        for output, dropout in zip(settings.maxout, settings.maxout_dropout, strict=True):
            layers += [Maxout(width, output, settings.pool), nn.Dropout(dropout)]
            width = output
        self.classifier = nn.Sequential(*layers, Maxout(width, len(labels), settings.pool))

    def logits(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The labels' scores, (batch, labels)."""
        (text,) = features
        mask, lengths = text.mask, text.lengths
        encoded = self.encoder(self.feedforward(text.input), lengths)  # (batch, tokens, 2 * hidden)
        attended = attend_to_self(encoded, mask)
        integrated = self.integrator(torch.cat([encoded, encoded - attended, encoded * attended], dim=-1), lengths)
        return self.classifier(self.pool(torch.cat([integrated, text.output], dim=-1), mask))

    def pool(self, x: Tensor, mask: Tensor) -> Tensor:
        """Maximum, minimum, mean and self-attentive mean: (batch, tokens, dim) -> (batch, 4 * dim)."""
        weights = masked_softmax(self.attention(x).squeeze(-1), mask)  # (batch, tokens)
        attentive = product(weights.unsqueeze(1), x).squeeze(1)
        return torch.cat([masked_max(x, mask), -masked_max(-x, mask), masked_mean(x, mask), attentive], dim=-1)
