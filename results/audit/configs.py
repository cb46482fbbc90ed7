"""Contradictions in the configs of records.

The fingerprint does not cover the config, but tables read the values of defaults from it: the sizes of vectors, and
which runs are those of an experiment. So a config that was edited or damaged would mislead readers.
"""

from collections.abc import Sequence

from results.records.collect import FoundRecord
from results.records.identity import (
    FOLD,
    Parts,
    differences,
    fingerprint,
    looked_up,
    same_value,
    settings_hash,
    shown,
    without_seed,
)
from results.records.record import RunRecord
from results.records.settings import settings_of


def name_contradiction(record: RunRecord) -> str:
    """In what the config contradicts the run's name, or its own hash; empty if in nothing.

    Keys that it lacks do not count.
    """
    name = record.identity
    names = {"data.name": name.data, "features.name": name.features, "seed": name.seed, FOLD: name.fold}
    for key, value in {**names, **name.variant}.items():
        found = looked_up(record.config, key)
        if found not in (..., value) and not same_value(key, shown(value), found):
            return f"config: {key}: expected {shown(value)}, as in the run's name, found {shown(found)}"
    hashed = record.inputs.get("settings")
    if hashed not in (None, own := settings_hash(record.config)):
        return f"config: expected the hash {shown(hashed)}, as inputs.settings says, found {shown(own)}"
    return ""


def unlike_configs(found: Sequence[FoundRecord]) -> list[tuple[FoundRecord, FoundRecord, str]]:
    """Two runs that differ only in the seed, by their fingerprints, and the first setting in which they differ."""
    pairs = list[tuple[FoundRecord, FoundRecord, str]]()
    firsts: dict[str, tuple[FoundRecord, Parts]] = {}
    for item in found:
        own = settings_of(item.record)
        first, settings = firsts.setdefault(fingerprint(without_seed(item.record.hashed)), (item, own))
        if own != settings:
            key, (there, here) = next(iter(differences(settings, own).items()))
            expected = "expected the same values, since the runs differ only in the seed"
            pairs.append((first, item, f"config: {expected}, found {key}: {there} and {here}"))
    return pairs
