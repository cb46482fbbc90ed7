"""Experiment loggers: none, or Weights & Biases. A failing logger never fails a run; the record has everything."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from elmo.common.errors import InputError
from elmo.common.experiment_log import start_wandb
from elmo.common.progress import Reporter

NAMES = ("none", "wandb")
MODES = ("online", "offline", "disabled")
FOLDER = ".wandb"  # below runs_dir


@dataclass
class LoggerConfig:
    """Where a run is logged in addition to its record; conf/logger/ has the choices."""

    name: str = "none"
    mode: str = "online"
    project: str = "elmo-benchmark"
    entity: str | None = None

    def check(self) -> None:
        """Raises an InputError for an unknown name or mode."""
        for key, value, known in (("name", self.name, NAMES), ("mode", self.mode, MODES)):
            if value not in known:
                raise InputError(f"logger.{key}: expected {', '.join(known[:-1])} or {known[-1]}, found {value!r}")


@dataclass(frozen=True)
class Logged:
    """What a logger needs to know about a run.

    Attributes:
        id: stays the same when a stopped run is resumed.
        title: the run's name.
        group: the name without the seed.
        tags: dataset, task and features.
        settings: the whole config.
        runs_dir: the folder for everything that a logger writes.
    """

    id: str
    title: str
    group: str
    tags: tuple[str, ...]
    settings: Mapping[str, Any]
    runs_dir: Path


class Logger:
    """Logs a run until something fails, or nothing at all with logger=none; a context manager."""

    def __init__(self, config: LoggerConfig, run: Logged, reporter: Reporter) -> None:
        self._reporter = reporter
        self._run: Any = None  # of wandb
        if config.name == "wandb":
            self._attempt(lambda: self._start(config, run))

    def epoch(self, values: Mapping[str, float]) -> None:
        """Logs the values of one epoch."""
        if self._run is not None:
            self._attempt(lambda: self._run.log(dict(values)))

    def final(self, values: Mapping[str, object]) -> None:
        """Logs the summary of the final record."""
        if self._run is not None:
            self._attempt(lambda: self._run.summary.update(dict(values)))

    def __enter__(self) -> Logger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the wandb run, as failed if the block ended with an exception."""
        if self._run is not None:
            self._attempt(lambda: self._run.finish(exit_code=0 if kind is None else 1))

    def _start(self, config: LoggerConfig, run: Logged) -> None:
        folder = (run.runs_dir / FOLDER).absolute()
        folder.mkdir(parents=True, exist_ok=True)  # otherwise wandb writes to the system's temporary folder
        os.environ.setdefault("WANDB_CACHE_DIR", str(folder / "cache"))  # read when wandb is first imported
        self._run = start_wandb(
            config.project,
            folder,
            run.settings,
            entity=config.entity,
            mode=config.mode,  # type: ignore[arg-type]  # one of MODES
            run_id=run.id,
            name=run.title,
            group=run.group,
            tags=run.tags,
            quiet=True,
        )
        self._run.define_metric("*", step_metric="epoch")  # also if a resumed run trains an epoch again

    def _attempt(self, action: Callable[[], object]) -> None:
        """Calls `action`; if it fails, warns once and logs nothing more."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 (no fault of wandb may stop the training)
            self._run = None
            self._reporter.warn(f"warning: wandb: {type(error).__name__}: {error}; the run continues without it")
