"""A head without vectors, `features=bag_of_words`: logistic regression on the words themselves, with TF-IDF weights."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.common.errors import InputError
from tasks.data.text import bioes, spans_of
from tasks.kinds import Classification, LabelledText, Tagging
from tasks.task import Answer, Batch, FeatureBatch, Head, Sentence, Task

STRENGTHS = (1.0, 10.0, 100.0)  # inverse strengths of the L2 penalty; dev chooses
ITERATIONS = 300
TOLERANCE = 1e-3


def grams(words: Sentence, kind: str = "") -> Iterator[str]:
    """The lowercased words and pairs of neighbours of a text; `kind` tells those of several texts apart."""
    lower = [word.lower() for word in words]
    yield from (f"{kind}{word}" for word in lower)
    yield from (f"{kind}{first} {second}" for first, second in pairwise(lower))


def of_texts(texts: Sequence[Sentence]) -> list[str]:
    """The grams of an example: the grams of its texts, and for two texts the words in both and in one of them."""
    if len(texts) == 1:
        return list(grams(texts[0]))
    all_grams = [gram for number, words in enumerate(texts) for gram in grams(words, f"{number}: ")]
    first, second, *_ = ({word.lower() for word in words} for words in texts)
    return [*all_grams, *(f"both: {word}" for word in first & second), *(f"one: {word}" for word in first ^ second)]


def of_token(words: Sentence, place: int) -> list[str]:
    """The grams of a token: the word, its form and ending, and its neighbours."""
    word = words[place]
    before, after = (words[at].lower() if 0 <= at < len(words) else "" for at in (place - 1, place + 1))
    form = "".join("A" if letter.isupper() else "a" if letter.islower() else "0" for letter in word[:6])
    return [word.lower(), f"form: {form}", f"end: {word[-3:].lower()}", f"before: {before}", f"after: {after}"]


def _pipeline(vocabulary: Sequence[str] | None = None, **settings: float) -> Any:  # noqa: ANN401 (it has no types)
    """The weights of grams, then the regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # imported here: slow to import
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectors = TfidfVectorizer(analyzer=list, sublinear_tf=True, vocabulary=vocabulary)
    return make_pipeline(vectors, LogisticRegression(**settings))


class BagOfWords(Head):
    """TF-IDF of words and pairs of words, and a logistic regression; for tags, of each token and its neighbours.

    It depends on no seed. Nothing is trained by gradients: the buffers have what is fitted.

    Attributes:
        grams: what the columns of its weights are about.
        labels: of the classes, as texts.
    """

    def __init__(self, task: Task[Any, Any]) -> None:
        super().__init__()
        if not isinstance(task, Classification | Tagging) or task.documents:
            raise InputError(
                f"features=bag_of_words: expected a task that classifies texts or tags words, found task={task.name}. "
                "Use another arm"
            )
        self._task = task
        self._tags = isinstance(task, Tagging)
        self.grams: list[str] = []
        self.labels: list[str] = []
        self._model: Any = None

    def fit(self, train: Sequence[Any], dev: Sequence[Any]) -> dict[str, float]:
        """Fits to the training examples; dev, whose scores it returns, chooses the penalty."""
        from threadpoolctl import threadpool_limits

        items = [item for example in train for item in self._items(self._task.texts(example))]
        gold = [str(label) for one in self._task.gold(train) for label in (one if self._tags else [one])]
        labels = list(dict.fromkeys(gold))
        numbers = [labels.index(label) for label in gold]
        best: dict[str, float] = {}
        kept: Any = None
        self.labels = labels
        for strength in STRENGTHS:
            self._model = _pipeline(C=strength, max_iter=ITERATIONS, tol=TOLERANCE)
            with threadpool_limits(torch.get_num_threads()):  # waiting threads slow each other down
                self._model.fit(items, numbers)
            values = self._task.score(dev, self._predicted(list(map(self._task.texts, dev)))).values
            if not best or values[self._task.metric] > best[self._task.metric]:
                best, kept = values, self._model
        vectors, classifier = (step for _, step in kept.steps)
        self.expect(vectors.get_feature_names_out().tolist(), labels)
        fitted = (classifier.coef_, classifier.intercept_, vectors.idf_)
        for buffer, values_of in zip(self.buffers(), fitted, strict=True):
            buffer.copy_(torch.from_numpy(values_of))
        return best

    def expect(self, grams: Sequence[str], labels: Sequence[str]) -> None:
        """Makes room for what is fitted to these grams and labels."""
        self.grams, self.labels, self._model = list(grams), list(labels), None
        rows = len(labels) if len(labels) > 2 else 1
        for name, shape in {"weights": (rows, len(grams)), "offsets": (rows,), "idf": (len(grams),)}.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def _restored(self) -> Any:  # noqa: ANN401 (scikit-learn has no types)
        """The fitted model, made from the buffers."""
        model = _pipeline(self.grams)
        vectors, classifier = (step for _, step in model.steps)
        classifier.coef_, classifier.intercept_, vectors.idf_ = (buffer.cpu().numpy() for buffer in self.buffers())
        classifier.classes_ = np.arange(len(self.labels))
        return model

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """Zero: nothing is trained by gradients."""
        return torch.zeros(())

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Any]:
        """The predictions for the words of a batch."""
        return self._predicted(list(zip(*batch.texts, strict=True)))

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The predictions; those of texts with the probabilities of all labels."""
        predictions = self.decode(features, batch)
        if self._tags:
            return [(tags, []) for tags in predictions]
        columns = {label: number for number, label in enumerate(self.labels)}
        shares = self._model.predict_proba(list(map(of_texts, zip(*batch.texts, strict=True)))).tolist()
        known = [columns.get(label) for label in self._task.probability_labels()]
        probabilities = [[0.0 if number is None else share[number] for number in known] for share in shares]
        return list(zip(predictions, probabilities, strict=True))

    def _items(self, texts: Sequence[Sentence]) -> list[list[str]]:
        """The items of an example to classify: the whole, or each token."""
        return [of_token(texts[0], place) for place in range(len(texts[0]))] if self._tags else [of_texts(texts)]

    def _predicted(self, examples: Sequence[Sequence[Sentence]]) -> list[Any]:
        self._model = self._model or self._restored()
        numbers = self._model.predict([item for texts in examples for item in self._items(texts)])
        labels = iter(self.labels[number] for number in numbers)
        if not self._tags:  # a prediction has the form of a gold label
            return self._task.gold([LabelledText("", (), label) for label in labels])
        tagged = [[next(labels) for _ in texts[0]] for texts in examples]
        return [bioes(spans_of(tags), len(tags)) for tags in tagged]  # repaired: each tag is predicted alone
