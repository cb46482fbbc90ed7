"""SQuAD scores by the official rules of version 1.1: exact match, and F1 of the common words.

Answers are compared without case, ASCII punctuation, articles and extra white space. A prediction gets its best score
against the gold answers, and a score is the mean over questions.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from tasks.metrics import Scores

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@lru_cache(maxsize=1 << 16)  # answers are compared several times per epoch
def normalised(answer: str) -> str:
    """The normalised form of an answer, for comparison."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(predicted: str, gold: str) -> float:
    """1 if both are the same answer, else 0."""
    return float(normalised(predicted) == normalised(gold))


def word_f1(predicted: str, gold: str) -> float:
    """The F1 of the predicted words against the gold ones, 0 to 1; repeated words count with multiplicity."""
    guess, right = normalised(predicted).split(), normalised(gold).split()
    common = sum((Counter(guess) & Counter(right)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(guess), common / len(right)
    return 2 * precision * recall / (precision + recall)


def answer_scores(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> Scores:
    """`f1` and `em` in percent, overall and for each question.

    Args:
        gold: the gold answers of each question.
        predicted: the predicted answer of each question.
    """
    examples = [
        {
            "em": 100 * max(exact_match(guess, right) for right in answers),
            "f1": 100 * max(word_f1(guess, right) for right in answers),
        }
        for answers, guess in zip(gold, predicted, strict=True)
    ]
    mean = {name: sum(example[name] for example in examples) / max(len(examples), 1) for name in ("f1", "em")}
    return Scores(values=mean, examples=examples)
