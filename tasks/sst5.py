"""Sentiment in five classes: a biattentive classification network over the phrases of treebank sentences.

Files have one bracketed tree per line, with a label from 0 to 4 at every node.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from elmo.common.errors import excerpt
from elmo.common.files import utf8_lines
from results.records.metric import Metric, Ratio
from tasks.data.text import TREEBANK_ESCAPES, parsed_lines, parsed_rows
from tasks.kinds import Classification, LabelledText
from tasks.metrics import CLASS_METRICS, Scores
from tasks.modules.biattentive import BcnSettings, BiattentiveClassifier
from tasks.task import Head, Sentence, Split

LABELS = ("very negative", "negative", "neutral", "positive", "very positive")
NEUTRAL = LABELS.index("neutral")
DIGITS = tuple(map(str, range(len(LABELS))))  # of labels in a tree
SHAPE = "a tree such as (3 (2 It) (3 works))"
# Only spaces and tabs separate words: a word may contain a no-break space.
TOKEN = re.compile(r"\(|\)|[^() \t]+")


@dataclass
class TreeReader:
    r"""Settings that say which phrases of the trees become examples.

    Attributes:
        train_phrases: whether every labelled phrase is a training example, or only whole sentences.
        eval_phrases: the same for dev and test.
        min_phrase_tokens: shorter phrases are left out; whole sentences are always kept.
        unique_phrases: whether a phrase that occurs again with the same label is read once. Sentences are all kept.
        plain: whether treebank escapes (-LRB-, \/, ``) are replaced by the original characters.
    """

    train_phrases: bool = True
    eval_phrases: bool = False
    min_phrase_tokens: int = 1
    unique_phrases: bool = True
    plain: bool = True


@dataclass(frozen=True)
class SentimentExample(LabelledText):
    """A phrase and its label; its id is file and line, and the number of the phrase unless it is the whole sentence."""

    whole: bool = True


class Node(NamedTuple):
    """A labelled phrase: the words from `start` up to `end`."""

    label: int
    start: int
    end: int


def read_trees(path: Path, split: Split, reader: TreeReader) -> list[SentimentExample]:
    """The examples of a file of trees: its sentences first, then, if the reader asks for them, their phrases.

    Sentences come first so that a limit keeps them: they are rarer and harder than phrases.
    """
    remedy = "Correct or remove the line, or check data.splits: each line of a file for this task is one tree"
    lines = list(utf8_lines(path))
    while lines and not lines[-1].strip():  # only blank lines at the end of a file are allowed
        lines.pop()
    return _examples(parsed_lines(lines, path, remedy, _named_tree), split, reader)


def _named_tree(name: str, text: str) -> tuple[str, Sentence, list[Node]]:
    return name, *parse_tree(text)


def _examples(
    trees: Iterable[tuple[str, Sentence, list[Node]]], split: Split, reader: TreeReader
) -> list[SentimentExample]:
    with_phrases = reader.train_phrases if split == "train" else reader.eval_phrases
    sentences: list[SentimentExample] = []
    phrases: list[SentimentExample] = []
    for name, words, (*below, root) in trees:
        words = tuple(map(_plain, words)) if reader.plain else words
        sentences.append(SentimentExample(name, words, LABELS[root.label]))
        if with_phrases:
            phrases += [
                SentimentExample(f"{name}.{number}", words[start:end], LABELS[label], whole=False)
                for number, (label, start, end) in enumerate(below)
                if end - start >= reader.min_phrase_tokens
            ]
    if reader.unique_phrases:
        met = {(example.words, example.label) for example in sentences}
        first: dict[tuple[Sentence, str], SentimentExample] = {}
        for example in phrases:
            first.setdefault((example.words, example.label), example)
        phrases = [example for key, example in first.items() if key not in met]
    return sentences + phrases


def _plain(word: str) -> str:
    return TREEBANK_ESCAPES.get(word) or word.replace("\\/", "/").replace("\\*", "*")


@dataclass
class _Open:
    """A node before its closing bracket."""

    column: int
    start: int
    label: int | None = None
    words: int = 0
    subtrees: int = 0


def parse_tree(text: str) -> tuple[Sentence, list[Node]]:
    """The words of a bracketed tree and its nodes in post-order, so that the last one is the root.

    Raises:
        ValueError: brackets do not match, a label is not from 0 to 4, or a node contains neither one word nor nodes.
    """
    if not text.lstrip(" \t").startswith("("):
        problem = "a line that begins with no bracket" if text.strip() else "an empty line"
        raise ValueError(f"expected {SHAPE}, found {problem}")
    words: list[str] = []
    nodes: list[Node] = []
    path: list[_Open] = []  # from the root to the current node
    for match in TOKEN.finditer(text):
        token, column = match[0], match.start() + 1
        if not path and nodes:
            raise ValueError(f"unbalanced brackets: the tree ends before column {column}, expected nothing after it")
        if path and path[-1].label is None and token != ")":
            if token not in DIGITS:
                what = "a bracket" if token == "(" else excerpt(token)
                raise ValueError(f"expected a label from {DIGITS[0]} to {DIGITS[-1]} at column {column}, found {what}")
            path[-1].label = int(token)
        elif token == "(":
            if path:
                path[-1].subtrees += 1
            path.append(_Open(column, len(words)))
        elif token == ")":
            nodes.append(_closed(path.pop(), len(words)))
        else:
            path[-1].words += 1
            words.append(token)
    if path:
        raise ValueError(f"unbalanced brackets: expected {len(path)} more closing at the end")
    return tuple(words), nodes


def _closed(node: _Open, end: int) -> Node:
    if node.label is None or (node.words, node.subtrees > 0) not in ((1, False), (0, True)):
        raise ValueError(
            f"the node at column {node.column}: expected a label and either one word or further nodes, "
            f"found {node.words} words and {node.subtrees} nodes"
        )
    return Node(node.label, node.start, end)


@dataclass(frozen=True)
class Sentiment:
    """A prediction: the label, and the more probable side of neutral.

    The side is for SST-2's binary question only, so predictions with equal labels are equal.
    """

    label: str
    positive: bool = field(compare=False)

    def __str__(self) -> str:
        return self.label


class SentimentClassifier(BiattentiveClassifier):
    """The network with the five labels."""

    def choose(self, logits: Tensor) -> list[Sentiment]:
        """The most probable label of each text, and whether the positive labels together outweigh the negative."""
        shares = logits.float().softmax(dim=-1)
        positive = shares[:, NEUTRAL + 1 :].sum(dim=-1) > shares[:, :NEUTRAL].sum(dim=-1)
        return [Sentiment(*pair) for pair in zip(super().choose(shares), positive.tolist(), strict=True)]


class Sst5(Classification[SentimentExample, BcnSettings]):
    """Fine-grained sentiment by accuracy, along with the binary accuracy of SST-2."""

    name = "sst5"
    labels = LABELS
    metrics: ClassVar = {**CLASS_METRICS, "binary_accuracy": Metric([[Ratio({"polar_correct": 100}, {"polar": 1})]])}
    recipe = 3  # 3: dropout of the joined vectors by trials
    settings_type = BcnSettings
    reader_type = TreeReader
    columns = ("tree",)
    example_type = SentimentExample

    def read(self, path: Path, split: Split) -> list[SentimentExample]:
        """The sentences of a file of trees, in training their phrases too."""
        return read_trees(path, split, self.reader)

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[SentimentExample]:
        """The same from rows with a `tree` each."""
        trees = parsed_rows(rows, split, lambda name, row: _named_tree(name, row["tree"]))
        return _examples(trees, split, self.reader)

    def counts(self, examples: Sequence[SentimentExample]) -> dict[str, int]:
        """Sentences and their tokens; examples, with phrases where they are read; examples by label."""
        sentences = [example for example in examples if example.whole]
        return {
            "sentences": len(sentences),
            "tokens": sum(len(example.words) for example in sentences),
            "examples": len(examples),
            **self.label_counts(examples),
        }

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A biattentive classification network."""
        return SentimentClassifier(self.settings, LABELS, widths["input"], widths["output"])

    def gold(self, examples: Sequence[SentimentExample]) -> list[Sentiment]:
        """The gold labels and their sides; the side of a neutral text is not used."""
        return [Sentiment(example.label, LABELS.index(example.label) > NEUTRAL) for example in examples]

    def score(self, examples: Sequence[SentimentExample], predictions: Sequence[Sentiment]) -> Scores:
        """Accuracy; the binary accuracy of the texts that are not neutral; scores by label and a confusion matrix.

        As in SST-2, whose texts are never neutral, the binary accuracy uses the predicted side, not the label.
        """
        scores = super().score(examples, predictions)
        for counts, gold, prediction in zip(scores.examples, self.gold(examples), predictions, strict=True):
            counts["polar"] = int(gold.label != LABELS[NEUTRAL])
            counts["polar_correct"] = int(counts["polar"] and prediction.positive == gold.positive)
        polar, right = (int(sum(counts[name] for counts in scores.examples)) for name in ("polar", "polar_correct"))
        scores.values["binary_accuracy"] = 100 * right / max(polar, 1)
        scores.details["binary_examples"] = polar
        return scores
