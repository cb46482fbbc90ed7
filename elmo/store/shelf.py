"""Shelf of the layer store: a file of rows and its index (see elmo.store)."""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import zlib
from array import array
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from elmo.bilm.sentences import Sentence
from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import expanded

FORMAT = 7  # raise it when layers of equal weights change, or how they are written
PRECISIONS: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
LIMIT_GB = 20.0
WAIT_SECONDS = 60.0  # at most, for another process that writes; it may be stopped with Ctrl-Z

ROWS, ENTRIES, LOCK = "rows", "entries", "lock"
FIRST_ROW = 1  # row 0 stays zero, for padding
RECORD = struct.Struct("<16sQII")  # the hash of a sentence, first row, tokens, crc32
_CHUNK = RECORD.size << 18

Rows = npt.NDArray[np.floating[Any]]
Entry = tuple[int, int, int]  # first row, tokens, crc32
_NO_ROWS: Entry = (0, 0, 0)  # of a sentence without tokens


class StoreFull(Exception):  # noqa: N818
    """Nothing can be added; the message contains the reason and what to do. What was written stays valid."""


class StoreUnusable(InputError):  # noqa: N818
    """The store cannot be used. A run did not fail: it would work without a store, or with another one."""


def default_store() -> Path:
    """The default folder of the store: $ELMO_STORE, or one in the user's cache."""
    return expanded(os.environ.get("ELMO_STORE") or "~/.cache/elmo-suite/layers", "ELMO_STORE")


def open_shelf(store: Path, weights: str, widths: Sequence[int], precision: str, limit_gb: float = LIMIT_GB) -> Shelf:
    """The shelf for layers of one kind; a process opens it once, and compares each entry once.

    Args:
        store: the store's folder; created if it does not exist.
        weights: fingerprint of the source of the layers.
        widths: values kept of each layer; see `elmo.sources.source.FrozenSource`.
        precision: in which they are kept.
        limit_gb: limit for the size of the whole store.

    Raises:
        StoreUnusable: the folder cannot be used.
    """
    checks.one_of(PRECISIONS, "precision", precision)
    folder = (store / f"{weights[:32]}-{sum(widths)}-{precision}-v{FORMAT}").absolute()
    shelf = opened(folder, sum(widths), precision, os.getpid())
    shelf.limit_bytes = int(limit_gb * 1e9)
    with suppress(OSError):  # it was pruned, or is read-only
        os.utime(folder / ROWS)  # `python -m elmo.store info` shows when it was last used
    return shelf


@cache
def opened(folder: Path, width: int, precision: str, process: int) -> Shelf:
    """The shelf in this folder; a forked process, which would share its parent's maps, has one of its own."""
    return Shelf(folder, width, precision)


def key_of(sentence: Sentence) -> bytes:
    """The hash of a token list; it depends on every token and on where tokens end."""
    digest = hashlib.blake2b("".join(sentence).encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(array("I", map(len, sentence)).tobytes())
    return digest.digest()


class Shelf:
    """The layers of one kind, on disk.

    Args:
        folder: where they are; created if it does not exist.
        width: values of a token.
        precision: of a value.

    Attributes:
        limit_bytes: limit for the size of the whole store.
        warnings: messages for the user, for example about damage; the code that shows them removes them.
        spot_checked: whether this process has compared some rows with what their source computes now.

    Raises:
        StoreUnusable: the folder cannot be used.
    """

    spot_checked = False

    def __init__(self, folder: Path, width: int, precision: str) -> None:
        self.path, self.store = folder, folder.parent
        self.width, self.precision = width, precision
        self.row_bytes = width * PRECISIONS[precision].itemsize
        self.limit_bytes = int(LIMIT_GB * 1e9)
        self.warnings: list[str] = []
        self._entries: dict[bytes, Entry] = {}  # by the key of the sentence
        self._bytes_read = 0  # of the index
        self._whole: dict[Entry, bool] = {}  # entries that were compared, and whether their rows are whole
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._rows, self._index = (
                os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o666) for name in (ROWS, ENTRIES)
            )
        except OSError as error:
            try:
                self._rows, self._index = (os.open(folder / name, os.O_RDONLY) for name in (ROWS, ENTRIES))
            except OSError:  # the first error says why
                remedy = "Name another store, for example with ELMO_STORE, or use none"
                raise StoreUnusable(f"{folder}: cannot keep layers there: {error}. {remedy}") from error
        self._mapped: Rows = np.zeros((1, width), PRECISIONS[precision])  # until others are taken

    def find(self, sentences: Sequence[Sentence]) -> list[int | None]:
        """For each sentence its first row, or None if it is not stored; a sentence without tokens always is.

        The first time that this process finds an entry, its rows are compared with its checksum. A damaged one counts
        as not stored, and is replaced when the sentence is added again.
        """
        self._read_new_records()
        entries = [self._entries.get(key_of(sentence)) if sentence else _NO_ROWS for sentence in sentences]
        new = sorted({entry for entry in entries if entry is not None} - self._whole.keys())  # in disk order
        self._whole.update({entry: self._is_whole(*entry) for entry in new})
        if damaged := sum(not self._whole[entry] for entry in new):
            self.warnings.append(
                f"{self.path}: {damaged:,} sentences are damaged: their rows do not match their checksums. They are "
                "embedded again; if it happens again, check the disk"
            )
        return [
            entry[0] if entry is not None and self._whole[entry] and entry[1] == len(sentence) else None
            for sentence, entry in zip(sentences, entries, strict=True)
        ]

    def _read_new_records(self) -> None:
        """Reads the records that were appended; a part of one at the end was left by a killed process.

        Any bytes can be read as records. A damaged one names no sentence, or rows that do not match its checksum. The
        last record of a sentence counts.
        """
        while len(content := os.pread(self._index, _CHUNK, self._bytes_read)) >= RECORD.size:
            whole = content[: len(content) // RECORD.size * RECORD.size]
            self._entries.update({key: (start, tokens, crc) for key, start, tokens, crc in RECORD.iter_unpack(whole)})
            self._bytes_read += len(whole)

    def _is_whole(self, start: int, tokens: int, checksum: int) -> bool:
        """Whether the rows of an entry match their checksum."""
        with suppress(OSError):  # the disk can no longer read them
            if start + tokens <= self._end():
                return zlib.crc32(os.pread(self._rows, tokens * self.row_bytes, start * self.row_bytes)) == checksum
        return False

    def _end(self) -> int:
        """The first row that is not taken, not even by what a killed process left."""
        return max(FIRST_ROW, -(-os.fstat(self._rows).st_size // self.row_bytes))

    def add(self, sentences: Sequence[Sentence], rows: Rows) -> None:
        """Writes the layers of sentences, all or none of them.

        Args:
            sentences: token lists.
            rows: their tokens' rows, sentence after sentence, (tokens, width).

        Raises:
            StoreFull: they do not fit, the disk cannot be written, or another process has been writing for too long.
        """
        try:
            with FileLock(self.path / LOCK, timeout=WAIT_SECONDS, poll_interval=0.02):
                if len(rows) > self.room():
                    raise StoreFull(
                        f"{self.store}: the limit of {self.limit_bytes / 1e9:g} GB is reached. Raise limit_gb, or free "
                        "some with python -m elmo.store prune"
                    )
                content = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), self.row_bytes)
                first, place, entries = self._end(), 0, {}
                for sentence in sentences:
                    checksum = zlib.crc32(content[place : place + len(sentence)].data)
                    entries[key_of(sentence)] = first + place, len(sentence), checksum
                    place += len(sentence)
                _write(self._rows, content.reshape(-1).data, first * self.row_bytes)
                records = b"".join(RECORD.pack(key, *entry) for key, entry in entries.items())
                _write(self._index, records, os.fstat(self._index).st_size // RECORD.size * RECORD.size)
        except OSError as error:  # a time-out of the lock is one, too
            raise StoreFull(
                f"{self.path}: cannot write there: {error}. Free some space, end a process that is stopped with "
                "Ctrl-Z, or name another store"
            ) from error
        self._whole.update(dict.fromkeys(entries.values(), True))

    def room(self) -> int:
        """Number of tokens that still fit under the limit, measured each time, since other shelves may grow."""
        return max(0, self.limit_bytes - sum(map(disk_bytes, shelves(self.store)))) // self.row_bytes

    def take(self, rows: npt.NDArray[np.int64], into: Rows) -> None:
        """Copies rows, by number, into an array of their shape and a row's width: one gather from the mapped file."""
        last = int(rows.max(initial=0))
        if last >= len(self._mapped):
            n = os.fstat(self._rows).st_size // self.row_bytes
            if last >= n:
                raise StoreUnusable(f"{self.path / ROWS}: expected a row {last}, found {n}: it was cut. Start again")
            content = mmap.mmap(self._rows, n * self.row_bytes, access=mmap.ACCESS_READ)
            self._mapped = np.frombuffer(content, self._mapped.dtype).reshape(n, -1)
        # clip: the only mode that copies straight into `out`
        np.take(self._mapped, rows, axis=0, out=into, mode="clip")


def _write(file: int, content: bytes | memoryview, place: int) -> None:
    """Writes to a file from this place on and waits until it is on disk."""
    left = memoryview(content)
    while left:  # the kernel may take a part
        written = os.pwrite(file, left, place)
        left, place = left[written:], place + written
    os.fsync(file)


def shelves(store: Path) -> list[Path]:
    """The folders of all shelves of a store, also of other versions."""
    return sorted(path.parent for path in store.glob(f"*-v[0-9]*/{ROWS}"))


def disk_bytes(folder: Path) -> int:
    """The size of all files of a shelf; files that another process removes meanwhile do not count."""
    size = 0
    with suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):
                size += entry.stat().st_size
    return size
