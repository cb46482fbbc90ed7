"""The door to tasks.kernels: faster forms of the loops in tasks.modules. No other file imports that folder.

Plain torch defines what the loops compute. It is used, and is slower, where the folder, a C compiler or Triton is
missing.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from tasks.modules.crf import Walks
    from tasks.modules.recurrence import Loops

_log = logging.getLogger(__name__)


def fast_loops(x: Tensor) -> Loops | None:
    """A faster form of `recurrence_in_torch` for a tensor's device and type, or None."""
    if x.device.type == "cuda":
        return _kernels("recurrence_in_triton")  # type: ignore[no-any-return]
    compiled = _kernels("recurrence_in_c")
    return None if compiled is None else compiled.compiled_loops(x)


def fast_walks(x: Tensor) -> Walks | None:
    """A faster form of `crf_in_torch` for a tensor's device, or None."""
    return _kernels("crf_in_triton") if x.device.type == "cuda" else None


@cache
def _kernels(name: str) -> Any:  # noqa: ANN401 (a module)
    """A module of tasks.kernels, or None, with one line in the log, if it cannot be imported."""
    try:
        return import_module(f"tasks.kernels.{name}")
    except ImportError as error:
        _log.warning("tasks.kernels.%s is not available, torch is used, which is slower: %s", name, error)
        return None
