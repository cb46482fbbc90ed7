"""The rule for readers: a result, or one line that names the file and a remedy; within seconds and little memory."""

import random
import re
import resource
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elmo.common.errors import InputError
from tests.fuzz.damage import damaged

SECONDS = 5  # of CPU time, for small files
MEMORY = 1 << 30  # bytes, above what the process has
LONGEST = 1000  # characters of a line of a message
# How remedies are worded: one of these is in every message.
REMEDY = re.compile(
    r"\b(add|again|check|convert|copy|correct|delete|drop|get|give|make|move|name|put|remove|rename|restore|save|set|"
    r"split|start|take|unpack|update|use|write)\b|\?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reader:
    """A reader and a good file for it.

    Attributes:
        name: of the kind of file.
        make: writes the file to an empty folder, with what else its reader needs; returns those to be damaged.
        read: reads it as a command does, given the damaged one and a folder with all of them.
        explained: exceptions that commands report as one line.
        apart: whether its library may end the process.
        most_lines: of a message; settings that differ have a line each.
    """

    name: str
    make: Callable[[Path], Sequence[Path]]
    read: Callable[[Path], object]
    explained: tuple[type[Exception], ...] = ()
    apart: bool = False
    most_lines: int = 1

    def __str__(self) -> str:
        return self.name


class TooSlow(BaseException):
    """A reader takes too long."""


class Fuzzer:
    """Damages the files of one reader.

    Args:
        reader: the reader.
        folder: an empty one.
        others: good files of other kinds.
    """

    def __init__(self, reader: Reader, folder: Path, others: Sequence[bytes]) -> None:
        self._reader, self._others = reader, others
        self._good, self._case = folder / "good", folder / "case"
        self._good.mkdir()
        self._names = [path.relative_to(self._good) for path in reader.make(self._good)]

    def problem(self, number: int | None) -> str | None:
        """What is wrong with how the reader takes a damaged file; a good one for None."""
        draw = random.Random(f"{self._reader.name} {number}")
        shutil.rmtree(self._case, ignore_errors=True)
        shutil.copytree(self._good, self._case)
        path = self._case / draw.choice(self._names)
        if number is not None:
            path.write_bytes(damaged(path.read_bytes(), draw, self._others))
        try:
            with _limited(), warnings.catch_warnings(action="ignore"):
                self._reader.read(path)
        except (InputError, *self._reader.explained) as error:
            alone = len([*self._good.rglob("*.*")]) == 1
            own = [path] if alone else [path, self._case]  # others may be named, which no longer fit
            wrong = wrong_message(str(error), own, self._reader.most_lines) if number is not None else "a good file"
            return wrong and f"{path.name}: {wrong}: {str(error)[:LONGEST]}"
        except (Exception, TooSlow) as error:  # noqa: BLE001 - any other is a defect of the reader
            return f"{path.name}: {type(error).__name__}: {str(error)[:300]}"
        return None


def wrong_message(message: str, paths: Sequence[Path], most_lines: int = 1) -> str | None:
    """What is wrong with an error message about a file, which must name one of these."""
    if not any(str(path) in message for path in paths):
        return "does not name the file"
    for path in paths:
        message = message.replace(str(path), "")
    lines = re.split("[\\r\\n]+", message.strip())
    if (longest := max(map(len, lines))) > LONGEST:
        return f"has {longest:,} characters"
    if len(lines) > most_lines:
        return f"has {len(lines)} lines"
    return None if REMEDY.search(message) else "names no remedy"


@contextmanager
def _limited() -> Iterator[None]:
    """Stops a block that takes too much time or memory."""

    def stop(number: int, frame: object) -> None:
        raise TooSlow(f"more than {SECONDS} seconds")

    before = resource.getrlimit(resource.RLIMIT_DATA)
    handler = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + MEMORY, before[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, before)
        signal.signal(signal.SIGPROF, handler)


def _data_bytes() -> int:
    """The memory that counts for RLIMIT_DATA."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    return pages * resource.getpagesize()
