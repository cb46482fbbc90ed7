"""Shelf of the layer store: a file of rows and its index (see elmo.store)."""

import hashlib
import mmap
import os
import struct
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from elmo.common.errors import InputError, reworded
from elmo.common.progress import Reporter

if TYPE_CHECKING:
    from elmo.bilm.sentences import Sentence  # loads torch, which the command does not need

FORMAT = 7  # raise it when layers of equal weights change, or how they are written
PRECISIONS: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
LIMIT_GB = 20.0
WAIT_SECONDS = 60.0  # at most, for another process that writes; it may be stopped with Ctrl-Z

ROWS, ENTRIES, LOCK = "rows", "entries", "lock"
RECORD = struct.Struct("<16sQII")  # the hash of a sentence, first row, tokens, crc32
_CHUNK = RECORD.size << 18

Key = tuple[str, ...]  # a sentence
Rows = npt.NDArray[np.floating[Any]]


class StoreFull(Exception):  # noqa: N818
    """Nothing can be added; the message contains the reason and what to do. What was written stays valid."""


class StoreUnusable(InputError):  # noqa: N818
    """The store cannot be used. A run did not fail: it would work without a store, or with another one."""


def key_of(sentence: "Sentence") -> bytes:
    """The hash of a token list; it depends on every token and on where tokens end."""
    digest = hashlib.blake2b("".join(sentence).encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(array("I", map(len, sentence)).tobytes())
    return digest.digest()


class Shelf:
    """The layers of one kind, on disk. Open it by `open_shelf`.

    Args:
        store: the folder of the store; created if it does not exist.
        weights: fingerprint of the source of the layers.
        widths: values kept of each layer; see `elmo.sources.source.FrozenSource`.
        precision: in which they are kept.
        limit_gb: limit for the size of the whole store.

    Attributes:
        starts: the first row of each stored sentence that this process has asked for, and whose rows are whole.
        spot_checked: whether this process has compared some rows with what their source computes now.

    Raises:
        StoreUnusable: the folder cannot be used.
    """

    spot_checked = False

    def __init__(self, store: Path, weights: str, widths: Sequence[int], precision: str, limit_gb: float) -> None:
        self.store = store.absolute()
        self.path = folder = self.store / f"{weights[:32]}-{sum(widths)}-{precision}-v{FORMAT}"
        self.limit_bytes = int(limit_gb * 1e9)
        self.starts: dict[Key, int] = {}
        self._records: dict[bytes, tuple[int, int]] = {}  # first row and crc32, by key, until the sentence is asked for
        self._bytes_read = 0  # of the index
        self._mapped: Rows = np.zeros((1, sum(widths)), PRECISIONS[precision])  # until others are taken
        self.row_bytes = self._mapped.nbytes
        remedy = "Name another store, for example with ELMO_STORE, or use none"
        with reworded(OSError, lambda it: f"{folder}: cannot keep layers there: {it}. {remedy}", StoreUnusable):
            folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT if os.access(folder, os.W_OK) else os.O_RDONLY
            self._rows, self._index = (os.open(folder / name, flags, 0o666) for name in (ROWS, ENTRIES))
        with suppress(OSError):  # it is read-only
            os.utime(folder)  # `python -m elmo.store info` shows when it was last used

    def missing(self, sentences: Sequence[Key], reporter: Reporter) -> list[Key]:
        """Those of these sentences that are not stored; the others are in `starts` from now on.

        The first time that this process asks for a sentence, its rows are compared with their checksum. A damaged one
        counts as not stored, and is replaced when the sentence is added again.
        """
        self._read_new_records()
        keys = {key_of(sentence): sentence for sentence in sentences if sentence not in self.starts}
        asked = sorted((self._records.pop(key), keys[key]) for key in keys.keys() & self._records.keys())  # as on disk
        whole = {sentence: entry[0] for entry, sentence in asked if self._is_whole(len(sentence), *entry)}
        self.starts.update(whole)
        if damaged := len(asked) - len(whole):
            reporter.warn(
                f"{self.path}: {damaged:,} sentences are damaged: their rows do not match their checksums. They are "
                "embedded again; if it happens again, check the disk"
            )
        return [sentence for sentence in sentences if sentence not in self.starts]

    def _read_new_records(self) -> None:
        """Reads the records that were appended; a part of one at the end was left by a killed process.

        Any bytes can be read as records. A damaged one names no sentence, or rows that do not match its checksum. The
        last record of a sentence counts.
        """
        while len(content := os.pread(self._index, _CHUNK, self._bytes_read)) >= RECORD.size:
            whole = content[: len(content) // RECORD.size * RECORD.size]
            self._records.update({key: (start, crc) for key, start, _, crc in RECORD.iter_unpack(whole)})
            self._bytes_read += len(whole)

    def _is_whole(self, tokens: int, start: int, checksum: int) -> bool:
        """Whether so many rows from this one on match their checksum."""
        with suppress(OSError):  # the disk can no longer read them
            if start + tokens <= self._end():
                return zlib.crc32(os.pread(self._rows, tokens * self.row_bytes, start * self.row_bytes)) == checksum
        return False

    def _end(self) -> int:
        """The first row that is not taken, not even by what a killed process left."""
        return max(1, -(-os.fstat(self._rows).st_size // self.row_bytes))  # row 0 stays zero, for padding

    def add(self, sentences: Sequence[Key], rows: Rows) -> None:
        """Writes the layers of sentences, all or none of them.

        Args:
            sentences: token lists.
            rows: their tokens' rows, sentence after sentence, (tokens, width).

        Raises:
            StoreFull: they do not fit, the disk cannot be written, or another process has been writing for too long.
        """
        content = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), self.row_bytes)
        remedy = "Free some space, end a process that is stopped with Ctrl-Z, or name another store"
        with (  # a time-out of the lock is an OSError, too
            reworded(OSError, lambda error: f"{self.path}: cannot write there: {error}. {remedy}", StoreFull),
            FileLock(self.path / LOCK, timeout=WAIT_SECONDS, poll_interval=0.02),
        ):
            if len(rows) > self.room():
                raise StoreFull(
                    f"{self.store}: the limit of {self.limit_bytes / 1e9:g} GB is reached. Raise limit_gb, or free "
                    "some with python -m elmo.store prune"
                )
            self._read_new_records()  # so that those below are not compared again
            first, records = self._end(), b""
            starts = starts_from(first, sentences)
            for sentence, start in starts.items():
                checksum = zlib.crc32(content[start - first :][: len(sentence)].data)
                records += RECORD.pack(key_of(sentence), start, len(sentence), checksum)
            _write(self._rows, content.reshape(-1).data, first * self.row_bytes)
            _write(self._index, records, self._bytes_read)
        self._bytes_read += len(records)
        self.starts.update(starts)

    def room(self) -> int:
        """Number of tokens that still fit under the limit, measured each time, since other shelves may grow."""
        return max(0, self.limit_bytes - shelves(self.store).total()) // self.row_bytes

    def take(self, rows: npt.NDArray[np.int64], into: Rows) -> None:
        """Copies rows, by number, into an array of their shape and a row's width: one gather from the mapped file."""
        last = int(rows.max(initial=0))
        if last >= len(self._mapped):
            n = max(last + 1, os.fstat(self._rows).st_size // self.row_bytes)  # an error if the file was cut meanwhile
            content = mmap.mmap(self._rows, n * self.row_bytes, access=mmap.ACCESS_READ)
            self._mapped = np.frombuffer(content, self._mapped.dtype).reshape(n, -1)
        # clip: the only mode that copies straight into `out`
        np.take(self._mapped, rows, axis=0, out=into, mode="clip")


# A process opens a shelf once, and compares the rows of each sentence once.
open_shelf = cache(Shelf)


def starts_from(first: int, sentences: Sequence[Key]) -> dict[Key, int]:
    """The first row of each sentence, when they follow each other from row `first` on."""
    return dict(zip(sentences, accumulate(map(len, sentences), initial=first), strict=False))


def _write(file: int, content: bytes | memoryview, place: int) -> None:
    """Writes to a file from this place on and waits until it is on disk."""
    left = memoryview(content)
    while left:  # the kernel may take a part
        written = os.pwrite(file, left, place)
        left, place = left[written:], place + written
    os.fsync(file)


def shelves(store: Path) -> Counter[Path]:
    """The folders of all shelves of a store, also of other versions, with the bytes on disk of each."""
    sizes = Counter[Path]()
    for path in chain.from_iterable(store.glob(f"*-v[0-9]*/{name}") for name in (ROWS, ENTRIES)):
        with suppress(FileNotFoundError):  # another process removes it meanwhile
            sizes[path.parent] += path.stat().st_size
    return sizes
