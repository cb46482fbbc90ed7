"""Event files of TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo.common.errors import InputError


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
