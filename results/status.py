"""Done, running, failed and missing runs of sweeps, and the time left: `python -m results.status`.

Shows the state of sweeps from the files in their folder: nothing has to be running, and it works on any machine that
shares the folder. A sweep of experiment=NAME is listed under that name, other sweeps under a name made from their
command. Starting a sweep again replaces its list of runs. Runs that belong to no sweep are shown last.

A run is done, failed, running (a live process holds its lock), or missing: not started, or stopped. The sweep's command
continues with missing runs. retry=failed repeats failed ones. The time left is estimated from finished runs of the same
data, task and features, with as many parallel runs as now.
"""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from elmo.common.errors import InputError, command_parser
from elmo.common.files import duration
from results.experiments import sweep_name
from results.records.collect import collect
from results.records.identity import CHECKPOINT_NAME, RECORD_NAME
from results.records.printing import printable, write
from results.records.progress import DEFAULT_RUNS, LOCK_NAME, is_locked, read_lock, read_manifests

State = Literal["done", "running", "failed", "missing"]
STATES: tuple[State, ...] = ("done", "running", "failed", "missing")
LONGEST_LIST = 12  # runs listed for each state
LOOKS_EVERY = 2.0  # seconds between updates with --watch
OTHERS = "runs of no sweep"
CLEAR = "\x1b[2J\x1b[H"  # empties a terminal


@dataclass(frozen=True)
class RunState:
    """The state of one run.

    Attributes:
        title: The run's name.
        kind: Data, task and features; runs of the same kind take about the same time.
        state: "missing" if the run was never started, or was stopped.
        seconds: Its run time so far.
        note: The last line of the error, or the progress and the process of a running one.
    """

    title: str
    kind: tuple[str, ...]
    state: State
    seconds: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class SweepState:
    """The state of a sweep, or, without a name, of all runs in a folder that belong to no sweep."""

    name: str
    command: str
    runs: Sequence[RunState]

    @property
    def counts(self) -> dict[str, int]:
        """The number of runs in each state."""
        return {state: sum(run.state == state for run in self.runs) for state in STATES}

    @property
    def seconds_left(self) -> float | None:
        """An estimate with as many parallel runs as now, at least one; None before any run has finished."""
        done = [run for run in self.runs if run.state == "done"]
        if not done:
            return None
        left = 0.0
        for run in self.runs:
            if run.state in ("running", "missing"):
                alike = [other.seconds for other in done if other.kind == run.kind] or [run.seconds for run in done]
                left += max(fmean(alike) - run.seconds, 0.0)
        return left / max(self.counts["running"], 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the status; returns the exit status: 1 for an unknown experiment."""
    parser = command_parser("results.status", __doc__ or "")
    about = f"folder with records, the runs_dir of tasks.run (default: {DEFAULT_RUNS})"
    parser.add_argument("--runs", metavar="DIR", type=Path, default=DEFAULT_RUNS, help=about)
    parser.add_argument("--experiment", metavar="NAME", help="only this sweep, such as mini, table1 or PATH.toml")
    parser.add_argument("--watch", action="store_true", help="update until all runs are done or failed")
    return parser.run(argv, _show)


def _show(options: argparse.Namespace) -> int:
    printed = ""
    while True:
        sweeps, problems = sweeps_of(options.runs)
        if options.experiment:
            sweeps = [_named(sweeps, sweep_name(options.experiment))]
        page = text(sweeps, problems, options.runs)
        if page != printed:
            print(end=CLEAR * (options.watch and sys.stdout.isatty()))
            write(f"{page}\n", sys.stdout)
            print(end="", flush=True)
            printed = page
        if not (options.watch and any(sweep.counts["running"] + sweep.counts["missing"] for sweep in sweeps)):
            return 0
        time.sleep(LOOKS_EVERY)


def sweeps_of(runs_dir: Path) -> tuple[list[SweepState], list[str]]:
    """The sweeps below a folder in the order of their start, last the runs of no sweep, and a line for each problem."""
    manifests, problems = read_manifests(runs_dir)
    collection = collect([runs_dir])
    problems += [finding.text for finding in collection.findings if finding.wrong]
    records = {(runs_dir / item.record.identity.path).parent: item.record for item in collection.files}
    owners = {path.parent: read_lock(path) for path in sorted(runs_dir.rglob(LOCK_NAME))}
    stopped = {path.parent for path in runs_dir.rglob(CHECKPOINT_NAME)} | owners.keys()

    def state(folder: Path, title: str) -> RunState:
        kind = folder.relative_to(runs_dir).parts[:3]
        record, owner = records.get(folder), owners.get(folder)
        if record is not None and record.status == "finished":
            return RunState(title, kind, "done", record.seconds or 0.0)
        if owner is not None and is_locked(folder / LOCK_NAME):
            note = ", ".join(filter(None, [owner.progress, duration(owner.seconds), str(owner)]))
            return RunState(title, kind, "running", owner.seconds, note)
        if record is not None and record.error is not None:
            return RunState(title, kind, "failed", record.seconds or 0.0, record.error.last_line)
        if (folder / RECORD_NAME).exists():
            return RunState(title, kind, "failed", note=f"{folder / RECORD_NAME} cannot be read")
        return RunState(title, kind, "missing", note="stopped" * (folder in stopped))

    sweeps, others = list[SweepState](), {folder: record.identity.title for folder, record in records.items()}
    for folder in sorted(stopped):
        others.setdefault(folder, folder.relative_to(runs_dir).as_posix())
    for manifest in manifests:
        names = {(runs_dir / identity.path).parent: identity.title for identity in manifest.runs}
        others = {folder: title for folder, title in others.items() if folder not in names}
        refused = [line.partition(": ") for line in manifest.refused]
        runs = [*map(state, names, names.values()), *(RunState(run, (), "failed", note=why) for run, _, why in refused)]
        sweeps.append(SweepState(manifest.name, manifest.command, runs))
    if others:
        sweeps.append(SweepState("", "", list(map(state, others, others.values()))))
    return sweeps, problems


def text(sweeps: Sequence[SweepState], problems: Sequence[str], runs_dir: Path) -> str:
    """The sweeps as text."""
    if not sweeps and not problems:
        absent = "" if runs_dir.is_dir() else " (no such folder)"
        return f"No runs in {runs_dir}{absent}. To start some:\n  python -m tasks.run -m experiment=mini"
    blocks = ["\n".join(_lines(sweep)) for sweep in sweeps]
    if problems:
        blocks.append("\n".join(["Problems:", *(f"  {problem}" for problem in problems)]))
    return "\n\n".join(blocks)


def _lines(sweep: SweepState) -> list[str]:
    counts = sweep.counts
    head = f"{sweep.name or OTHERS}: {counts['done']} of {len(sweep.runs)} done"
    head += "".join(f", {counts[state]} {state}" for state in STATES[1:] if counts[state])
    head += f"; {duration(sum(run.seconds for run in sweep.runs))} spent"
    if counts["running"] or counts["missing"]:
        left = sweep.seconds_left
        head += ", time left not known yet" if left is None else f", about {duration(left)} left"
        if left is not None and not counts["running"]:
            head += " for one run at a time, and none is running"
    lines = [head, *([f"  {printable(sweep.command)}"] if sweep.command else [])]
    if not sweep.name and counts["missing"]:
        lines.append("  the command that started a stopped run continues it")
    for state in STATES[1:]:
        runs = [run for run in sweep.runs if run.state == state]
        width = max((len(run.title) for run in runs[:LONGEST_LIST]), default=0)
        lines += [f"  {state:<8} {run.title:<{width}}  {run.note}".rstrip() for run in runs[:LONGEST_LIST]]
        if len(runs) > LONGEST_LIST:
            lines.append(f"  {state:<8} and {len(runs) - LONGEST_LIST} more")
    return lines


def _named(sweeps: Sequence[SweepState], name: str) -> SweepState:
    """The sweep of this name.

    Raises:
        InputError: It was not started.
    """
    known = {sweep.name: sweep for sweep in sweeps if sweep.name}
    if name in known:
        return known[name]
    there = f"there are: {', '.join(known)}" if known else "none was started yet"
    command = f"python -m tasks.run -m {shlex.quote(f'experiment={name}')}"
    raise InputError(printable(f"no sweep {name!r} was started with this folder; {there}. To start it: {command}"))


if __name__ == "__main__":
    sys.exit(main())
