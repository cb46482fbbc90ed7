"""Opens shelves for runs: one per process, replaced by a stand-in if the disk is full."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from elmo.bilm.sentences import Sentence
from elmo.store.shelf import ABOUT, LIMIT_GB, Shelf, ShelfDescription, StoreFull

_OPEN: dict[tuple[int, Path], Shelf] = {}


class NoShelf(Shelf):
    """A stand-in for a shelf that does not fit on a full disk: it is empty and accepts nothing."""

    def __init__(self, store: Path, about: ShelfDescription, refusal: str) -> None:
        self.store, self.path, self.about, self.refusal = store, store / about.folder, about, refusal
        self.warnings = []

    def find(self, sentences: Sequence[Sentence]) -> list[int | None]:
        """None for each sentence, except those without tokens."""
        return [None if sentence else 0 for sentence in sentences]


def open_shelf(store: Path, about: ShelfDescription, limit_gb: float = LIMIT_GB) -> Shelf:
    """The shelf for layers of this kind; a process opens it once, and compares each entry once.

    Raises:
        InputError: it cannot be used.
    """
    key = os.getpid(), (store / about.folder).absolute()
    shelf = _OPEN.get(key)
    if shelf is not None and shelf.is_there():
        shelf.limit_to(limit_gb)
    else:
        if shelf is not None:
            _OPEN.pop(key).close()
        try:
            shelf = _OPEN[key] = Shelf(store, about, limit_gb)
        except StoreFull as full:
            return NoShelf(store, about, str(full))
    with suppress(OSError):  # pruned this moment, or read-only: a run continues with the files that it has open
        os.utime(shelf.path / ABOUT)  # when it was last used
    return shelf


def remove(folder: Path) -> None:
    """Removes a shelf; processes that have it open keep their files and never read those of the next one."""
    gone = folder.with_name(f"removed-{os.getpid()}-{folder.name}")  # prune removes this name after a kill
    with suppress(FileNotFoundError):  # another process was faster
        folder.rename(gone)  # so that no process opens half of it
        shutil.rmtree(gone)
