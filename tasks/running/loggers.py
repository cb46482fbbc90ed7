"""Experiment loggers: Weights & Biases, TensorBoard or none. A logger that fails does not stop the run."""

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from elmo.common.errors import interrupts_kept, reworded
from elmo.common.progress import Reporter
from tasks.running.config import Run
from tasks.running.schema import LoggerConfig

LONGEST = 64  # characters of a tag on Weights & Biases; names and groups may have twice as many
WANDB_FOLDER, TENSORBOARD_FOLDER = ".wandb", ".tensorboard"  # below runs_dir


class _OnWandb:
    """A run on Weights & Biases: each epoch's values, and the summary of the record."""

    def __init__(self, run: Run) -> None:
        config, name = run.logger, run.identity
        folder = (run.runs_dir / WANDB_FOLDER).absolute()
        folder.mkdir(parents=True, exist_ok=True)  # otherwise wandb writes to the system's temporary folder
        os.environ.setdefault("WANDB_CACHE_DIR", str(folder / "cache"))  # read when wandb is first imported
        import wandb  # imported only when used: it takes a second

        self._run = wandb.init(
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
        self._run.define_metric("*", step_metric="epoch")  # also if a resumed run trains an epoch again

    def epoch(self, values: Mapping[str, float]) -> None:
        self._run.log(dict(values))

    def final(self, values: Mapping[str, Any]) -> None:
        self._run.summary.update(dict(values))

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class _OnTensorboard:
    """A run for TensorBoard: each epoch's values, in double precision, the scores and the summary of the record.

    A resumed run adds an event file, which TensorBoard reads as one with the first.
    """

    def __init__(self, run: Run) -> None:
        remedy = "in the checkout, pip install -e '.[tensorboard]'"
        with reworded(ImportError, lambda error: f"TensorBoard is not installed ({error}): {remedy}"):
            from torch.utils.tensorboard import SummaryWriter  # imported only when used: it takes seconds
        folder = run.path.parent.relative_to(run.runs_dir)
        self._writer = SummaryWriter(str(run.runs_dir / TENSORBOARD_FOLDER / folder))
        self._text("settings", run.resolved)
        self._epoch = 0

    def _values(self, values: Mapping[str, float | None], prefix: str = "") -> None:
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(prefix + name, value, self._epoch, new_style=True, double_precision=True)

    def _text(self, name: str, content: Mapping[str, Any]) -> None:
        self._writer.add_text(name, f"```\n{json.dumps(content, indent=1, default=str)}\n```")

    def epoch(self, values: Mapping[str, float]) -> None:
        self._epoch = int(values["epoch"])
        self._values({name: value for name, value in values.items() if name != "epoch"})

    def final(self, values: Mapping[str, Any]) -> None:
        for split, scores in values["scores"].items():
            self._values(scores, f"{split}/")
        self._text("record", values)

    def close(self, failed: bool) -> None:
        self._writer.close()


def advice(config: LoggerConfig, runs_dir: Path) -> str:
    """The commands for files that loggers of runs have left; empty if there are none."""
    if config.name == "wandb" and config.mode == "offline":
        folder = shlex.quote(str(runs_dir / WANDB_FOLDER / "wandb"))
        return f"To send the runs to Weights & Biases: wandb sync {folder}/offline-run-*"
    if config.name == "tensorboard":
        return f"To see the curves: {shlex.join(['tensorboard', '--logdir', str(runs_dir / TENSORBOARD_FOLDER)])}"
    return ""


class Logger:
    """Logs a run until something fails, or nothing at all with logger=none; a context manager."""

    def __init__(self, run: Run, reporter: Reporter) -> None:
        self._run = run
        self._reporter = reporter
        self._log: _OnWandb | _OnTensorboard | None = None
        if run.logger.name != "none":
            with self._giving_up():
                self._log = _OnWandb(run) if run.logger.name == "wandb" else _OnTensorboard(run)

    def epoch(self, values: Mapping[str, float]) -> None:
        """Logs the values of one epoch."""
        if self._log is not None:
            with self._giving_up():
                self._log.epoch(values)

    def final(self, values: Mapping[str, Any]) -> None:
        """Logs the summary of the final record."""
        if self._log is not None:
            with self._giving_up():
                self._log.final(values)

    def __enter__(self) -> "Logger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the log, as failed if the block ended with an exception, and prints what to do with its files."""
        if self._log is not None:
            with self._giving_up():
                self._log.close(failed=kind is not None)
                if what_to_do := advice(self._run.logger, self._run.runs_dir):
                    self._reporter.say(what_to_do)

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """If the block fails, warns once and logs nothing more."""
        try:
            with interrupts_kept():
                yield
        except Exception as error:  # noqa: BLE001 (no fault of a logger may stop the training)
            self._log = None
            failure = f"{self._run.logger.name}: {type(error).__name__}: {error}"
            self._reporter.warn(f"warning: {failure}; the run continues without it")
