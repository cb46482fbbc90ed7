"""What a person sees while a run goes on: a line per epoch, a progress bar on a terminal; in a sweep, warnings only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")


class Reporter:
    """Prints the progress of one run.

    Args:
        title: what the run is, at the start of each line.
        quiet: print nothing at all.
        brief: print warnings only, for a run of a sweep.
        bars: show progress bars where there is a terminal; those of runs side by side would overwrite each other.
    """

    def __init__(self, title: str, quiet: bool = False, brief: bool = False, bars: bool = True) -> None:
        self._title = title
        self._quiet = quiet
        self._brief = brief
        self._bars = bars
        self._console = Console(stderr=True)

    def say(self, text: str) -> None:
        """Prints a line on how the run goes, unless it is part of a sweep."""
        if not self._brief:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Prints a line that must be seen in a sweep too."""
        if not self._quiet:
            self._console.print(f"{self._title}  {text}", highlight=False, markup=False, soft_wrap=True)

    def track(self, items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
        """The items, with a progress bar that is gone when they are, where there is a terminal to show it."""
        if self._quiet or not self._bars or not self._console.is_terminal:
            yield from items
            return
        label = TextColumn(f"{self._title}  {what}", markup=False)
        columns = (label, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(what, total=total)
            for item in items:
                yield item
                progress.advance(task)
