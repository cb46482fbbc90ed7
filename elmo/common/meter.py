"""How far a long job is: a bar on a terminal, a line every tenth of the way elsewhere (log files, SLURM, CI)."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Meter:
    """Shows how much of `total` is done and how many tokens a second went through.

    Args:
        console: Where to show it; `Console(quiet=True)` shows nothing.
        title: What is going on.
        total: Size of the whole job, in any unit.
    """

    def __init__(self, console: Console, title: str, total: int) -> None:
        self._console = console
        self._title = title
        self._total = max(total, 1)
        self._done = 0
        self._tokens = 0
        self._tenths = 0
        self._began = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=self._total, rate="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, done: int, tokens: int = 0) -> None:
        """Add a finished part of the job, and the tokens that went through with it."""
        self._done += done
        self._tokens += tokens
        seconds = max(time.monotonic() - self._began, 1e-3)
        rate = f"{self._tokens / seconds / 1000:,.0f} k tokens/s" if self._tokens else ""
        self._bar.update(self._task, completed=self._done, rate=rate)
        tenths = self._done * 10 // self._total
        if tenths > self._tenths and not self._console.is_terminal:
            self._tenths = tenths
            parts = [
                f"{self._title}: {tenths * 10} %",
                f"{self._tokens:,} tokens" if rate else "",
                rate,
                f"{seconds:.0f} s",
            ]
            self._console.print(", ".join(part for part in parts if part), highlight=False, soft_wrap=True)
