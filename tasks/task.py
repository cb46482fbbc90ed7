"""The interface of a benchmark task, Task and Head, and the types between them: sentences, batches, vectors.

A `Task` reads examples, groups them into batches and scores predictions. Token features turn the sentences of a batch
into vectors; tasks and heads do not depend on which features these are. A `Head` turns vectors into a loss or into
predictions.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from elmo.common.checks import check_ranges
from elmo.common.device import upload
from elmo.common.errors import InputError
from results.records.metric import Grouping, Metric, mean_of
from tasks.metrics import Scores, by_casing, by_number

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
Sentence = tuple[str, ...]
PLACES = ("input", "hidden", "output")  # where features may enter a head
Answer = tuple[Any, Sequence[float]]  # a prediction and its probabilities, if it has some
LabelTable = Mapping[str, str | None]  # label -> what it is called instead; None: it is dropped


@dataclass(frozen=True)
class Batch:
    """A batch of examples for a model.

    Attributes:
        ids: the names of the examples, for error messages.
        texts: one list of sentences for each kind of text that the task reads: one in tagging, two in inference
            (premises and hypotheses).
        targets: all else that the head needs, such as gold labels.
        owners: for each kind of text, the number of the example in the batch that each sentence belongs to,
            (sentences,); by default one sentence per example.
    """

    ids: list[str]
    texts: tuple[list[Sentence], ...]
    targets: dict[str, Tensor]
    owners: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        if not self.owners:
            object.__setattr__(self, "owners", tuple(torch.arange(len(text)) for text in self.texts))

    def to(self, device: torch.device) -> "Batch":
        """The batch with its tensors on a device."""
        targets = {name: upload(tensor, device) for name, tensor in self.targets.items()}
        return Batch(self.ids, self.texts, targets, tuple(upload(owners, device) for owners in self.owners))


@dataclass(frozen=True)
class FeatureBatch:
    """The vectors of one kind of text at each place.

    A place where the features have nothing has width zero, so that a head can always join it.

    Attributes:
        input: [x_k; ELMo_k], the input of the head, (batch, tokens, input width).
        hidden: joined to the states between the layers of the head's encoder, (batch, tokens, hidden width).
        output: joined to the output of the head's encoder as [h_k; ELMo_k], (batch, tokens, output width).
        mask: true for tokens, false for padding, (batch, tokens).
        lengths: tokens of each sentence, on the CPU as packing needs them, (batch,).
    """

    input: Tensor
    hidden: Tensor
    output: Tensor
    mask: Tensor
    lengths: Tensor


class Head(nn.Module, ABC):
    """The part of a model that belongs to a task. It depends on the widths of the features only.

    What training changes must be parameters or persistent buffers: checkpoints and saved models have nothing else.
    """

    @abstractmethod
    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The training loss of a batch, a scalar."""

    @abstractmethod
    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Any]:
        """One prediction per example."""

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The predictions of `decode`, each with its probabilities, if it has some.

        They are those of `Task.probability_labels`, or else of what `Task.judged` takes as the parts of a prediction.
        """
        return [(prediction, []) for prediction in self.decode(features, batch)]


@dataclass
class NoSettings:
    """Settings of a head that has none, and of a reader whose files all have one form."""


class HasId(Protocol):
    """An example: any object with a name of its own, for error messages."""

    @property
    def id(self) -> str:
        """The name."""


Example = TypeVar("Example", bound=HasId)
Settings = TypeVar("Settings")


class Task(ABC, Generic[Example, Settings]):
    """A task: reads its files, makes batches, builds its head and scores predictions.

    To add a task, write this class and a head, and one YAML that names the class; see CONTRIBUTING. Eight members are
    needed: `name`, `metric`, `recipe`, `read`, `targets`, `build_head`, `gold` and `score`. `tasks.kinds` has classes
    that need fewer.

    Attributes:
        name: as in conf/task/ and in the records.
        metric: the main metric, which selects the epoch on dev and is shown in the table; higher is better.
        exact: the metric by which a whole prediction is right or wrong, for `judged`; empty for the main one.
        metrics: how each metric follows from the scores of single examples, by name; tables and intervals compute from
            this. A metric that is not here is the mean of the column of its name.
        length_edges: where tables begin a new kind of examples by their number of tokens.
        recipe: raise it when a change of code alters scores under an equal config; it is part of the fingerprint.
        settings_type: a dataclass of the head's settings, checked against the task's YAML.
        reader_type: a dataclass of the differences between files of this task, checked against the data's YAML.
        columns: the columns that `from_rows` needs; the YAML of a dataset maps the hub's column names to these.
        raw_fields: the texts of an example that is not from a file, such as premise and hypothesis: the keys that
            `from_raw` needs. Empty if the task predicts files of its format only.
        places: those of `PLACES` where the head joins features; a head may ignore the others.
        documents: whether an example is a document of any number of sentences, all of one kind; a batch may then have
            none. Otherwise it has one sentence of each kind.
        labels: what the head predicts, or whatever else `learn_labels` finds in the training examples; saved with a
            model.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    exact: ClassVar[str] = ""
    metrics: ClassVar[Mapping[str, Metric]] = {}
    length_edges: ClassVar[tuple[int, ...]] = (10, 20, 30)
    recipe: ClassVar[int]
    settings_type: ClassVar[type] = NoSettings
    reader_type: ClassVar[type] = NoSettings
    columns: ClassVar[tuple[str, ...]] = ()
    raw_fields: ClassVar[tuple[str, ...]] = ()
    places: ClassVar[tuple[str, ...]] = ("input", "output")
    documents: ClassVar[bool] = False
    labels: Sequence[str] = ()

    def __init__(self, settings: Settings, reader: Any) -> None:  # noqa: ANN401 (of `reader_type`)
        self.settings = settings
        self.reader = reader
        check_ranges("task", settings)
        check_ranges("data.reader", reader)

    @abstractmethod
    def read(self, path: Path, split: Split) -> list[Example]:
        """The examples of one file; an error names file, line and remedy."""

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[Example]:
        """The examples in rows from the Hugging Face hub, their columns already renamed."""
        raise InputError(f"task={self.name} reads files only, not rows of the hub. Name files in data.splits")

    def read_unlabelled(self, path: Path) -> list[Example]:
        """The examples of one file to predict; labels may be absent if the task's format allows that."""
        return self.read(path, "test")

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> Example:
        """An example without labels, to predict, from raw text.

        Args:
            name: becomes the example's id.
            fields: `raw_fields` and their texts, or the keys of a JSON object.

        Raises:
            ValueError: the fields are wrong; the caller adds where they are from.
        """
        raise InputError(f"task={self.name} predicts files of its format only. Give it one, with --input data")

    def raw_columns(self) -> Mapping[str, str]:
        """The column of a table that has each of `raw_fields`; by default the column of the same name."""
        return {name: name for name in self.raw_fields}

    def probability_labels(self) -> Sequence[str]:
        """The labels of which the head gives probabilities, in its order; empty to print none."""
        return ()

    def prediction_fields(self, example: Example, prediction: Any) -> dict[str, Any]:  # noqa: ANN401
        """A prediction as the fields of a JSON object."""
        return {"prediction": prediction}

    def prediction_text(self, example: Example, prediction: Any) -> str:  # noqa: ANN401
        """A prediction as text: a line, or lines that end with an empty one."""
        return str(prediction)

    def example_fields(self, example: Example) -> dict[str, Any]:
        """The readable fields of an example, for a JSON object: its words, or each of its texts."""
        texts = self.texts(example)
        if self.documents or len(texts) == 1:
            return {"tokens": list(chain.from_iterable(texts))}
        names = self.raw_fields if len(self.raw_fields) == len(texts) else [f"text {n + 1}" for n in range(len(texts))]
        return {name: " ".join(words) for name, words in zip(names, texts, strict=True)}

    def gold_fields(self, example: Example) -> dict[str, Any]:
        """The correct prediction as the fields of a JSON object."""
        return self.prediction_fields(example, self.gold([example])[0])

    def hub_split(self, split: Split, names: Mapping[str, str]) -> str:
        """The hub's name for the rows that contain a split's examples; `names` are its names for our splits."""
        return names[split]

    def usable(self, example: Example) -> bool:
        """Whether an example can be trained on and scored; the others are dropped and counted in the record."""
        return True

    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        """Counts of examples, tokens and so on, in the terms of the published counts."""
        sentences = [sentence for example in examples for sentence in self.texts(example)]
        return {"examples": len(examples), "sentences": len(sentences), "tokens": sum(map(len, sentences))}

    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        """The count of each label, for warnings; empty if there are none, or many that are rare by nature."""
        return {}

    def notes(self, examples: Sequence[Example]) -> dict[str, object]:
        """Further facts about a split for the record."""
        return {}

    def groups(self, examples: Sequence[Example], train: Sequence[Example]) -> dict[str, Grouping]:
        """Kinds of test examples, by the name of the distinction; breakdowns score each kind (results.breakdown).

        Args:
            examples: those of the test split.
            train: the training examples, for kinds such as seen and unseen names.
        """
        texts = [self.texts(example) for example in examples]
        return {
            "length": by_number([sum(map(len, words)) for words in texts], self.length_edges, "tokens"),
            "casing": by_casing([list(chain.from_iterable(words)) for words in texts]),
        }

    def learn_labels(self, train: Sequence[Example]) -> None:
        """Sets `labels` from the training examples alone; does nothing if the task has fixed labels."""

    def texts(self, example: Example) -> tuple[Sentence, ...]:
        """The sentences of an example: one of each kind, in the order of `Batch.texts`, or those of a document.

        By default its `words`.
        """
        words: Sentence = example.words  # type: ignore[attr-defined]
        return (words,)

    @abstractmethod
    def targets(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """The tensors of these examples, apart from their texts, that the head needs: `Batch.targets`."""

    def collate(self, examples: Sequence[Example]) -> Batch:
        """A batch of these examples."""
        ids, texts = [example.id for example in examples], [self.texts(example) for example in examples]
        targets = self.targets(examples)
        if not self.documents:
            return Batch(ids, tuple(map(list, zip(*texts, strict=True))), targets)
        owners = torch.tensor([owner for owner, sentences in enumerate(texts) for _ in sentences], dtype=torch.long)
        return Batch(ids, (list(chain.from_iterable(texts)),), targets, (owners,))

    def check_places(self, places: Mapping[str, Iterable[str]]) -> None:
        """Raises an InputError if features have a place that the head does not offer.

        Args:
            places: the places of each part of the features, by the part's key in the config.
        """
        for key, asked in places.items():
            for place in asked:
                if place not in self.places:
                    offered = ", ".join(self.places)
                    raise InputError(
                        f"{key}.places: found {place}, a place that the head of task={self.name} does not offer; it "
                        f"offers {offered}. Set {key}.places=[{self.places[0]}]"
                    )

    @abstractmethod
    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A head for features of these widths, one for each of `PLACES`."""

    @abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Scores:
        """The scores of predictions against the gold labels."""

    def score_test(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Scores:
        """The test scores for the record: those of `score`, unless the task has a slower scorer of record."""
        return self.score(examples, predictions)

    def judged(self, examples: Sequence[Example], answers: Sequence[Answer]) -> list[list[tuple[float, bool]]]:
        """For each example, the confidence in each part of its prediction, and whether the part is right.

        By default the prediction is one part, and its confidence is the largest of its probabilities. It has none
        without probabilities, or without a score of its own.
        """
        name = self.exact or self.metric
        metric = self.metrics.get(name, mean_of(name))
        scores = self.score(examples, [prediction for prediction, _ in answers]).examples or [{}] * len(answers)
        return [
            [(max(shares), metric.is_right(score))] if shares and score.keys() >= set(metric.columns) else []
            for (_, shares), score in zip(answers, scores, strict=True)
        ]

    def relabelled(
        self, examples: Sequence[Any], predictions: Sequence[Any], gold: LabelTable, predicted: LabelTable
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Examples of another dataset and their predictions with common labels; only a task that has it uses tables.

        Args:
            examples: those of the dataset.
            predictions: by a model of the run's own labels.
            gold: the dataset's labels -> the common label, or None for one that is dropped.
            predicted: the same for the model's labels.
        """
        return examples, predictions

    @abstractmethod
    def gold(self, examples: Sequence[Example]) -> list[Any]:
        """The correct predictions. Their score must be 100."""

    def size(self, example: Example) -> int:
        """Tokens of an example. Batches have examples of similar size; trainer.batch_tokens bounds the padded sum."""
        return sum(map(len, self.texts(example)))
