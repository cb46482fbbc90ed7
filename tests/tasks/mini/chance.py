"""Chance baselines on the mini data: scores that any model must clearly beat.

The majority class for SST-5 and SNLI, for NER the tag most often seen with the word, for SQuAD the fixed span that does
best in training, for coreference chains of the same words, for SRL all words next to the predicate. Each is fitted on
train and scored on test by the task's own metric.
"""

import math
from collections import Counter, defaultdict
from itertools import groupby
from typing import NamedTuple

from tasks.data.text import Span, iob2
from tasks.squad.task import answer_scores
from tests.tasks.mini import surface_coref
from tests.tasks.mini.mini_measures import config_of, examples_of


class Chance(NamedTuple):
    """A score in percent, of what, by which metric, and what each test example adds to it."""

    what: str
    score: float
    metric: str
    examples: list

    def __str__(self):
        """The line of a card."""
        return f"Chance on test: {self.what} {self.score:.1f} % {self.metric}."


def chance(task):
    """The chance level of a task's mini data."""
    baseline = {
        "ner": word_tags,
        "sst5": majority,
        "snli": majority,
        "squad": fixed_span,
        "coref": same_words,
        "srl": neighbours,
    }[task]
    return baseline(examples_of(task)["train"], examples_of(task)["test"])


def majority(train, test):
    """The accuracy of the class that is most frequent in train."""
    ((label, _),) = Counter(example.label for example in train).most_common(1)
    right = [{"correct": int(example.label == label)} for example in test]
    return Chance("majority class", 100 * sum(example["correct"] for example in right) / len(test), "accuracy", right)


def word_tags(train, test):
    """Entity F1 of tagging each word as it is tagged most often in train; the first seen of equals, O if unknown."""
    seen = defaultdict(Counter)
    for example in train:
        for word, tag in zip(example.words, example.tags, strict=True):
            seen[word][tag] += 1
    usual = {word: tags.most_common(1)[0][0] for word, tags in seen.items()}
    predicted = [[usual.get(word, "O") for word in example.words] for example in test]
    scores = config_of("ner").task.score(test, predicted)
    return Chance("most frequent tag of each word", scores.values["f1"], "F1", scores.examples)


def fixed_span(train, test):
    """Answer F1 of the one of the rules below that does best in train; none looks at the question."""

    def scores(rule, examples):
        predicted = [text_of(example.passage, *rule(example.passage.tokens.words)) for example in examples]
        return answer_scores([example.answers for example in examples], predicted)

    best = max(SPANS, key=lambda name: scores(SPANS[name], train).values["f1"])
    found = scores(SPANS[best], test)
    return Chance(best, found.values["f1"], "F1", found.examples)


def same_words(train, test):
    """Average F1 of chains of mentions with the same words, or pronouns of the same family."""
    scores = surface_coref.score(train, test)
    return Chance("pronouns of one family and equal phrases", scores.values["average"], "average F1", scores.examples)


def neighbours(train, test):
    """F1 of taking all words before the predicate for an argument, and all after it, each as far as punctuation.

    The labels are those that arguments with just these words have most often in train.
    """
    seen = [Counter(), Counter()]
    for example in train:
        for labels, (start, end) in zip(seen, around(example), strict=True):
            labels.update(label for label, *place in example.spans if place == [start, end])
    usual = [labels.most_common(1)[0][0] for labels in seen]
    predicted = [
        [Span(label, start, end) for label, (start, end) in zip(usual, around(example), strict=True) if start < end]
        for example in test
    ]
    tags = [iob2(spans, len(example.words)) for spans, example in zip(predicted, test, strict=True)]
    scores = config_of("srl").task.score(test, tags)
    return Chance("all words before and after the predicate", scores.values["f1"], "F1", scores.examples)


def around(example):
    """Start and end of the words before a predicate, and of those after it, without punctuation in between."""
    ((_, start, end),) = (span for span in example.spans if span.label == "V")
    first, last = start, end
    while first > 0 and is_word(example.words[first - 1]):
        first -= 1
    while last < len(example.words) and is_word(example.words[last]):
        last += 1
    return (first, start), (end, last)


def is_word(token):
    """Whether a token is more than punctuation."""
    return any(map(str.isalnum, token))


def text_of(passage, first, past):
    """The text that these tokens of a passage cover."""
    begin, end = passage.tokens.place(first, past)
    return passage.context[begin:end]


def runs(words, belongs):
    """The unbroken stretches of words that belong, as first and one past the last; the first word if there is none."""
    stretches = [list(group) for fits, group in groupby(range(len(words)), lambda place: belongs(words[place])) if fits]
    return [(group[0], group[-1] + 1) for group in stretches] or [(0, 1)]


def capitals(words):
    """Stretches of capitalised words."""
    return runs(words, lambda word: word[:1].isupper())


def numbers(words):
    """Stretches of words that begin with a digit."""
    return runs(words, lambda word: word[:1].isdigit())


def longest(spans):
    """The longest of some spans, the first of equals."""
    return max(spans, key=lambda span: span[1] - span[0])


SPANS = {
    **{f"first {size} tokens": lambda words, size=size: (0, size) for size in range(1, 16)},
    # Without the full stop.
    **{f"last {size} tokens": lambda words, size=size: (-1 - size, -1) for size in range(1, 16)},
    "whole passage": lambda words: (0, len(words)),
    "first capitalised words": lambda words: capitals(words)[0],
    "last capitalised words": lambda words: capitals(words)[-1],
    "longest capitalised words": lambda words: longest(capitals(words)),
    "first number": lambda words: numbers(words)[0],
    "last number": lambda words: numbers(words)[-1],
}


def naive_bayes(train, test):
    """The accuracy in percent of naive Bayes on words, from pairs of words and label."""
    counts = defaultdict(Counter)
    for words, label in train:
        counts[label].update(map(str.lower, words))
    types = len(set().union(*counts.values()))
    total = {label: words.total() + types for label, words in counts.items()}
    prior = Counter(label for _, label in train)

    def likelihood(label, words):
        shares = [(counts[label][word.lower()] + 1) / total[label] for word in words]
        return math.log(prior[label]) + sum(map(math.log, shares))

    right = sum(max(counts, key=lambda known: likelihood(known, words)) == label for words, label in test)
    return 100 * right / len(test)
