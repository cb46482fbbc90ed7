"""Files of tensors and plain values: they appear whole, and one that is damaged is told as such."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from elmo.errors import InputError
from elmo.files import replacing


def write_tensors(path: Path, content: Mapping[str, Any]) -> None:
    """Writes tensors, numbers and texts by name."""
    with replacing(path) as partial:
        torch.save(dict(content), partial)


def read_tensors(path: Path, names: set[str], device: torch.device | str, remedy: str) -> dict[str, Any]:
    """What was written; no code in the file is run.

    Args:
        path: the file.
        names: what must be in it.
        device: where its tensors go.
        remedy: what to do about a file that is damaged, a sentence without its end.

    Raises:
        InputError: the file cannot be read, or something is missing in it.
    """
    with path.open("rb") as file:
        try:
            content = torch.load(file, map_location=device, weights_only=True)
        except torch.OutOfMemoryError:  # a RuntimeError as well, but nothing is wrong with the file
            raise
        # What torch raises depends on where the damage is; its text would advise to run what is in the file.
        except (RuntimeError, LookupError, TypeError, ValueError, EOFError, OSError, UnpicklingError) as error:
            found = "an empty file" if path.stat().st_size == 0 else "a damaged one"
            raise InputError(f"{path}: expected a file that this suite wrote, found {found}. {remedy}") from error
    missing = sorted(names - content.keys()) if isinstance(content, dict) else sorted(names)
    if missing:
        raise InputError(f"{path}: {', '.join(missing)} is missing in this file. {remedy}")
    return dict(content)
