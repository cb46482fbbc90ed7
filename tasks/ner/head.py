"""The NER head: a BiLSTM-CRF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmo.common import checks
from tasks.batch import Batch, FeatureBatch
from tasks.data.tag_schemes import may_follow
from tasks.modules.crf import ConstrainedCrf
from tasks.modules.layers import BiRnn
from tasks.task import Answer, Head


@dataclass
class NerSettings:
    """The sizes of the head: LSTM width per direction, layers, dropout between and after them and of their input."""

    hidden: int = 200
    layers: int = 2
    dropout: float = 0.5
    input_dropout: float = 0.0

    def __post_init__(self) -> None:
        checks.width("task.hidden", self.hidden)
        checks.count(checks.MOST_LAYERS, "task.layers", self.layers)
        checks.dropout("task.dropout", self.dropout)
        checks.dropout("task.input_dropout", self.input_dropout)


class BiLstmCrf(Head):
    """Reads [x_k; ELMo_k] with a BiLSTM and tags [h_k; ELMo_k] with a CRF; predictions are lists of tags.

    Args:
        settings: the sizes.
        tags: what to predict.
        input_dim: width of the features at the input.
        output_dim: their width next to the BiLSTM's states.
        hidden_dim: their width between the BiLSTM's layers.
    """

    def __init__(
        self, settings: NerSettings, tags: Sequence[str], input_dim: int, output_dim: int, hidden_dim: int = 0
    ) -> None:
        super().__init__()
        self.tags = list(tags)
        self.dropout = nn.Dropout(settings.dropout)
        self.input_dropout = nn.Dropout(settings.input_dropout)
        self.encoder = BiRnn(input_dim, settings.hidden, settings.layers, settings.dropout, hidden_dim=hidden_dim)
        self.projection = nn.Linear(self.encoder.output_dim + output_dim, len(tags))
        self.crf = ConstrainedCrf(tags, may_follow)

    def _emissions(self, features: FeatureBatch) -> Tensor:
        """The scores of the tags for the CRF, (batch, tokens, tags)."""
        x = self.input_dropout(features.input)
        encoded = self.encoder(x, features.lengths, features.hidden)  # (batch, tokens, 2 * hidden)
        emissions: Tensor = self.projection(torch.cat([self.dropout(encoded), features.output], dim=-1))
        return emissions

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The negative log-likelihood of the gold tags, summed over the batch as AllenNLP does."""
        (tokens,) = features
        emissions = self._emissions(tokens).float()
        loss: Tensor = -self.crf.log_likelihood(emissions, batch.targets["tags"], tokens.mask).sum().float()
        return loss

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[list[str]]:
        """The best valid BIOES tags of each sentence."""
        (tokens,) = features
        return self._named(self.crf.decode(self._emissions(tokens), tokens.mask))

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The tags, each with its probability by the CRF; that of B and I is given the next tag.

        The product over the tokens of an entity is thus the probability of the entity.
        """
        (tokens,) = features
        emissions = self._emissions(tokens)
        paths = self.crf.decode(emissions, tokens.mask)
        own, given_next = (values.tolist() for values in self.crf.probabilities(emissions, paths, tokens.mask))
        return [
            (tags, [given[i] if tag[0] in "BI" else alone[i] for i, tag in enumerate(tags)])
            for tags, alone, given in zip(self._named(paths), own, given_next, strict=True)
        ]

    def _named(self, paths: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[self.tags[number] for number in path] for path in paths]
