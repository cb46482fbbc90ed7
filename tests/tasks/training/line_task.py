"""A task of one weight for tests of training: it scores what its script says."""

import torch
from torch import nn

from elmo.common.progress import Reporter
from tasks.metrics import Scores
from tasks.task import Batch, FeatureBatch, Head, Task
from tasks.training.trainer import TaskModel, Trainer, TrainerConfig

CPU = torch.device("cpu")


class Lengths(nn.Module):
    """A sentence's only feature is its length."""

    def find(self, texts):
        return texts

    def vectors_of(self, texts):
        return [self(text) for text in texts]

    def forward(self, sentences):
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        values = lengths.float()[:, None, None]
        nothing = values[..., :0]
        return FeatureBatch(values, nothing, nothing, torch.ones(len(sentences), 1, dtype=torch.bool), lengths)

    def penalty(self):
        return torch.zeros(())

    def tuned_groups(self):
        return []


class LineHead(Head):
    """target = weight * length, from weight 0."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def loss(self, features, batch):
        assert self.training
        return (self.weight * features[0].input[:, 0, 0] - batch.targets["y"]).square().sum()

    def decode(self, features, batch):
        assert not self.training, "evaluated as it is trained, with dropout"
        return features[0].lengths.tolist()


class CountingHead(LineHead):
    """Counts the steps of training, in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def loss(self, features, batch):
        self.steps += 1
        return super().loss(features, batch)


class Line(Task):
    """A task that scores what its script says; an example is its name, length and target."""

    name, metric, recipe = "line", "score", 1

    def __init__(self, script=()):
        self.script = list(script)
        self.seen, self.batches = [], []  # the weight at each evaluation; the sizes of batches
        self.model = TaskModel(Lengths(), LineHead())

    def texts(self, example):
        return (("x",) * example[1],)

    def collate(self, examples):
        self.batches.append(len(examples))
        texts = [self.texts(example)[0] for example in examples]
        return Batch([e[0] for e in examples], (texts,), {"y": torch.tensor([float(e[2]) for e in examples])})

    def score(self, examples, predictions):
        assert predictions == [example[1] for example in examples], "in the order of the examples"
        self.seen.append(self.model.head.weight.item())
        return Scores({"score": self.script.pop(0)})

    read = targets = build_head = gold = None


TRAIN = [("one", 1, 3.0), ("two", 2, 6.0), ("three", 3, 9.0)]


def fit(task, train=TRAIN, seed=1, checkpoint=None, fingerprint="", state=None, **settings):
    config = TrainerConfig(**{"epochs": 5, "patience": None, "lr": 0.1, **settings})
    trainer = Trainer(task, config, seed, CPU, Reporter("test", quiet=True), checkpoint, fingerprint)
    return trainer.fit(task.model, train, train[::-1], state)
