"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to that takes the place of `path` at the end, and vanishes if anything goes wrong, Ctrl-C too.

    It lies in the same folder, since a rename is atomic only within one file system.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        with suppress(OSError):  # it may never have come into being; the first error is the one to tell
            partial.unlink()
        raise
