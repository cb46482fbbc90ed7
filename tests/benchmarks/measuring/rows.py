"""Measurements and their table, as Markdown or JSON."""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from elmo.common.processes import available_cores
from tests.benchmarks.measuring.timing import processor

WIDE = 200  # columns of a file; a terminal has its own width
LEGEND = """\
ratio: how many times as fast as its anchor, the median of rounds in which both ran in turn.
On a CPU the biLM and the store have all cores, the rest one. An epoch is training and scoring on dev."""


@dataclass(frozen=True)
class Measurement:
    """A speed or a time, and that of its anchor.

    Attributes:
        what: what was measured.
        shape: on how much of what size.
        unit: of `ours` and `anchor`.
        ours: our figure.
        anchor: the anchor's; None if there is no anchor.
        anchor_name: what the anchor is.
        ratio: how many times as fast as the anchor ours is.
        least_ratio: the aim for the ratio, if there is one.
        most: the aim for our figure, if there is one.
        doubt: why the ratio does not count.
    """

    what: str
    shape: str
    unit: str
    ours: float
    anchor: float | None = None
    anchor_name: str = ""
    ratio: float | None = None
    least_ratio: float | None = None
    most: float | None = None
    doubt: str = ""

    def doubted(self, doubt: str) -> "Measurement":
        return replace(self, doubt=self.doubt or doubt)

    def cells(self) -> tuple[str, ...]:
        """The row as the table shows it."""
        ratio = "" if self.ratio is None else figure(self.ratio)
        aims = [f">= {self.least_ratio:g}"] if self.least_ratio is not None else []
        aims += [f"<= {self.most:g} {self.unit}"] if self.most is not None else []
        return (
            self.what,
            self.shape,
            f"{figure(self.ours)} {self.unit}",
            "" if self.anchor is None else f"{figure(self.anchor)} {self.unit}, {self.anchor_name}",
            f"({ratio})" if self.doubt else ratio,
            ", ".join(aims),
        )


def figure(value: float) -> str:
    """A number with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def machine(device: torch.device) -> str:
    return f"{processor(device)}, {available_cores()} CPU cores, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}"


def show(rows: Sequence[Measurement], device: torch.device, elapsed: float) -> None:
    """Prints one table, or with BENCH_FORMAT=json only one JSON document."""
    load, cpu = os.getloadavg()[0], time.process_time()
    if os.environ.get("BENCH_FORMAT") == "json":
        about = {"machine": machine(device), "device": str(device), "load": round(load, 2)}
        spent = {"elapsed_seconds": round(elapsed, 1), "cpu_seconds": round(cpu, 1)}
        print(json.dumps({**about, **spent, "rows": [asdict(row) for row in rows]}, indent=2))
        return
    table = Table(box=MARKDOWN)
    for heading in ("what", "size", "ours", "anchor", "ratio", "aim"):
        table.add_column(heading, justify="right" if heading in ("ratio", "aim") else "left")
    for row in rows:
        table.add_row(*row.cells())
    print(machine(device))
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE).print(table)
    print(LEGEND)
    for doubt in dict.fromkeys(row.doubt for row in rows if row.doubt):
        print(f"Ratios in brackets do not count: {doubt}.")
    print(f"{elapsed:.0f} seconds, {cpu:.0f} of CPU, load {load:.1f}")
