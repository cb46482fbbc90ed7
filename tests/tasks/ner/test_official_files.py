"""Official NER files have the published numbers of sentences, tokens and entities."""

import pytest

from tasks.data.datasets import DataSource
from tasks.task import SPLITS
from tests.tasks.making import looks_at, run_of

PUBLISHED = {
    ("paper", "train"): {"sentences": 14041, "tokens": 203621},
    ("paper", "dev"): {"sentences": 3250, "tokens": 51362},
    ("paper", "test"): {
        "sentences": 3453,
        "tokens": 46435,
        "entities": 5648,
        "LOC": 1668,
        "MISC": 702,
        "ORG": 1661,
        "PER": 1617,
    },
    ("wnut17", "train"): {"sentences": 3394},
    ("wnut17", "dev"): {"sentences": 1009},
    ("wnut17", "test"): {"sentences": 1287},
    ("btc", "train"): {"sentences": 6338},
    ("btc", "dev"): {"sentences": 1001},
    ("btc", "test"): {"sentences": 2001},
    ("uner_ewt", "train"): {"sentences": 12543},
    ("uner_ewt", "dev"): {"sentences": 2001},
    ("uner_ewt", "test"): {"sentences": 2077},
}
SCHEMES = {"paper": "IOB1", "wnut17": "IOB2", "btc": "IOB2", "uner_ewt": "IOB2"}


@pytest.mark.parametrize("data", SCHEMES)
def test_official_files_have_the_published_counts(official, data):
    chosen = run_of("task=ner", f"data={data}")
    examples = {}
    for split in SPLITS:
        loaded = DataSource(chosen.data, official).load(chosen.task, split)
        assert loaded.warnings == []
        assert {what: loaded.counts[what] for what in PUBLISHED[data, split]} == PUBLISHED[data, split]
        assert chosen.data.expected[split] == PUBLISHED[data, split], "the YAML checks them all"
        assert chosen.task.notes(loaded.examples)["scheme"] == SCHEMES[data]
        examples[split] = loaded.examples
    assert all(not warnings for _, warnings in looks_at(chosen.task, examples).values()), "no alarm on sound data"
    assert chosen.task.score(loaded.examples, chosen.task.gold(loaded.examples)).values["f1"] == 100
