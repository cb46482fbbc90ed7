"""Settings of a run as they are compared: its config, without what cannot change a score, with later keys filled in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from results.records.identity import FOLD, flattened
from results.records.record import RunRecord
from results.records.typed_json import PAPER, read_toml

# What cannot change a score: the seed and the fold, which are in the run's name, texts for people, places of data
# files, whose content is hashed, and where a class of the suite is, whose recipe has a number.
_FREE = re.compile(rf"seed|{FOLD}|data\.(?!reader\b).*|.*\b(title|warning)")
_OURS = ("elmo.sources.", "tasks.")


@dataclass(frozen=True)
class Introduced:
    """The content of introduced.toml, which explains it: keys whose first default is null, and values of the others."""

    null: Sequence[str]
    values: Mapping[str, object]


@cache
def first_defaults() -> dict[str, object]:
    """Key of a setting that was added after the first records -> its default at that time."""
    found = read_toml(Introduced, PAPER / "introduced.toml")
    return {**dict.fromkeys(found.null), **found.values}


def settings_of(record: RunRecord) -> dict[str, object]:
    """Key -> value of all settings that may change a score; empty for a record without a config."""
    leaves = flattened(record.config)
    parts = {"", *(key[:end] for key in leaves for end, sign in enumerate(key) if sign == ".")}
    later = {
        key: value
        for key, value in first_defaults().items()
        if leaves and key.rpartition(".")[0].removesuffix(".tuning") in parts and key not in parts
    }
    return {key: value for key, value in {**later, **leaves}.items() if not _is_free(key, value)}


def contents_of(record: RunRecord) -> dict[str, str]:
    """Name -> hash of what the run read apart from its settings and data; those of the fingerprint cover the data."""
    return {name: found for name, found in record.inputs.items() if name != "settings" and not name.startswith("data.")}


def _is_free(key: str, value: object) -> bool:
    return bool(_FREE.fullmatch(key)) or (key.endswith("_target_") and str(value).startswith(_OURS))
