"""Progress reporting: lines and progress bars for a console."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self, TypeVar

from rich import progress
from rich.console import Console

from elmo.common.files import fitted

Item = TypeVar("Item")
NEXT_TO_LABEL = 35  # columns for a bar, its counts and the time left


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """Prints text as it is: no markup, no colours for numbers and paths; on a terminal, lines break at spaces alone."""
    text = fitted(text, console.width * console.is_terminal)
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def progress_bar(console: Console, *columns: progress.ProgressColumn, transient: bool = False) -> progress.Progress:
    """A progress bar with a label, these columns and the remaining time; it shows nothing without a terminal."""
    label = progress.TextColumn("{task.description}", markup=False)
    columns = (label, progress.BarColumn(), *columns, progress.TimeRemainingColumn())
    return progress.Progress(*columns, console=console, transient=transient, disable=not console.is_terminal)


@dataclass
class Reporter:
    """Reports the progress of a run on stderr.

    Attributes:
        title: what starts the first line, and, if `brief`, each line.
        quiet: print nothing at all.
        brief: print warnings only, for a run of a sweep.
        bars: show progress bars if there is a terminal. Parallel runs would overwrite each other's.
    """

    title: str = ""
    quiet: bool = False
    brief: bool = False
    bars: bool = True

    def __post_init__(self) -> None:
        self._console = Console(stderr=True)
        self._named = False

    def say(self, text: str) -> None:
        """Prints a line on progress, unless the run is part of a sweep."""
        if not self.brief:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Prints a line that must be seen in a sweep too."""
        if not self.quiet:
            print_line(self._console, f"{self.title if self.brief or not self._named else ''}  {text}")
            self._named = True

    def track(self, items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
        """Yields the items, with a progress bar on a terminal that disappears at the end."""
        if self.quiet or not self.bars or not self._console.is_terminal:
            yield from items
            return
        room = self._console.width - len(what) - NEXT_TO_LABEL  # rich would cut numbers instead
        title = self.title if len(self.title) <= room else f"{self.title[: max(room, 0)]}…"
        with progress_bar(self._console, progress.MofNCompleteColumn(), transient=True) as bar:
            task = bar.add_task(f"{title}  {what}" if self.brief else what, total=total)
            for item in items:
                yield item
                bar.advance(task)


class Meter:
    """Progress of a long job: a bar on a terminal, elsewhere (log files, SLURM, CI) a line every 10 %.

    Args:
        console: Where to show it; `Console(quiet=True)` shows nothing.
        title: What the job does.
        total: Size of the whole job, in any unit.
    """

    def __init__(self, console: Console, title: str, total: int) -> None:
        self._console = console
        self._title = title
        self._total = max(total, 1)
        self._done = self._tokens = self._tenths = 0
        self._began = time.monotonic()
        self._bar = progress_bar(console, progress.TaskProgressColumn(), progress.TextColumn("{task.fields[rate]}"))
        self._task = self._bar.add_task(title, total=self._total, rate="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, done: int, tokens: int = 0) -> None:
        """Adds a finished part of the job, and the tokens it processed."""
        self._done += done
        self._tokens += tokens
        seconds = max(time.monotonic() - self._began, 1e-3)
        rate = f"{self._tokens / seconds / 1000:,.0f} k tokens/s" if self._tokens else ""
        self._bar.update(self._task, completed=self._done, rate=rate)
        tenths = self._done * 10 // self._total
        if tenths > self._tenths and not self._console.is_terminal:
            self._tenths = tenths
            speed = f"{self._tokens:,} tokens, {rate}, " if rate else ""
            print_line(self._console, f"{self._title}: {tenths * 10} %, {speed}{seconds:.0f} s")
