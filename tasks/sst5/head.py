"""The SST-5 head: a biattentive classification network; for neutral it also predicts the more probable side."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from tasks.modules.biattentive import BiattentiveClassifier
from tasks.sst5.data import LABELS

NEUTRAL = LABELS.index("neutral")


@dataclass(frozen=True)
class Sentiment:
    """A prediction: the label, and the more probable side of neutral.

    The side is for SST-2's binary question only, so predictions with equal labels are equal.
    """

    label: int
    positive: bool = field(compare=False)


class SentimentClassifier(BiattentiveClassifier):
    """The network with the five labels."""

    def choose(self, logits: Tensor) -> list[Sentiment]:
        """The most probable label of each text, and whether the positive labels together outweigh the negative."""
        shares = logits.float().softmax(dim=-1)
        positive = shares[:, NEUTRAL + 1 :].sum(dim=-1) > shares[:, :NEUTRAL].sum(dim=-1)
        return [Sentiment(*pair) for pair in zip(shares.argmax(dim=-1).tolist(), positive.tolist(), strict=True)]
