"""`python -m results.status`: done, running, failed and missing runs of sweeps, and the time left."""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from elmo.common.durations import duration
from elmo.common.errors import InputError, command_parser, exit_status
from results.analysis.aggregate import Selection, summarise
from results.analysis.sweep_state import STATES, Overview, RunState, SweepState, overview_of
from results.experiments.experiment import SUFFIX, Experiment, sweep_name
from results.experiments.experiment_file import load_experiment
from results.records.collect import collect
from results.records.printing import printable, printable_lines, write
from results.records.sweep_manifest import DEFAULT_RUNS
from results.tables.core_table import core_page
from results.tables.formats import LAYOUTS

LONGEST_LIST = 12  # runs listed for each state
LOG = "sweep.log"  # in the folder of the runs: what a command that was started here printed
LAST_LINES = 15  # of that file, shown if the command fails
LOOKS_EVERY = 2.0  # seconds between updates with --watch
QUIET = 300.0  # seconds without a change after which a sweep on another machine counts as dead
OTHERS = "runs of no sweep"

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


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the status; returns the exit status: 1 for an unknown experiment."""
    options = _parser().parse_args(argv)
    return exit_status("results.status", lambda: _show(options))


def _show(options: argparse.Namespace) -> int:
    runs_dir = Path(options.runs)
    try:
        experiment = load_experiment(options.experiment) if options.experiment else None
    except InputError as error:
        if options.experiment.endswith(SUFFIX):
            write(f"results.status: {error}\n", sys.stderr)
            return 1
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
    overview = _chosen_sweeps(runs_dir, name, experiment)
    if overview is None:
        return 1
    shown = json.dumps(_plain(overview), indent=1) if options.format == "json" else text(overview, runs_dir)
    if options.scores and options.format == "text":
        shown += scores(overview, runs_dir)
    write(f"{shown}\n", sys.stdout)
    return 0


def text(overview: Overview, runs_dir: Path, *, brief: bool = False) -> str:
    """The overview as text; a brief one lists no missing runs, commands and processes."""
    if not overview.sweeps and not overview.problems:
        absent = "" if runs_dir.is_dir() else " (no such folder)"
        return f"No runs in {runs_dir}{absent}. A first sweep: python -m tasks.run -m experiment=mini"
    blocks = ["\n".join(_lines(sweep, brief)) for sweep in overview.sweeps]
    if overview.problems:
        blocks.append("\n".join(["Problems:", *(f"  {problem}" for problem in overview.problems)]))
    return "\n\n".join(blocks)


def scores(overview: Overview, runs_dir: Path) -> str:
    """The results table of the runs that have finished, without notes; empty if there are none."""
    titles = {run.title for sweep in overview.sweeps for run in sweep.runs if run.state == "done"}
    collection = collect([runs_dir])
    finished = [item for item in collection.found if item.record.identity.title in titles]
    summary = summarise(replace(collection, found=finished), Selection(include_limited=True))
    return f"\n\n{LAYOUTS['text'](core_page(summary)[0], []).rstrip()}" if summary.rows else ""


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


def _plain(overview: Overview) -> dict[str, object]:
    """The overview as plain values, for JSON."""
    sweeps = [
        {
            "name": sweep.name or None,
            "command": sweep.command or None,
            "started_at": sweep.started_at or None,
            **sweep.counts,
            "seconds_spent": round(sweep.seconds_spent, 1),
            "seconds_left": None if sweep.seconds_left is None else round(sweep.seconds_left, 1),
            "runs": [asdict(run) for run in sweep.runs],
        }
        for sweep in overview.sweeps
    ]
    return {"sweeps": sweeps, "problems": list(overview.problems)}


def _chosen_sweeps(runs_dir: Path, name: str | None, experiment: Experiment | None) -> Overview | None:
    """All sweeps, or the one of this name; None, after a message, if it was not started."""
    overview = overview_of(runs_dir, experiment)
    known = {sweep.name: sweep for sweep in overview.sweeps if sweep.name}
    if name is None:
        return overview
    if name in known:
        return replace(overview, sweeps=[known[name]])
    there = f"there are: {', '.join(known)}" if known else "none was started yet"
    command = f"python -m tasks.run -m {shlex.quote(f'experiment={name}')}"
    start = f"The suite has no such experiment; one of your configs starts with: {command}"
    write(f"results.status: no sweep {name!r} was started with this folder; {there}. {start}\n", sys.stderr)
    return None


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
    with _screen() as show:
        before, changed_at, table, done = None, time.monotonic(), "", 0
        while True:
            status = process.poll() if process else None  # before reading, so that the last text misses nothing
            overview = _chosen_sweeps(runs_dir, name, experiment)
            if overview is None:
                return 1
            if overview != before:
                before, changed_at = overview, time.monotonic()
            if with_scores and (finished := sum(sweep.counts["done"] for sweep in overview.sweeps)) != done:
                table, done = scores(overview, runs_dir), finished
            end = _end(overview, time.monotonic() - changed_at) if process is None else None
            show(text(overview, runs_dir, brief=with_scores) + table + (f"\n\n{end}" if end else ""))
            if end is not None:
                return 0
            if status is not None:
                return status
            time.sleep(LOOKS_EVERY)


def _end(overview: Overview, quiet: float) -> str | None:
    """Why watching ends, after `quiet` seconds without a change: empty if all is done; None to continue."""
    if any(sweep.counts["running"] for sweep in overview.sweeps):
        return None
    waiting = [sweep for sweep in overview.sweeps if sweep.counts["missing"]]
    if any(sweep.alive or (sweep.alive is None and quiet < QUIET) for sweep in waiting):
        return None
    missing = sum(sweep.counts["missing"] for sweep in waiting)
    unseen = f"; none has begun for {QUIET:.0f} s" if any(sweep.alive is None for sweep in waiting) else ""
    return f"Nothing runs, and no process will start what is missing ({missing}){unseen}." if missing else ""


@contextmanager
def _screen() -> Iterator[Callable[[str], None]]:
    """A function that replaces the text on the screen, or prints it below where nothing can be redrawn."""
    if sys.stdout.isatty() and find_spec("rich") is not None:
        from rich.live import Live
        from rich.text import Text

        with Live(auto_refresh=False, vertical_overflow="visible") as live:
            yield lambda text: live.update(Text(printable_lines(text)), refresh=True)
        return
    shown = [""]

    def show(text: str) -> None:
        if text != shown[0]:
            write(f"{text}\n\n", sys.stdout)
            sys.stdout.flush()
        shown[0] = text

    yield show


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
