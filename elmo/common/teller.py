"""Whom long work tells how it goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

Batch = list[tuple[str, ...]]


class Teller(Protocol):
    """Whom `CachedLayers` tells what it does; `elmo.common.progress.Reporter` is one."""

    def say(self, text: str) -> None:
        """Takes a line on what there is to do."""

    def warn(self, text: str) -> None:
        """Takes a line that somebody should act upon."""

    def track(self, items: Sequence[Batch], total: int, what: str) -> Iterable[Batch]:
        """The items, with progress shown over them."""


class Silence:
    """Tells nobody."""

    def say(self, text: str) -> None:
        """Takes the line."""

    def warn(self, text: str) -> None:
        """Takes the line."""

    def track(self, items: Sequence[Batch], total: int, what: str) -> Iterable[Batch]:
        """The items."""
        return items
