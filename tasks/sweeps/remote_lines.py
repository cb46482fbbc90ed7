"""Output lines of runs on other machines, printed in the terminal of their sweep.

A run on a cluster's node writes them to a file next to the records; the process that waits for it prints what is new.
"""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path

from rich.console import Console

from elmo.common.progress import print_line

LOOKS_EVERY = 1.0  # seconds


def terminal() -> tuple[int, int]:
    """Where this process prints its errors: equal for processes that share it, as workers of joblib do."""
    status = os.fstat(2)
    return status.st_dev, status.st_ino


def leave(file: Path, line: str) -> None:
    """Adds a line to the file, whole and at once."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, (" ".join(line.splitlines()) + "\n").encode())
    finally:
        os.close(descriptor)


class Notices:
    """Prints lines as they are left in a file, until this process ends; the file is then removed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="notices", daemon=True)

    def start(self) -> None:
        """Begins to print, in a thread of its own: this one waits for the launcher."""
        self._thread.start()
        atexit.register(self.stop)  # Hydra's on_multirun_end is not called when a run has failed

    def stop(self) -> None:
        """Prints what is left."""
        self._ending.set()
        self._thread.join()
        self._print_new()
        self._file.unlink(missing_ok=True)

    def _watch(self) -> None:
        while not self._ending.wait(LOOKS_EVERY):
            self._print_new()

    def _print_new(self) -> None:
        try:
            with open(self._file, "rb") as file:  # opened again: file servers may return old content until then
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            print_line(Console(stderr=True), line)
