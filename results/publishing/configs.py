"""Contradictions in the configs of records.

The fingerprint does not cover the config, but tables read the values of defaults from it: the sizes of vectors, and
which runs are those of an experiment. So a config that was edited or damaged would mislead readers.
"""

from collections.abc import Sequence

from results.records.collect import FoundRecord
from results.records.identity import FOLD, differences, fingerprint, looked_up, same_value, shown, without_seed
from results.records.record import RunRecord
from results.records.settings import settings_of

REMEDY = "was it edited by hand? Restore the file from a copy"


def name_contradiction(record: RunRecord) -> str:
    """In what the config contradicts the run's name; empty if in nothing. Keys that it lacks do not count."""
    name = record.identity
    names = {"data.name": name.data, "features.name": name.features, "seed": name.seed, FOLD: name.fold}
    for key, value in {**names, **name.variant}.items():
        found = looked_up(record.config, key)
        if found not in (..., value) and not same_value(key, shown(value), found):
            return f"config: {key}: expected {shown(value)}, as in the run's name, found {shown(found)}; {REMEDY}"
    return ""


def config_contradictions(found: Sequence[FoundRecord]) -> list[str]:
    """A line for each config that contradicts its run's name, or the config of the same run with another seed."""
    lines, firsts = list[str](), dict[str, FoundRecord]()
    for item in found:
        if text := name_contradiction(item.record):
            lines.append(f"{item.path}: {text}")
            continue
        first = firsts.setdefault(fingerprint(without_seed(item.record.hashed)), item)
        for key, (there, here) in differences(settings_of(first.record), settings_of(item.record)).items():
            expected = "expected the same values, since the runs differ only in the seed"
            lines.append(f"{first.path} and {item.path}: config: {expected}, found {key}: {there} and {here}; {REMEDY}")
            break
    return lines
