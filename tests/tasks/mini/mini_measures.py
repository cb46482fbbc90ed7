"""Measures of the mini data: size, similarity and variety of the texts, and the figures in the cards."""

import json
import random
import re
from collections import Counter, defaultdict
from functools import cache
from itertools import combinations
from operator import attrgetter, eq
from statistics import mean
from typing import NamedTuple

from tasks.data.datasets import SHIPPED
from tasks.srl import counted_arguments, kind_of
from tasks.task import SPLITS
from tests.tasks.making import run_of

# Where an example has its texts, by what they are.
KINDS = {
    "ner": {"sentence": attrgetter("words")},
    "sst5": {"sentence": attrgetter("words")},
    "snli": {"premise": attrgetter("premise"), "hypothesis": attrgetter("hypothesis")},
    "squad": {"passage": attrgetter("passage.tokens.words"), "question": attrgetter("question")},
    "srl": {"short sentence": attrgetter("words")},
}
# Types per token fall with length, so they are counted in equally many tokens: what the smallest split has.
TOKENS = {
    "sentence": 2500,
    "premise": 1500,
    "hypothesis": 600,
    "passage": 4000,
    "question": 2500,
    "short sentence": 1000,
}
DRAWS = 20


class Text(NamedTuple):
    """A text, named once however many examples share it.

    Attributes:
        kind: premise, question, ...
        split: train, dev or test.
        group: what it is part of: its scene, its passage, or, of those that stand alone, its example.
        words: its tokens.
    """

    kind: str
    split: str
    group: str
    words: tuple[str, ...]


# --- reading ---------------------------------------------------------------------------------------------------------


@cache
def config_of(task):
    """The run config of a task on its mini data."""
    return run_of(f"task={task}", "data=mini")


def path_of(task, split):
    """The file of a split."""
    (name,) = config_of(task).data.splits[split]
    return SHIPPED / name


def read(task, path, split):
    """The examples of a file, of SST its sentences alone, without those that the task drops."""
    reader = config_of(task).task
    examples = reader.read(path, split)
    return [example for example in examples if reader.usable(example) and getattr(example, "whole", True)]


@cache
def examples_of(task):
    """The examples of each split."""
    return {split: read(task, path_of(task, split), split) for split in SPLITS}


@cache
def pairs(split):
    """The lines of an SNLI file as they are, by the names that the reader gives the examples."""
    path = path_of("snli", split)
    lines = path.read_text(encoding="utf-8").splitlines()
    return {f"{path.name}:{number}": json.loads(line) for number, line in enumerate(lines, start=1)}


def pair_id(example):
    """The pairID of an SNLI example, mini-SPLIT-SCENE-PH, which the reader does not keep."""
    return pairs(example.id.partition(".")[0])[example.id]["pairID"]


def scene_of(example):
    """The scene of an SNLI pair: its premises, its hypotheses and all pairs of them."""
    return pair_id(example).rpartition("-")[0]


def group_of(task, kind, example):
    """What a text of an example is part of; texts that are equal within it are one."""
    if task == "snli":
        return scene_of(example)
    if task == "srl":  # the predicates of a sentence are examples of their own
        return example.sentence
    return f"{example.passage.title}, {example.passage.context[:40]}" if kind == "passage" else example.id


@cache
def texts_of(task):
    """The texts of all splits."""
    return list(
        dict.fromkeys(
            Text(kind, split, group_of(task, kind, example), words(example))
            for split, examples in examples_of(task).items()
            for kind, words in KINDS[task].items()
            for example in examples
        )
    )


# --- measuring -------------------------------------------------------------------------------------------------------


def equal(texts):
    """Pairs of texts that differ in case at most."""
    same = defaultdict(list)
    for text in texts:
        same[tuple(map(str.lower, text.words))].append(text)
    return [pair for group in same.values() for pair in combinations(group, 2)]


def alike(texts, limit, least=5):
    """Pairs of texts of at least so many word types, of which they share at least this much (Jaccard, case ignored)."""
    types = [{word.lower() for word in text.words if any(map(str.isalnum, word))} for text in texts]
    holders = defaultdict(list)
    found = []
    for number, words in enumerate(types):
        if len(words) < least:
            continue
        shared = Counter(other for word in words for other in holders[word])
        found += [
            (texts[other], texts[number])
            for other, common in shared.items()
            if common >= limit * (len(words) + len(types[other]) - common)
        ]
        for word in words:
            holders[word].append(number)
    return found


def patterns(texts):
    """In how many texts each 5-gram occurs, lower-cased and with one slot left open."""
    counts = Counter()
    for text in texts:
        words = [word.lower() for word in text.words]
        grams = {tuple(words[start : start + 5]) for start in range(len(words) - 4)}
        counts.update({(*gram[:slot], "_", *gram[slot + 1 :]) for gram in grams for slot in range(5)})
    return counts


def variety(sentences, tokens):
    """Types per token, lower-cased, in so many tokens of the sentences: the mean over random orders."""
    drawing = random.Random(0)
    order = [[word.lower() for word in sentence] for sentence in sentences]
    ratios = []
    for _ in range(DRAWS):
        drawing.shuffle(order)
        words = [word for sentence in order for word in sentence][:tokens]
        assert len(words) == tokens, f"only {len(words)} of {tokens} tokens"
        ratios.append(len(set(words)) / tokens)
    return mean(ratios)


def kappa(first, second):
    """Cohen's kappa of two readers' labels."""
    chance = sum(Counter(first)[label] * count for label, count in Counter(second).items()) / len(first) ** 2
    return (mean(map(eq, first, second)) - chance) / (1 - chance)


def labels_of(task, examples):
    """Every occurrence of a label: classes, or entities by type. SQuAD has no labels, and SRL's are in `shares`."""
    if task == "ner":
        return [span.label for example in examples for span in example.spans]
    return [example.label for example in examples] if task in ("sst5", "snli") else []


def shares(examples):
    """How many predicates of SRL are verbs, nouns and adjectives, and which part of their arguments has which label."""
    kinds = Counter(kind_of(example.pos) for example in examples if example.predicate is not None)
    labels = Counter(argument.label for example in examples for argument in counted_arguments(example.spans))
    groups = Counter()
    for label, count in labels.items():
        groups[re.match("ARG[0-4]|ARGM|R-|", label)[0]] += count
    found = {kind: f"{kinds[kind]:,}" for kind in ("verbal", "nominal", "adjectival")}
    return found | {f"share of {group}": f"{100 * count / labels.total():.1f}" for group, count in groups.items()}


def figures(task, examples):
    """The figures of a split as a card writes them, by the names that its rows have."""
    found = {name: f"{count:,}" for name, count in config_of(task).task.counts(examples).items()}
    labels = Counter(labels_of(task, examples))
    found |= {f"{label}, %": f"{100 * count / labels.total():.1f}" for label, count in labels.items()}
    for kind, words in KINDS[task].items():
        sentences = list(dict.fromkeys(map(words, examples)))
        lengths = list(map(len, sentences))
        found |= {
            f"{kind}: distinct": f"{len(sentences):,}",
            f"{kind}: tokens, mean": f"{mean(lengths):.1f}",
            f"{kind}: tokens, fewest and most": f"{min(lengths)}, {max(lengths)}",
            f"{kind}: types / tokens": f"{variety(sentences, TOKENS[kind]):.3f}",
        }
    if task == "srl":
        found |= shares(examples)
    if task == "squad":
        words = [len(context.split()) for context in {example.passage.context for example in examples}]
        found["passage: words, fewest and most"] = f"{min(words)}, {max(words)}"
        spans = [example.spans[0] for example in examples]
        found["answer: tokens, mean"] = f"{mean(past - first for first, past in spans):.1f}"
    return found


# --- cards -----------------------------------------------------------------------------------------------------------


def section(task, heading):
    """The text of a card under a heading."""
    card = (SHIPPED / task / "card.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)
    assert found, f"the card of {task} has no section {heading!r}"
    return found[1]


def counts_in_card(task):
    """The first table under Counts: by row and then by column. The last column, `original`, is the original's."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.search(r"(^\|.*\|\n)+", section(task, "Counts"), re.MULTILINE)[0].splitlines()
    ]
    columns = [*SPLITS, "original"]
    assert rows[0][1:-1] == list(SPLITS)
    return {name: dict(zip(columns, cells, strict=True)) for name, *cells in rows[2:]}
