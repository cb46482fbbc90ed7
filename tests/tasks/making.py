"""Small sentences, features and models for tests."""

from functools import cache

from tasks.data.look import look_at
from tasks.features.characters import CharactersConfig
from tasks.features.frozen_layers import ElmoConfig
from tasks.features.token_features import FeaturesConfig, TokenFeatures
from tasks.features.words import WordsConfig
from tasks.running.config import run_config
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


def model_of(config, train, seed=1, store=None):
    """The features and the head of a run, as `tasks.run` builds them; by default without a layer store."""
    config.task.learn_labels(train)
    sentences = [sentence for example in train for sentence in config.task.texts(example)]
    features = TokenFeatures(config.features, sentences, seed, store)
    return TaskModel.start(config.task, features, seed)
