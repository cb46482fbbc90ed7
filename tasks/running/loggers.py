"""What runs send to Weights & Biases. A failure there does not stop the run."""

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from elmo.common.errors import interrupts_kept
from elmo.common.progress import Reporter
from tasks.running.config import Run
from tasks.running.schema import LoggerConfig

LONGEST = 64  # characters of a tag on Weights & Biases; names and groups may have twice as many
WANDB_FOLDER = ".wandb"  # below runs_dir


def _started(run: Run) -> Any:  # noqa: ANN401 (imported only when used: it takes a second)
    """The run on Weights & Biases."""
    config, name = run.logger, run.identity
    folder = (run.runs_dir / WANDB_FOLDER).absolute()
    folder.mkdir(parents=True, exist_ok=True)  # otherwise wandb writes to the system's temporary folder
    os.environ.setdefault("WANDB_CACHE_DIR", str(folder / "cache"))  # read when wandb is first imported
    import wandb

    started = wandb.init(
        project=config.project,
        dir=str(folder),
        config=dict(run.resolved),
        entity=config.entity,
        mode=config.mode,  # type: ignore[arg-type]  # checked
        id=run.fingerprint[:16],  # stays the same when a stopped run is resumed
        name=name.title[: 2 * LONGEST],
        group=name.title.replace(f" seed {name.seed}", "", 1)[: 2 * LONGEST],
        tags=[tag[:LONGEST] for tag in (name.data, name.task, name.features)],
        resume="allow" if config.mode == "online" else None,  # `wandb sync` joins offline files of one id
        settings=wandb.Settings(silent=True, console="off", login_timeout=30),
    )
    started.define_metric("*", step_metric="epoch")  # also if a resumed run trains an epoch again
    return started


def advice(config: LoggerConfig, runs_dir: Path) -> str:
    """The command for files that a run without a connection has left; empty if there are none."""
    if config.name != "wandb" or config.mode != "offline":
        return ""
    folder = shlex.quote(str(runs_dir / WANDB_FOLDER / "wandb"))
    return f"To send the runs to Weights & Biases: wandb sync {folder}/offline-run-*"


class Logger:
    """Logs a run until something fails, or nothing at all with logger=none; a context manager."""

    def __init__(self, run: Run, reporter: Reporter) -> None:
        self._run = run
        self._reporter = reporter
        # The run on Weights & Biases.
        self._log: Any = None if run.logger.name == "none" else self._attempt(lambda: _started(run))

    def epoch(self, values: Mapping[str, float]) -> None:
        """Logs the values of one epoch."""
        if self._log is not None:
            self._attempt(lambda: self._log.log(dict(values)))

    def final(self, values: Mapping[str, Any]) -> None:
        """Logs the summary of the final record."""
        if self._log is not None:
            self._attempt(lambda: self._log.summary.update(dict(values)))

    def __enter__(self) -> "Logger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the log, as failed if the block ended with an exception, and prints what to do with its files."""
        if self._log is not None:
            self._attempt(lambda: self._log.finish(exit_code=int(kind is not None)))
        if self._log is not None and (what_to_do := advice(self._run.logger, self._run.runs_dir)):
            self._reporter.say(what_to_do)

    def _attempt(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 (wandb is imported only when used)
        """The result of the work; if it fails, warns once and logs nothing more."""
        try:
            with interrupts_kept():
                return work()
        except Exception as error:  # noqa: BLE001 (no fault of a logger may stop the training)
            self._log = None
            failure = f"{self._run.logger.name}: {type(error).__name__}: {error}"
            self._reporter.warn(f"warning: {failure}; the run continues without it")
            return None
