"""Shelf of the layer store: a file of rows and its index (see elmo.store)."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import re
import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from elmo.bilm.sentences import Sentence
from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import expanded

FORMAT = 6  # raise it when layers of equal weights change, or how they are written
PRECISIONS: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
LIMIT_GB = 20.0
WAIT_SECONDS = 60.0  # at most, for another process that writes; it may be stopped with Ctrl-Z

ROWS, ENTRIES, LOCK = "rows", "entries", "lock"
FIRST_ROW = 1  # row 0 stays zero, for padding
ENTRY = struct.Struct("<QII8s")  # first row, tokens, crc32, hash of what computed the rows
RECORD = struct.Struct(f"16s{ENTRY.size}s")  # the hash of a sentence, its entry
_CHUNK = RECORD.size << 18
_NO_ROWS = ENTRY.pack(0, 0, 0, b"")  # of a sentence without tokens
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NAME = re.compile(rf".+-([0-9]+)-({'|'.join(PRECISIONS)})-v{FORMAT}")

Rows = npt.NDArray[np.floating[Any]]

_OPEN: dict[tuple[int, Path], Shelf] = {}


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
    key = os.getpid(), folder  # a forked process would share the locks of its parent's files
    if key in _OPEN and not _OPEN[key].is_there():
        _OPEN.pop(key).close()
    if key not in _OPEN:
        _OPEN[key] = Shelf(folder)
    shelf = _OPEN[key]
    shelf.limit_bytes = int(limit_gb * 1e9)
    with suppress(OSError):  # it was pruned this moment, or is read-only
        os.utime(folder / ROWS)  # `python -m elmo.store info` shows when it was last used
    return shelf


def key_of(sentence: Sentence) -> bytes:
    """The hash of a token list; it depends on every token and on where tokens end."""
    digest = hashlib.blake2b("".join(sentence).encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(array("I", map(len, sentence)).tobytes())
    return digest.digest()


class Shelf:
    """The layers of one kind, on disk.

    Args:
        folder: where they are; created if it does not exist. `open_shelf` knows its name.

    Attributes:
        limit_bytes: limit for the size of the whole store.
        refusal: why nothing can be added, for example to a read-only store; None if it is writable.
        warnings: messages for the user, for example about damage; the code that shows them removes them.
        known: rows before this one were there when the shelf was opened.
        spot_checked: whether this process has compared some of them with what their source computes now.

    Raises:
        StoreUnusable: the folder cannot be used.
    """

    spot_checked = False

    def __init__(self, folder: Path) -> None:
        name = _NAME.fullmatch(folder.name)
        if name is None:
            raise StoreUnusable(f"{folder}: of another version, not read")
        self.path, self.store = folder, folder.parent
        self.width, self.precision = int(name[1]), name[2]
        self.row_bytes = self.width * PRECISIONS[self.precision].itemsize
        self.limit_bytes = int(LIMIT_GB * 1e9)
        self.refusal: str | None = None
        self.warnings: list[str] = []
        self._entries: dict[bytes, bytes] = {}  # by the key of the sentence
        self._bytes_read = 0  # of the index
        self._whole: dict[bytes, bool] = {}  # entries that were compared, and whether their rows are whole
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._rows, self._index = self._open(os.O_RDWR | os.O_CREAT)
        except OSError as error:
            try:
                self._rows, self._index = self._open(os.O_RDONLY)
            except OSError:  # the first error says why
                remedy = "Name another store, for example with ELMO_STORE, or use none"
                raise StoreUnusable(f"{folder}: cannot keep layers there: {error}. {remedy}") from error
            self.refusal = f"{folder}: cannot write there: {error}"
        self.known = self._end()
        self._mapped: Rows = np.zeros((1, self.width), PRECISIONS[self.precision])  # until others are taken

    def _open(self, flags: int) -> tuple[int, int]:
        """Opens rows and index. If another process replaces the folder meanwhile, checksums will not match."""
        return os.open(self.path / ROWS, flags, 0o666), os.open(self.path / ENTRIES, flags, 0o666)

    def find(self, sentences: Sequence[Sentence]) -> list[int | None]:
        """For each sentence its first row, or None if it is not stored; a sentence without tokens always is.

        The first time that this process finds an entry, its rows are compared with its checksum. A damaged one counts
        as not stored, and `add` replaces it.
        """
        self._read_new_records()
        entries = list(map(self._entry, sentences))
        new = {entry for entry in entries if entry is not None} - self._whole.keys()
        if damaged := sum(not self._is_whole(entry) for entry in sorted(new, key=ENTRY.unpack)):  # in disk order
            self.warnings.append(
                f"{self.path}: {damaged:,} sentences are damaged: their rows do not match their checksums. They are "
                "embedded again; if it happens again, check the disk"
            )
        return [None if entry is None or not self._whole[entry] else ENTRY.unpack(entry)[0] for entry in entries]

    def computed_as(self, computed_with: str, sentences: Sequence[Sentence]) -> bool:
        """Whether all these stored sentences were added with this `computed_with`, see `add`."""
        entries = [entry for entry in map(self._entry, sentences) if entry is not None]
        return all(ENTRY.unpack(entry)[3] == _hash_of(computed_with) for entry in entries)

    def _read_new_records(self) -> None:
        """Reads the records that were appended; a part of one at the end was left by a killed process.

        Any bytes can be read as records. A damaged one names no sentence, or rows that do not match its checksum. The
        last record of a sentence counts.
        """
        while len(content := os.pread(self._index, _CHUNK, self._bytes_read)) >= RECORD.size:
            whole = content[: len(content) // RECORD.size * RECORD.size]
            self._entries.update(RECORD.iter_unpack(whole))
            self._bytes_read += len(whole)

    def _entry(self, sentence: Sentence) -> bytes | None:
        """The entry of a sentence; None if there is none, or a damaged one of another length."""
        entry = self._entries.get(key_of(sentence)) if sentence else _NO_ROWS
        return entry if entry is not None and ENTRY.unpack(entry)[1] == len(sentence) else None

    def _is_whole(self, entry: bytes) -> bool:
        """Whether an entry's rows match their checksum; they are read the first time only."""
        if entry not in self._whole:
            start, tokens, checksum, _ = ENTRY.unpack(entry)
            actual = -1
            with suppress(OSError):  # the disk can no longer read them
                if start + tokens <= self._end():
                    actual = zlib.crc32(os.pread(self._rows, tokens * self.row_bytes, start * self.row_bytes))
            self._whole[entry] = actual == checksum
        return self._whole[entry]

    def _end(self) -> int:
        """The first row that is not taken, not even by what a killed process left."""
        return max(FIRST_ROW, -(-os.fstat(self._rows).st_size // self.row_bytes))

    def add(self, sentences: Sequence[Sentence], rows: Rows, computed_with: str) -> None:
        """Writes the layers of sentences, all or none of them; skips sentences that are stored already.

        Args:
            sentences: token lists.
            rows: their tokens' rows, sentence after sentence, (tokens, width).
            computed_with: what decides the last bits of the rows.

        Raises:
            StoreFull: they do not fit.
        """
        ends = np.cumsum([len(sentence) for sentence in sentences])
        fresh: dict[bytes, bytes] = {}
        contents: list[memoryview] = []
        with self._writing():
            self._read_new_records()
            first = end = self._end()
            for sentence, values in zip(sentences, np.split(rows, ends[:-1]), strict=True):
                key, known = key_of(sentence), self._entry(sentence)
                if key in fresh or (known is not None and self._is_whole(known)):
                    continue
                content = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
                fresh[key] = ENTRY.pack(end, len(values), zlib.crc32(content), _hash_of(computed_with))
                contents.append(content)
                end += len(values)
            if end - first > self.room():
                raise StoreFull(
                    f"{self.store}: the limit of {self.limit_bytes / 1e9:g} GB is reached. Raise limit_gb, or free "
                    "some with python -m elmo.store prune"
                )
            _write(self._rows, contents, first * self.row_bytes)
            place = os.fstat(self._index).st_size // RECORD.size * RECORD.size
            _write(self._index, [memoryview(b"".join(key + entry for key, entry in fresh.items()))], place)
        self._whole.update(dict.fromkeys(fresh.values(), True))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """The block of the only writer.

        Raises:
            StoreFull: nothing can be written, or another process has been writing for too long.
        """
        if not self.is_there():
            self.refusal = f"{self.path}: was removed while this process used it"
        if self.refusal is not None:
            raise StoreFull(self.refusal)
        try:
            with FileLock(self.path / LOCK, timeout=WAIT_SECONDS, poll_interval=0.02):
                yield
        except Timeout as error:
            raise StoreFull(
                f"{self.path}: another process has been writing for {WAIT_SECONDS:g} s; it may be stopped with "
                "Ctrl-Z. Continue it with fg, or end it"
            ) from error
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise StoreFull(
                f"{self.path}: the disk is full: {error}. Free some, or python -m elmo.store prune"
            ) from error

    def room(self) -> int:
        """Number of tokens that still fit under the limit, measured each time, since other shelves may grow."""
        return max(0, self.limit_bytes - sum(map(disk_bytes, shelves(self.store)))) // self.row_bytes

    def take(self, rows: npt.NDArray[np.int64], into: Rows) -> None:
        """Copies rows, by number, into an array of their shape and a row's width: one gather from the mapped file."""
        last = int(rows.max(initial=0))
        mapped = self._mapped  # read once: another thread may replace it, by one with fewer rows
        if last >= len(mapped):
            n = os.fstat(self._rows).st_size // self.row_bytes
            if last >= n:
                raise StoreUnusable(f"{self.path / ROWS}: expected a row {last}, found {n}: it was cut. Start again")
            content = mmap.mmap(self._rows, n * self.row_bytes, access=mmap.ACCESS_READ)
            mapped = self._mapped = np.frombuffer(content, self._mapped.dtype).reshape(n, -1)
        # clip: the only mode that copies straight into `out`
        np.take(mapped, rows, axis=0, out=into, mode="clip")

    def count(self) -> tuple[int, int]:
        """Number of stored sentences and tokens, also of damaged ones."""
        self._read_new_records()
        return len(self._entries), sum(ENTRY.unpack(entry)[1] for entry in self._entries.values())

    def count_damaged(self) -> int:
        """Number of entries with damaged rows; reads all rows."""
        self._read_new_records()
        self._whole.clear()
        return sum(not self._is_whole(entry) for entry in self._entries.values())

    def is_there(self) -> bool:
        """Whether its folder is still the one that was opened."""
        try:
            return os.path.samestat((self.path / ROWS).stat(), os.fstat(self._rows))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Closes the files; the shelf cannot be used after that."""
        os.close(self._rows)
        os.close(self._index)


def _hash_of(computed_with: str) -> bytes:
    return hashlib.blake2b(computed_with.encode(), digest_size=8).digest()


def _write(file: int, contents: Sequence[memoryview], place: int) -> None:
    """Writes to a file from this place on and waits until it is on disk; after an error the file ends there."""
    offset = place
    try:
        for content in contents:
            while content:
                written = os.pwrite(file, content, offset)
                content, offset = content[written:], offset + written
        os.fsync(file)
    except OSError:
        os.ftruncate(file, place)
        raise


def shelves(store: Path) -> list[Path]:
    """The folders of all shelves of a store, also of other versions."""
    return sorted(path.parent for path in store.glob(f"*-v[0-9]*/{ROWS}"))


def disk_bytes(folder: Path) -> int:
    """The size of all files of a shelf; files that another process removes meanwhile do not count."""
    size = 0
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size
