"""Hydra's sweeper of this suite: checks all runs of a sweep first, starts them, and prints how they ended.

Hydra's own sweeper makes a product, which cannot express "task A with data X, task B with data Y", starts runs before
it knows whether the others can be done, and does not say how they ended.
"""

import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig
from rich.console import Console

from elmo.common.errors import InputError, shortened
from elmo.common.files import duration, expanded, print_lines
from elmo.common.progress import Reporter, print_line
from results.experiments import NOT_RECORDED, load_experiment
from results.records.progress import DEFAULT_RUNS, write_manifest
from results.records.record import RecordUnreadable, read_record
from tasks.running.config import Run
from tasks.running.experiment import Ended
from tasks.running.loggers import advice
from tasks.sweeps.launchers import end_children, end_kept_workers, start_workers_quietly
from tasks.sweeps.runs import Composed, composed, manifest_of, needs_of, plan_lines, runs_in, typed_words

# Hydra accepts plugins only by names below hydra_plugins, so the sweeper is known to it under such a name. A package of
# that name at the top of the repository would have no other purpose.
SWEEPER = "hydra_plugins.elmo_suite.SuiteSweeper"
ENDS = {
    "finished": "runs finished",
    "skipped": "were done already",
    "elsewhere": "are running elsewhere",
    "failed": "failed",
    "failed before": "had failed before",
}
OF_A_CELL = ("task", "data", "features", "seed", "fold")  # keys that choose cells of any experiment
WITHOUT_EFFECT = (*NOT_RECORDED, "hydra")  # keys, or their first parts, that change no score
LOCAL = (".BasicLauncher", ".JoblibLauncher")  # launchers of this machine
MOST_BREAKS = 3  # a sweep stops after this many killed processes in a row without a run that ended
TITLE_WIDTH = 30  # so that the scores of most runs are aligned


@dataclass
class SweepJob:
    """The function that a launcher calls for each run: does the run, and prints a line when it has finished.

    Launchers send a copy of it to other processes. On this machine the line says how many runs are done, and about how
    long the others will take. On a cluster it is in a log file.

    Attributes:
        task: the run itself.
        total: the runs of the sweep; 0 on a cluster.
        to_do: the records to write, each with the time of the failed one that is there.
        since: when the sweep began.
    """

    task: TaskFunction
    total: int = 0
    to_do: Mapping[Path, int | None] = field(default_factory=dict)
    since: float = field(default_factory=time.time)

    def __call__(self, config: DictConfig) -> Ended:
        """Does the run of this config."""
        ended: Ended = self.task(config)
        if ended.status == "finished":
            so_far = ""
            if self.total:
                count = self.runs_ended()
                so_far = f"  {progress(self.total, len(self.to_do) - count, count, time.time() - self.since)}"
            print_line(Console(stderr=True), f"{end_line('', ended)}{so_far}")
        return ended

    def runs_ended(self) -> int:
        """The number of runs of this sweep that have written a record."""
        return sum(_written(path) != before for path, before in self.to_do.items())


class SuiteSweeper(Sweeper):
    """Sweeps over the cells of an experiment, or over the product of what was typed; conf/hydra/sweeper/ names it.

    Attributes:
        plan: --plan: print what the runs need, and start none.
        keep_going: --keep-going: start runs even if some lack what they need.
        launching: the class of the launcher that is at work; empty if none is.
    """

    plan: ClassVar[bool] = False
    keep_going: ClassVar[bool] = False
    launching: ClassVar[str] = ""

    config: DictConfig
    launcher: Launcher

    def __init__(self, experiment: str | None = None, params: Mapping[str, str] | None = None) -> None:
        """Takes what is in the config, where `runs_in` reads it."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Makes the launcher, before anything that takes time."""
        self.config, self._job = config, SweepJob(task_function)
        self.launcher = Plugins.instance().instantiate_launcher(hydra_context, self._job, config)

    def sweep(self, arguments: list[str]) -> Sequence[JobReturn]:
        """Carries out the sweep; the command ends here if there is nothing to do, or if a run has failed."""
        config, launcher = self.config, self.config.hydra.launcher._target_
        here, at_once = launcher.endswith(LOCAL), runs_at_once(self.config)
        runs = runs_in(config)
        sweep = composed(config, runs)
        to_do = records_to_write(sweep.runs.values())
        if SuiteSweeper.plan:
            needs = needs_of(sweep, here, download=False)
            print_lines(f"{line}\n" for line in plan_lines(sweep, to_do, needs, at_once if here else None))
            raise SystemExit(1 if needs.missing else 0)
        folder = Path(config.hydra.sweep.dir).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.partial"):  # by killed sweeps
            left.unlink(missing_ok=True)
        manifest, runs_dir = manifest_of(config, sweep), expanded(config.runs_dir, "runs_dir")
        say = Reporter("sweep", brief=True).warn
        try:
            write_manifest(runs_dir, manifest)
        except OSError as error:
            say(f"python -m results.status will not show it: {error}")
        models = [run.weights for run in sweep.runs.values() if run.keep_weights]
        if nothing_left(sweep) and all(map(Path.is_file, models)):
            say(f"all {len(sweep)} runs were done already. {next_command(config)}")
            print_models(models)
            return []
        if not SuiteSweeper.keep_going and (needs := needs_of(sweep, here, download=True)).missing:
            go_on = "--keep-going starts the others" if len(needs.lacking) < len(sweep) else ""
            raise InputError("\n".join(filter(None, [needs.message(len(sweep)), go_on])))
        if here:
            self._job.total, self._job.to_do = len(sweep), to_do
            if len(to_do) > 1 and at_once:  # 0: the launcher will reject it
                say(first_words(config, len(sweep), len(to_do)))
        else:
            name = config.hydra.runtime.choices["hydra/launcher"]
            say(f"{len(runs)} runs are handed to {name}. {where_to_look(config)}")
        returns = self._launch(launcher, runs)
        ends = {" ".join(one.overrides or []): one.return_value for one in returns}
        for line in (end_line(overrides, ended) for overrides, ended in ends.items() if not here):
            print(line, end="\n" * bool(line), file=sys.stderr)
        recorded = not to_do or any(map(_has_failed, to_do))
        words = [summary(ends.values(), recorded), advice(config.logger, Path(config.runs_dir))]
        say(". ".join([*filter(None, words), next_command(config)]))
        print_models(models)
        if any(ended.failed for ended in ends.values()):
            raise SystemExit(1)
        return returns

    def _launch(self, launcher: str, runs: list[list[str]]) -> Sequence[JobReturn]:
        """Starts the runs; again if a worker was killed: joblib then ends them all, and runs continue where they were.

        The class attribute `launching` stays set if this is interrupted.
        """
        SuiteSweeper.launching = launcher
        if launcher.endswith(".JoblibLauncher"):
            end_kept_workers()
            start_workers_quietly()
        breaks, ended = 0, 0
        while True:
            try:
                returns = self.launcher.launch(runs, initial_job_idx=0)
                SuiteSweeper.launching = ""
                return returns
            except BrokenProcessPool:
                end_children()  # first, so that their locks are free
                before, ended = ended, self._job.runs_ended()
                breaks = 1 if ended > before else breaks + 1
                if breaks >= MOST_BREAKS:
                    raise
                print("tasks.run: a process was killed in the middle of its run; the sweep continues", file=sys.stderr)


def register() -> None:
    """Makes the sweeper known to Hydra in this process."""
    Plugins.instance().class_name_to_class[SWEEPER] = SuiteSweeper  # `register` takes the name from its module


def where_to_look(config: DictConfig) -> str:
    """The files that runs on a cluster print to, and the command to follow them."""
    launcher = config.hydra.launcher
    logs = ""
    if "submitit_folder" in launcher:
        logs = f"Logs: {Path(launcher.submitit_folder).parent}. "
    elif launcher._target_.endswith(".RayLauncher"):
        logs = f"Logs: {os.environ.get('RAY_TMPDIR', '/tmp')}/ray/session_latest/logs on each machine. "
    return f"{logs}To follow them: python -m results.status --watch --runs {shlex.quote(str(config.runs_dir))}"


def first_words(config: DictConfig, total: int, left: int) -> str:
    """The first words of a sweep on this machine: how many runs it has, and how to follow them.

    Args:
        config: the sweep.
        total: its runs.
        left: those without a record.
    """
    done = f", {total - left} of them done before" if left < total else ""
    words = ["python", "-m", "results.status", "--watch", *runs_option(config)]
    return f"{total} runs{done}, {min(runs_at_once(config), left)} at a time; {shlex.join(words)}"


def runs_at_once(config: DictConfig) -> int:
    """The number of runs that the launcher starts at the same time on this machine; 0 if it was typed so."""
    jobs = config.hydra.launcher.get("n_jobs", 1)  # Hydra's own launcher has no n_jobs
    if jobs in (0, 1):
        return int(jobs)
    import joblib  # comes with the launcher

    return int(joblib.effective_n_jobs(jobs))


def runs_option(config: DictConfig) -> list[str]:
    """The option of a command of results/ for the folder of these runs; none if it looks there anyway."""
    runs_dir = str(config.runs_dir)
    return ["--runs", runs_dir] if Path(runs_dir) != DEFAULT_RUNS else []


def next_command(config: DictConfig) -> str:
    """The last words of a sweep: how to see its scores."""
    name = config.hydra.sweeper.experiment
    cells = load_experiment(name).cells if name else []
    of_cells = {override.partition("=")[0] for cell in cells for override in cell.overrides}
    typed = {word: word.partition("=")[0].lstrip("+~") for word in typed_words(config)}
    chosen = {"experiment", *of_cells, *OF_A_CELL, *WITHOUT_EFFECT}
    further = [word for word, key in typed.items() if not {key, re.split("[./]", key)[0]} & chosen]
    if name and not any("," in word for word in further):
        words = ["--experiment", name, *further]
    else:
        words = ["--wide"] * bool(further) + ["--include-limited"] * ("limit" in typed.values())
    return f"The scores: {shlex.join(['python', '-m', 'results.table', *words, *runs_option(config)])}"


def print_models(models: Iterable[Path]) -> None:
    """Prints the folders of the models that are there."""
    if kept := [path.parent for path in models if path.is_file()]:
        Reporter("sweep", brief=True).warn("The models: python -m tasks.predict RUN INPUT, where RUN is")
        for folder in kept:
            print(f"  {shlex.quote(str(folder))}", file=sys.stderr)


def end_line(overrides: str, ended: Ended) -> str:
    """The end of a run in one line; empty for one that was done before."""
    if ended.failed:
        return shortened(f"{overrides}  {ended.status}: {' '.join(ended.text.splitlines())}")
    if ended.status == "finished":
        return f"{ended.title:<{TITLE_WIDTH}}  {ended.text}"
    return f"{overrides}  is running elsewhere" if ended.status == "elsewhere" else ""


def nothing_left(sweep: Composed) -> bool:
    """Whether every run is done and has left neither checkpoint nor lock; a run with an unusable record reports it."""
    runs = sweep.runs.values()
    with suppress(InputError, OSError):
        there = not sweep.refused and all(run.path.exists() for run in runs)
        # Copies: what a run has hashed would stay in memory.
        return there and all(replace(run).done() == "skip" and not run.left_behind for run in runs)
    return False


def records_to_write(runs: Iterable[Run]) -> dict[Path, int | None]:
    """The records that a sweep has yet to write, each with the time of the failed one that it replaces."""
    retried = {run.path.absolute(): run.retry == "failed" for run in runs}
    records = {path: _written(path) for path in retried}
    return {path: at for path, at in records.items() if at is None or (retried[path] and _has_failed(path))}


def _has_failed(path: Path) -> bool:
    with suppress(OSError, RecordUnreadable):
        return read_record(path).status == "failed"
    return False


def progress(total: int, left: int, ended: int, elapsed: float) -> str:
    """The number of runs that are done, and the estimated time of the others.

    Args:
        total: runs of the sweep.
        left: runs that have not ended.
        ended: runs that have ended since the sweep began; the others were done before.
        elapsed: seconds since the sweep began.
    """
    rest = f", about {duration(elapsed * left / max(ended, 1))} left" if left else ""
    return f"{total - left} of {total} done{rest}"


def summary(ends: Iterable[Ended], recorded: bool) -> str:
    """The last line, if it contains more than the lines of the runs: what was skipped, what failed.

    Args:
        ends: how each run ended.
        recorded: whether a run left a failed record; runs without one, such as those without data, need no retry.
    """
    count: Counter[str] = Counter(ended.status for ended in ends)
    parts = [f"{count[status]} {words}" for status, words in ENDS.items() if count[status] or status == "finished"]
    if len(parts) == 1:
        return ""
    failed = count["failed"] + count["failed before"]
    again = "retry=failed" if recorded or count["failed before"] else "the same command"
    return ", ".join(parts) + f"; {again} runs those again" * (failed > 0)


def _written(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
