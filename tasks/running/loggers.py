"""Who follows a run while it goes on: nobody, or Weights & Biases. The record is the truth; none can fail a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from elmo.common.errors import InputError
from elmo.common.progress import Reporter

NAMES = ("none", "wandb")
MODES = ("online", "offline", "disabled")
FOLDER = ".wandb"  # below runs_dir
LONGEST = 64  # letters of a tag; names and groups may have twice as many


@dataclass
class LoggerConfig:
    """Where a run is logged to beside its record; conf/logger/ has the choices."""

    name: str = "none"
    mode: str = "online"
    project: str = "elmo-benchmark"
    entity: str | None = None

    def check(self) -> None:
        """Raises an InputError for a value that cannot be meant."""
        for key, value, known in (("name", self.name, NAMES), ("mode", self.mode, MODES)):
            if value not in known:
                raise InputError(f"logger.{key}: expected {', '.join(known[:-1])} or {known[-1]}, found {value!r}")


@dataclass(frozen=True)
class Logged:
    """What a logger is told of a run at its start.

    Attributes:
        id: the same for a run that goes on after it was stopped.
        title: the run's name.
        group: what it shares with its other seeds.
        tags: what to find it by.
        settings: its whole config.
        runs_dir: below which all that a logger writes must lie.
    """

    id: str
    title: str
    group: str
    tags: tuple[str, ...]
    settings: Mapping[str, Any]
    runs_dir: Path


class Logger:
    """Follows a run and does nothing with it; leaving the `with` block ends it."""

    def epoch(self, values: Mapping[str, float]) -> None:
        """Takes what one epoch has come to."""

    def final(self, values: Mapping[str, object]) -> None:
        """Takes what the record says in the end."""

    def __enter__(self) -> Logger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends it; `kind` is set where the run failed or was stopped."""


class WandbLogger(Logger):
    """Follows a run on Weights & Biases, until something goes wrong there."""

    def __init__(self, config: LoggerConfig, run: Logged, reporter: Reporter) -> None:
        self._reporter = reporter
        self._run: Any = None
        self._attempt(lambda: self._start(config, run))

    def epoch(self, values: Mapping[str, float]) -> None:
        """Streams one epoch's values."""
        if self._run is not None:
            self._attempt(lambda: self._run.log(dict(values)))

    def final(self, values: Mapping[str, object]) -> None:
        """Writes the record's values into the summary."""
        if self._run is not None:
            self._attempt(lambda: self._run.summary.update(dict(values)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends it, as failed where the block was left by an exception."""
        if self._run is not None:
            self._attempt(lambda: self._run.finish(exit_code=0 if kind is None else 1))

    def _start(self, config: LoggerConfig, run: Logged) -> None:
        folder = (run.runs_dir / FOLDER).absolute()
        folder.mkdir(parents=True, exist_ok=True)  # otherwise wandb writes to the system's temporary folder
        os.environ.setdefault("WANDB_CACHE_DIR", str(folder / "cache"))  # its logs; read when wandb is first imported
        import wandb  # takes a second, which those who do without it should not pay

        self._run = wandb.init(
            id=run.id,
            name=run.title[: 2 * LONGEST],
            group=run.group[: 2 * LONGEST],
            tags=[tag[:LONGEST] for tag in run.tags],
            config=dict(run.settings),
            project=config.project,
            entity=config.entity,
            mode=config.mode,  # type: ignore[arg-type]  # one of MODES
            dir=str(folder),
            resume="allow" if config.mode == "online" else None,  # offline files of one id are joined when sent
            settings=wandb.Settings(silent=True, console="off", login_timeout=30),
        )
        self._run.define_metric("*", step_metric="epoch")  # also where epochs are trained once more

    def _attempt(self, action: Callable[[], object]) -> None:
        """Does it; a failure is told once, and nothing is logged from then on."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - another program's faults, of any kind, must not cost a day of training
            self._run = None
            self._reporter.warn(f"warning: wandb: {type(error).__name__}: {error}; the run goes on without it")


def make_logger(config: LoggerConfig, run: Logged, reporter: Reporter) -> Logger:
    """The logger that the config names."""
    return WandbLogger(config, run, reporter) if config.name == "wandb" else Logger()
