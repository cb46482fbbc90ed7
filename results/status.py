"""`python -m results.status`: done, running, failed and missing runs of sweeps, and the time left.

All of it follows from the files in a folder: lists of runs, records, locks and checkpoints.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

from elmo.common.durations import duration
from elmo.common.errors import InputError, command_parser, exit_status
from results.analysis.rows import MINI
from results.experiments.experiment import SUFFIX, Experiment, sweep_name
from results.experiments.experiment_file import load_experiment
from results.experiments.runs_of_cells import runs_of_cells
from results.records.collect import FoundRecord, collect
from results.records.identity import CHECKPOINT_NAME, RECORD_NAME, Identity, record_path
from results.records.printing import printable, write
from results.records.run_lock import LOCK_NAME, is_locked, read_lock
from results.records.sweep_manifest import (
    DEFAULT_RUNS,
    Manifest,
    hydra_value,
    is_at_work,
    read_manifests,
    typed_places,
)
from results.tables.fill import Selection, fill_all
from results.tables.sheet import sheets_of
from results.tables.writers import as_text

State = Literal["done", "running", "failed", "missing"]
STATES: tuple[State, ...] = ("done", "running", "failed", "missing")
STOPPED = "stopped"  # the note on a run that has a checkpoint; its lock would say how far it got
LONGEST_LIST = 12  # runs listed for each state
LOG = "sweep.log"  # in the folder of the runs: what a command that was started here printed
LAST_LINES = 15  # of that file, shown if the command fails
LOOKS_EVERY = 2.0  # seconds between updates with --watch
OTHERS = "runs of no sweep"
CLEAR = "\x1b[2J\x1b[H"  # empties a terminal

_DESCRIPTION = """\
Shows the state of sweeps from the files in their folder: nothing has to be running, and it works on any machine that
shares the folder. A sweep of experiment=NAME is listed under that name, other sweeps under a name made from their
command. Starting a sweep again replaces its list of runs. Runs that belong to no sweep are shown last. --experiment
also shows an experiment, or a PATH.toml, that was not started with this folder, with all runs of its table.
"""
_EPILOG = """\
A run is done, failed, running (a live process holds its lock), or missing: not started, or stopped. The sweep's command
continues with missing runs. retry=failed repeats failed ones. The time left is estimated from finished runs of the same
data, task and features, with as many parallel runs as now.
"""


@dataclass(frozen=True)
class RunState:
    """The state of one run.

    Attributes:
        title: The run's name.
        kind: Data, task and features; runs of the same kind take about the same time.
        state: "missing" if the run was never started, or was stopped.
        seconds: Its run time so far.
        epoch: The last finished epoch of a running one.
        epochs: The maximum.
        note: The last line of the error, the process that runs it, or how far a stopped run got.
        best: The best dev score of a running one so far.
    """

    title: str
    kind: tuple[str, ...]
    state: State
    seconds: float = 0.0
    epoch: int = 0
    epochs: int = 0
    note: str = ""
    best: float | None = None


@dataclass(frozen=True)
class SweepState:
    """The state of a sweep, or, without a name, of all runs in a folder that belong to no sweep.

    `alive` says whether the sweep's process may still start missing runs.
    """

    name: str
    command: str
    started_at: str
    runs: Sequence[RunState]
    alive: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many runs there are in each state."""
        return {state: sum(run.state == state for run in self.runs) for state in STATES}

    @property
    def seconds_spent(self) -> float:
        """The total time of all runs so far."""
        return sum(run.seconds for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """An estimate with as many parallel runs as now, at least one; None before any run has finished."""
        done = [run for run in self.runs if run.state == "done"]
        if not done:
            return None
        left = 0.0
        for run in self.runs:
            if run.state in ("running", "missing"):
                alike = ([own.seconds for own in done if own.kind[:size] == run.kind[:size]] for size in (3, 2, 0))
                left += max(fmean(next(filter(None, alike))) - run.seconds, 0.0)
        return left / max(self.counts["running"], 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the status; returns the exit status: 1 for an unknown experiment."""
    options = _parser().parse_args(argv)
    return exit_status("results.status", lambda: _show(options))


def _show(options: argparse.Namespace) -> int:
    runs_dir = Path(options.runs)
    try:
        experiment = load_experiment(options.experiment) if options.experiment else None
    except InputError:
        if options.experiment.endswith(SUFFIX):
            raise
        experiment = None  # a sweep that has no table, such as one of a user's YAML
    name = options.experiment and sweep_name(options.experiment)
    if options.command and not sys.stdout.isatty():
        return subprocess.call(options.command)  # its own lines are shorter than a status every few seconds
    if options.watch or options.command:
        try:
            with _started(options.command, runs_dir) as process:
                return _watch(runs_dir, name, experiment, options.scores, process)
        except KeyboardInterrupt:
            if options.command:
                write("Stopped; the same command continues from here.\n", sys.stderr)
            return 130
    sweeps, problems = sweeps_of(runs_dir, experiment)
    sweeps = _named(sweeps, name)
    if options.format == "json":
        shown = json.dumps({"sweeps": [_plain(sweep) for sweep in sweeps], "problems": problems}, indent=1)
    else:
        shown = text(sweeps, problems, runs_dir) + (scores(sweeps, runs_dir) if options.scores else "")
    write(f"{shown}\n", sys.stdout)
    return 0


def sweeps_of(runs_dir: Path, experiment: Experiment | None = None) -> tuple[list[SweepState], list[str]]:
    """The sweeps below a folder in the order of their start, last the runs of no sweep, and a line for each problem.

    An experiment is shown as a sweep even if none was started with this folder, with the runs that are there already.
    """
    manifests, problems = read_manifests(runs_dir)
    collection = collect([runs_dir])
    problems += [finding.text for finding in collection.findings if finding.wrong]
    if experiment and experiment.sweep_name not in [manifest.name for manifest in manifests]:
        manifests.append(_not_started(runs_dir, experiment, collection.found))
    records = {record_path(runs_dir, item.record.identity).parent: item.record for item in collection.found}
    owners = {path.parent: own for path in sorted(runs_dir.rglob(LOCK_NAME)) if (own := read_lock(path)) is not None}
    stopped = [path.parent for path in sorted(runs_dir.rglob(CHECKPOINT_NAME))]

    def state(folder: Path, title: str) -> RunState:
        kind = folder.relative_to(runs_dir).parts[:3]
        record, owner = records.get(folder), owners.get(folder)
        if record is not None and record.status == "finished":
            return RunState(title, kind, "done", record.seconds or 0.0)
        if owner is not None:
            active = RunState(title, kind, "running", owner.seconds, owner.epoch, owner.epochs, str(owner), owner.best)
            if is_locked(folder / LOCK_NAME):
                return active
            if record is None:
                last = owner.epochs > 0 and owner.epoch >= owner.epochs
                note = "after its last epoch" if last else f"in epoch {owner.epoch + 1} of {owner.epochs}"
                return replace(active, state="missing", seconds=0.0, note=f"{STOPPED} {note}", best=None)
        if record is not None and record.error is not None:
            return RunState(title, kind, "failed", record.seconds or 0.0, note=record.error.last_line)
        if (folder / RECORD_NAME).exists():
            return RunState(title, kind, "failed", note=f"{folder / RECORD_NAME} cannot be read")
        return RunState(title, kind, "missing", note=STOPPED if folder in stopped else "")

    sweeps, listed = list[SweepState](), set[Path]()
    for manifest in manifests:
        names = {record_path(runs_dir, identity).parent: identity.title for identity in manifest.runs}
        listed |= names.keys()
        refused = [own.partition(": ") for own in manifest.refused]
        runs = [*map(state, names, names.values()), *(RunState(own[0], (), "failed", note=own[2]) for own in refused)]
        alive = is_at_work(runs_dir, manifest)
        if runs:  # others are of single runs
            sweeps.append(SweepState(manifest.name, manifest.command, manifest.started_at, runs, alive))
    others = {folder: record.identity.title for folder, record in records.items()}
    for folder in [*owners, *stopped]:
        owner_title = owners[folder].title if folder in owners else ""
        others.setdefault(folder, owner_title or folder.relative_to(runs_dir).as_posix())
    if alone := [state(folder, title) for folder, title in others.items() if folder not in listed]:
        sweeps.append(SweepState("", "", "", alone))
    return sweeps, problems


def _not_started(runs_dir: Path, experiment: Experiment, found: Sequence[FoundRecord]) -> Manifest:
    """The list of an experiment's runs, as its sweep would write it, with the names that records have."""
    filled = zip(experiment.cells, runs_of_cells(found, experiment.cells), strict=True)
    runs: list[Identity] = [items[0].record.identity if items else cell.identity for cell, items in filled]
    places = replace(typed_places(runs_dir), runs_dir=str(runs_dir) if runs_dir != DEFAULT_RUNS else "")
    shipped = all(identity.data == MINI for identity in runs)
    words = [f"experiment={hydra_value(experiment.name)}", *places.words(shipped)]
    return Manifest(experiment.sweep_name, shlex.join(["python", "-m", "tasks.run", "-m", *words]), runs)


def text(sweeps: Sequence[SweepState], problems: Sequence[str], runs_dir: Path, *, brief: bool = False) -> str:
    """The sweeps as text; a brief one lists no missing runs, commands and processes."""
    if not sweeps and not problems:
        absent = "" if runs_dir.is_dir() else " (no such folder)"
        return f"No runs in {runs_dir}{absent}. A first sweep: python -m tasks.run -m experiment=mini"
    blocks = ["\n".join(_lines(sweep, brief)) for sweep in sweeps]
    if problems:
        blocks.append("\n".join(["Problems:", *(f"  {problem}" for problem in problems)]))
    return "\n\n".join(blocks)


def scores(sweeps: Sequence[SweepState], runs_dir: Path) -> str:
    """The results table of the runs that have finished, without notes; empty if there are none."""
    titles = {run.title for sweep in sweeps for run in sweep.runs if run.state == "done"}
    collection = collect([runs_dir])
    finished = [item for item in collection.found if item.record.identity.title in titles]
    summary = fill_all(replace(collection, found=finished), Selection(include_limited=True))
    return f"\n\n{as_text(sheets_of(summary)).rstrip()}" if summary.rows else ""


@contextmanager
def _started(command: Sequence[str], runs_dir: Path) -> Iterator[subprocess.Popen[bytes] | None]:
    """Starts the command with its output in a file, and waits for it; a failure shows the end of that file."""
    if not command:
        yield None
        return
    runs_dir.mkdir(parents=True, exist_ok=True)
    log = runs_dir / LOG
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as process:
        yield process  # Ctrl-C reaches both processes; leaving the block waits for this one
    if process.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        write("\n".join([f"The command failed. The end of {log}:", *last, ""]), sys.stderr)


def _lines(sweep: SweepState, brief: bool) -> list[str]:
    counts, total = sweep.counts, len(sweep.runs)
    head = f"{sweep.name or OTHERS}: {counts['done']} of {total} done"
    head += "".join(f", {counts[state]} {state}" for state in STATES[1:] if counts[state])
    times = [f"{duration(sweep.seconds_spent)} spent"]
    if counts["running"] or counts["missing"]:
        left = sweep.seconds_left
        times.append("time left not known yet" if left is None else f"about {duration(left)} left")
        if left is not None and not counts["running"]:
            times[-1] += " for one run at a time, and none is running"
    lines = [f"{head}; {', '.join(times)}"]
    if sweep.command and not brief:
        lines.append(f"  {printable(sweep.command)}")
    if not sweep.name and counts["missing"] and not brief:
        lines.append("  the command that started a stopped run continues it")
    for state in ("running", "failed", *([] if brief else ["missing"])):
        runs = [run for run in sweep.runs if run.state == state]
        width = max((len(run.title) for run in runs[:LONGEST_LIST]), default=0)
        lines += [f"  {state:<8} {run.title:<{width}}  {_detail(run, brief)}".rstrip() for run in runs[:LONGEST_LIST]]
        if len(runs) > LONGEST_LIST:
            lines.append(f"  {state:<8} and {len(runs) - LONGEST_LIST} more")
    return lines


def _detail(run: RunState, brief: bool) -> str:
    if run.state != "running":
        return run.note
    epochs = f"epoch {run.epoch} of {run.epochs}, " if run.epochs else ""
    best = "" if run.best is None else f"best dev {run.best:.2f}, "
    return f"{epochs}{best}{duration(run.seconds)}" + ("" if brief else f", {run.note}")


def _plain(sweep: SweepState) -> dict[str, object]:
    """The sweep as plain values, for JSON."""
    left = sweep.seconds_left
    return {
        "name": sweep.name or None,
        "command": sweep.command or None,
        "started_at": sweep.started_at or None,
        **sweep.counts,
        "seconds_spent": round(sweep.seconds_spent, 1),
        "seconds_left": None if left is None else round(left, 1),
        "runs": [asdict(run) for run in sweep.runs],
    }


def _named(sweeps: list[SweepState], name: str | None) -> list[SweepState]:
    """All sweeps, or the one of this name.

    Raises:
        InputError: It was not started.
    """
    known = {sweep.name: sweep for sweep in sweeps if sweep.name}
    if name is None or name in known:
        return sweeps if name is None else [known[name]]
    there = f"there are: {', '.join(known)}" if known else "none was started yet"
    command = f"python -m tasks.run -m {shlex.quote(f'experiment={name}')}"
    start = f"The suite has no such experiment; one of your configs starts with: {command}"
    raise InputError(printable(f"no sweep {name!r} was started with this folder; {there}. {start}"))


def _watch(
    runs_dir: Path,
    name: str | None,
    experiment: Experiment | None,
    with_scores: bool,
    process: subprocess.Popen[bytes] | None,
) -> int:
    """Shows the status repeatedly until nothing can change any more, or the process that was started has ended.

    Args:
        runs_dir: The folder.
        name: The sweep to show; all if None.
        experiment: What the name is in results/paper, if anything.
        with_scores: Whether to show the table of finished runs instead of the list of missing ones.
        process: The sweep, if it was started here; its exit status is returned.
    """
    table, done, printed = "", 0, ""
    while True:
        status = process.poll() if process else None  # before reading, so that the last text misses nothing
        sweeps, problems = sweeps_of(runs_dir, experiment)
        sweeps = _named(sweeps, name)
        if with_scores and (finished := sum(sweep.counts["done"] for sweep in sweeps)) != done:
            table, done = scores(sweeps, runs_dir), finished
        end = _end(sweeps) if process is None else None
        page = text(sweeps, problems, runs_dir, brief=with_scores) + table + (f"\n\n{end}" if end else "")
        if page != printed:
            print(end=CLEAR * sys.stdout.isatty())
            write(f"{page}\n\n", sys.stdout)
            sys.stdout.flush()
            printed = page
        if end is not None or status is not None:
            return status or 0
        time.sleep(LOOKS_EVERY)


def _end(sweeps: Sequence[SweepState]) -> str | None:
    """Why watching ends: empty if all is done; None to continue."""
    if any(sweep.counts["running"] for sweep in sweeps):
        return None
    waiting = [sweep for sweep in sweeps if sweep.counts["missing"]]
    if any(sweep.alive for sweep in waiting):
        return None
    missing = sum(sweep.counts["missing"] for sweep in waiting)
    return f"Nothing runs, and no process will start what is missing ({missing})." if missing else ""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("results.status", _DESCRIPTION, _EPILOG)
    parser.add_argument(
        "--runs",
        metavar="DIR",
        default=str(DEFAULT_RUNS),
        help=f"folder with records, the runs_dir of tasks.run (default: {DEFAULT_RUNS})",
    )
    parser.add_argument("--experiment", metavar="NAME", help="only this sweep, such as mini, table1 or PATH.toml")
    parser.add_argument("--scores", action="store_true", help="also the table of the runs that have finished")
    parser.add_argument(
        "command", nargs="*", metavar="-- COMMAND", help=f"start this sweep and watch it; its output goes to RUNS/{LOG}"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--watch", action="store_true", help="update until nothing can change any more")
    shape.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    return parser


if __name__ == "__main__":
    sys.exit(main())
