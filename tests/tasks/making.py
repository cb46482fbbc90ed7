"""Small sentences, features and models for tests."""

from dataclasses import replace
from functools import cache

import torch

from elmo.common.files import sha256_of
from elmo.common.tensor_files import write_tensors
from results.records.identity import RECORD_NAME, WEIGHTS_NAME
from results.records.record import RunRecord, read_record, write_record
from tasks.data.datasets import look_at
from tasks.features.token_features import ElmoConfig, FeaturesConfig, TokenFeatures
from tasks.features.words import CharactersConfig, WordsConfig
from tasks.running.config import run_config
from tasks.running.predict import save_weights
from tasks.running.schema import compose_config
from tasks.training.trainer import TaskModel

# An arm, small and without anything from outside: no GloVe, and a biLM that is drawn on the spot. Word vectors that are
# drawn too are trained, also where a task freezes pretrained ones.
DRAWN_WORDS = ["features.words.vectors=null", "features.words.dim=12", "features.words.trainable=true"]
WORD_COLUMN = "+datasets.mini.reader.word_column"  # of NER's files: 0, and a run that asks for NO_COLUMN fails
NO_COLUMN = 99
SMALL = [*DRAWN_WORDS, "features.characters.filters=12"]
WORDS = ["features=glove", *SMALL]
ELMO = ["features=elmo", *SMALL, "features.elmo.untrained=true", "features.elmo.weights=tiny"]
ARMS = {"words": WORDS, "elmo": ELMO}


@cache
def arm_of(task, arm):
    """The overrides of an arm for a task, which may do without characters."""
    has_characters = compose_config([f"task={task}"]).features.characters is not None
    return [key for key in ARMS[arm] if has_characters or not key.startswith("features.characters")]


def features_config(places=("input",), vectors=None, **settings):
    """Features of all parts, without dropout; `places` None leaves ELMo out."""
    elmo = None
    if places is not None:
        elmo = ElmoConfig(weights="tiny", untrained=True, places=list(places), dropout=0.0, precision="float32")
    parts = {"words": WordsConfig(vectors, dim=6), "characters": CharactersConfig(4, 8, 3), "elmo": elmo, **settings}
    return FeaturesConfig(name="test", **parts)


def words_only(vectors=None, **settings):
    """Features of word vectors alone."""
    return features_config(None, words=WordsConfig(vectors, **settings), characters=None)


def run_of(*overrides):
    """The run config that these overrides compose."""
    return run_config(compose_config(overrides))


def looks_at(task, splits):
    """What a run notes about each split as it reads train, dev and test: facts and warnings."""
    order = list(splits)
    return {
        split: look_at(task, split, splits[split], {own: splits[own] for own in order[: order.index(split)]})
        for split in order
    }


def keep(folder, model, config):
    """Writes the weights of a model and the record that names them, as a run does; returns the weights' path."""
    path, metric = folder / WEIGHTS_NAME, config.task.metric
    kept = save_weights(path, model, config)
    write_record(
        folder / RECORD_NAME,
        RunRecord(
            status="finished",
            identity=config.identity,
            fingerprinted={},
            metric=metric,
            scores={"test": {metric: 0.0}},
            model=kept,
        ),
    )
    return path


def change(path, **parts):
    """Changes what a kept model's file has; a part that is None is removed. A record next to it names the new file."""
    saved = torch.load(path, weights_only=True)
    saved.update(parts)
    write_tensors(path, {name: part for name, part in saved.items() if part is not None})
    record = path.with_name(RECORD_NAME)
    if record.exists():
        write_record(record, replace(read_record(record), model=sha256_of(path)))
    return saved


def model_of(config, train, seed=1, store=None):
    """The features and the head of a run, as `tasks.run` builds them; by default without a layer store."""
    config.task.learn_labels(train)
    sentences = [sentence for example in train for sentence in config.task.texts(example)]
    features = TokenFeatures(config.features, sentences, seed, store)
    return TaskModel.start(config.task, features, seed)
