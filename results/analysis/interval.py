"""The interval of a gain, and a disk cache of computed intervals."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from elmo.common.files import read_json, write_json
from results.records.typed_json import decode

MOST_KEPT = 10_000  # intervals, about 2 MB; the least recently used are dropped first
LARGEST_FILE = 10_000_000  # bytes; a larger file is ignored


@dataclass(frozen=True)
class Interval:
    """The interval of a difference of mean scores: 95 % of the resamples lie between `low` and `high`.

    Attributes:
        low: In points of the metric.
        high: In points of the metric.
        p: The two-sided p-value.
        over: What was resampled; "examples" if an arm has only one seed.
    """

    low: float
    high: float
    p: float
    over: Literal["examples and seeds", "examples", "seeds"]


_kept: ContextVar[dict[str, Interval] | None] = ContextVar("kept intervals", default=None)


@contextmanager
def kept_intervals() -> Iterator[None]:
    """Context in which `remembered` uses the disk cache, and adds to it."""
    path = _path()
    before = _read(path) if path else {}
    kept = dict(before)
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
        if path and kept.keys() != before.keys():
            newest = list(kept.items())[-MOST_KEPT:]
            with suppress(OSError):  # not writable: the next command computes them again
                write_json(path, {key: asdict(interval) for key, interval in newest})


def remembered(key: str, compute: Callable[[], Interval]) -> Interval:
    """The interval of this key, computed if it is not in the cache.

    Args:
        key: A hash of everything that determines the interval.
        compute: Computes it.
    """
    kept = _kept.get()
    if kept is None:
        return compute()
    found = kept.pop(key, None) or compute()
    kept[key] = found  # at the end: most recently used
    return found


def _path() -> Path | None:
    """The cache file: one for each user, because several may share $ELMO_CACHE."""
    with suppress(RuntimeError):  # some users have no home
        folder = Path(os.environ.get("ELMO_CACHE") or "~/.cache/elmo-suite").expanduser()
        return folder / f"intervals-{os.geteuid()}.json"
    return None


def _read(path: Path) -> Mapping[str, Interval]:
    """The cached intervals; none if the file is missing, damaged, too large, or belongs to another user."""
    with suppress(OSError, ValueError):
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_size <= LARGEST_FILE:
            intervals: Mapping[str, Interval] = decode(Mapping[str, Interval], read_json(path))
            return intervals
    return {}
