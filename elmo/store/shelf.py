"""Shelf of the layer store: a file of rows and an index (see elmo.store)."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import re
import time
import zlib
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.bilm.sentences import Sentence
from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import expanded, read_json, write_json
from elmo.common.processes import try_lock, unlock
from elmo.store.index import ENTRIES, ENTRY, Index, write_at

FORMAT = 5  # raise it when layers of equal weights change, or how they are written
STATE = "zero"  # layers that depend on what was read before cannot be shared
PRECISIONS: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
LIMIT_GB = 20.0
WAIT_SECONDS = 60.0  # at most, for another process that writes; it may be stopped with Ctrl-Z
TRIES = 5  # to open a shelf; every one fails only if other processes remove it as often

ABOUT, COMPUTED, ROWS = "about.json", "computed.json", "rows"
FIRST_ROW = 1  # row 0 stays zero, for padding
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_GONE = (errno.ENOENT, errno.EEXIST)  # the latter where a folder goes while Path.mkdir looks at it
_FOLDER = re.compile(rf".+-({'|'.join(PRECISIONS)})-v\d+")  # `ShelfDescription.folder` of any version

_NO_ROWS = ENTRY.pack(0, 0, 0)  # of a sentence without tokens

Rows = npt.NDArray[np.floating[Any]]


class StoreFull(Exception):  # noqa: N818
    """Nothing can be added; the message contains the reason and what to do. What was written stays valid."""


class StoreUnusable(InputError):  # noqa: N818
    """The store cannot be used. A run did not fail: it would work without a store, or with another one."""


@dataclass(frozen=True)
class ShelfDescription:
    """What all layers of a shelf have in common.

    Attributes:
        weights: fingerprint of what computed them.
        widths: values kept of each layer; see `elmo.sources.source.FrozenSource`.
    """

    weights: str
    widths: tuple[int, ...]
    precision: str
    state: str = STATE
    format: int = FORMAT

    @property
    def folder(self) -> str:
        """The name of the shelf's folder."""
        return f"{self.weights[:16]}-{self.state}-{self.precision}-v{self.format}"

    @property
    def row_bytes(self) -> int:
        """Bytes of a token."""
        return sum(self.widths) * PRECISIONS[self.precision].itemsize


def default_store() -> Path:
    """The default folder of the store: $ELMO_STORE, or one in the user's cache."""
    return expanded(os.environ.get("ELMO_STORE") or "~/.cache/elmo-suite/layers", "ELMO_STORE")


def key_of(sentence: Sentence) -> bytes:
    """The hash of a token list; it depends on every token and on where tokens end."""
    digest = hashlib.blake2b("".join(sentence).encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(array("I", map(len, sentence)).tobytes())
    return digest.digest()


class Shelf:
    """The layers of one kind, on disk.

    Args:
        store: the store's folder; created if it does not exist.
        about: the kind of layers.
        limit_gb: limit for the size of the whole store.

    Attributes:
        refusal: why nothing can be added, for example to a read-only store; None if it is writable.
        warnings: messages for the user, for example about damage; the code that shows them removes them.
        known: rows before this one were there when the shelf was opened.
        spot_checked: whether this process has compared some of them with what their source computes now.

    Raises:
        StoreFull: it does not exist, and the disk has no room for it.
        InputError: the folder cannot be used, or contains something else under this name.
    """

    spot_checked = False

    def __init__(self, store: Path, about: ShelfDescription, limit_gb: float = LIMIT_GB) -> None:
        checks.one_of(PRECISIONS, "precision", about.precision)
        self.store = store
        self.path = store / about.folder
        self.about = about
        self.refusal: str | None = None
        self.warnings: list[str] = []
        self._compared: dict[bytes, bool] = {}  # entries, and whether their rows are whole
        try:
            self._file, self._index = self._open()
        except OSError as error:
            if error.errno in _FULL:
                raise StoreFull(f"{self.path}: cannot be made: {error}. Free some room on that disk") from error
            raise InputError(
                f"{self.path}: cannot keep layers there: {error}. Name another folder with store.path or ELMO_STORE, "
                "or use no store (store.path=null)"
            ) from error
        self.limit_to(limit_gb)
        self.known = self._end()
        self._mapped: Rows = np.zeros((1, sum(about.widths)), PRECISIONS[about.precision])  # until others are taken

    def _open(self) -> tuple[int, Index]:
        """Opens rows and index; again if another process removes the shelf meanwhile, as prune does."""
        for tries_left in reversed(range(TRIES)):
            try:
                file, index = self._open_or_create()
            except OSError as error:
                if not tries_left or error.errno not in _GONE:
                    raise
                continue
            if not tries_left or self._is_rows(file):  # else the index may be that of a new shelf
                break
            _close(file, index)
        return file, index

    def _open_or_create(self) -> tuple[int, Index]:
        """Opens rows and index, and creates them if needed; read-only if they cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (self.path / ABOUT).exists():
                write_json(self.path / ABOUT, asdict(self.about))
            return self._open_files(writable=True)
        except OSError as error:
            if error.errno not in (*_FULL, *_READ_ONLY):
                raise
            try:
                opened = self._open_files(writable=False)
            except OSError:
                raise error from None  # nothing exists yet; the first error explains why nothing can be created
            self.refusal = f"{self.path}: cannot write there: {error}"
            return opened

    def _open_files(self, writable: bool) -> tuple[int, Index]:
        if (found := read_about(self.path)) != self.about:
            raise InputError(
                f"{self.path / ABOUT}: expected {self.about}, found {found}. Remove that folder, or name another store"
            )
        file = os.open(self.path / ROWS, os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY, 0o666)
        try:
            return file, Index(self.path / ENTRIES, writable)
        except BaseException:
            os.close(file)
            raise

    def find(self, sentences: Sequence[Sentence]) -> list[int | None]:
        """For each sentence its first row, or None if it is not stored; a sentence without tokens always is.

        The first time that this process finds an entry, its rows are compared with its checksum. A damaged one counts
        as not stored, and `add` replaces it.
        """
        self._index.refresh()
        found = list(map(self._entry, sentences))
        new = {entry for entry in found if entry is not None} - self._compared.keys()
        if damaged := sum(not self._is_whole(entry) for entry in sorted(new, key=ENTRY.unpack)):  # in disk order
            self.warnings.append(
                f"{self.path}: {damaged:,} sentences are damaged: their rows do not match their checksums. They are "
                "dropped and embedded again; if it happens again, check the disk"
            )
        return [ENTRY.unpack(entry)[0] if entry is not None and self._compared[entry] else None for entry in found]

    def _entry(self, sentence: Sentence) -> bytes | None:
        """The entry of a sentence; None if there is none, or a damaged one of another length."""
        entry = self._index.entries.get(key_of(sentence)) if sentence else _NO_ROWS
        return entry if entry is not None and ENTRY.unpack(entry)[1] == len(sentence) else None

    def _is_whole(self, entry: bytes) -> bool:
        """Whether an entry's rows match their checksum; they are read the first time only."""
        if entry not in self._compared:
            self._compared[entry] = self._matches(entry)
        return self._compared[entry]

    def _matches(self, entry: bytes) -> bool:
        start, tokens, checksum = map(int, ENTRY.unpack(entry))
        size = self.about.row_bytes
        if start + tokens > self._end():  # rows were lost, or the entry is damaged
            return False
        try:
            return zlib.crc32(os.pread(self._file, tokens * size, start * size)) == checksum
        except OSError:  # the disk can no longer read them
            return False

    def _end(self) -> int:
        """The first row that is not taken, not even by what a killed process left."""
        return max(FIRST_ROW, -(-os.fstat(self._file).st_size // self.about.row_bytes))

    def add(self, sentences: Sequence[Sentence], rows: Rows) -> None:
        """Writes the layers of sentences, all or none of them; skips sentences that are stored already.

        Args:
            sentences: token lists.
            rows: their tokens' rows, sentence after sentence, (tokens, width).

        Raises:
            StoreFull: they do not fit.
        """
        ends = np.cumsum([len(sentence) for sentence in sentences])
        fresh: dict[bytes, bytes] = {}
        contents: list[memoryview] = []
        with self._writing():
            self._index.refresh()
            first = end = self._end()
            for sentence, values in zip(sentences, np.split(rows, ends[:-1]), strict=True):
                key = key_of(sentence)
                known = self._entry(sentence)
                if key in fresh or (known is not None and self._is_whole(known)):
                    continue
                content = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
                fresh[key] = ENTRY.pack(end, len(values), zlib.crc32(content))
                contents.append(content)
                end += len(values)
            if (end - first) * self.about.row_bytes > self._left():
                raise StoreFull(
                    f"{self.store}: the limit of {self._limit / 1e9:g} GB is reached. Raise store.limit_gb, or "
                    "python -m elmo.store prune"
                )
            write_at(self._file, contents, first * self.about.row_bytes)
            self._index.append(fresh)
        self._compared.update(dict.fromkeys(fresh.values(), True))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """The block of the only writer.

        Raises:
            StoreFull: nothing can be written, or another process has been writing for too long.
        """
        if self.refusal is not None:
            raise StoreFull(self.refusal)
        deadline = time.monotonic() + WAIT_SECONDS
        while not try_lock(self._file):
            if time.monotonic() > deadline:
                raise StoreFull(
                    f"{self.path}: another process has been writing for {WAIT_SECONDS:g} s; it may be stopped with "
                    "Ctrl-Z. Continue it with fg, or end it"
                )
            time.sleep(0.02)
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise StoreFull(
                f"{self.path}: the disk is full: {error}. Free some, or python -m elmo.store prune"
            ) from error
        finally:
            unlock(self._file)

    def computed_with(self) -> list[str]:
        """What computed the rows, see `note`; of stores of before, without a note, this is not known."""
        try:
            return [str(line) for line in read_json(self.path / COMPUTED)]
        except (FileNotFoundError, ValueError, TypeError):
            return ["unknown"] if self.count()[0] else []

    def note(self, computed_with: str) -> None:
        """Notes what computes the rows that this process will add.

        Raises:
            StoreFull: there is no room for it.
        """
        with self._writing():
            if computed_with not in (noted := self.computed_with()) and self.is_there():
                write_json(self.path / COMPUTED, [*noted, computed_with])

    def room(self) -> int:
        """Number of tokens that still fit under the limit."""
        return max(0, self._left()) // self.about.row_bytes

    def _left(self) -> int:
        """Bytes left under the limit, measured each time, since other shelves of the store may grow."""
        return self._limit - sum(map(disk_bytes, shelves(self.store)))

    def take(self, rows: npt.NDArray[np.int64], into: Rows) -> None:
        """Copies rows, by number, into an array of their shape and a row's width: one gather from the mapped file."""
        last = int(rows.max(initial=0))
        mapped = self._mapped  # read once: another thread may replace it, by one with fewer rows
        if last >= len(mapped):
            mapped = self._mapped = self._map(last)
        # clip: the only mode that copies straight into `out`
        np.take(mapped, rows, axis=0, out=into, mode="clip")

    def expect(self, first: int, last: int) -> None:
        """Makes the system read these rows from disk now, in order, before they are used in any other order."""
        if hasattr(os, "posix_fadvise"):
            size = self.about.row_bytes
            os.posix_fadvise(self._file, first * size, (last - first + 1) * size, os.POSIX_FADV_WILLNEED)

    def _map(self, last: int) -> Rows:
        """All rows, memory-mapped; `last` must be one of them."""
        n = os.fstat(self._file).st_size // self.about.row_bytes
        if last >= n:
            raise StoreUnusable(f"{self.path / ROWS}: expected a row {last}, found {n}: it was cut short. Start again")
        mapped = mmap.mmap(self._file, n * self.about.row_bytes, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._mapped.dtype).reshape(n, -1)

    def count(self) -> tuple[int, int]:
        """Number of stored sentences and tokens, also of damaged ones."""
        self._index.refresh()
        lengths = [ENTRY.unpack(entry)[1] for entry in self._index.entries.values()]
        return len(lengths), sum(lengths)

    def unnamed_bytes(self) -> int:
        """Bytes of rows that no entry names: their entries were dropped, replaced or lost."""
        end, entries = self._end(), map(ENTRY.unpack, self._index.entries.values())
        named: int = sum(tokens for start, tokens, _ in entries if start + tokens <= end)
        return max(0, end - FIRST_ROW - named) * self.about.row_bytes

    def damaged(self) -> list[bytes]:
        """The keys of entries with damaged rows."""
        self._index.refresh()
        return [key for key, entry in self._index.entries.items() if not (any(entry) and self._matches(entry))]

    def drop(self, keys: Collection[bytes]) -> None:
        """Removes entries, so that they are embedded again; their rows stay in the file, unused."""
        with self._writing():
            self._index.drop(keys)

    def is_there(self) -> bool:
        """Whether its folder is still the one that was opened."""
        return self._is_rows(self._file)

    def _is_rows(self, file: int) -> bool:
        """Whether an open file is the one with the rows in the folder."""
        try:
            return os.path.samestat((self.path / ROWS).stat(), os.fstat(file))
        except FileNotFoundError:
            return False

    def limit_to(self, limit_gb: float) -> None:
        """Sets the limit for the size of the whole store."""
        self._limit = int(limit_gb * 1e9)

    def close(self) -> None:
        """Closes the files; the shelf cannot be used after that."""
        _close(self._file, self._index)


def _close(file: int, index: Index) -> None:
    index.close()
    os.close(file)


def read_about(folder: Path) -> ShelfDescription | None:
    """The description in a shelf's folder, or None if this version cannot read it."""
    try:
        values = read_json(folder / ABOUT)
        return ShelfDescription(**{**values, "widths": tuple(values["widths"])})
    except (ValueError, TypeError, KeyError):
        return None


def shelves(store: Path) -> list[Path]:
    """The folders of all shelves of a store, also of other versions; ignores folders that are no shelves."""
    folders = (path.parent for path in store.glob(f"*/{ABOUT}") if path.is_file())  # not a pipe, which would block
    files = (ROWS, ENTRIES)  # one may be lost
    return sorted(f for f in folders if _FOLDER.fullmatch(f.name) and any((f / name).is_file() for name in files))


def disk_bytes(folder: Path) -> int:
    """The size of all files of a shelf; files that another process removes meanwhile do not count."""
    size = 0
    for place, _, names in os.walk(folder):  # skips folders that vanish
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(place) / name).stat().st_size
    return size
