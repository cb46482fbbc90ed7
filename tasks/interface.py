"""The words of the benchmark: what a task, its head, a batch and its features are to each other.

A `Task` reads examples, groups them into batches and scores predictions. Token features turn a batch's sentences into
vectors; which ones, no task and no head ever asks. A `Head` turns vectors into a loss or into predictions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from elmo.common.device import upload_together

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
Sentence = tuple[str, ...]


@dataclass(frozen=True)
class Batch:
    """Some examples, ready for a model.

    Attributes:
        ids: the examples' names, for error messages.
        texts: for each kind of text that the task reads (one in tagging, two in inference: premises and hypotheses) a
            sentence per example.
        targets: whatever else the head needs, gold labels first of all.
    """

    ids: list[str]
    texts: tuple[list[Sentence], ...]
    targets: dict[str, Tensor]

    def to(self, device: torch.device) -> Batch:
        """The same batch with its targets on a device."""
        targets = upload_together(list(self.targets.values()), device)
        return Batch(self.ids, self.texts, dict(zip(self.targets, targets, strict=True)))


@dataclass(frozen=True)
class FeatureBatch:
    """The vectors of one kind of text.

    Attributes:
        input: [x_k; ELMo_k], what the head reads first, (batch, tokens, input_dim).
        output: what the head joins to its encoder's output as [h_k; ELMo_k], (batch, tokens, output_dim); of zero width
            unless the features place something there, so that joining it is always right.
        mask: where there are tokens, (batch, tokens).
        lengths: tokens of each sentence, on the CPU, where packing wants them, (batch,).
    """

    input: Tensor
    output: Tensor
    mask: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Scores:
    """What predictions are worth, in percent.

    Attributes:
        values: the task's metrics by name, its main one among them.
        details: further scores of any shape, such as per class.
        examples: one object of counts or scores per example, from which the main metric can be computed again.
    """

    values: dict[str, float] = field(default_factory=dict)
    details: dict[str, object] = field(default_factory=dict)
    examples: list[dict[str, float]] = field(default_factory=list)


class ScorersDisagree(RuntimeError):  # noqa: N818
    """Two scorers give different values for the same predictions; the message names both values."""


class Head(nn.Module, ABC):
    """The part of a model that belongs to a task. It is told widths, never where the vectors come from."""

    @abstractmethod
    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The training loss of a batch, a scalar."""

    @abstractmethod
    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Any]:
        """One prediction per example."""


Example = TypeVar("Example")
Settings = TypeVar("Settings")


class Task(ABC, Generic[Example, Settings]):
    """A task: how its files are read, its batches made, its head built, its predictions scored.

    To add one, write this class and a head in a package of their own and one YAML that names the class; see
    CONTRIBUTING. The contract tests then run over it.

    Attributes:
        name: as in conf/task/ and in the records.
        metric: the main metric: dev selects by it, the table shows it; higher is better.
        recipe: raise it when a change of code alters scores under an equal config; it is part of the fingerprint.
        settings_type: a dataclass of the head's settings, checked against the task's YAML.
        reader_type: a dataclass of what may differ between files of this task, checked against the data's YAML.
        columns: what `from_rows` finds in each row; a dataset on the hub says what it calls them.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    recipe: ClassVar[int]
    settings_type: ClassVar[type]
    reader_type: ClassVar[type]
    columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: Settings, reader: Any) -> None:  # noqa: ANN401 (of `reader_type`)
        self.settings = settings
        self.reader = reader

    @abstractmethod
    def read(self, path: Path, split: Split) -> list[Example]:
        """The examples of one file; an error names file, line and remedy."""

    @abstractmethod
    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[Example]:
        """The examples in rows from the Hugging Face hub, their columns already renamed."""

    def hub_split(self, split: Split, names: Mapping[str, str]) -> str:
        """What the hub calls the rows among which a split's examples are; `names` are its names for our splits."""
        return names[split]

    def usable(self, example: Example) -> bool:
        """Whether an example can be learned from and scored; the others are dropped and counted in the record."""
        return True

    @abstractmethod
    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        """How many of what there are, as published counts are stated: sentences, tokens, ..."""

    def notes(self, examples: Sequence[Example]) -> dict[str, object]:
        """What else the record should say of a split as it was read."""
        return {}

    @abstractmethod
    def learn_labels(self, train: Sequence[Example]) -> None:
        """Fixes the labels to predict, from the training examples alone."""

    def learned_labels(self) -> list[str]:
        """What `learn_labels` has found, for a saved model; none where the task's labels are given."""
        return []

    def use_labels(self, labels: Sequence[str]) -> None:
        """Fixes the labels to those that were learned when a model was saved."""

    @abstractmethod
    def texts(self, example: Example) -> tuple[Sentence, ...]:
        """The sentences of an example, in the order of `Batch.texts`."""

    @abstractmethod
    def collate(self, examples: Sequence[Example]) -> Batch:
        """A batch of these examples."""

    @abstractmethod
    def build_head(self, input_dim: int, output_dim: int) -> Head:
        """A head for features of these widths."""

    @abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Scores:
        """What the predictions are worth against the gold labels."""

    def score_test(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Scores:
        """The test scores for the record: those of `score`, unless the task has a slower scorer of record.

        Raises:
            ScorersDisagree: the scorer of record gives other values than `score`.
        """
        return self.score(examples, predictions)

    @abstractmethod
    def gold(self, examples: Sequence[Example]) -> list[Any]:
        """The predictions that would be right: scored, they must give 100."""

    def size(self, example: Example) -> int:
        """Tokens of the longest text of an example, by which batches are made of alike lengths."""
        return max(len(sentence) for sentence in self.texts(example))
