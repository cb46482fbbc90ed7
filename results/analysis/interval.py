"""The interval of a gain, and a cache on disk of those that were computed before."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from results.records.record import write_json
from results.records.typed_json import decode, read_json

MOST_KEPT = 10_000  # intervals, about 2 MB; those not used for the longest time go first
LARGEST_FILE = 10_000_000  # bytes; a larger file is not ours


@dataclass(frozen=True)
class Interval:
    """What a difference of mean scores may be: 95 % of the resamples lie between `low` and `high`.

    Attributes:
        low: In points of the metric.
        high: Likewise.
        p: How often chance alone would give a difference that far from zero, two-sided.
        over: What was resampled. An arm of one seed says nothing about its others: "examples".
    """

    low: float
    high: float
    p: float
    over: Literal["examples and seeds", "examples", "seeds"]


_kept: ContextVar[dict[str, Interval] | None] = ContextVar("kept intervals", default=None)


@contextmanager
def kept_intervals() -> Iterator[None]:
    """Inside it, `remembered` knows the intervals of earlier commands, and keeps its own for later ones."""
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
            with suppress(OSError):  # nothing can be written there: the next command computes again
                write_json(path, {key: asdict(interval) for key, interval in newest})


def remembered(key: str, compute: Callable[[], Interval]) -> Interval:
    """The interval of this key, computed unless it is known.

    Args:
        key: A hash of everything that the interval follows from.
        compute: Makes it.
    """
    kept = _kept.get()
    if kept is None:
        return compute()
    found = kept.pop(key, None) or compute()
    kept[key] = found  # last: it was used last
    return found


def _path() -> Path | None:
    """Several people may share $ELMO_CACHE: a file for each."""
    with suppress(RuntimeError):  # some users have no home
        folder = Path(os.environ.get("ELMO_CACHE") or "~/.cache/elmo-suite").expanduser()
        return folder / f"intervals-{os.geteuid()}.json"
    return None


def _read(path: Path) -> Mapping[str, Interval]:
    """What the file holds; nothing if it is missing, damaged, too large, or somebody else's."""
    with suppress(OSError, ValueError):
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_size <= LARGEST_FILE:
            intervals: Mapping[str, Interval] = decode(Mapping[str, Interval], read_json(path))
            return intervals
    return {}
