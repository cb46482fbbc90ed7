"""Settings of a run as they are compared: its config, without what cannot change a score, with later keys filled in."""

import re
from collections.abc import Mapping

from results.records.identity import FOLD, flattened
from results.records.record import RunRecord

# Keys that the suite added after its first records, each with its default at that time: the behaviour of before. A
# record without such a key counts as having this value. CONTRIBUTING says when to add one.
INTRODUCED: Mapping[str, object] = {
    "train_fraction": 1.0,
    "trial": False,
    "trainer.batches": "length",
    "trainer.eps": None,
    "trainer.eval_batch_size": None,
    "trainer.grad_value": None,
    "features.frozen": {},
    "features.transformer": None,
    "features.words.casing": False,
    "features.words.dropout": 0.0,
    "features.words.enabled": True,
    "features.words.unknown": "drawn",
    "features.characters.dropout": 0.0,
    "features.elmo.by_sentence": False,
    "features.elmo.context": "whole",
    "features.elmo.control": None,
    "features.elmo.draw": 0,
    "features.elmo.precision": "float16",
    "features.elmo.tune": False,
    "features.elmo.tuning.decay": 0.4,
    "features.elmo.tuning.lr": 0.001,
    "features.elmo.tuning.unfreeze": 1,
    "features.elmo.tuning.warmup": 0.1,
    "features.transformer.context": "whole",
    "task.hypothesis_only": False,  # of snli
    "task.input_dropout": None,  # of ner
}
# What cannot change a score: the seed and the fold, which are in the run's name, texts for people, places of data
# files, whose content is hashed, and where a class of the suite is, whose recipe has a number.
_FREE = re.compile(rf"seed|{FOLD}|data\.(?!reader\b).*|.*\b(title|warning)")
_OURS = ("elmo.", "tasks.")


def settings_of(record: RunRecord) -> dict[str, object]:
    """Key -> value of all settings that may change a score; empty for a record without a config."""
    leaves = flattened(record.config)
    parts = {"", *(key[:end] for key in leaves for end, sign in enumerate(key) if sign == ".")}
    later = {
        key: value
        for key, value in INTRODUCED.items()
        if leaves and key.rpartition(".")[0].removesuffix(".tuning") in parts and key not in parts
    }
    return {key: value for key, value in {**later, **leaves}.items() if not _is_free(key, value)}


def contents_of(record: RunRecord) -> dict[str, str]:
    """Name -> hash of what the run read apart from its settings and data; those of the fingerprint cover the data."""
    return {name: found for name, found in record.inputs.items() if name != "settings" and not name.startswith("data.")}


def _is_free(key: str, value: object) -> bool:
    return bool(_FREE.fullmatch(key)) or (key.endswith("_target_") and str(value).startswith(_OURS))
