"""Two small tasks of a user's own: one over documents, and a nearest-neighbour probe that trains nothing."""

from dataclasses import dataclass

import torch
from torch import nn

from elmo.common.files import utf8_lines
from tasks import Classifier, Head, Task
from tasks.metrics import class_scores
from tasks.modules.layers import masked_mean

LABELS = ("bad", "good")


@dataclass(frozen=True)
class Document:
    """Some sentences and their label."""

    id: str
    sentences: tuple
    label: str


class SumOfSentences(Classifier):
    """Scores each sentence; the scores of a document are the sums of its sentences' scores."""

    def __init__(self, input_dim):
        super().__init__(LABELS)
        self.scores = nn.Linear(input_dim, len(LABELS))

    def logits(self, features, batch):
        (text,) = features
        by_sentence = self.scores(masked_mean(text.input, text.mask))  # (sentences, labels)
        return by_sentence.new_zeros(len(batch.ids), len(LABELS)).index_add(0, batch.owners[0], by_sentence)


class Documents(Task):
    """Reads a file of documents: a label, then a sentence a line, then a blank line."""

    name, metric, recipe = "toy_documents", "accuracy", 1
    documents = True
    places = ("input",)

    def read(self, path, split):
        blocks = "\n".join(utf8_lines(path)).strip().split("\n\n")
        return [
            Document(f"{path.name}:{number}", tuple(tuple(line.split()) for line in lines), label)
            for number, (label, *lines) in enumerate(block.split("\n") for block in blocks)
        ]

    def texts(self, example):
        return example.sentences

    def targets(self, examples):
        return {"label": torch.tensor([LABELS.index(example.label) for example in examples])}

    def build_head(self, widths):
        return SumOfSentences(widths["input"])

    def gold(self, examples):
        return [example.label for example in examples]

    def score(self, examples, predictions):
        return class_scores(self.gold(examples), predictions, LABELS)


class Memory(Head):
    """Predicts the label of the training document with the nearest mean vector."""

    def __init__(self):
        super().__init__()
        self.keys, self.labels = torch.zeros(0), []

    @staticmethod
    def vectors(features, batch):
        """The mean vector of all tokens of each document, of length 1: (documents, dim)."""
        (text,) = features
        sums = text.input.new_zeros(len(batch.ids), text.input.shape[-1])
        sums.index_add_(0, batch.owners[0], (text.input * text.mask.unsqueeze(-1)).sum(dim=1))
        return nn.functional.normalize(sums, dim=-1)

    def loss(self, features, batch):
        raise NotImplementedError("nothing is trained")

    def decode(self, features, batch):
        nearest = (self.vectors(features, batch) @ self.keys.t()).argmax(dim=-1)  # (documents,)
        return [self.labels[number] for number in nearest.tolist()]


class Neighbours(Documents):
    """The same documents, each labelled like its nearest neighbour in training."""

    name = "toy_neighbours"

    def build_head(self, widths):
        return Memory()

    def fit(self, trainer, model, train, dev, state):
        keys, labels = [], []
        for numbers, batch, features in trainer.vectors(model, train, "reading"):
            keys.append(model.head.vectors(features, batch))
            labels += [train[number].label for number in numbers]
        model.head.keys, model.head.labels = torch.cat(keys), labels
        return trainer.evaluate(model, dev).values
