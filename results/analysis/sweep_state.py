"""State of sweeps and their runs, from the files in a folder: lists of runs, records and locks."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

from results.analysis.rows import MINI
from results.experiments.experiment import Experiment
from results.experiments.runs_of_cells import runs_of_cells
from results.records.collect import FoundRecord, collect
from results.records.identity import CHECKPOINT_NAME, RECORD_NAME, Identity, record_path
from results.records.run_lock import LOCK_NAME, SILENCE, Owner, read_lock, silence
from results.records.sweep_manifest import DEFAULT_RUNS, Manifest, hydra_value, read_manifests, typed_places

State = Literal["done", "running", "failed", "missing"]
STATES: tuple[State, ...] = ("done", "running", "failed", "missing")
STOPPED = "stopped"  # the note on a run that has a checkpoint; its lock would say how far it got


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

    `alive` says whether the sweep's process still exists and may start missing runs; None if it is on another machine.
    """

    name: str
    command: str
    started_at: str
    runs: Sequence[RunState]
    alive: bool | None = False

    @property
    def counts(self) -> dict[State, int]:
        """How many runs there are in each state."""
        return {state: sum(run.state == state for run in self.runs) for state in STATES}

    @property
    def seconds_spent(self) -> float:
        """The total time of all runs so far."""
        return sum(run.seconds for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """An estimate with as many parallel runs as now, at least one; None before any run has finished."""
        done: dict[tuple[str, ...], list[float]] = {}
        for run in self.runs:
            if run.state == "done":
                for shared in (run.kind, run.kind[:2], ()):  # the same kind, the same task, any
                    done.setdefault(shared, []).append(run.seconds)
        if not done:
            return None
        left = 0.0
        for run in self.runs:
            if run.state in ("running", "missing"):
                usual = next(fmean(done[shared]) for shared in (run.kind, run.kind[:2], ()) if shared in done)
                left += max(usual - run.seconds, 0.0)
        return left / max(self.counts["running"], 1)


@dataclass(frozen=True)
class Overview:
    """All sweeps and runs below one folder.

    Attributes:
        sweeps: In the order of their start; last the runs that belong to no sweep, if there are any.
        problems: One line for each file that could not be read.
    """

    sweeps: Sequence[SweepState]
    problems: Sequence[str] = field(default_factory=list)


def overview_of(runs_dir: Path, experiment: Experiment | None) -> Overview:
    """The state of every sweep and every run below a folder.

    Args:
        runs_dir: The folder.
        experiment: Shown as a sweep even if none was started with this folder, with the runs that are there already.
    """
    manifests, problems = read_manifests(runs_dir)
    collection = collect([runs_dir])
    if experiment and experiment.sweep_name not in [manifest.name for manifest in manifests]:
        manifests.append(_not_started(runs_dir, experiment, collection.found))
    problems += [finding.text for finding in collection.findings if finding.wrong]
    records = {_name(item.record.identity): item for item in collection.found}
    locks = {path.parent: owner for path in sorted(runs_dir.rglob(LOCK_NAME)) if (owner := read_lock(path)) is not None}
    manifests = [manifest for manifest in manifests if manifest.runs or manifest.refused]  # others are of single runs
    sweeps = [_sweep(runs_dir, manifest, records, locks) for manifest in manifests]
    listed = {_name(identity) for manifest in manifests for identity in manifest.runs}
    others = [
        _state(item.record.identity, item.path.parent, item, locks)
        for name, item in records.items()
        if name not in listed
    ]
    seen = {runs_dir / name for name in listed} | {item.path for item in records.values()}
    checkpoints = [path.parent for path in sorted(runs_dir.rglob(CHECKPOINT_NAME))]
    for folder in dict.fromkeys([*locks, *checkpoints]):
        if folder / RECORD_NAME not in seen:
            others.append(_unnamed_state(runs_dir, folder, locks.get(folder)))
    if others:
        sweeps.append(SweepState("", "", "", others))
    return Overview(sweeps, problems)


def _not_started(runs_dir: Path, experiment: Experiment, found: Sequence[FoundRecord]) -> Manifest:
    """The list of an experiment's runs, as its sweep would write it, with the names that records have."""
    filled = zip(experiment.cells, runs_of_cells(found, experiment.cells), strict=True)
    runs = [items[0].record.identity if items else cell.identity for cell, items in filled]
    places = replace(typed_places(runs_dir), runs_dir=str(runs_dir) if runs_dir != DEFAULT_RUNS else "")
    shipped = all(identity.data == MINI for identity in runs)
    words = [f"experiment={hydra_value(experiment.name)}", *places.words(shipped)]
    return Manifest(experiment.sweep_name, shlex.join(["python", "-m", "tasks.run", "-m", *words]), runs)


def _sweep(
    runs_dir: Path, manifest: Manifest, records: Mapping[Path, FoundRecord], locks: Mapping[Path, Owner]
) -> SweepState:
    runs = [
        _state(identity, record_path(runs_dir, identity).parent, records.get(_name(identity)), locks)
        for identity in manifest.runs
    ]
    for refused in manifest.refused:
        overrides, _, reason = refused.partition(": ")
        runs.append(RunState(overrides, (), "failed", note=reason))
    alive = manifest.process.alive() if manifest.process else None
    return SweepState(manifest.name, manifest.command, manifest.started_at, runs, alive)


def _state(identity: Identity, folder: Path, found: FoundRecord | None, locks: Mapping[Path, Owner]) -> RunState:
    kind = (identity.data, identity.task, identity.features)
    record = found.record if found else None
    if record is not None and record.status == "finished":
        return RunState(identity.title, kind, "done", record.seconds or 0.0)
    if folder in locks:
        state = _locked_state(identity.title, kind, folder, locks[folder])
        if state.state == "running" or record is None:
            return state
    if record is not None and record.error is not None:
        return RunState(identity.title, kind, "failed", record.seconds or 0.0, note=record.error.last_line)
    if record is None and (folder / RECORD_NAME).exists():
        return RunState(identity.title, kind, "failed", note=f"{folder / RECORD_NAME} cannot be read")
    return RunState(identity.title, kind, "missing", note=STOPPED if (folder / CHECKPOINT_NAME).exists() else "")


def _unnamed_state(runs_dir: Path, folder: Path, owner: Owner | None) -> RunState:
    """The state of a run that no record or sweep names: it has a lock, or a checkpoint if it was stopped."""
    place = folder.relative_to(runs_dir)
    title, kind = place.as_posix(), place.parts[:3]
    if owner is None:
        return RunState(title, kind, "missing", note=STOPPED)
    return _locked_state(owner.title or title, kind, folder, owner)


def _locked_state(title: str, kind: tuple[str, ...], folder: Path, owner: Owner) -> RunState:
    """The state of a run with a lock: running, or stopped if the lock's owner is gone."""
    alive = owner.process.alive()
    quiet = 0.0
    if alive is None:
        with suppress(OSError):  # released a moment ago
            quiet = abs(silence(folder / LOCK_NAME))  # a time in the future is no sign of life either
        alive = quiet <= SILENCE
    if not alive:
        trained = owner.epochs > 0 and owner.epoch >= owner.epochs
        stopped = "stopped after its last epoch" if trained else f"stopped in epoch {owner.epoch + 1} of {owner.epochs}"
        note = f"silent for {quiet:.0f} s: {owner}" if quiet else stopped
        return RunState(title, kind, "missing", 0.0, owner.epoch, owner.epochs, note)
    return RunState(title, kind, "running", owner.seconds, owner.epoch, owner.epochs, str(owner), owner.best)


def _name(identity: Identity) -> Path:
    """The relative path of the record: equal for identities that are written alike."""
    return record_path(Path(), identity)
