"""The POS probe: a linear classifier of each token's vector, and the same classifier on random tags as a control."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo.common.checks import AtLeastZero
from results.records.metric import Metric, Ratio
from tasks.data.text import TREEBANK_ESCAPES, Columns, column_sentences
from tasks.kinds import tag_numbers
from tasks.metrics import Scores
from tasks.modules.seeding import named_seed
from tasks.task import Batch, FeatureBatch, Head, Sentence, Split, Task

NO_TAG = "_"  # of CoNLL-U
OTHER_NUMBERS = re.compile(r"\d+[-.]\d+")  # of CoNLL-U's lines that are no words
NOT_TRAINED = -1  # the number of a tag that training does not have

TAGS, CONTROL = "tags", "control"  # kinds of tags

METRICS = {
    "accuracy": Metric([[Ratio({"correct": 100}, {"tokens": 1})]]),
    "control_accuracy": Metric([[Ratio({"control_correct": 100}, {"tokens": 1})]]),
    "selectivity": Metric([[Ratio({"correct": 100, "control_correct": -100}, {"tokens": 1})]]),
}


@dataclass
class PosSettings:
    """The control task of Hewitt and Liang (2019).

    Attributes:
        control: whether a second classifier learns tags that were drawn for each word: what it gets right, the first
            one could have learned by heart. Their difference is the selectivity.
        draw: the seed of the drawn tags; not the run's seed, so that all runs share one control task.
    """

    control: bool = True
    draw: AtLeastZero = 0


@dataclass
class PosReader(Columns):
    """The differences between files of tagged words.

    Attributes:
        conllu: whether the first column numbers the words, as in CoNLL-U; lines with the numbers 4-5 or 8.1 are left
            out, because they repeat words or add words that are not in the text.
    """

    conllu: bool = False


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence and a tag for each word."""

    id: str
    words: Sentence
    tags: tuple[str, ...]


@lru_cache(maxsize=1)
def drawn_tags(labels: tuple[str, ...], draw: int) -> Callable[[str], str]:
    """Gives each word a tag, drawn with the frequencies of the tags in training; also words that are not there.

    Args:
        labels: those of the probe, the tags after their counts.
        draw: the seed.
    """
    tokens = [tag for tag, count in tag_counts(labels).items() for _ in range(count)]  # those of training
    return cache(lambda word: tokens[named_seed(draw, "control", word) % len(tokens)])


def tag_counts(labels: Sequence[str]) -> dict[str, int]:
    """The number of training tokens with each tag, from labels such as `812 NN`."""
    return {tag: int(count) for count, tag in (label.split(maxsplit=1) for label in labels)}


class LinearTagger(Head):
    """A linear classifier of each token for each kind of tags; they share no parameter.

    Predictions are lists of tags by kind.

    Args:
        tags: what to predict.
        kinds: the keys of the targets in a batch.
        input_dim: width of the features.
    """

    def __init__(self, tags: Sequence[str], kinds: Sequence[str], input_dim: int) -> None:
        super().__init__()
        self.tags = list(tags)
        self.classifiers = nn.ModuleDict({kind: nn.Linear(input_dim, len(tags)) for kind in kinds})

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The cross-entropy, summed over tokens and kinds of tags; tags that training does not have add nothing."""
        (tokens,) = features
        losses = []
        for kind, classifier in self.classifiers.items():
            scores = classifier(tokens.input).transpose(1, 2)  # (batch, tags, tokens)
            gold = batch.targets[kind]  # (batch, tokens)
            losses.append(nn.functional.cross_entropy(scores, gold, ignore_index=NOT_TRAINED, reduction="sum"))
        return torch.stack(losses).sum()

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[dict[str, list[str]]]:
        """The best tag of each token, by kind."""
        (tokens,) = features
        best = {kind: classifier(tokens.input).argmax(dim=-1).tolist() for kind, classifier in self.classifiers.items()}
        return [
            {kind: [self.tags[tag] for tag in rows[example][:length]] for kind, rows in best.items()}
            for example, length in enumerate(tokens.lengths.tolist())
        ]


class PosProbe(Task[TaggedSentence, PosSettings]):
    """Part-of-speech tags from one vector per token, by accuracy over tokens."""

    name = "pos_probe"
    metric = "accuracy"
    metrics = METRICS
    recipe = 1
    settings_type = PosSettings
    reader_type = PosReader
    places = ("input",)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of tags that are learned."""
        return (TAGS, CONTROL) if self.settings.control else (TAGS,)

    def read(self, path: Path, split: Split) -> list[TaggedSentence]:
        """The sentences of a column file; treebank escapes such as -LRB- become plain characters."""
        reader: PosReader = self.reader

        def is_word(cells: Sequence[str]) -> bool:
            return not (reader.conllu and OTHER_NUMBERS.fullmatch(cells[0]))

        return [
            TaggedSentence(f"{path.name}:{number}", tuple(TREEBANK_ESCAPES.get(word, word) for word in words), (*tags,))
            for number, (words, tags, _) in enumerate(column_sentences(path, reader, _check_tag, is_word))
        ]

    def prediction_fields(self, example: TaggedSentence, prediction: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """The words with their tags."""
        return {"tokens": list(example.words), TAGS: list(prediction[TAGS])}

    def counts(self, examples: Sequence[TaggedSentence]) -> dict[str, int]:
        """Sentences, tokens and distinct tags."""
        return {
            "sentences": len(examples),
            "tokens": sum(len(example.words) for example in examples),
            "tags": len({tag for example in examples for tag in example.tags}),
        }

    def learn_labels(self, train: Sequence[TaggedSentence]) -> None:
        """Sets the labels: the tags of training, each after its number of tokens, as in `812 NN`."""
        counts = Counter(tag for example in train for tag in example.tags)
        self.labels = [f"{count} {tag}" for tag, count in sorted(counts.items())]

    def targets(self, examples: Sequence[TaggedSentence]) -> dict[str, Tensor]:
        """The number of each token's tag by kind, (batch, tokens); NOT_TRAINED for padding and for unknown tags."""
        gold, tags = self.gold(examples), list(tag_counts(self.labels))
        return {kind: tag_numbers([one[kind] for one in gold], tags, NOT_TRAINED) for kind in self.kinds}

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A linear classifier for each kind of tags."""
        return LinearTagger(list(tag_counts(self.labels)), self.kinds, widths["input"])

    def gold(self, examples: Sequence[TaggedSentence]) -> list[dict[str, list[str]]]:
        """The tags of each sentence, and those drawn for its words."""
        tags = [{TAGS: list(example.tags)} for example in examples]
        if self.settings.control:
            drawn = drawn_tags(tuple(self.labels), self.settings.draw)
            for gold, example in zip(tags, examples, strict=True):
                gold[CONTROL] = [drawn(word) for word in example.words]
        return tags

    def score(self, examples: Sequence[TaggedSentence], predictions: Sequence[Mapping[str, Sequence[str]]]) -> Scores:
        """Accuracy over tokens, also of each tag; that of the control, and the selectivity."""
        golden, right = Counter[str](), Counter[str]()
        counts: list[dict[str, float]] = []
        for gold, guess in zip(self.gold(examples), predictions, strict=True):
            pairs = {kind: zip(tags, guess[kind], strict=True) for kind, tags in gold.items()}
            hits = {kind: [tag for tag, best in of if tag == best] for kind, of in pairs.items()}
            golden.update(gold[TAGS])
            right.update(hits[TAGS])
            control = {"control_correct": len(hits[CONTROL])} if CONTROL in hits else {}
            counts.append({"correct": len(hits[TAGS]), **control, "tokens": len(gold[TAGS])})
        by_tag = {tag: {"accuracy": 100 * right[tag] / count, "gold": count} for tag, count in sorted(golden.items())}
        return Scores.of_examples(METRICS, counts, {"tags": by_tag})


def _check_tag(tag: str) -> None:
    if tag in ("", NO_TAG):
        raise ValueError("expected a tag, found none")
