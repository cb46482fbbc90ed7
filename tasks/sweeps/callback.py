"""Hydra callback for sweeps: prints a line for each run that ends, and about how long the others will take."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import socket
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from elmo.common.durations import duration
from elmo.common.errors import InputError
from elmo.common.files import expanded
from elmo.common.progress import Reporter
from results.records.identity import record_path
from results.records.record import RecordConflict, RecordUnreadable, decide, timestamp
from results.records.run_lock import Process
from results.records.sweep_manifest import Manifest, write_manifest
from tasks.running.config import RunConfig, run_config
from tasks.running.experiment import Ended, RunFailed
from tasks.running.plan import RunPlan, identity_of
from tasks.sweeps.remote_lines import Notices, leave, terminal

Event = Literal["started", "finished", "skipped", "elsewhere", "failed", "failed before"]
ENDS: tuple[Event, ...] = ("finished", "skipped", "elsewhere", "failed", "failed before")
TITLE_WIDTH = 30  # so that the scores of most runs stand below each other


class _Told(JobReturn):
    """What Hydra keeps of a run that has said why it failed: Hydra's own line would only list the overrides."""

    @property  # type: ignore[misc]
    def return_value(self) -> Any:  # noqa: ANN401
        raise self._return_value


class Sweep(Callback):
    """Prints one line when a run of a sweep ends; Hydra calls it (hydra.callbacks in conf/config.yaml).

    Launchers send a copy of it along with every run, to other processes or machines. The copies count together in one
    file next to the records, a letter for each event: appending a letter needs no lock, and where it landed says how
    many came before. Lines of runs that do not share this terminal go through a second file
    (tasks/sweeps/remote_lines.py).
    """

    latest: ClassVar[Sweep | None] = None  # of this process, for main(): Hydra keeps its callbacks to itself

    def __init__(self) -> None:
        self._total: int | None = None
        self._file: Path | None = None
        self._notices = Path()
        self.launcher = ""
        self._terminal = (0, 0)
        self._since = 0.0

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:  # noqa: ANN401, D102
        self._since = time.time()
        try:
            runs = runs_in(config)
            folder = Path(config.hydra.sweep.dir).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            _sweep_up(folder)
        except (OSError, OmegaConfBaseException):
            return  # Hydra is about to find the same, and main() explains it
        self._total = None if runs is None else len(runs)
        self._file = folder / _progress_name(Process.of(os.getpid()))
        _remove(self._file)  # of the same command, before one of its processes was killed
        atexit.register(_remove, self._file)  # on_multirun_end is not called when a run has failed
        self._terminal, self._notices = terminal(), _notices_of(self._file)
        Notices(self._notices).start()
        self.launcher = config.hydra.launcher._target_
        if not self.launcher.endswith((".BasicLauncher", ".JoblibLauncher")):
            # Nothing is seen of them until the first has ended, which in a queue may take hours.
            name = config.hydra.runtime.choices["hydra/launcher"]
            Reporter("sweep").warn(f"{self._total or ''} runs are handed to {name}".lstrip())
        Sweep.latest = self
        configs = configs_of(config, runs or [])
        if not configs:
            return
        try:
            write_manifest(expanded(config.runs_dir, "runs_dir"), manifest_of(config, configs))
        except OSError as error:
            Reporter("sweep").warn(f"python -m results.status will not know of it: {error}")
        if nothing_left(configs):
            Reporter("sweep").warn(f"all {len(configs)} runs were done already")
            raise SystemExit(0)  # Hydra would compose every run three times over, and start processes to skip them

    def runs_ended(self) -> int:
        """How many runs this sweep has done so far, well or badly."""
        so_far = _counted(self._file) if self._file is not None and self._file.exists() else Counter[Event]()
        return so_far["finished"] + so_far["failed"]

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:  # noqa: ANN401, D102
        if self._file is not None:
            _append(self._file, "started")

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:  # noqa: ANN401, D102
        if isinstance(job_return._return_value, RunFailed):
            job_return.__class__ = _Told  # Hydra has no other way to keep its line back
        if self._file is None:
            return  # a single run, which has said so itself
        # `return_value` would raise what the run raised.
        ended: Ended | RunFailed = job_return._return_value
        if isinstance(ended, Ended):
            so_far = _append(self._file, ended.status)
        else:
            so_far = _append(self._file, "failed before" if ended.before else "failed")
        if isinstance(ended, Ended) and ended.status == "finished":
            elapsed = time.time() - self._since
            self._say(f"{ended.title:<{TITLE_WIDTH}}", f"{ended.text}  {progress(so_far, self._total, elapsed)}")
        elif not (isinstance(ended, Ended) and ended.status == "skipped") and terminal() != self._terminal:
            self._say(" ".join(config.hydra.overrides.task), _why_not_done(ended))  # the run has said so, but not here
        if sum(so_far[end] for end in ENDS) == self._total:
            closing = summary(so_far)
            if closing:
                self._say("sweep", closing)

    def _say(self, title: str, text: str) -> None:
        """Prints a line where the sweep was started, from wherever this is."""
        if terminal() == self._terminal:
            Reporter(title).warn(text)
        else:
            leave(self._notices, f"{title}  {text}")


def _why_not_done(ended: Ended | RunFailed) -> str:
    """How a run ended that left no score now, in words."""
    if isinstance(ended, Ended):
        return "is running elsewhere"
    if ended.before:
        return "failed before, and runs again with retry=failed"
    return f"failed: {type(ended.__cause__).__name__}: {ended.__cause__}"


def runs_in(config: DictConfig) -> list[list[str]] | None:
    """The runs of a multirun, each as what it overrides, or None where only its sweeper can know."""
    sweeper = config.hydra.sweeper
    if sweeper._target_ != f"{BasicSweeper.__module__}.{BasicSweeper.__qualname__}":
        return None
    arguments = [f"{key}={value}" for key, value in (sweeper.params or {}).items()] + list(config.hydra.overrides.task)
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    (runs,) = BasicSweeper.split_arguments(parser.parse_overrides(arguments), None)
    return runs


def configs_of(config: DictConfig, runs: list[list[str]]) -> dict[str, RunConfig | str]:
    """The runs of a sweep by what they override, or why one cannot be; none where Hydra will say why and start none."""
    known: dict[tuple[str, ...], RunConfig | str] = {}  # one for all seeds: composing takes a tenth of a second
    configs: dict[str, RunConfig | str] = {}
    for overrides in runs:
        others = tuple(override for override in overrides if not override.startswith("seed="))
        if others not in known:
            try:
                tree = GlobalHydra.instance().config_loader().load_sweep_config(config, list(overrides))
                with open_dict(tree):
                    del tree["hydra"]
                known[others] = run_config(tree)
            except InputError as error:
                known[others] = str(error)
            except (HydraException, OmegaConfBaseException, AssertionError):  # the last for a key below a null
                return {}
        found = known[others]
        seeds = [int(override.partition("=")[2]) for override in overrides if override.startswith("seed=")]
        if isinstance(found, RunConfig) and seeds:
            found = replace(found, seed=seeds[-1], resolved={**found.resolved, "seed": seeds[-1]})
        configs[" ".join(overrides)] = found
    return configs


def manifest_of(config: DictConfig, configs: Mapping[str, RunConfig | str]) -> Manifest:
    """The names of a sweep's runs, for those who ask where it stands."""
    identities = [identity_of(found) for found in configs.values() if isinstance(found, RunConfig)]
    # The same runs are the same sweep, whichever keys beside it say where they take place.
    digest = hashlib.sha256("\n".join(identity.title for identity in identities).encode()).hexdigest()[:8]
    return Manifest(
        name=config.hydra.runtime.choices.get("experiment") or f"sweep-{digest}",
        command=shlex.join(["python", "-m", "tasks.run", "-m", *config.hydra.overrides.task]),
        runs=identities,
        refused=[f"{overrides}: {found}" for overrides, found in configs.items() if not isinstance(found, RunConfig)],
        started_at=timestamp(),
    )


def nothing_left(configs: Mapping[str, RunConfig | str]) -> bool:
    """Whether every run is done and tidied up; one whose record is of another kind will say more of it itself."""
    runs = [found for found in configs.values() if isinstance(found, RunConfig)]
    if len(runs) < len(configs) or not all(record_path(run.runs_dir, identity_of(run)).exists() for run in runs):
        return False
    try:
        plans = map(RunPlan.of, runs)
        return all(decide(plan.path, plan.hashed) == "skip" and not plan.left_behind for plan in plans)
    except (InputError, RecordConflict, RecordUnreadable, OSError):
        return False


def progress(so_far: Counter[Event], total: int | None, elapsed: float) -> str:
    """How many runs are done, and about how long the others will take after `elapsed` seconds."""
    ended = sum(so_far[end] for end in ENDS)
    done = ended - so_far["elsewhere"]
    text = f"{done} done" if total is None else f"{done} of {total} done"
    failed = so_far["failed"] + so_far["failed before"]
    text += f", {failed} failed" * bool(failed)
    text += f", {so_far['elsewhere']} running elsewhere" * bool(so_far["elsewhere"])
    if total is None or ended == total:
        return text
    # Runs under way count as half done. Skipped ones cost nothing, and tell nothing about the others.
    under_way = (so_far["started"] - ended) / 2
    seconds = elapsed * max(total - ended - under_way, 0) / (so_far["finished"] + so_far["failed"] + under_way)
    return f"{text}, about {duration(seconds)} left"


def summary(so_far: Counter[Event]) -> str:
    """The last line, where it says more than the lines of the runs have: what was skipped, what failed."""
    parts = [f"{so_far['finished']} runs finished"]
    if so_far["skipped"]:
        parts.append(f"{so_far['skipped']} were done already")
    if so_far["elsewhere"]:
        parts.append(f"{so_far['elsewhere']} are running elsewhere")
    if so_far["failed"]:
        parts.append(f"{so_far['failed']} failed")
    if so_far["failed before"]:
        parts.append(f"{so_far['failed before']} had failed before")
    if so_far["failed"] or so_far["failed before"]:
        parts[-1] += "; retry=failed runs those again"
    return ", ".join(parts) if len(parts) > 1 else ""


LETTERS: dict[str, Event] = {
    "+": "started",
    "f": "finished",
    "s": "skipped",
    "e": "elsewhere",
    "x": "failed",
    "b": "failed before",
}


def _append(file: Path, event: Event) -> Counter[Event]:
    """Writes the event down; what comes out is how often each kind has happened up to this one."""
    letter = next(letter for letter, meaning in LETTERS.items() if meaning == event)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, letter.encode())
        length = os.lseek(descriptor, 0, os.SEEK_CUR)
        letters = os.pread(descriptor, length, 0).decode()
    finally:
        os.close(descriptor)
    return Counter(LETTERS[letter] for letter in letters)


def _counted(file: Path) -> Counter[Event]:
    """How often each kind has happened so far."""
    return Counter(LETTERS[letter] for letter in file.read_text(encoding="ascii"))


def _progress_name(process: Process) -> str:
    return f"progress-{socket.gethostname()}-{process.pid}-{process.born}"


def _sweep_up(folder: Path) -> None:
    """Removes what killed sweeps of this machine have left."""
    for left in folder.glob("*.partial"):
        _remove(left)
    here = Process.of(os.getpid()).machine
    for left in folder.glob("progress-*"):
        parts = re.fullmatch(rf"progress-{re.escape(socket.gethostname())}-(\d+)-(\w+)", left.name)
        if parts and not Process(int(parts[1]), None if parts[2] == "None" else parts[2], here).alive():
            _remove(left)
            _remove(_notices_of(left))


def _notices_of(progress: Path) -> Path:
    return progress.with_name(progress.name.replace("progress", "notices", 1))


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
