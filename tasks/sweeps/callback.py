"""Hydra callback for sweeps: prints how each run ended, and about how long the others will take."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from elmo.common.config_errors import CONFIG_ERRORS
from elmo.common.durations import duration
from elmo.common.errors import InputError, shortened
from elmo.common.files import expanded, print_lines
from elmo.common.progress import Reporter
from results.experiments.experiment_file import load_experiment
from results.records.identity import record_path
from results.records.record import RecordConflict, RecordUnreadable, decide, read_record
from results.records.run_lock import LOCK_NAME
from results.records.sweep_manifest import DEFAULT_RUNS, at_work, write_manifest
from tasks.running.config import NOT_IN_FINGERPRINT, RunConfig
from tasks.running.experiment import Ended
from tasks.running.loggers import advice_after_sweep
from tasks.running.plan import RunPlan, identity_of
from tasks.running.saved_model import WEIGHTS_NAME
from tasks.sweeps.experiment_sweeper import SWEEPER, ExperimentSweeper
from tasks.sweeps.needs import needs_of
from tasks.sweeps.process_end import end_kept_workers, start_workers_quietly
from tasks.sweeps.sweep_plan import plan_lines
from tasks.sweeps.sweep_runs import cells_in, configs_of, manifest_of, runs_in, typed_words

ENDS = {
    "finished": "runs finished",
    "skipped": "were done already",
    "elsewhere": "are running elsewhere",
    "failed": "failed",
    "failed before": "had failed before",
}
OF_A_CELL = ("task", "data", "features", "seed", "fold")  # keys that choose cells of any experiment
WITHOUT_EFFECT = (*NOT_IN_FINGERPRINT, "hydra")  # keys, or their first parts, that change no score
ARM_DEPTH = 3  # of DATA/TASK/FEATURES below the folder of all runs
LOCAL = (".BasicLauncher", ".JoblibLauncher")  # launchers of this machine
TITLE_WIDTH = 30  # so that the scores of most runs are aligned


class _InSweep(JobReturn):
    """The end of a run. Hydra reads each `return_value` in the sweep's own process, after the last run has ended."""

    @property  # type: ignore[misc]
    def return_value(self) -> Any:  # noqa: ANN401
        if Sweep.latest is not None:
            Sweep.latest.ends[" ".join(self.overrides or [])] = self._return_value  # Hydra does not pass it on
        return self._return_value


class Sweep(Callback):
    """Prints how the runs of a sweep end; Hydra calls it (hydra.callbacks in conf/config.yaml).

    Launchers send a copy of it along with every run. On this machine each copy prints a line when its run ends, and
    counts the records that were written since the sweep began. Runs on a cluster print to log files; the sweep's
    process prints their lines after the last one.

    Attributes:
        launcher: the class of the launcher; empty for a single run.
        ends: how each run ended, by its overrides; filled after the last one.
    """

    plan: ClassVar[bool] = False  # --plan: print what the runs need, and start none
    keep_going: ClassVar[bool] = False  # --keep-going: start runs even if some lack what they need
    at_work: ClassVar[AbstractContextManager[None] | None] = None
    latest: ClassVar[Sweep | None] = None  # of this process; main() needs it, and Hydra keeps its callbacks hidden

    def __init__(self) -> None:
        self.launcher = ""
        self.ends: dict[str, Ended] = {}
        self._since = 0.0
        self._total = 0  # 0: not known
        self._to_do: dict[Path, int | None] = {}  # records to write, with the time of the failed one that is there
        self._arms: dict[Path, Path] = {}  # the folders of runs that keep their weights, each with that of its arm

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:  # noqa: ANN401, D102
        self._since = time.time()
        try:
            runs = runs_in(config)
            if Sweep.plan:
                here = config.hydra.launcher._target_.endswith(LOCAL)
                self._print_plan(configs_of(config, runs), here, runs_at_once(config) if here else None)
                return  # Hydra is about to reject one of them
            folder = Path(config.hydra.sweep.dir).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob("*.partial"):  # by killed sweeps
                left.unlink(missing_ok=True)
        except InputError as error:
            raise SystemExit(
                f"tasks.run: {shortened(str(error))}"
            ) from error  # Hydra only warns about other exceptions of a callback
        except (*CONFIG_ERRORS, OSError):
            return  # Hydra is about to find the same, and main() explains it
        self.launcher = config.hydra.launcher._target_
        Sweep.latest = self
        if self._on_cores:
            end_kept_workers()
            start_workers_quietly()
        configs = configs_of(config, runs)
        ExperimentSweeper.composed = configs.keys()
        if not configs:
            self._hand_over(config, len(runs))
            return
        try:
            manifest, runs_dir = manifest_of(config, configs), expanded(config.runs_dir, "runs_dir")
            write_manifest(runs_dir, manifest)
            Sweep.at_work = at_work(runs_dir, manifest)
            Sweep.at_work.__enter__()  # to the end of the process
        except OSError as error:
            Reporter("sweep").warn(f"python -m results.status will not show it: {error}")
        if lost := not_in_table(config, configs):
            Reporter("sweep").warn(lost)
        for found in configs.values():
            if isinstance(found, RunConfig) and found.keep_weights:
                folder = record_path(found.runs_dir, identity_of(found)).parent
                below = folder.relative_to(found.runs_dir).parts
                self._arms[folder] = found.runs_dir.joinpath(*below[:ARM_DEPTH])
        if nothing_left(configs) and all((folder / WEIGHTS_NAME).is_file() for folder in self._arms):
            Reporter("sweep").warn(f"all {len(configs)} runs were done already. {next_command(config)}")
            print_models(self._arms)
            raise SystemExit(0)  # Hydra would compose every run three times over, and start processes to skip them
        if not Sweep.keep_going and (needs := needs_of(configs, not self._remote, download=True)).missing:
            go_on = "--keep-going starts the others" if len(needs.lacking) < len(configs) else ""
            raise SystemExit("\n".join(filter(None, [f"tasks.run: {needs.message(len(configs))}", go_on])))
        self._hand_over(config, len(runs))
        if not self._remote:
            self._total, self._to_do = len(configs), records_to_write(configs)
            if len(self._to_do) > 1 and config.hydra.launcher.get("n_jobs", 1):  # 0: Hydra will reject it
                Reporter("sweep").warn(first_words(config, self._total, len(self._to_do)))

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:  # noqa: ANN401, D102
        if Sweep.plan and config.hydra.sweeper._target_ != SWEEPER:  # which is refused without -m
            self._print_plan(configs_of(config, [typed_words(config)]), here=True, at_once=1)

    def _print_plan(self, configs: Mapping[str, RunConfig | str], here: bool, at_once: int | None) -> None:
        """Ends the command after the plan of these runs; returns if there are none."""
        if configs:
            needs = needs_of(configs, here, download=False)
            print_lines(f"{line}\n" for line in plan_lines(configs, records_to_write(configs), needs, at_once))
            raise SystemExit(1 if needs.missing else 0)

    def _hand_over(self, config: DictConfig, runs: int) -> None:
        """Says which cluster gets the runs, if any."""
        if self._remote:
            name = config.hydra.runtime.choices["hydra/launcher"]
            Reporter("sweep").warn(f"{runs or ''} runs are handed to {name}. {where_to_look(config)}".lstrip())

    @property
    def _on_cores(self) -> bool:
        return self.launcher.endswith(".JoblibLauncher")

    @property
    def _remote(self) -> bool:
        return not self.launcher.endswith(LOCAL)

    def runs_ended(self) -> int:
        """How many runs of this sweep have written a record so far."""
        return sum(_written(path) != before for path, before in self._to_do.items())

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:  # noqa: ANN401, D102
        ended = job_return._return_value  # of Hydra's own errors, `return_value` would raise them
        if self.launcher and isinstance(ended, Ended):
            job_return.__class__ = _InSweep
            if ended.status == "finished":
                print(f"{end_line('', ended)}{self._progress()}", file=sys.stderr)

    def _progress(self) -> str:
        if not self._total:
            return ""
        ended = self.runs_ended()
        under_way = sum(path.with_name(LOCK_NAME).exists() for path in self._to_do)
        return f"  {progress(self._total, len(self._to_do) - ended, ended, under_way, time.time() - self._since)}"

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:  # noqa: ANN401, D102
        if self._remote:
            for overrides, ended in self.ends.items():
                if line := end_line(overrides, ended):
                    print(line, file=sys.stderr)
        recorded = not self._to_do or any(map(_has_failed, self._to_do))
        words = [summary(self.ends.values(), recorded), advice_after_sweep(config.logger, Path(config.runs_dir))]
        Reporter("sweep").warn(". ".join([*filter(None, words), next_command(config)]))
        print_models(self._arms)
        if any(ended.failed for ended in self.ends.values()):
            raise SystemExit(1)


def where_to_look(config: DictConfig) -> str:
    """Where runs on a cluster print to, and how to follow them."""
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
    """The number of runs that the launcher starts at the same time on this machine."""
    if (jobs := config.hydra.launcher.get("n_jobs", 1)) == 1:  # Hydra's own launcher has no n_jobs
        return 1
    import joblib  # comes with the launcher

    return int(joblib.effective_n_jobs(jobs))


def runs_option(config: DictConfig) -> list[str]:
    """The option of a command of results/ for the folder of these runs; none if it looks there anyway."""
    runs_dir = str(config.runs_dir)
    return ["--runs", runs_dir] if Path(runs_dir) != DEFAULT_RUNS else []


def next_command(config: DictConfig) -> str:
    """The last words of a sweep: how to see its scores."""
    sweeper = config.hydra.sweeper
    experiment = load_experiment(sweeper.experiment) if sweeper._target_ == SWEEPER else None
    cells = experiment.cells if experiment else []
    of_cells = {override.partition("=")[0] for cell in cells for override in cell.overrides}
    typed = {word: word.partition("=")[0].lstrip("+~") for word in typed_words(config)}
    chosen = {"experiment", *of_cells, *OF_A_CELL, *WITHOUT_EFFECT}
    further = [word for word, key in typed.items() if not {key, re.split("[./]", key)[0]} & chosen]
    if experiment and not any("," in word for word in further):
        words = ["--experiment", sweeper.experiment, *further]
    else:
        words = ["--wide"] * bool(further) + ["--include-limited"] * ("limit" in typed.values())
    return f"The scores: {shlex.join(['python', '-m', 'results.table', *words, *runs_option(config)])}"


def print_models(arms: Mapping[Path, Path]) -> None:
    """Prints how to name each run that kept its weights: its folder, or that of its arm if that has no other.

    Args:
        arms: the folders of the runs, each with that of its arm.
    """
    if found := [folder for folder in arms if (folder / WEIGHTS_NAME).is_file()]:
        Reporter("sweep").warn("The models: python -m tasks.predict RUN INPUT, where RUN is")
        for folder in found:
            alone = len(list(arms[folder].rglob(WEIGHTS_NAME))) == 1
            print(f"  {shlex.quote(str(arms[folder] if alone else folder))}", file=sys.stderr)


def end_line(overrides: str, ended: Ended) -> str:
    """How a run ended, in one line; empty for one that was done before."""
    if ended.failed:
        return f"{overrides}  {ended.status}: {' '.join(ended.text.splitlines())}"
    if ended.status == "finished":
        return f"{ended.title:<{TITLE_WIDTH}}  {ended.text}"
    return f"{overrides}  is running elsewhere" if ended.status == "elsewhere" else ""


def not_in_table(config: DictConfig, configs: Mapping[str, RunConfig | str]) -> str:
    """What to say if the table of an experiment will not find all of its runs; empty if it will."""
    lost = []
    for cell in cells_in(config) if config.hydra.sweeper._target_ == SWEEPER else []:
        found = configs[" ".join(cell.overrides)]
        if isinstance(found, RunConfig) and not cell.is_run(identity_of(found), found.resolved):
            lost.append((cell, identity_of(found)))
    if not lost:
        return ""
    cell, identity = lost[0]
    return (
        f"python -m results.table --experiment will not find {len(lost)} of {len(configs)} runs: it compares what is "
        f"typed with what is recorded. The first one, {shlex.join(cell.overrides)}, is recorded as {identity.title}. "
        "Type values as records have them, one key each (not ${KEY}, {KEY: VALUE} or yes), and name a dataset file "
        "like the `name` in it"
    )


def nothing_left(configs: Mapping[str, RunConfig | str]) -> bool:
    """Whether every run is done and has left neither checkpoint nor lock; a run with an unusable record reports it."""
    runs = [found for found in configs.values() if isinstance(found, RunConfig)]
    if len(runs) < len(configs) or not all(record_path(run.runs_dir, identity_of(run)).exists() for run in runs):
        return False
    try:
        plans = map(RunPlan.of, runs)
        return all(decide(plan.path, plan.hashed) == "skip" and not plan.left_behind for plan in plans)
    except (InputError, RecordConflict, RecordUnreadable, OSError):
        return False


def records_to_write(configs: Mapping[str, RunConfig | str]) -> dict[Path, int | None]:
    """The records that a sweep has yet to write, each with the time of the failed one that it replaces."""
    records = {}
    for run in configs.values():
        if isinstance(run, RunConfig):
            path = record_path(run.runs_dir, identity_of(run)).absolute()
            before = _written(path)
            if before is None or (run.retry_failed and _has_failed(path)):
                records[path] = before
    return records


def _has_failed(path: Path) -> bool:
    try:
        return read_record(path).status == "failed"
    except (OSError, RecordUnreadable):
        return False


def progress(total: int, left: int, ended: int, under_way: int, elapsed: float) -> str:
    """How many runs are done, and about how long the others will take.

    Args:
        total: runs of the sweep.
        left: runs that have not ended.
        ended: runs that have ended since the sweep began; the others were done before.
        under_way: runs that have begun, of those left.
        elapsed: seconds since the sweep began.
    """
    text = f"{total - left} of {total} done"
    if not left:
        return text
    begun = under_way / 2  # counted as half done
    return f"{text}, about {duration(elapsed * (left - begun) / (max(ended, 1) + begun))} left"


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
