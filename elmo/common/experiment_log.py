"""Experiment logs: runs on Weights & Biases, event files of TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from elmo.common.errors import InputError

LONGEST = 64  # characters of a tag; names and groups may have twice as many


def check_project(project: str) -> None:
    """Raises an InputError unless this can be the name of a project of wandb."""
    import wandb

    try:
        wandb.Settings(project=project)
    except wandb.errors.UsageError as error:
        raise InputError(f"wandb: {error}. Choose another name") from error


def start_wandb(
    project: str,
    folder: Path,
    config: Mapping[str, Any],
    *,
    entity: str | None = None,
    mode: Literal["online", "offline", "disabled"] | None = None,
    run_id: str | None = None,
    name: str | None = None,
    group: str | None = None,
    tags: Sequence[str] = (),
    quiet: bool = False,
) -> Any:  # noqa: ANN401 (wandb.Run, whose module is imported only here)
    """Starts a wandb run; the caller logs to it and finishes it. Texts are cut to the lengths that wandb allows.

    Args:
        project: to log to.
        folder: for the files of wandb.
        config: settings to show with the run.
        entity: user or team; None is the user's default.
        mode: None means $WANDB_MODE, else online.
        run_id: stays the same when a stopped run is resumed.
        name: of the run; wandb makes one up if it is None.
        group: of runs that belong together.
        tags: of the run.
        quiet: wandb prints nothing, and captures nothing that the run prints.

    Raises:
        InputError: wandb cannot start, for example because nobody has logged in.
    """
    import wandb  # imported only when used: it takes a second

    try:
        return wandb.init(
            project=project,
            dir=str(folder),
            config=dict(config),
            entity=entity,
            mode=mode,
            id=run_id,
            name=name and name[: 2 * LONGEST],
            group=group and group[: 2 * LONGEST],
            tags=[tag[:LONGEST] for tag in tags] or None,
            resume="allow" if mode == "online" else None,  # `wandb sync` joins offline files of one id
            settings=wandb.Settings(silent=True, console="off", login_timeout=30) if quiet else None,
        )
    except wandb.errors.Error as error:
        raise InputError(
            f"wandb cannot start: {str(error).rstrip('.')}. Run `wandb login`, or set WANDB_MODE=offline"
        ) from error


class EventFile:
    """An event file for `tensorboard --logdir`, with values in double precision.

    Args:
        folder: for the file; made if absent. A resumed run adds a file, which TensorBoard reads as one with the first.
        config: settings, shown as the text `settings`.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # imported only when used: it takes seconds
        except ImportError as error:
            raise InputError(
                f"TensorBoard is not installed ({error}): in the checkout, pip install -e '.[tensorboard]'"
            ) from error
        self._writer = SummaryWriter(str(folder))
        self.text("settings", config)

    def values(self, values: Mapping[str, float | None], step: int) -> None:
        """Adds values of one step by their names; None means no value."""
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, step, new_style=True, double_precision=True)

    def text(self, name: str, content: Mapping[str, Any]) -> None:
        """Adds plain values as JSON."""
        self._writer.add_text(name, f"```\n{json.dumps(content, indent=1, default=str)}\n```")

    def close(self) -> None:
        """Writes the remaining values."""
        self._writer.close()
