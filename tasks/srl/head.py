"""The head of semantic role labelling: a deep highway LSTM that reads which word is the predicate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.common import checks
from tasks.batch import Batch, FeatureBatch
from tasks.data.tag_schemes import may_follow_in_iob2
from tasks.modules.crf import TagRules, best_tags, padded
from tasks.modules.recurrence import AlternatingHighwayLstm
from tasks.task import Answer, Head


@dataclass
class SrlSettings:
    """The head's sizes.

    Attributes:
        hidden: width of each LSTM layer.
        layers: number of layers, in alternating directions.
        flag_dim: width of the vector that marks the predicate.
        recurrent_dropout: of the states, with one mask for all steps of a sentence.
    """

    hidden: int = 300
    layers: int = 8
    flag_dim: int = 100
    recurrent_dropout: float = 0.1

    def __post_init__(self) -> None:
        checks.width("task.hidden", self.hidden)
        checks.count(checks.MOST_LAYERS, "task.layers", self.layers)
        checks.width("task.flag_dim", self.flag_dim)
        checks.dropout("task.recurrent_dropout", self.recurrent_dropout)


class FlagEmbedding(nn.Embedding):
    """A vector for the predicate and one for the other words, with Xavier values at the start."""

    def __init__(self, dim: int) -> None:
        super().__init__(2, dim)

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        nn.init.xavier_uniform_(self.weight)


class OrthogonalLinear(nn.Linear):
    """A linear layer with orthogonal weights at the start."""

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        super().reset_parameters()
        nn.init.orthogonal_(self.weight)


class DeepSrl(Head):
    """Reads [x_k; ELMo_k; flag_k], tags [h_k; ELMo_k] word by word; predictions are the best valid BIO tags.

    Args:
        settings: the sizes.
        tags: what to predict.
        input_dim: width of the features at the input.
        output_dim: their width next to the encoder's states.
    """

    def __init__(self, settings: SrlSettings, tags: Sequence[str], input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.tags = list(tags)
        self.flags = FlagEmbedding(settings.flag_dim)
        self.encoder = AlternatingHighwayLstm(
            input_dim + settings.flag_dim, settings.hidden, settings.layers, settings.recurrent_dropout
        )
        self.projection = OrthogonalLinear(self.encoder.output_dim + output_dim, len(tags))
        self.rules = TagRules(tags, may_follow_in_iob2)

    def _emissions(self, features: FeatureBatch, batch: Batch) -> Tensor:
        """The scores of the tags, (batch, tokens, tags)."""
        words = torch.arange(features.mask.shape[1], device=features.mask.device)
        flags = self.flags((words == batch.targets["predicate"].unsqueeze(1)).long())  # (batch, tokens, flag_dim)
        encoded = self.encoder(torch.cat([features.input, flags], dim=-1), features.lengths)
        emissions: Tensor = self.projection(torch.cat([encoded, features.output], dim=-1))
        return emissions

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The cross-entropy of the gold tags: mean over words, then mean over examples, as AllenNLP does."""
        (text,) = features
        emissions = self._emissions(text, batch).float()
        by_word = functional.cross_entropy(emissions.transpose(1, 2), batch.targets["tags"], reduction="none")
        return ((by_word * text.mask).sum(dim=1) / text.mask.sum(dim=1)).mean()

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[list[str]]:
        """The best valid BIO tags of each example; there are no scores of transitions."""
        (text,) = features
        return self._named(self._best(self._emissions(text, batch), text.mask))

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The tags, each with its probability by the softmax over all tags of its token."""
        (text,) = features
        emissions = self._emissions(text, batch)
        paths = self._best(emissions, text.mask)
        shares = emissions.float().softmax(dim=-1).gather(2, padded(paths, text.mask).unsqueeze(2)).squeeze(2).tolist()
        return [(tags, own[: len(tags)]) for tags, own in zip(self._named(paths), shares, strict=True)]

    def _best(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        return best_tags(emissions, self.rules.between, self.rules.first, self.rules.last, mask)

    def _named(self, paths: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[self.tags[number] for number in path] for path in paths]
