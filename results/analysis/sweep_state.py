"""Where the runs of a sweep stand, from what lies in the folder: its list of runs, the records, the locks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

from results.records.collect import Found, collect
from results.records.identity import RECORD_NAME, Identity, record_path
from results.records.run_lock import LOCK_NAME, SILENCE, Owner, read_lock, silence
from results.records.sweep_manifest import Manifest, read_manifests

State = Literal["done", "running", "failed", "missing"]
STATES: tuple[State, ...] = ("done", "running", "failed", "missing")


@dataclass(frozen=True)
class RunState:
    """Where one run stands.

    Attributes:
        title: The run's name.
        kind: What runs that take about as long have in common: data, task and features.
        state: "missing" is one that nobody has begun, or that was stopped.
        seconds: How long it has taken so far.
        epoch: The last epoch that is over, of a run under way.
        epochs: The most there may be.
        note: The last line of the error, who is at work on it, or how far a stopped one has come.
    """

    title: str
    kind: tuple[str, ...]
    state: State
    seconds: float = 0.0
    epoch: int = 0
    epochs: int = 0
    note: str = ""


@dataclass(frozen=True)
class SweepState:
    """Where a sweep stands, or, without a name, all runs of a folder that are part of none.

    `alive` says whether its process still exists and may start what is missing; None if that cannot be seen from here.
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
        """What all runs have taken so far, side by side or not."""
        return sum(run.seconds for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """About how long it will take with as many runs at once as now, or one; None before any run has ended."""
        done: dict[tuple[str, ...], list[float]] = {}
        for run in self.runs:
            if run.state == "done":
                for shared in (run.kind, run.kind[:2], ()):  # alike, of the same task, any
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
    """All that is to be seen below one folder.

    Attributes:
        sweeps: In the order in which they were started; at the end the runs that are part of none, if there are any.
        problems: What could not be read, a line each.
    """

    sweeps: Sequence[SweepState]
    problems: Sequence[str] = field(default_factory=list)


def look(runs_dir: Path) -> Overview:
    """The state of every sweep and every run below a folder."""
    manifests, problems = read_manifests(runs_dir)
    collection = collect([runs_dir])
    problems += [finding.text for finding in collection.findings if finding.wrong]
    records = {_name(item.record.identity): item for item in collection.found}
    locks = {path.parent: owner for path in sorted(runs_dir.rglob(LOCK_NAME)) if (owner := read_lock(path)) is not None}
    sweeps = [_sweep(runs_dir, manifest, records, locks) for manifest in manifests]
    listed = {_name(identity) for manifest in manifests for identity in manifest.runs}
    others = [
        _state(item.record.identity, item.path.parent, item, locks)
        for name, item in records.items()
        if name not in listed
    ]
    seen = {runs_dir / name for name in listed} | {item.path for item in records.values()}
    for folder, owner in locks.items():
        if folder / RECORD_NAME not in seen:
            title = owner.title or folder.relative_to(runs_dir).as_posix()
            others.append(_under_way(title, folder.relative_to(runs_dir).parts[:3], folder, owner))
    if others:
        sweeps.append(SweepState("", "", "", others))
    return Overview(sweeps, problems)


def _sweep(
    runs_dir: Path, manifest: Manifest, records: Mapping[Path, Found], locks: Mapping[Path, Owner]
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


def _state(identity: Identity, folder: Path, found: Found | None, locks: Mapping[Path, Owner]) -> RunState:
    kind = (identity.data, identity.task, identity.features)
    record = found.record if found else None
    if record is not None and record.status == "finished":
        return RunState(identity.title, kind, "done", record.seconds or 0.0)
    if folder in locks:
        state = _under_way(identity.title, kind, folder, locks[folder])
        if state.state == "running" or record is None:
            return state
    if record is not None and record.error is not None:
        return RunState(identity.title, kind, "failed", record.seconds or 0.0, note=record.error.last_line)
    if record is None and (folder / RECORD_NAME).exists():
        return RunState(identity.title, kind, "failed", note=f"{folder / RECORD_NAME} cannot be read")
    return RunState(identity.title, kind, "missing")


def _under_way(title: str, kind: tuple[str, ...], folder: Path, owner: Owner) -> RunState:
    """A run with a lock: running, or stopped together with its owner."""
    alive = owner.process.alive()
    quiet = 0.0
    if alive is None:
        try:
            quiet = abs(silence(folder / LOCK_NAME))  # a clock that was moved is no sign of life
        except OSError:
            quiet = 0.0  # given back a moment ago
        alive = quiet <= SILENCE
    note = str(owner)
    if not alive:
        stopped = f"stopped in epoch {owner.epoch + 1} of {owner.epochs}"
        note = f"silent for {quiet:.0f} s: {owner}" if quiet else stopped
        return RunState(title, kind, "missing", 0.0, owner.epoch, owner.epochs, note)
    return RunState(title, kind, "running", owner.seconds, owner.epoch, owner.epochs, note)


def _name(identity: Identity) -> Path:
    """The identity as its path has it, which is how two that read alike are one."""
    return record_path(Path(), identity)
